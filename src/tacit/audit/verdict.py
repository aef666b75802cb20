"""An audit's verdict: what is claimed, what an attack has shown, and whether both can be true.

Where plain Gaussian noise is claimed, the claim is a whole trade-off curve of one number mu. Then
the attack bounds mu, which says far more than epsilon at one delta does.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tacit.accounting import DpEvent, Relation, epsilon_of
from tacit.accounting.gaussian import gdp_eps
from tacit.accounting.leaves import leaves
from tacit.audit.estimators import Measured, Scores, measured, measured_mu


class Observed(NamedTuple):
    """An attacker's scores of outputs from two neighbouring inputs; larger means the second."""

    first: Scores
    second: Scores


@dataclass(frozen=True)
class Verdict:
    """The claimed epsilon (an upper bound), the audited one (a lower bound), and the rates."""

    name: str
    about: str
    claimed: float
    audited: float
    found: Measured
    gaussian: bool  # the claim is Gaussian noise, and its mu was audited

    @property
    def violation(self) -> bool:
        """Whether the attack contradicts the claim."""
        return self.audited > self.claimed

    @property
    def share(self) -> float:
        """The audited epsilon over the claimed one."""
        return self.audited / self.claimed if self.claimed else math.inf

    def sentence(self) -> str:
        """The verdict in words."""
        found = self.found
        word = "VIOLATION" if self.violation else "consistent"
        return (
            f"{self.name}: {word}. Claimed: epsilon = {self.claimed:.4g} at delta ="
            f" {found.delta:g}; the attack shows at least {self.audited:.4g} with confidence"
            f" {found.confidence:.0%} ({found.draws:,} draws)."
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        own = asdict(self)
        return {**own, "violation": self.violation, "share": self.share}


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
    if parts and all(leaf.kind == "gaussian" and leaf.sampled == "no" for leaf in parts):
        found = measured_mu(*scores, delta, confidence)
        return Verdict(name, about, claimed, gdp_eps(found.mu, delta), found, True)
    found = measured(*scores, delta, confidence)
    return Verdict(name, about, claimed, found.epsilon, found, False)
