"""The page of runs: one file, no network, no scripts, with the right charts and safe texts."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from tacit import cli
from tacit.run.page import write_report
from tacit.run.shown import stored

pytestmark = [pytest.mark.pictures, pytest.mark.xdist_group("pages")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> Path:
    """A private run of two seeds, and one without privacy."""
    folder = tmp_path_factory.mktemp("runs")
    short = ("--set", "train.rounds=3", "--json")
    private = ("run", "--example", "digits-dp-fedavg", "--seeds", "2", "--out")
    assert cli.run([*private, str(folder / "private"), *short]) == 0
    plain = ("run", "--example", "digits-fedavg", "--out")
    assert cli.run([*plain, str(folder / "plain"), *short]) == 0
    return folder


def figures(text: str) -> list[str]:
    return re.findall(r'<figure id="([^"]+)">', text)


def test_a_run_ends_with_its_page(runs: Path) -> None:
    page = runs / "private" / "report.html"
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 2_000_000
    assert figures(text) == [
        "epsilon",
        "attack",
        "test-accuracy",
        "test-loss",
        "confusion",
        "calibration",
        "clients",
        "oracle-signal_to_noise",
        "oracle-clipped",
    ]
    assert "<h1>dp-fedavg on digits</h1>" in text
    summary = json.loads((runs / "private" / "seed-0" / "summary.json").read_text())
    assert summary["guarantee"]["sentence"] in text
    assert summary["guarantee"]["meaning"] in text
    # The clients' own, the signal and the clipped ones.
    assert text.count("Oracle: it looks at private records") == 3
    seeds = [json.loads(p.read_text()) for p in (runs / "private").glob("seed-*/summary.json")]
    assert all(seed["seconds"] > 0 for seed in seeds)
    assert re.search(r"time of training</th><td>[\d.]+ seconds", text)
    assert "100, of which 100 in a round" in text
    assert re.search(r">budget</text>", text)
    assert figures((runs / "plain" / "report.html").read_text())[0] == "test-accuracy"


def test_it_loads_nothing_and_runs_nothing(runs: Path) -> None:
    text = (runs / "private" / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert not re.search(r"url\((?!#)", text)


def test_numbers_can_be_taken_along(runs: Path) -> None:
    text = (runs / "private" / "report.html").read_text(encoding="utf-8")
    found = dict(re.findall(r'href="data:text/csv;charset=utf-8,([^"]*)" download="([^"]+)"', text))
    tables = {name: list(csv.reader(io.StringIO(unquote(t)))) for t, name in found.items()}
    spent = tables["epsilon.csv"][1:]
    run = stored(runs / "private")
    assert float(spent[-1][2]) == pytest.approx(run.guarantee["epsilon"])
    assert [float(row[1]) for row in spent] == [1, 2, 3]
    counts = np.array([row[1:] for row in tables["confusion.csv"][1:]], int)
    assert counts.sum() == 359
    assert run.folder is not None
    accuracy = json.loads((run.folder / "summary.json").read_text())["metrics"]["test/accuracy"]
    assert np.trace(counts) / counts.sum() == pytest.approx(accuracy)


def test_several_runs_share_their_charts(runs: Path, tmp_path: Path) -> None:
    page = write_report([runs / "plain", runs / "private"], tmp_path / "both.html")
    text = page.read_text(encoding="utf-8")
    assert figures(text)[:4] == ["epsilon", "attack", "test-accuracy", "test-loss"]
    assert "2 runs side by side" in text
    table = text.partition("<h2>Side by side</h2>")[2].partition("</table>")[0]
    assert [row.count("<td>") for row in table.split("<tr>")[2:]] == [7, 7]
    assert table.count("no promise") == 1
    assert "client" in table


def test_texts_of_a_run_stay_texts(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "plain", tmp_path / "<b>$run")
    config = tmp_path / "<b>$run" / "config.toml"
    config.write_text("# <script>alert(1)</script>\n" + config.read_text())
    text = write_report([tmp_path / "<b>$run", runs / "plain"], tmp_path / "x.html").read_text()
    assert "<script>" not in text
    assert "<b>" not in text


def test_a_comparison_ends_with_a_page(tmp_path: Path) -> None:
    out = tmp_path / "compared"
    words = ["compare", "digits-dp-fedavg", "--vary", "privacy.epsilon=2,8", "--seeds", "2"]
    words += ["--set", "train.rounds=2", "--jobs", "1", "--out", str(out), "--json"]
    assert cli.run(words) == 0
    text = (out / "report.html").read_text(encoding="utf-8")
    assert figures(text)[:3] == ["attack", "test-accuracy", "test-loss"]
    assert "2 runs side by side" in text
    assert "Bands: from the worst to the best seed." in text


def test_what_is_no_run_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(tmp_path)]) == 2
    assert "holds no finished run" in capsys.readouterr().err
    assert cli.run(["report", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("width", [360, 1440])
def test_a_browser_shows_it(runs: Path, width: int) -> None:
    page = (runs / "private" / "report.html").resolve()
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--window-size={width},2000", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stdout.count("<figure") == 9
    assert "CONSOLE" not in done.stderr


def test_a_page_looks_at_private_records_only_where_the_run_did(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "plain", tmp_path / "deployed")
    metrics = tmp_path / "deployed" / "metrics.csv"
    kept = [line for line in metrics.read_text().splitlines() if "oracle/" not in line]
    metrics.write_text("\n".join(kept) + "\n")
    text = write_report([tmp_path / "deployed"]).read_text(encoding="utf-8")
    assert "confusion" in figures(text)
    assert "clients" not in figures(text)
    assert "Oracle:" not in text
