"""Algorithms by name: what a configuration asks for, with its options checked."""

from __future__ import annotations

import dataclasses
import importlib
from importlib.metadata import entry_points
from typing import Any

from tacit.algorithm import Algorithm
from tacit.algorithms.names import ALGORITHMS, FOR_CLIENTS
from tacit.errors import ConfigError
from tacit.sampling import Cohort, FixedCohort, FullCohort, PoissonCohort, TurnsCohort
from tacit.validation import check_names, check_types, nearest

_COHORT, _FORM = "clients_per_round", "protects"
_COHORT_OPTIONS = ("cohort_rate", "cohort_size", "cohort_groups")
_FROM_PLAN = ("problem",)  # settled by [train], [task] and [data], not by [algorithm]


def names() -> tuple[str, ...]:
    """The names that ``make`` knows."""
    return tuple(sorted(ALGORITHMS))


def find(name: str, protects: Any = None) -> type[Algorithm]:
    """The class behind a name; of two forms of a method, the one for the protected unit."""
    if name not in ALGORITHMS:
        for point in entry_points(group="tacit.algorithms", name=name):
            brought: type[Algorithm] = point.load()  # by another package
            return brought
        raise ConfigError(f"there is no algorithm {name!r}{nearest(name, ALGORITHMS)}")
    place = FOR_CLIENTS[name] if protects == "client" and name in FOR_CLIENTS else ALGORITHMS[name]
    module, attribute = place.split(":")
    found: type[Algorithm] = getattr(
        importlib.import_module(f"tacit.algorithms.{module}"), attribute
    )
    return found


def options(name: str, protects: Any = None) -> dict[str, Any]:
    """The options of an algorithm with their defaults, as a configuration spells them."""
    fields = dataclasses.fields(find(name, protects))
    own = {f.name: f.default for f in fields if f.name not in _FROM_PLAN}
    if own.pop(_COHORT, None):
        own |= dict.fromkeys(_COHORT_OPTIONS)
    return own | ({_FORM: "record"} if name in FOR_CLIENTS else {})


def make(name: str, **given: Any) -> Algorithm:
    """The algorithm of this name, with its options checked.

    ``cohort_rate`` draws Poisson cohorts, ``cohort_size`` cohorts of a fixed size,
    ``cohort_groups`` lets so many disjoint groups take turns; without any of them every client
    takes part in every round.

    Args:
        name: A name of an ``[algorithm]`` section, such as ``"dp-fedavg"``.
        **given: The options of this algorithm, as a configuration spells them.

    Returns:
        The algorithm, for ``train``.
    """
    form, what = given.get(_FORM), f"the algorithm {name!r}"
    cls = find(name, form)
    check_names(what, given, options(name, form))
    if name in FOR_CLIENTS and given.pop(_FORM, "record") not in ("record", "client"):
        raise ConfigError(f"the option 'protects' of {what} is {form!r}: give record or client.")
    cohort = _cohort(**{key: given.pop(key, None) for key in _COHORT_OPTIONS})
    checked = check_types(what, given, cls)
    if cohort is not None:
        checked[_COHORT] = cohort
    return cls(**checked)


def spelled(algorithm: Algorithm) -> dict[str, Any] | None:
    """The name and options that ``make`` turns into this algorithm; None if it has no name."""
    forms = [(name, None) for name in ALGORITHMS] + [(name, "client") for name in FOR_CLIENTS]
    found = next((form for form in forms if find(*form) is type(algorithm)), None)
    if found is None:
        return None
    fields = {f.name: f for f in dataclasses.fields(algorithm)}
    own = {key: getattr(algorithm, key) for key in fields if key not in _FROM_PLAN}
    cohort = own.pop(_COHORT, FullCohort())
    given = {key: value for key, value in own.items() if value != fields[key].default}
    form = {_FORM: found[1]} if found[1] is not None else {}
    return {"name": found[0], **form, **given, **_spelled_cohort(cohort)}


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
