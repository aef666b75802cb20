"""Audits find no fault in the mechanisms, and find the faults that are put into them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.accounting.events import gaussian_event
from tacit.audit import mechanisms
from tacit.audit.mechanisms import SUBJECTS, Subject, audit, judged
from tacit.cli import run as command_line
from tacit.errors import ConfigError

pytestmark = pytest.mark.usefixtures("quick_compilation")

DRAWS = {"privunit": 3_000, "privunitg": 3_000, "gaussian-vector": 8_000}
SETTINGS: dict[str, Any] = {"delta": 1e-5, "confidence": 0.99, "seed": 1}


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_no_mechanism_contradicts_its_claim(name: str) -> None:
    found = audit(name, draws=DRAWS.get(name, 20_000), **SETTINGS)
    assert not found.violation, found.sentence()
    assert found.audited > 0.1
    if found.gaussian:
        assert found.share > 0.6, found.sentence()


def broken(name: str, **changes: Any) -> Subject:
    return replace(SUBJECTS[name](), **changes)


def test_half_the_noise_is_found() -> None:
    subject = SUBJECTS["gaussian"]()
    quiet = replace(
        subject,
        event=gaussian_event(radius=1.0, noise=1.6, relation="zero-out"),
    )
    assert judged("half", quiet, draws=20_000, **SETTINGS).violation


def test_replace_one_charged_as_zero_out_is_found() -> None:
    wrong = broken("gaussian-vector", relation="zero-out")
    wrong = replace(wrong, event=gaussian_event(radius=1.0, noise=1.0, relation="zero-out"))
    assert judged("relation", wrong, draws=8_000, **SETTINGS).violation


def test_a_share_too_few_is_found() -> None:
    """Noise divided by all honest clients although one of them may be missing."""
    wrong = mechanisms._shares(clients=5, carriers=3)
    original = mechanisms.Summands

    def lavish(**given: Any) -> Any:
        return original(**{**given, "carriers": 6})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanisms, "Summands", lavish)
        found = judged("shares", wrong, draws=20_000, **SETTINGS)
    assert found.violation, found.sentence()


def test_a_cohort_that_is_no_secret_is_found() -> None:
    """Everyone takes part, and the price is that of a sampled cohort."""
    plain, sampled = SUBJECTS["doors-aggregate"](), SUBJECTS["poisson-gaussian"]()
    wrong = replace(plain, event=gaussian_event(radius=1.0, noise=3.0, relation="zero-out"))
    assert judged("cohort", wrong, draws=20_000, **SETTINGS).violation
    assert sampled.relation == "zero-out"


def test_equal_noise_in_both_is_found() -> None:
    """A seed that the observer knows: the difference is the value itself."""
    subject = SUBJECTS["gaussian"]()
    fixed = np.random.default_rng(0).standard_normal(20_000)

    def draw(key: Any, count: int, second: bool) -> np.ndarray:
        return np.where(second, 1.0, 0.0) + 0 * fixed

    found = judged("seed", replace(subject, draw=draw), draws=20_000, **SETTINGS)
    assert found.violation


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["audit", "mechanism", "rounded-gaussian", "--draws", "5000"]
    assert command_line(asked) == 0
    assert "consistent. Claimed: epsilon = 5.68" in " ".join(capsys.readouterr().out.split())
    assert command_line([*asked, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["audits"]
    assert found["violation"] is False and found["audited"] < found["claimed"]
    assert command_line(["audit", "mechanism", "gausian"]) == 2
    assert "did you mean" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no mechanism"):
        audit("nothing")


def test_a_violation_is_exit_code_one(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = broken(
        "rounded-gaussian", event=gaussian_event(radius=1.0, noise=5.0, relation="zero-out")
    )
    monkeypatch.setitem(SUBJECTS, "rounded-gaussian", lambda: wrong)
    assert command_line(["audit", "mechanism", "rounded-gaussian", "--draws", "5000"]) == 1
