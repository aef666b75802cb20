"""The accountants by name; the default is the tightest valid one.

``best`` uses the exact Gaussian profile if all noise is Gaussian and there is no sampling.
Otherwise it uses numerical composition of privacy loss distributions (PLD). Both are upper bounds.
The other accountants are looser; they are here for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from tacit.accounting.events import DpEvent
from tacit.accounting.gaussian import gdp_eps
from tacit.accounting.guarantee import (
    Guarantee,
    NoiseFrom,
    Relation,
    check_delta,
    check_relation,
    check_unit,
)
from tacit.accounting.leaves import Leaf, leaves
from tacit.accounting.pld import pld_epsilon, pure_sum
from tacit.accounting.renyi import rdp_epsilon, zcdp_epsilon
from tacit.errors import TacitError

# Of delta, for the distance of drawn noise from its exact law (docs/explanation/secure-sums.md).
RESERVED: Final = 2.0**-40

_Rule = Callable[[Sequence[Leaf], float, Relation], float]


def _exact(parts: Sequence[Leaf], delta: float, relation: Relation) -> float:
    del relation
    if any(leaf.kind == "none" for leaf in parts):
        return math.inf
    if not all(leaf.kind == "gaussian" and leaf.sampled == "no" for leaf in parts):
        raise TacitError(
            "the exact Gaussian profile needs Gaussian noise without sampling: use pld or best."
        )
    return gdp_eps(parts[0].size if parts else 0.0, delta)


def _pure(parts: Sequence[Leaf], delta: float, relation: Relation) -> float:
    del delta, relation
    total = pure_sum(parts)
    if math.isinf(total) and not any(leaf.kind == "none" for leaf in parts):
        raise TacitError("Gaussian noise is not pure differential privacy: use exact, pld or best.")
    return total


_RULES: dict[str, _Rule] = {
    "exact": _exact,
    "pld": pld_epsilon,
    "pure": _pure,
    "rdp": rdp_epsilon,
    "rdp-mironov": lambda p, d, r: rdp_epsilon(p, d, r, mironov=True),
    "wang": lambda p, d, r: rdp_epsilon(p, d, r, wang=True),
    "wang-mironov": lambda p, d, r: rdp_epsilon(p, d, r, wang=True, mironov=True),
    "zcdp": lambda p, d, _: zcdp_epsilon(p, d),
}
NAMES = ("best", *_RULES)


def tightest(event: DpEvent, relation: Relation) -> str:
    """The name of the accountant that ``best`` uses for this event."""
    parts = leaves(event, relation)
    plain = all(leaf.kind in ("gaussian", "none") and leaf.sampled == "no" for leaf in parts)
    return "exact" if plain else "pld"


def epsilon_of(
    event: DpEvent, *, delta: float, relation: Relation, accountant: str = "best"
) -> float:
    """An upper bound on epsilon at ``delta``; infinite if something is released without noise."""
    check_relation(relation)
    check_delta(delta)
    if accountant == "best":
        accountant = tightest(event, relation)
    if accountant not in _RULES:
        raise TacitError(f"there is no accountant {accountant!r}: take one of {', '.join(NAMES)}.")
    parts = leaves(event, relation)
    if delta == 0 and accountant != "pure":
        return pure_sum(parts)
    return _RULES[accountant](parts, delta * (1 - RESERVED), relation)


def guarantee(
    event: DpEvent,
    *,
    delta: float,
    unit: str,
    relation: str,
    observer: str,
    accountant: str = "best",
    public_sizes: bool = False,
    noise_from: NoiseFrom = "unstated",
) -> Guarantee:
    """The guarantee of a whole run, which ``event`` describes."""
    checked = check_relation(relation)
    name = tightest(event, checked) if accountant == "best" else accountant
    parts = leaves(event, checked)
    return Guarantee(
        unit=check_unit(unit),
        relation=checked,
        observer=observer,
        epsilon=epsilon_of(event, delta=delta, relation=checked, accountant=name),
        delta=delta,
        accountant=name,
        sampled=any(leaf.sampled != "no" for leaf in parts),
        public_sizes=public_sizes,
        noise_from=noise_from,
        event=event,
    )


def every_epsilon(event: DpEvent, *, delta: float, relation: Relation) -> dict[str, float]:
    """Epsilon by each accountant that supports the event, tightest first."""
    leaves(event, check_relation(relation))  # an event that no accountant supports is refused here
    check_delta(delta)
    found: dict[str, float] = {}
    for name in _RULES:
        try:
            found[name] = epsilon_of(event, delta=delta, relation=relation, accountant=name)
        except TacitError:
            continue
    return dict(sorted(found.items(), key=lambda item: item[1]))
