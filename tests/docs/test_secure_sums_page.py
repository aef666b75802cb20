"""The numbers of the page on secure sums are those of the code and of the stored results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import secure_sums
from experiments.studies import auto_record, trust
from tacit.secure_sum import SecureSum

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "explanation" / "secure-sums.md").read_text()


def test_what_honest_clients_and_dropouts_cost() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+\.\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for clients, honest, dropouts, said in rows:
        trusted = SecureSum(int(honest), int(dropouts))
        assert trusted.excess(int(clients)) == pytest.approx(float(said), abs=0.005)


def rows_of(name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((ROOT / "results" / name).read_text())["rows"]
    return found


def test_the_tables_are_the_stored_results() -> None:
    assert trust.table(rows_of("studies/auto-trust.json")) in PAGE
    assert secure_sums.written(PAGE, rows_of("bench/secure-sums.json")) == PAGE
    auto = (ROOT / "docs" / "explanation" / "auto.md").read_text()
    assert auto_record.table(rows_of("studies/auto-record.json")) in auto


def test_what_was_promised() -> None:
    """100,000 numbers: half a second for a site, 1.5 times the bytes; 100 sites in 10 s."""
    rows = {(r["sites"], r["numbers"], r["missing"]): r for r in rows_of("bench/secure-sums.json")}
    ten = rows[10, 100_000, 0]
    assert ten["site_seconds"] < 0.5 and ten["bytes_over_float32"] < 1.5
    assert rows[100, 100_000, 0]["whole_seconds"] < 10
