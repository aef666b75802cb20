"""The known attacks work without noise, fail with it, and the page shows the stored results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.demonstrations import (
    message_membership,
    page,
    printed_settings,
    rates,
    reconstruction,
)
from experiments.demonstrations.pictures import DRAWN
from experiments.demonstrations.records import Pool, pool

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "demonstrations"


@pytest.fixture(scope="module")
def digits() -> Pool:
    return pool()


def test_an_image_is_read_without_noise_and_not_with_it(digits: Pool) -> None:
    _, alike = reconstruction.attacked(digits, "clipped, no noise", records=8)
    assert alike.min() > 0.99
    _, alike = reconstruction.attacked(digits, "epsilon 8", records=32)
    assert abs(alike.mean()) < 0.15 and alike.max() < 0.9


def test_a_chosen_model_reads_most_of_a_batch(digits: Pool) -> None:
    row, _ = reconstruction.attacked(digits, "without privacy", together=16, records=32)
    assert row["share_above_0.9"] > 0.7


def test_messages_give_members_away_only_without_noise(digits: Pool) -> None:
    stranger, insider = message_membership.attacked(digits, "without privacy", sites=60)
    assert stranger["rates"][2]["true_positives"] > 0.5
    assert all(found["true_positives"] == 1 for found in insider["rates"])
    for row in message_membership.attacked(digits, "epsilon 1", sites=80):
        most = row["rates"][2]
        assert most["true_positives"] < most["at_most"] + 4 * most["standard_error"]
        assert most["at_most"] < 0.09


def test_noise_for_fifty_rounds_stays_at_its_bound() -> None:
    setting = printed_settings.fedexp(None)
    first, second = (
        np.concatenate(list(printed_settings.drawn(setting, side, 4000, seed=side)))
        for side in (False, True)
    )
    assert first.shape == (4000, 50)
    assert rates.true_rate(second[:, -1], first[:, -1], 0.05) == pytest.approx(0.887, abs=0.03)


def test_equal_scores_are_decided_by_a_coin() -> None:
    inside, outside = np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])
    assert rates.true_rate(inside, outside, 0.125) == pytest.approx(0.25)
    assert rates.true_rate(inside, outside, 0.25) == pytest.approx(0.5)
    assert rates.true_rate(inside, outside, 1.0) == 1.0


def test_the_page_shows_the_stored_results() -> None:
    text = (ROOT / page.PAGE).read_text()
    assert page.written(text, RESULTS) == text
    for name, (_, picture) in DRAWN.items():
        assert f"<!-- {name}: begin -->" in text and f"({picture})" in text
        assert (ROOT / page.PAGE.parent / picture).exists()


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_the_results_name_their_command(name: str) -> None:
    found = json.loads((RESULTS / f"{name}.json").read_text())
    assert found["command"] == f"python -m experiments.demonstrations {name}"


def test_what_the_page_says_in_words() -> None:
    """Sentences with numbers that no table makes."""
    rows = {row["name"]: row for row in page.stored("printed-settings", RESULTS)["rows"]}
    printed = rows["DP-FedEXP, local Gaussian noise as printed"]
    whole = rows["DP-FedEXP, local noise for 15.66 over the run"]
    assert printed["refuted_below"] > printed["one_round"] == pytest.approx(15.658, abs=1e-3)
    assert whole["rates"][0]["at_most"] == pytest.approx(0.41, abs=0.005)
    seen = {look["rounds"]: look["true_positives"] for look in printed["by_rounds"]}
    assert seen[5] < 0.9999 <= seen[7]
    model = {row["name"]: row for row in page.stored("model-membership", RESULTS)["rows"]}
    plain, eight, one = (model[name]["rates"] for name in model)
    assert plain[1]["true_positives"] < eight[1]["at_most"]  # the bound alone would allow it
    assert all(p["true_positives"] > o["at_most"] for p, o in zip(plain, one, strict=True))
    images = page.stored("reconstruction", RESULTS)
    noisy = [r for r in images["rows"] if r["name"].startswith("epsilon")]
    assert all(r["mean_correlation"] < images["guess"] for r in noisy)
