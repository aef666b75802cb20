"""``tacit reproduce`` as a user types it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import run


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["reproduce", *arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found = json.loads(shown.out)
    assert isinstance(found, dict)
    return found


def test_the_list_says_what_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = ("--results", str(tmp_path))
    found = {r["name"]: r for r in answer(capsys, "list", *folder)["reproductions"]}
    assert found["fedexp/table1"]["state"] == "not run"
    assert found["scaffnew/figure4"]["state"] == "needs data"
    answer(capsys, "fedexp/table1", *folder)
    found = {r["name"]: r for r in answer(capsys, "list", *folder)["reproductions"]}
    assert found["fedexp/table1"]["state"] == "done"
    assert run(["reproduce", "list", *folder]) == 0
    text = capsys.readouterr().out
    assert all(len(row) <= 80 for row in text.splitlines())


def test_an_entry_runs_is_kept_and_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = ("--results", str(tmp_path))
    lines = answer(capsys, "fedexp/table1", *folder)["entries"][0]["lines"]
    assert {line["method"] for line in lines} == {"DP-FedEXP", "DP-FedAvg"}
    local = next(line for line in lines if line["row"] == "LDP (Gaussian)")
    assert local["mean"] == pytest.approx(15.658124)
    assert local["epsilon"] == pytest.approx(289.339, abs=0.01)
    assert "whole run" in local["guarantee"]
    file = tmp_path / "fedexp" / "table1.jsonl"
    before = file.read_text()
    assert answer(capsys, "fedexp/table1", *folder)["entries"][0]["lines"] == lines
    assert file.read_text() == before
    answer(capsys, "fedexp/table1", *folder, "--fresh")
    assert len(file.read_text().splitlines()) == len(before.splitlines())
    assert answer(capsys, "check", *folder, "--count", "2")["checked"][0]["agrees"]
    docs = tmp_path / "docs"
    written = answer(capsys, "page", *folder, "--docs", str(docs))["written"]
    assert written[0] == str(docs / "results" / "index.md")
    assert len(written) == 6  # and one for each paper
    assert "289.4" in (docs / "results" / "fedexp.md").read_text()


def test_only_some_lines_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = ("--results", str(tmp_path))
    found = answer(capsys, "fedexp/table1", *folder, "--only", "500, dp-fedavg", "--printed")
    lines = found["entries"][0]["lines"]
    assert [(line["row"], line["method"]) for line in lines] == [("CDP, d = 500", "DP-FedAvg")]
    kept = (tmp_path / "fedexp" / "table1.jsonl").read_text().splitlines()
    assert len(kept) == len(lines)
    whole = answer(capsys, "fedexp/table1", *folder)["entries"][0]["lines"]
    assert lines[0] in whole
    assert len(whole) > len(lines)


def test_quick_keeps_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = answer(capsys, "fedexp/table1", "--results", str(tmp_path), "--quick")
    assert found["entries"][0]["lines"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fedexp/tabel1",), "did you mean 'fedexp/table1'"),
        (("scaffnew/figure4",), "provide"),
        (("check",), "there are no results to check"),
        (("fedexp/table1", "--only", "cpd"), "no line with 'cpd'"),
        (("fedexp/table1", "--only", "CDP", "--fresh"), "deletes all results of an entry"),
        (("dynamic/figure2",), "`tacit data show a6a`"),
    ],
)
def test_a_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["reproduce", *arguments, "--results", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sentence in shown.err
    assert shown.err.startswith("tacit: ")


def test_what_was_run_can_be_read_without_its_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ours = str(Path(__file__).parents[2] / "results" / "reproduce")
    (found,) = answer(capsys, "adaptdp/table2-t4", "--results", ours)["entries"]
    printed = [line for line in found["lines"] if line["printed"] is not None]
    assert len(printed) == 6
    assert all(line["seeds"] == 3 and line["epsilon"] > 10 for line in printed)
    # One seed more is not there, and cannot be run here.
    assert run(["reproduce", "adaptdp/table2-t4", "--seeds", "4", "--results", ours]) == 2
    assert "is missing" in capsys.readouterr().err
