"""Lower bounds on epsilon from what an attacker achieves, valid with a stated confidence.

An attacker sees an output and guesses from which of two neighbouring inputs it came. If its true
and false positives are P(guess | second) and P(guess | first), then for every (epsilon, delta) that
holds

    TPR <= exp(epsilon) FPR + delta     and     1 - FPR <= exp(epsilon) (1 - TPR) + delta.

So rates that were measured give a lower bound on epsilon. The rates are replaced by the worse ends
of exact intervals (Clopper and Pearson, 1934), and the threshold of the attack is chosen on other
draws than those that are counted. ``one_run`` bounds epsilon from a single run with many canaries
(Steinke, Nasr and Jagielski, 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaincinv, ndtri

from tacit.errors import TacitError

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """An attack: its rates as intervals, and the lower bound on epsilon that follows."""

    epsilon: float
    delta: float
    confidence: float
    true_positives: float  # at least, with the confidence
    false_positives: float  # at most
    draws: int

    @property
    def mu(self) -> float:
        """The least mu of Gaussian noise that allows these rates."""
        if self.true_positives <= 0 or self.false_positives >= 1:
            return 0.0
        return max(0.0, float(ndtri(self.true_positives) - ndtri(self.false_positives)))


def interval(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """The exact interval of a probability; both ends hold together with the confidence."""
    if not 0 <= successes <= trials or trials < 1:
        raise TacitError(f"{successes} of {trials} is no count.")
    low, high = _intervals(np.array([successes]), trials, confidence)
    return float(low[0]), float(high[0])


def _intervals(successes: NDArray[Any], trials: int, confidence: float) -> tuple[Scores, Scores]:
    tail = (1 - confidence) / 2
    some, rest = np.maximum(successes, 1), np.maximum(trials - successes, 1)
    low = np.where(successes > 0, betaincinv(some, trials - some + 1, tail), 0.0)
    high = np.where(successes < trials, betaincinv(trials - rest + 1, rest, 1 - tail), 1.0)
    return low, high


def epsilon_from_rates(true_low: float, false_high: float, delta: float) -> float:
    """The least epsilon that allows these rates at delta."""
    found = 0.0
    if true_low > delta:
        found = max(found, math.log((true_low - delta) / max(false_high, 1e-300)))
    if 1 - false_high > delta:
        found = max(found, math.log((1 - false_high - delta) / max(1 - true_low, 1e-300)))
    return found


def measured(first: Scores, second: Scores, delta: float, confidence: float = 0.99) -> Measured:
    """The bound from scores of the first and the second input; larger means "the second".

    Half of the draws choose the threshold, the other half are counted.
    """
    return _best(first, second, delta, confidence, lambda found: found.epsilon)


def measured_mu(first: Scores, second: Scores, delta: float, confidence: float = 0.99) -> Measured:
    """The same with the threshold that shows the largest mu, where Gaussian noise is claimed."""
    return _best(first, second, delta, confidence, lambda found: found.mu)


def _best(
    first: Scores,
    second: Scores,
    delta: float,
    confidence: float,
    worth: Callable[[Measured], float],
) -> Measured:
    half = min(len(first), len(second)) // 2
    if half < 10:
        raise TacitError("an audit needs at least 20 draws of each input.")
    levels = np.concatenate([np.linspace(0.0005, 0.9995, 200), [0.00002, 0.99998]])
    seen = np.concatenate([first[:half], second[:half]])
    tried = np.unique(np.quantile(seen, levels))
    each = 1 - (1 - confidence) / 2
    counts = [half - np.searchsorted(np.sort(s[:half]), tried, "right") for s in (second, first)]
    true_low, _ = _intervals(counts[0], half, each)
    _, false_high = _intervals(counts[1], half, each)
    rates = (
        Measured(epsilon_from_rates(t, f, delta), delta, confidence, t, f, 2 * half)
        for t, f in zip(true_low.tolist(), false_high.tolist(), strict=True)
    )
    threshold = float(tried[int(np.argmax([worth(found) for found in rates]))])
    return at_threshold(first[half:], second[half:], threshold, delta, confidence)


def at_threshold(
    first: Scores, second: Scores, threshold: float, delta: float, confidence: float
) -> Measured:
    """The bound of the attack that accuses above a threshold."""
    each = 1 - (1 - confidence) / 2  # two intervals hold together
    true_low, _ = interval(int((second > threshold).sum()), len(second), each)
    _, false_high = interval(int((first > threshold).sum()), len(first), each)
    return Measured(
        epsilon=epsilon_from_rates(true_low, false_high, delta),
        delta=delta,
        confidence=confidence,
        true_positives=true_low,
        false_positives=false_high,
        draws=len(first) + len(second),
    )


def one_run(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.99
) -> float:
    """The bound from one run in which each canary was there or not by a fair coin.

    Of ``canaries`` the attacker guesses ``guesses``, and is right about ``right`` of them.
    """
    if not 0 <= right <= guesses <= canaries:
        raise TacitError(f"{right} right of {guesses} guesses on {canaries} canaries is no count.")
    low, high = 0.0, 1.0
    while _chance(canaries, guesses, right, high, delta) < 1 - confidence and high < 100:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        refuted = _chance(canaries, guesses, right, middle, delta) < 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """At (epsilon, delta), a bound on the chance of so many right guesses (their Theorem 5.2)."""
    q = 1 / (1 + math.exp(-epsilon))
    beta = float(stats.binom.sf(right - 1, guesses, q))
    steps = np.arange(1, right + 1)
    sums = np.cumsum(stats.binom.pmf(right - steps, guesses, q))
    alpha = float(np.max(sums / steps, initial=0.0))
    return min(1.0, beta + alpha * delta * 2 * canaries)
