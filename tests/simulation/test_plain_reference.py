"""The simulator against plain loops in float64, on small versions of the benchmarks' works."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.speed import reference
from benchmarks.speed.exact import difference
from benchmarks.speed.works import WORKS, data, flat, leaves, start

pytestmark = pytest.mark.usefixtures("quick_compilation")

SMALL: dict[str, tuple[dict[str, Any], int]] = {
    "W1": ({"clients": 5, "cohort": 3, "records": 4, "features": 6, "steps": 3, "clip": 0.05}, 2),
    "W2": ({"clients": 2, "cohort": 2, "records": 3, "steps": 2}, 1),
    "W3": ({"records": 12, "features": 8, "steps": 2, "batch": 5}, 2),
    "W4": ({"clients": 3, "cohort": 3, "records": 7, "features": 4}, 5),
}


@pytest.mark.parametrize("name", SMALL)
def test_float64_equals_plain_loops_to_seven_digits(name: str) -> None:
    sizes, rounds = SMALL[name]
    assert difference(replace(WORKS[name], **sizes), rounds) < 1e-7


@pytest.mark.parametrize("name", ["W1", "W3"])
def test_the_bound_is_reached_so_that_it_is_compared_too(name: str) -> None:
    sizes, rounds = SMALL[name]
    work = replace(WORKS[name], **sizes, noise=0.0)
    work = replace(work, cohort=work.clients)
    bounded, looser = (
        flat(reference.trained(replace(work, clip=clip), rounds)) for clip in (work.clip, 1e9)
    )
    assert np.linalg.norm(bounded - looser) > 1e-3 * np.linalg.norm(looser)


@pytest.mark.parametrize("name", ["W1", "W2", "W4"])
def test_the_reference_gradient_is_a_derivative(name: str) -> None:
    """Central differences of the mean loss along one direction."""
    work = replace(WORKS[name], **SMALL[name][0])
    x, y = data(work)
    features, labels = x[0].astype(np.float64), y[0]
    rng = np.random.default_rng(3)
    params = _moved(start(work), rng, 0.1)
    direction = _moved(_zeros(params), rng, 1.0)
    slope = reference.gradient(work, params, features, labels)
    step = 1e-6
    ahead, behind = (
        reference.loss(work, _along(params, direction, sign * step), features, labels)
        for sign in (1, -1)
    )
    expected = flat(slope) @ flat(direction)
    assert (ahead - behind) / (2 * step) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def _along(params: Any, direction: Any, step: float) -> Any:
    if isinstance(params, dict):
        return {k: _along(v, direction[k], step) for k, v in params.items()}
    return params + step * direction


def _moved(params: Any, rng: np.random.Generator, scale: float) -> Any:
    if isinstance(params, dict):
        return {k: _moved(v, rng, scale) for k, v in params.items()}
    return params + scale * rng.standard_normal(np.shape(params))


def _zeros(params: Any) -> Any:
    if isinstance(params, dict):
        return {k: _zeros(v) for k, v in params.items()}
    return np.zeros_like(params)


def test_the_common_layout_counts_every_parameter() -> None:
    assert [leaf.shape for leaf in leaves(start(WORKS["W1"]))] == [(10,), (784, 10)]
    assert WORKS["W2"].parameters == 5046
