"""The audit page shows the stored results, and they are what must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.audits import methods, page
from tacit.algorithms.names import ALGORITHMS
from tacit.audit.mechanisms import SUBJECTS

ROOT = Path(__file__).parent.parent.parent


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "results" / name).read_text())["rows"]
    return found


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_page_is_up_to_date() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text, "run python -m experiments.audits.page"
    assert page.PICTURE.exists()


def test_every_mechanism_and_method_was_audited_without_a_violation() -> None:
    mechanisms, audited = rows("audit/mechanisms.json"), rows("audit/methods.json")
    assert [row["name"] for row in mechanisms] == list(SUBJECTS)
    assert [row["name"] for row in audited] == [row.title for row in methods.ROWS]
    private = set(ALGORITHMS) - {"fedavg"}
    assert {row.name for row in methods.ROWS} == private
    assert not any(row["violation"] for row in [*mechanisms, *audited, *rows("audit/one-run.json")])
    assert all(row["confidence"] >= 0.99 for row in [*mechanisms, *audited])


def test_little_is_shown_only_for_a_reason() -> None:
    for row in rows("audit/methods.json"):
        assert row["share"] >= methods.ENOUGH or row["why"], row["name"]


def test_at_least_twenty_faults_are_flagged() -> None:
    found = rows("audit/broken.json")
    assert len(found) >= 20
    assert f"{len(found)} planted faults are found" in (ROOT / "README.md").read_text()


def test_no_model_makes_a_unit_contribute_more_than_its_bound() -> None:
    assert all(row["worst"] <= 1 + 1e-6 for row in rows("studies/adversarial-models.json"))
