"""An audit's verdict: what is claimed, what an attack has shown, and whether both can be true.

A claim is a whole trade-off curve: the most true positives that any attack can have at each rate of
false positives. An attack contradicts it above the curve, whatever epsilon says. Where plain
Gaussian noise is claimed, the curve has one number, mu. Then the attack bounds mu, which shows far
more than epsilon at one delta does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tacit.accounting import DpEvent, Relation, epsilon_of
from tacit.accounting.best_attack import best_attack
from tacit.accounting.gaussian import gdp_eps
from tacit.accounting.leaves import leaves
from tacit.audit.estimators import Measured, Scores, interval, measured, measured_mu
from tacit.report.trade_off import TradeOff

_DELTAS = tuple(np.geomspace(1e-6, 0.7, 30).tolist())  # points of the curve


class Observed(NamedTuple):
    """An attacker's scores of outputs from two neighbouring inputs; larger means the second."""

    first: Scores
    second: Scores


@dataclass(frozen=True)
class Judged(ABC):
    """What is claimed (an upper bound on epsilon), and what was shown (a lower bound)."""

    name: str
    about: str
    claimed: float
    audited: float
    delta: float
    confidence: float

    @property
    def violation(self) -> bool:
        """Whether the attack contradicts the claim."""
        return self.audited > self.claimed

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return "VIOLATION" if self.violation else "consistent"

    @property
    def share(self) -> float:
        """The audited epsilon over the claimed one."""
        return self.audited / self.claimed if self.claimed else math.inf

    def sentence(self) -> str:
        """The verdict in words."""
        return (
            f"{self.name}: {self.word}. Claimed: epsilon = {self.claimed:.4g} at delta ="
            f" {self.delta:g}; {self._shown()} at least {self.audited:.4g} with confidence"
            f" {self.confidence:.0%}."
        )

    @abstractmethod
    def _shown(self) -> str:
        """What the attack did, for the sentence."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**asdict(self), "violation": self.violation, "share": self.share}


@dataclass(frozen=True)
class Verdict(Judged):
    """An attack that was tried many times, with its rates."""

    found: Measured
    gaussian: bool  # the claim is Gaussian noise, and its mu was audited
    scores: Observed = field(repr=False, compare=False)
    event: DpEvent = field(repr=False, compare=False)
    relation: Relation

    @property
    def allowed(self) -> float:
        """The most true positives that the claim allows at the measured false positives."""
        return self.curve([self.found.false_positives])[0]

    @property
    def violation(self) -> bool:
        """Whether epsilon is above the claim, or the rates are above its trade-off curve."""
        return super().violation or self.found.true_positives > self.allowed

    def curve(self, rates: Sequence[float]) -> list[float]:
        """The most true positives that the claim allows at these false positives."""
        inside = [min(max(rate, 1e-12), 1 - 1e-12) for rate in rates]
        found = best_attack(self.event, self.relation, inside, deltas=_DELTAS)
        return [most for _, most in found]

    def measured_curve(self, rates: Sequence[float]) -> list[tuple[float, float]]:
        """The interval of the attack's true positives at these false positives, point by point."""
        first, second = (np.sort(part) for part in self.scores)
        cuts = np.quantile(first, 1 - np.asarray(rates), method="higher")
        hits = len(second) - np.searchsorted(second, cuts, "right")
        return [interval(int(n), len(second), self.confidence) for n in hits]

    def trade_off(self) -> TradeOff:
        """The curves of claim and attack, for a picture."""
        least = max(1e-4, 5 / len(self.scores.first))
        rates = np.geomspace(least, 0.999, 60).tolist()
        return TradeOff(
            title=f"{self.name}: epsilon {self.claimed:.4g} at delta {self.delta:g} is claimed",
            rates=rates,
            allowed=self.curve(rates),
            measured=self.measured_curve(rates),
            confidence=self.confidence,
            shown=(self.found.false_positives, self.found.true_positives),
            epsilon=self.audited,
        )

    def _shown(self) -> str:
        return f"{self.found.draws:,} runs of the attack show"

    def as_dict(self) -> dict[str, Any]:
        """All of it but the scores, for JSON."""
        own = {
            name: getattr(self, name)
            for name in ("name", "about", "claimed", "audited", "delta", "confidence", "gaussian")
        }
        rates = {"true_positives": self.found.true_positives, "allowed": self.allowed}
        rates |= {"false_positives": self.found.false_positives, "draws": self.found.draws}
        return {**own, **rates, "violation": self.violation, "share": self.share}


def verdict(
    name: str,
    about: str,
    scores: Observed,
    event: DpEvent,
    relation: Relation,
    delta: float,
    confidence: float = 0.99,
) -> Verdict:
    """Judge the scores of an attack against the event that was charged."""
    claimed = epsilon_of(event, delta=delta, relation=relation)
    parts = leaves(event, relation)
    plain = bool(parts) and all(x.kind == "gaussian" and x.sampled == "no" for x in parts)
    found = (measured_mu if plain else measured)(*scores, delta, confidence)
    return Verdict(
        name=name,
        about=about,
        claimed=claimed,
        audited=gdp_eps(found.mu, delta) if plain else found.epsilon,
        delta=delta,
        confidence=confidence,
        found=found,
        gaussian=plain,
        scores=scores,
        event=event,
        relation=relation,
    )


@dataclass(frozen=True)
class Guessed(Judged):
    """The claim against the coins of canaries that were guessed in one run."""

    canaries: int
    guesses: int
    right: int

    def _shown(self) -> str:
        return (
            f"{self.right} of {self.guesses} guesses on {self.canaries} canaries are right, which"
            " shows"
        )
