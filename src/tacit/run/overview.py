"""A run before it starts, in plain numbers and sentences."""

from __future__ import annotations

from typing import Any

from tacit.preludes.column_moments import PrivateMoments
from tacit.run.run import Run


def overview(run: Run) -> dict[str, Any]:
    """What is trained on what, with which noise, and what it will cost."""
    plan, waiting = run.plan, released_columns(run)
    noise = getattr(plan.algorithm, "noise", 0.0)
    return {
        "data": run.federation.title,
        "clients": plan.population.clients,
        "records": plan.population.records,
        "smallest_client": plan.population.smallest,
        "rounds": plan.rounds,
        "algorithm": run.name,
        "noise": noise if isinstance(noise, (int, float)) else list(noise),
        "expected_cohort": plan.algorithm.cohort.expected(plan.population.clients),
        "released_scaling": list(waiting),
        "released_centre": plan.prelude is not None and not waiting,
        "notes": plan.notes(run.settings.delta),
        "warnings": plan.warnings(),
        **run.guarantee().as_dict(),
    }


def released_columns(run: Run) -> tuple[str, ...]:
    """The columns whose mean and scale are released before round 0."""
    moments = run.plan.prelude.algorithm if run.plan.prelude is not None else None
    columns = moments.columns if isinstance(moments, PrivateMoments) else ()
    return tuple(column.column for column in columns)
