"""Which precision a run computes in, and whether it may with noise that is real.

Sums of records in floating point are rounded, and noise has to hide that too (``summed_slack``). In
a simulation nothing is hidden, and float32 is quick.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from tacit import tree
from tacit.algorithm import releases
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, NoNoise
from tacit.mechanisms.rounded import summed_slack
from tacit.planning import Plan
from tacit.precision import Precision

_UNNOTICED = 1e-3  # of the noise


def chosen_precision(dtype: Precision | None, plan: Plan, *, real: bool) -> Precision:
    """The precision as given, or float32 where sums are hardly rounded, else float64.

    A given one in which real noise could not hide the rounding of sums is refused.
    """
    terms = _terms(plan)
    if dtype is None:
        lost = max(_slack(terms), _cut_off(plan))
        return "float32" if not real or lost <= _UNNOTICED else "float64"
    if real:
        summed_slack(terms, jnp.dtype(dtype))
    return dtype


def require_exact_noise(plan: Plan) -> None:
    """Refuse real noise where a mechanism is drawn in floating point only."""
    plans = [plan] if plan.prelude is None else [plan, plan.prelude]
    for one in plans:
        for release in releases(one.algorithm, one.task, one.population).values():
            if not isinstance(release.mechanism, (Gaussian, NoNoise)):
                raise TacitError(
                    f"{type(release.mechanism).__name__} is drawn in floating point, which a"
                    " guarantee does not cover: give [train] seed for a simulation, or take"
                    " Gaussian noise."
                )


def _slack(terms: int) -> float:
    return terms * (terms + 2) * float(jnp.finfo(jnp.float32).eps)


def _cut_off(plan: Plan) -> float:
    """What exact sums over very many clients cut off a contribution in float32, over its bound."""
    numbers = tree.size(jax.eval_shape(lambda: plan.task.init(jax.random.key(0))))
    units = plan.population.records if plan.unit == "record" else plan.population.clients
    return units * plan.population.clients * math.sqrt(numbers) * 2.0**-48


def _terms(plan: Plan) -> int:
    """The most records that a client sums in floating point before it draws noise."""
    rows = 1 << max(0, (max(plan.population.sizes) - 1).bit_length())
    plans = [plan] if plan.prelude is None else [plan, plan.prelude]
    return max(
        release.batch.most(rows) if release.at == "step" or release.by_record else 1
        for one in plans
        for release in releases(one.algorithm, one.task, one.population).values()
    )
