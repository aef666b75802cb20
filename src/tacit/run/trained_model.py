"""The model of a finished run, with everything that is public about its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.accounting import Guarantee
from tacit.data.config import meaning_of
from tacit.data.federation import Federation
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.model import Model
from tacit.model.inputs import Inputs
from tacit.planning import Plan
from tacit.precision import Precision
from tacit.preludes.base import Released
from tacit.tasks.base import Params


def made_model(
    params: Params, plan: Plan, inputs: Inputs | None, dtype: Precision, guarantee: Guarantee
) -> Model | None:
    """The model of a finished run; None where records have no features."""
    if inputs is None:
        return None
    return Model(
        params=params,
        task=plan.task,
        algorithm=plan.algorithm,
        inputs=inputs,
        dtype=dtype,
        guarantee=guarantee.as_dict(),
    )


def inputs_of(federation: Federation, released: Released) -> Inputs | None:
    """How new records become those of this federation; None where records have no features."""
    if "x" not in federation.records:
        return None
    source = federation.source or {}
    return Inputs(
        shape=tuple(int(n) for n in federation.records["x"].shape[1:]),
        classes=federation.classes,
        columns=columns_of(source.get("data", {})),
        maps=federation.maps,
        released=released,
    )


def columns_of(section: Mapping[str, Any]) -> Preprocessing | None:
    """The meaning of the columns that a ``[data]`` section states, if it does."""
    own = "path" in section and not section.get("prepared")
    return meaning_of(section) if own else None
