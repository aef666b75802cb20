"""Algorithms by name: what a configuration asks for, with its options checked."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from tacit.algorithm import Algorithm
from tacit.errors import ConfigError
from tacit.nearest import nearest
from tacit.options import check_names, check_types
from tacit.sampling import Cohort, FixedCohort, FullCohort, PoissonCohort

ALGORITHMS: dict[str, str] = {
    "adaptdp-fedavg": "adaptdp_fedavg:AdaptDPFedAvg",
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
_COHORT_OPTIONS = ("cohort_rate", "cohort_size")
_FROM_PLAN = ("rounds", "clients")  # settled by [train], not by [algorithm]


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

    ``cohort_rate`` draws Poisson cohorts, ``cohort_size`` cohorts of a fixed size; without either
    every client takes part in every round.
    """
    cls, what = find(name), f"the algorithm {name!r}"
    check_names(what, given, options(name))
    cohort = _cohort(given.pop("cohort_rate", None), given.pop("cohort_size", None))
    checked = check_types(what, given, cls)
    if cohort is not None:
        checked[_COHORT] = cohort
    return cls(**checked)


def _cohort(rate: Any, size: Any) -> Cohort | None:
    if rate is not None and size is not None:
        raise ConfigError("give cohort_rate (Poisson) or cohort_size (fixed), not both.")
    if rate is not None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)):
            raise ConfigError(f"cohort_rate is {rate!r}; give a number above 0 and at most 1.")
        return PoissonCohort(float(rate)) if rate != 1 else FullCohort()
    if size is not None:
        if isinstance(size, bool) or not isinstance(size, int):
            raise ConfigError(f"cohort_size is {size!r}; give a whole number of clients.")
        return FixedCohort(size)
    return None
