"""Privacy guarantees as complete sentences.

An epsilon alone means nothing. A ``Guarantee`` for a whole run states the protected unit (all data
of a client, or one record), the neighbouring relation, the observer, epsilon and delta, the
accountant that computed the bound, and the assumptions: what must stay secret, what is public, and
where the noise came from. All sentences about privacy are made in this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal

from tacit.errors import TacitError

Unit = Literal["client", "record"]
Relation = Literal["add-remove", "replace-one", "zero-out"]
NoiseFrom = Literal["system", "seed", "unstated"]

SERVER_TRUSTED = "everyone who sees the models (the server itself is trusted)"
NOBODY_TRUSTED = "the server and everyone who sees the models"
_ENOUGH = "as long as at least"
_COPIES = "has the signing keys that were made for them"


def observer(
    trusts_server: bool, honest: int | None = None, sites: int = 0, copied_keys: bool = False
) -> str:
    """Against whom a guarantee holds.

    Secure sums are in it if ``honest`` is given: so many of the sites have to follow the protocol.
    ``copied_keys``: their keys were not made by themselves.
    """
    if honest is None:
        return SERVER_TRUSTED if trusts_server else NOBODY_TRUSTED
    whom = SERVER_TRUSTED if trusts_server else "everyone, the server included"
    told = f"{whom}, {_ENOUGH} {honest} of the {sites} sites follow the protocol"
    return told + (f" and nobody else {_COPIES}" if copied_keys else "")


_UNITS: dict[str, str] = {
    "client": "every client (all of its records together)",
    "record": "every single record",
}
_RELATIONS: dict[str, dict[str, str]] = {
    "add-remove": {
        "client": "adding or removing one client",
        "record": "adding or removing one record",
    },
    "replace-one": {
        "client": "replacing all the data of one client by any other",
        "record": "replacing one record by any other",
    },
    "zero-out": {
        "client": "replacing the contribution of one client by nothing",
        "record": "replacing the contribution of one record by nothing",
    },
}
_SECRETS: dict[str, str] = {
    "client": "who takes part in a round, which only the server and those who do may know",
    "record": "which records a step uses, which only the one who draws them may know",
}
_SIMULATED = (
    "This is a simulation: its noise comes from a seed and protects nobody. With noise from the"
    " operating system:"
)
ACCOUNTANTS: dict[str, str] = {
    "exact": "the exact Gaussian profile",
    "pld": "numerical composition of privacy loss distributions, rounded up",
    "pure": "adding up pure differential privacy",
    "rdp": "Renyi divergences with the tight conversion",
    "rdp-mironov": "Renyi divergences with Mironov's conversion",
    "wang": "Renyi divergences, by Wang et al. where sampling is without replacement",
    "wang-mironov": "Renyi divergences (Wang et al. without replacement), Mironov's conversion",
    "zcdp": "zero-concentrated differential privacy",
    "none": "no accountant: nothing is bounded",
}


def check_unit(unit: str) -> Unit:
    """Return a valid unit, or raise an error that names the valid ones."""
    if unit not in tuple(_UNITS):
        raise TacitError(f"the unit is 'client' or 'record', not {unit!r}.")
    return unit  # type: ignore[return-value]


def check_relation(relation: str) -> Relation:
    """Return a valid neighbouring relation, or raise an error that names the valid ones."""
    if relation not in tuple(_RELATIONS):
        raise TacitError(
            f"the relation is 'zero-out', 'replace-one' or 'add-remove', not {relation!r}."
        )
    return relation  # type: ignore[return-value]


def check_delta(delta: float) -> float:
    """Return a delta in [0, 1), or raise an error that says what to give."""
    if not (isinstance(delta, (int, float)) and 0 <= delta < 1):
        raise TacitError(
            f"delta is {delta}; give a number from 0 to below 1, much smaller than 1 / (number of"
            " protected units), for instance 1e-5."
        )
    return float(delta)


def check_epsilon(epsilon: float) -> float:
    """Return a positive, finite epsilon, or raise an error that says what to give."""
    if not (isinstance(epsilon, (int, float)) and 0 < epsilon < math.inf):
        raise TacitError(f"epsilon is {epsilon}; give a positive number (for instance 2).")
    return float(epsilon)


@dataclass(frozen=True)
class Budget:
    """The privacy budget of a whole run: epsilon at delta.

    It covers all rounds and all messages. Who is protected, and against whom, follows from the
    method: see ``Guarantee``.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An upper bound on what a whole run reveals about one unit to one observer.

    ``sampled``: epsilon relies on amplification by sampling, so the sample must stay secret.
    ``public_sizes``: the number of clients and their numbers of records are not protected.
    ``noise_from``: the operating system, or a seed (who knows the seed can remove the noise).
    ``uncharged``: further outputs from the same records that epsilon does not cover.
    ``event``: what the run releases, if it is known; it says more than epsilon at one delta.
    """

    unit: Unit
    relation: Relation
    observer: str
    epsilon: float
    delta: float
    accountant: str
    sampled: bool = False
    public_sizes: bool = False
    noise_from: NoiseFrom = "unstated"
    uncharged: tuple[str, ...] = ()
    event: Any = field(default=None, repr=False, compare=False)  # what happened, for ``attack``

    def __post_init__(self) -> None:
        check_unit(self.unit)
        check_relation(self.relation)
        check_delta(self.delta)
        if not self.epsilon >= 0:
            raise TacitError(f"epsilon is {self.epsilon}; it cannot be negative or NaN.")
        if self.accountant not in ACCOUNTANTS:
            raise TacitError(f"there is no accountant {self.accountant!r}.")

    def sentence(self) -> str:
        """The guarantee in words; its numbers are rounded up, so it is valid as printed."""
        if math.isinf(self.epsilon):
            why = "something is released without noise"
            if self.delta == 0:
                why = "Gaussian noise gives no epsilon at delta = 0, and no noise gives none at all"
            return (
                f"Over the whole run, no privacy is guaranteed to {_UNITS[self.unit]} against"
                f" {self.observer}: {why}."
            )
        told = (
            f"ver the whole run, {_UNITS[self.unit]} is protected with epsilon ="
            f" {rounded_up(self.epsilon)} at delta = {rounded_up(self.delta)} against"
            f" {self.observer}; neighbours differ by {_RELATIONS[self.relation][self.unit]}"
            f" (an upper bound by {ACCOUNTANTS[self.accountant]})."
        )
        opening = f"{_SIMULATED} o" if self.noise_from == "seed" else "O"
        return " ".join([opening + told, *self._terms()])

    def _terms(self) -> Iterator[str]:
        """The assumptions behind the number, and what it does not cover."""
        if self.sampled:
            yield f"Secret: {_SECRETS[self.unit]}."
        if self.public_sizes:
            yield "Public: how many clients there are and how many records each holds."
        if self.noise_from == "system":
            yield "Noise: from the operating system."
        if self.uncharged:
            yield f"Not counted: {'; '.join(self.uncharged)}."

    def attack(self, rates: Sequence[float] = ()) -> tuple[tuple[float, float], ...]:
        """The best attack on one unit: false-positive rates, and the most true positives at each.

        Empty if what was released is not known, or nothing is guaranteed.
        """
        from tacit.accounting.best_attack import RATES, best_attack

        if self.event is None or math.isinf(self.epsilon):
            return ()
        return best_attack(self.event, self.relation, rates or RATES)

    def meaning(self) -> str:
        """What epsilon means for one unit; empty where ``attack`` is."""
        found = self.attack()
        if not found:
            return ""
        (rate, most), *others = found
        more = "".join(f", {rounded_up(100 * m, 3)} % with {100 * r:g} %" for r, m in others)
        return (
            "What this means: the best attack, whatever it knows, recognises at most"
            f" {rounded_up(100 * most, 3)} % of the {self.unit}s if it may mistake {100 * rate:g} %"
            f" of others for them{more}."
        )

    def short(self) -> str:
        """The guarantee in short form, for a table."""
        if math.isinf(self.epsilon):
            return f"no privacy for a {self.unit}"
        parts = [
            f"epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}",
            f"{self.unit}, {self.relation}",
        ]
        if self.observer.startswith(SERVER_TRUSTED):
            parts.append("server trusted")
        if _ENOUGH in self.observer:
            told = self.observer.partition(f"{_ENOUGH} ")[2]
            parts.append(told.replace("follow the protocol", "honest").partition(" and ")[0])
        if self.sampled:
            parts.append("secret sample")
        if self.noise_from == "seed":
            parts.append("simulated")
        return "; ".join(parts)

    def as_dict(self) -> dict[str, object]:
        """The fields, the sentence and what it means, for JSON."""
        own = asdict(replace(self, event=None))
        del own["event"]
        attack = [{"false_positives": rate, "true_positives": m} for rate, m in self.attack()]
        said = {"sentence": self.sentence(), "short": self.short(), "meaning": self.meaning()}
        return {**own, **said, "attack": attack}


def rounded_up(value: float, digits: int = 5) -> str:
    """The value with ``digits`` significant digits, rounded up."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    step = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    shown = (exact / step).to_integral_value(ROUND_CEILING) * step
    return f"{float(shown):.{digits}g}"
