"""The page of a reproduction: every line with its true epsilon, and QUICK beside every number."""

import json
import re
from pathlib import Path

import pytest
from small import ENTRY

from experiments.reproduce.report import write_report
from experiments.reproduce.runner import run_entry
from experiments.reproduce.store import Store
from experiments.reproduce.summary import Summary
from tacit.cli import run


@pytest.fixture(scope="module")
def summary(quick_compilation: None) -> Summary:
    del quick_compilation
    store = Store(None)
    run_entry(ENTRY, store)
    return Summary(ENTRY, store)


def rows(text: str, title: str) -> list[list[str]]:
    table = text.partition(f"<h2>{title}</h2>")[2].partition("</table>")[0]
    return [re.findall(r"<td>(.*?)</td>", row) for row in table.split("<tr>")[2:]]


def test_the_page_has_every_line(summary: Summary, tmp_path: Path) -> None:
    text = write_report(ENTRY, summary, tmp_path / "deep" / "r.html", quick=False).read_text()
    results = rows(text, "Results")
    assert [row[1:3] for row in results] == [
        ["first", "paper"],
        ["first", "epsilon 8"],
        ["second", "paper"],
        ["second", "epsilon 8"],
    ]
    assert [row[3] for row in results][1::2] == ["8", "8"]
    assert {row[5] for row in results} == {"1.00"}
    assert [row[0] for row in rows(text, "Does the claim hold?")] == [
        "the paper&#39;s settings",
        "epsilon 8",
    ]
    assert all("whole run" in row[1] for row in rows(text, "Guarantees"))
    assert len(re.findall("<figure", text)) == 2
    assert text.count("Oracle:") == 2
    assert "QUICK" not in text


def test_quick_numbers_say_so(summary: Summary, tmp_path: Path) -> None:
    text = write_report(ENTRY, summary, tmp_path / "r.html", quick=True).read_text()
    assert all(
        row[3].endswith("QUICK") and row[6].endswith("QUICK") for row in rows(text, "Results")
    )
    assert "Does the claim hold?" not in text


def test_reproduce_ends_with_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ("--results", str(tmp_path))
    assert run(["reproduce", "fedexp/table1", *folder, "--json"]) == 0
    named = json.loads(capsys.readouterr().out)["entries"][0]["report"]
    assert "289.4" in Path(named).read_text()
    assert run(["reproduce", "fedexp", "--report", "x.html", *folder]) == 2
    assert "--report names one file" in capsys.readouterr().err
