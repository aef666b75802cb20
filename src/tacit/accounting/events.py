"""Make privacy events from radius, noise, relation, sampling and count. Only this module does it.

The events are those of ``dp_accounting``. Its noise multiplier is noise divided by SENSITIVITY, and
the sensitivity depends on the neighbouring relation. A unit's contribution lies in a ball of radius
C. Adding or removing a unit (add-remove), or replacing its contribution by zero (zero-out), changes
the sum by at most C. Replacing it by another contribution (replace-one) changes the sum by at most
2C. A scalar in [0, C] changes the sum by at most C in all cases. No other module of Tacit applies
this factor of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import attr

from tacit.accounting.dp_events import dp_event
from tacit.accounting.gaussian import joint_mu_squared
from tacit.accounting.guarantee import Relation, check_relation
from tacit.errors import TacitError

DpEvent: TypeAlias = dp_event.DpEvent
Shape = Literal["ball", "interval"]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """A mechanism with pure epsilon-DP (delta = 0), for instance PrivUnit."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class GroupDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """An event that involves only the units of one of several disjoint groups.

    ``groups`` and ``seed`` identify the partition of the units. Events of different groups of the
    same partition compose in parallel: the total is the cost of the worst group, because no unit is
    in two groups. Groups of different partitions may overlap, so their costs add up.
    """

    group: int
    groups: int
    seed: int
    event: dp_event.DpEvent


@dataclass(frozen=True, kw_only=True)
class Everyone:
    """No sampling: every unit takes part each time."""


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Every unit takes part independently with probability ``rate``."""

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)


@dataclass(frozen=True, kw_only=True)
class FixedSize:
    """``sample`` of ``population`` units, drawn without replacement, independently each time."""

    sample: int
    population: int

    def __post_init__(self) -> None:
        if not 1 <= self.sample <= self.population:
            raise TacitError(
                f"a sample of {self.sample} from {self.population} is not possible: give a sample"
                f" size from 1 to {self.population}."
            )

    @classmethod
    def of_rate(cls, rate: float) -> FixedSize:
        """Sample and population size whose ratio is a rate such as 0.0044."""
        _check_rate(rate)
        ratio = Fraction(rate).limit_denominator(10**9)
        if ratio == 0:
            raise TacitError(
                f"the rate {rate} is too small for fixed-size sampling: give 1e-9 or more."
            )
        return cls(sample=ratio.numerator, population=ratio.denominator)


@dataclass(frozen=True, kw_only=True)
class ShuffledEpochs:
    """Each epoch splits the shuffled units into ``batches``; a unit is in one batch per epoch."""

    batches: int

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise TacitError(f"an epoch must have at least one batch, not {self.batches}.")


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Disjoint groups, fixed before the run; round r uses only group r mod ``groups``."""

    groups: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.groups < 1 or self.seed < 0:
            raise TacitError(
                f"turns need at least one group and a seed of at least 0, not groups ="
                f" {self.groups} and seed = {self.seed}."
            )


SamplingScheme = Everyone | Poisson | FixedSize | ShuffledEpochs | Turns


def sensitivity(radius: float, relation: Relation, shape: Shape = "ball") -> float:
    """How much one unit can change a sum of contributions bounded by ``radius``."""
    check_relation(relation)
    if shape not in get_args(Shape):
        raise TacitError(f"the shape of a contribution is 'ball' or 'interval', not {shape!r}.")
    if not 0 <= radius < math.inf:
        raise TacitError(f"the radius of a bound is {radius}; give a finite number, 0 or more.")
    return 2 * radius if relation == "replace-one" and shape == "ball" else radius


def gaussian_event(
    *,
    radius: float,
    noise: float,
    relation: Relation,
    sampling: SamplingScheme | None = None,
    count: int = 1,
    shape: Shape = "ball",
) -> DpEvent:
    """``count`` releases of a sum with Gaussian noise of standard deviation ``noise``."""
    ratio = _ratio(noise, sensitivity(radius, relation, shape))
    return _repeat(_noisy(dp_event.GaussianDpEvent, ratio), sampling, relation, count)


def laplace_event(
    *,
    radius: float,
    noise: float,
    relation: Relation,
    sampling: SamplingScheme | None = None,
    count: int = 1,
    shape: Shape = "ball",
) -> DpEvent:
    """``count`` releases with Laplace noise of scale ``noise``; ``radius`` bounds the L1 norm."""
    ratio = _ratio(noise, sensitivity(radius, relation, shape))
    return _repeat(_noisy(dp_event.LaplaceDpEvent, ratio), sampling, relation, count)


def joint_event(
    *,
    vector_noise: float,
    scalar_noise: float,
    relation: Relation,
    sampling: SamplingScheme | None = None,
) -> DpEvent:
    """One release of a sum of vectors together with the sum of their squared norms.

    Both are accounted as one Gaussian mechanism. ``vector_noise`` is in units of the radius,
    ``scalar_noise`` in units of its square. ``joint_mu_squared`` explains why both together can
    cost no more than the vectors alone.
    """
    if min(vector_noise, scalar_noise) <= 0:
        return dp_event.NonPrivateDpEvent()
    squared = joint_mu_squared(vector_noise**-2, scalar_noise**-2, relation)
    return _repeat(dp_event.GaussianDpEvent(squared**-0.5), sampling, relation, 1)


def pure_event(epsilon: float, *, count: int = 1) -> DpEvent:
    """``count`` releases by a mechanism with pure epsilon-DP."""
    if not 0 <= epsilon < math.inf:
        raise TacitError(f"a pure epsilon is {epsilon}; give a finite number, 0 or more.")
    return repeated(PureDpEvent(float(epsilon)), count)


def compose(*events: DpEvent) -> DpEvent:
    """The sequential composition of the events."""
    kept = [e for e in events if not isinstance(e, dp_event.NoOpDpEvent)]
    if not kept:
        return dp_event.NoOpDpEvent()
    return kept[0] if len(kept) == 1 else dp_event.ComposedDpEvent(kept)


def repeated(event: DpEvent, count: int) -> DpEvent:
    """The event composed ``count`` times; the empty event for a count of 0."""
    if not (count >= 0 and count % 1 == 0):
        raise TacitError(f"a count is {count}; give a whole number, 0 or more.")
    if count == 0:
        return dp_event.NoOpDpEvent()
    return event if count == 1 else dp_event.SelfComposedDpEvent(event, int(count))


def in_turn(event: DpEvent, round_: int, scheme: SamplingScheme) -> DpEvent:
    """The event of a round, limited to the group whose turn it is: other units pay nothing."""
    if not isinstance(scheme, Turns) or isinstance(event, dp_event.NoOpDpEvent):
        return event
    return GroupDpEvent(round_ % scheme.groups, scheme.groups, scheme.seed, event)


def _ratio(noise: float, moved: float) -> float:
    if not noise >= 0:
        raise TacitError(f"the noise is {noise}; give a standard deviation of 0 or more.")
    return noise / moved if moved else math.inf


def _noisy(kind: type[DpEvent], ratio: float) -> DpEvent:
    if ratio == 0:
        return dp_event.NonPrivateDpEvent()
    return dp_event.NoOpDpEvent() if math.isinf(ratio) else kind(ratio)


def _repeat(
    event: DpEvent, sampling: SamplingScheme | None, relation: Relation, count: int
) -> DpEvent:
    if isinstance(event, dp_event.NoOpDpEvent):
        return event
    match sampling:
        case Poisson(rate=rate) if rate < 1:
            return repeated(dp_event.PoissonSampledDpEvent(rate, event), count)
        case FixedSize(sample=sample, population=population):
            _only_replace_one(relation, "fixed-size sampling")
            if sample == population:
                return repeated(event, count)
            sampled = dp_event.SampledWithoutReplacementDpEvent(population, sample, event)
            return repeated(sampled, count)
        case ShuffledEpochs(batches=batches):
            _only_replace_one(relation, "shuffled epochs")
            return repeated(event, -(-count // batches))
        case _:
            return repeated(event, count)


def _only_replace_one(relation: Relation, what: str) -> None:
    if relation != "replace-one":
        raise TacitError(
            f"{what} can be accounted for under replace-one only, because the draw depends on the"
            f" number of units: use replace-one instead of {relation}, or Poisson sampling."
        )


def _check_rate(rate: float) -> None:
    if not 0 < rate <= 1:
        raise TacitError(f"the sampling rate is {rate}; give a number above 0 and at most 1.")
