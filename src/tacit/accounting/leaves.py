"""Split an event into its single mechanisms (leaves); equal mechanisms are merged with a count.

All accountants use the same leaves. An event of an unknown kind is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tacit.accounting.dp_events import dp_event
from tacit.accounting.events import DpEvent, GroupDpEvent, PureDpEvent
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError

Kind = Literal["gaussian", "laplace", "pure", "none"]
Sampled = Literal["no", "poisson", "fixed"]

_Group = tuple[int, int, int]  # group, groups, seed
_Partition = tuple[int, int]  # groups, seed

# Such a mechanism gives practically no privacy, and its square must not overflow.
_REVEALING = 1e100


@dataclass(frozen=True)
class Leaf:
    """One mechanism, ``count`` times.

    ``size`` is sensitivity over noise (mu of a Gaussian, epsilon of a Laplace or pure mechanism);
    the kind "none" is a release without noise.
    """

    kind: Kind
    size: float
    sampled: Sampled = "no"
    rate: float = 1.0
    count: int = 1


def leaves(event: DpEvent, relation: Relation) -> tuple[Leaf, ...]:
    """The leaves of an event; all Gaussians without sampling merge exactly into one leaf.

    For the disjoint groups of a partition, only the worst group counts.
    """
    common: list[Leaf] = []
    partitions: dict[_Partition, dict[int, list[Leaf]]] = {}
    for place, leaf in _walk(event, relation, 1):
        if place is None:
            common.append(leaf)
        else:
            groups = partitions.setdefault(place[1:], {})
            groups.setdefault(place[0], []).append(leaf)
    for groups in partitions.values():
        common += _worst([_merged(members) for members in groups.values()])
    return _merged(common)


def _worst(groups: Iterable[tuple[Leaf, ...]]) -> list[Leaf]:
    """Leaves that cover every group; exact if the events of one group include all others'."""
    mu, counted = 0.0, dict[Leaf, int]()
    for members in groups:
        for leaf in members:
            if leaf.kind == "gaussian" and leaf.sampled == "no":
                mu = max(mu, leaf.size)
            else:
                key = replace(leaf, count=1)
                counted[key] = max(counted.get(key, 0), leaf.count)
    plain = [Leaf("gaussian", mu)] if mu else []
    return plain + [replace(leaf, count=count) for leaf, count in counted.items()]


def _merged(found: Iterable[Leaf]) -> tuple[Leaf, ...]:
    """Merge equal leaves, and all Gaussians without sampling into a single Gaussian."""
    counted: dict[Leaf, int] = {}
    for leaf in found:
        key = replace(leaf, count=1)
        counted[key] = counted.get(key, 0) + leaf.count
    kept = [
        replace(leaf, count=count) for leaf, count in counted.items() if leaf.size > 0 and count > 0
    ]
    plain = [leaf for leaf in kept if leaf.kind == "gaussian" and leaf.sampled == "no"]
    if not plain:
        return tuple(kept)
    mu = math.hypot(*(math.sqrt(leaf.count) * leaf.size for leaf in plain))
    others = [leaf for leaf in kept if leaf.kind != "gaussian" or leaf.sampled != "no"]
    return (Leaf("gaussian", mu), *others)


def _walk(
    event: DpEvent, relation: Relation, count: int, group: _Group | None = None
) -> Iterable[tuple[_Group | None, Leaf]]:
    """Yield every leaf with the group of units that it involves (None for all units)."""
    match event:
        case dp_event.NoOpDpEvent():
            return
        case dp_event.SelfComposedDpEvent():
            yield from _walk(event.event, relation, count * _checked_count(event.count), group)
        case dp_event.ComposedDpEvent():
            for part in event.events:
                yield from _walk(part, relation, count, group)
        case GroupDpEvent():
            if group is not None:
                raise TacitError("an event of a group of units must not hold another group event.")
            touched = (event.group, event.groups, event.seed)
            yield from _walk(event.event, relation, count, touched)
        case _:
            yield group, _mechanism(event, relation, count)


def _mechanism(event: DpEvent, relation: Relation, count: int) -> Leaf:
    match event:
        case dp_event.NonPrivateDpEvent():
            return Leaf("none", math.inf, count=count)
        case dp_event.PoissonSampledDpEvent():
            base = _single(event.event, relation)
            return _sampled(base, "poisson", event.sampling_probability, count)
        case dp_event.SampledWithoutReplacementDpEvent():
            if relation != "replace-one":
                raise TacitError("fixed-size sampling is accounted under replace-one only.")
            base = _single(event.event, relation)
            rate = event.sample_size / max(event.source_dataset_size, 1)
            return _sampled(base, "fixed", rate, count)
        case dp_event.GaussianDpEvent():
            return _sized("gaussian", _inverse(event.noise_multiplier), count)
        case dp_event.LaplaceDpEvent():
            return _sized("laplace", _inverse(event.noise_multiplier), count)
        case PureDpEvent():
            return _sized("pure", _number(event.epsilon, "an epsilon"), count)
        case _:
            raise TacitError(f"no accountant supports the event {type(event).__name__}.")


def _sized(kind: Kind, size: float, count: int) -> Leaf:
    if size >= _REVEALING:
        return Leaf("none", math.inf, count=count)
    return Leaf(kind, size, count=count)


def _inverse(multiplier: float) -> float:
    """Sensitivity over noise; infinite without noise."""
    checked = _number(multiplier, "a noise multiplier")
    return 1 / checked if checked > 0 else math.inf


def _number(value: float, what: str) -> float:
    if not value >= 0:
        raise TacitError(f"{what} is {value} in an event; it cannot be negative or NaN.")
    return float(value)


def _checked_count(count: int) -> int:
    if not (count >= 0 and count % 1 == 0):
        raise TacitError(f"a count is {count} in an event; give a whole number, 0 or more.")
    return int(count)


def _single(event: DpEvent, relation: Relation) -> Leaf:
    """The mechanism inside a sampled event: a single one, or Gaussians that merge into one."""
    inside = leaves(event, relation)
    if not inside:
        return Leaf("pure", 0.0)
    if len(inside) != 1 or inside[0].count != 1 or inside[0].sampled != "no":
        raise TacitError(
            "a sampled event must hold one Gaussian, Laplace or pure mechanism, or several"
            " Gaussians on the same sample."
        )
    return inside[0]


def _sampled(base: Leaf, how: Sampled, rate: float, count: int) -> Leaf:
    _number(rate, "a sampling rate")
    if rate >= 1:
        return replace(base, count=count)
    if rate == 0:
        return Leaf("pure", 0.0, count=count)
    return replace(base, sampled=how, rate=float(rate), count=count)
