"""A site decides: what its policy does not allow is refused, with a code for others to hear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from folders import LOCAL, config, make

from tacit.deployment.setup.settings import Public
from tacit.deployment.setup.site_settings import Policy
from tacit.deployment.site.policy import RefusalError, check_policy

ALLOWS = {
    "methods": ["dp-fedavg-record", "dp-fedavg", "dp-fedexp", "fedavg"],
    "unit": "record",
    "relation": "replace-one",
    "epsilon": 8.0,
    "delta": 1e-5,
}
CENTRAL = {"name": "dp-fedavg", "clip": 0.5}
PRIVUNIT = {"name": "dp-fedexp", "trust": "local-privunit"}


def public(tmp_path: Path, algorithm: dict[str, Any], **changes: Any) -> Public:
    return make(tmp_path / "f", config(algorithm, **changes))


def refusal(allowed: dict[str, Any], run: Public) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        check_policy(Policy(**{**ALLOWS, **allowed}), run)
    return caught.value


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    check_policy(Policy(**ALLOWS), public(tmp_path, LOCAL))


@pytest.mark.parametrize(
    ("allowed", "sentence"),
    [
        ({"methods": ["dp-scaffold"]}, "does not name (dp-scaffold)"),
        ({"methods": []}, "it names none"),
        ({"unit": "client"}, "asks for a client under replace-one"),
        ({"relation": "zero-out"}, "asks for a record under zero-out"),
        ({"least_noise": 1.5}, "the noise on train.update is 1 times its bound, below"),
    ],
)
def test_what_the_policy_does_not_name_is_refused(
    tmp_path: Path, allowed: dict[str, Any], sentence: str
) -> None:
    refused = refusal(allowed, public(tmp_path, LOCAL))
    assert refused.code == "policy"
    assert sentence in str(refused)


def test_a_server_is_not_trusted_unless_the_site_says_so(tmp_path: Path) -> None:
    run = public(tmp_path, CENTRAL)
    client = {"unit": "client", "relation": "zero-out"}
    refused = refusal(client, run)
    assert refused.code == "trust"
    assert "policy.trust_server = true" in str(refused)
    check_policy(Policy(**{**ALLOWS, **client}, trust_server=True), run)


def test_noise_that_is_drawn_in_floats_must_be_accepted(tmp_path: Path) -> None:
    run = public(tmp_path, PRIVUNIT)
    client = {"unit": "client"}
    assert "drawn in floating point" in str(refusal(client, run))
    check_policy(Policy(**{**ALLOWS, **client}, inexact_noise=True), run)


def test_nothing_leaves_without_noise(tmp_path: Path) -> None:
    run = public(tmp_path, {"name": "fedavg"}, privacy="none")
    client = {"unit": "client", "relation": "zero-out", "trust_server": True}
    assert "without any noise" in str(refusal(client, run))
    check_policy(Policy(**{**ALLOWS, **client}, unprotected=True), run)


def test_the_evaluation_is_checked_like_the_training(tmp_path: Path) -> None:
    run = make(tmp_path / "f", evaluation=1e-3)  # which needs hardly any noise
    assert "accuracy.accuracy" in str(refusal({"least_noise": 0.5}, run))
