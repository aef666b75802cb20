"""Algorithms by name: what a configuration asks for, with its options checked."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from tacit.algorithm import Algorithm
from tacit.errors import ConfigError
from tacit.sampling import Cohort, FixedCohort, FullCohort, PoissonCohort, TurnsCohort
from tacit.validation import check_names, check_types, nearest

ALGORITHMS: dict[str, str] = {
    "adaptdp-fedavg": "adaptdp_fedavg:AdaptDPFedAvg",
    "auto": "auto:Auto",
    "auto-local": "auto_local:AutoLocal",
    "dp-fedavg": "fedavg:DPFedAvg",
    "dp-fedavg-record": "dp_fedavg_record:RecordDPFedAvg",
    "dp-fedexp": "fedexp:DPFedEXP",
    "dp-norm-fedavg": "norm_fedavg:DPNormFedAvg",
    "dp-scaffnew": "scaffnew:DPScaffNew",
    "dp-scaffold": "scaffold:DPScaffold",
    "dynamic-ldp": "dynamic_ldp:DynamicLDP",
    "fedavg": "fedavg:FedAvg",
    "isrl-dp": "isrl_dp:ISRLDP",
}

_COHORT = "clients_per_round"
_COHORT_OPTIONS = ("cohort_rate", "cohort_size", "cohort_groups")
# settled by [train] and [task], not by [algorithm]
_FROM_PLAN = ("rounds", "clients", "population", "score_scale")


def names() -> tuple[str, ...]:
    """The names that ``make`` knows."""
    return tuple(sorted(ALGORITHMS))


def find(name: str) -> type[Algorithm]:
    """The class behind a name."""
    if name not in ALGORITHMS:
        raise ConfigError(f"there is no algorithm {name!r}{nearest(name, ALGORITHMS)}")
    module, attribute = ALGORITHMS[name].split(":")
    found: type[Algorithm] = getattr(
        importlib.import_module(f"tacit.algorithms.{module}"), attribute
    )
    return found


def options(name: str) -> dict[str, Any]:
    """The options of an algorithm with their defaults, as a configuration spells them."""
    cls = find(name)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    own = {f.name: f.default for f in fields if f.name not in _FROM_PLAN}
    if own.pop(_COHORT, None):
        own |= dict.fromkeys(_COHORT_OPTIONS)
    return own


def make(name: str, **given: Any) -> Algorithm:
    """The algorithm of this name.

    ``cohort_rate`` draws Poisson cohorts, ``cohort_size`` cohorts of a fixed size,
    ``cohort_groups`` lets so many disjoint groups take turns; without any of them every client
    takes part in every round.
    """
    cls, what = find(name), f"the algorithm {name!r}"
    check_names(what, given, options(name))
    cohort = _cohort(**{key: given.pop(key, None) for key in _COHORT_OPTIONS})
    checked = check_types(what, given, cls)
    if cohort is not None:
        checked[_COHORT] = cohort
    return cls(**checked)


def spelled(algorithm: Algorithm) -> dict[str, Any] | None:
    """The name and options that ``make`` turns into this algorithm; None if it has no name."""
    name = next((n for n in ALGORITHMS if find(n) is type(algorithm)), None)
    if name is None:
        return None
    fields = {f.name: f for f in dataclasses.fields(find(name))}  # type: ignore[arg-type]
    own = {key: getattr(algorithm, key) for key in fields if key not in _FROM_PLAN}
    cohort = own.pop(_COHORT, FullCohort())
    given = {key: value for key, value in own.items() if value != fields[key].default}
    return {"name": name, **given, **_spelled_cohort(cohort)}


def _spelled_cohort(cohort: Cohort) -> dict[str, Any]:
    if isinstance(cohort, PoissonCohort):
        return {"cohort_rate": cohort.rate}
    if isinstance(cohort, FixedCohort):
        return {"cohort_size": cohort.size}
    return {"cohort_groups": cohort.groups} if isinstance(cohort, TurnsCohort) else {}


def _cohort(cohort_rate: Any, cohort_size: Any, cohort_groups: Any) -> Cohort | None:
    if sum(given is not None for given in (cohort_rate, cohort_size, cohort_groups)) > 1:
        raise ConfigError(
            "give one of cohort_rate (Poisson), cohort_size (fixed) and cohort_groups (turns)."
        )
    if cohort_rate is not None:
        if isinstance(cohort_rate, bool) or not isinstance(cohort_rate, (int, float)):
            raise ConfigError(
                f"cohort_rate is {cohort_rate!r}; give a number above 0 and at most 1."
            )
        return PoissonCohort(float(cohort_rate)) if cohort_rate != 1 else FullCohort()
    if cohort_size is not None:
        return FixedCohort(_whole("cohort_size", cohort_size, "clients"))
    if cohort_groups is not None:
        return TurnsCohort(_whole("cohort_groups", cohort_groups, "groups"))
    return None


def _whole(name: str, value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} is {value!r}; give a whole number of {what}.")
    return value
