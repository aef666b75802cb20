"""The search for models that break a bound: it finds a careless norm, and none of ours.

The long search over every task is ``python -m experiments.studies.adversarial``.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from experiments.studies.adversarial import programs
from experiments.studies.adversarial.cases import Case, cases
from experiments.studies.adversarial.reference import length, reference
from experiments.studies.adversarial.search import ALLOWED, Search
from experiments.studies.adversarial.table import table
from tacit.bounds import Clip, Normalize
from tacit.tasks import from_functions
from tacit.tasks.base import ByRecord
from tacit.tasks.linear import LeastSquares, linear_output
from tacit.tasks.unit import settled


@dataclass(frozen=True, kw_only=True)
class Careless(LeastSquares):
    """Least squares whose norms leave out squares that are too small for a float."""

    def by_record(self, params, records):
        x = self.rows(params, records)
        slopes = self.slopes(linear_output(params, x), records)
        gradients = settled(slopes[:, None] * x)
        norms = jnp.sqrt(jnp.sum(jnp.square(gradients), axis=1))
        sound = (norms > 0) & (norms < jnp.inf)

        def combined(lengths):
            share = jnp.where(sound, lengths / norms, 0)
            return {"w": share @ jnp.where(sound[:, None], gradients, 0)}

        return ByRecord(jnp.where(sound | (norms == 0), norms, jnp.inf), combined)


def test_a_norm_that_underflows_is_found():
    like = {"x": np.ones(5), "y": np.ones(())}
    case = Case(Careless(features=5), like)
    search = Search(case, "float32", "yes", reference(case.task))
    search.run(ways=("normalised",), turns=60)
    row = search.row("careless")
    assert 1.1 < row["worst"] < np.inf
    assert "model and record" in row


@pytest.mark.parametrize("name", ["multinomial", "mlp"])
def test_no_search_breaks_a_bound(name):
    """From recipes, and from any floats."""
    case = cases()[name]
    search = Search(case, "float32", "yes", reference(case.task))
    search.run(ways=("clipped",), turns=10)
    number = st.floats(width=32, allow_subnormal=True)
    floats = lambda shape: npst.arrays(np.float32, shape, elements=number)
    shapes, structure = jax.tree.flatten(jax.eval_shape(case.task.init, jax.random.key(0)))

    @settings(max_examples=5)
    @given(st.tuples(*(floats(like.shape) for like in shapes)), floats(5), st.integers(0, 3))
    def from_any(leaves, x, y):
        record = {"x": x, "y": np.asarray(y, np.int32)}
        search.run_from((jax.tree.unflatten(structure, leaves), record), "clipped", turns=3)
        assert search.worst["clipped"].ratio <= ALLOWED

    from_any()
    row = search.row(name)
    assert 0.99 < row["worst"] <= ALLOWED
    assert row["wrong sums"] == 0
    assert f"| {name} | 0.99" in table({"rows": [row]})


@pytest.mark.parametrize("way", ["normalised", "auto for records", "auto for clients"])
def test_what_cancels_is_measured_as_it_is_sent(way):
    """A compiled ``w x - y`` is rounded once or twice: where it cancels, that is all there is."""
    task = from_functions(
        lambda key: {"w": jnp.zeros(16), "v": jnp.zeros(16)},
        lambda p, r: jnp.sum(jnp.square((p["w"] * r["x"] - r["y"]) * p["v"])),
    )
    rng = np.random.default_rng(0)
    models = {k: 1e6 * rng.standard_normal((32, 16)).astype(np.float32) for k in ("w", "v")}
    x = rng.standard_normal((32, 1, 16)).astype(np.float32)
    records = {"x": x, "y": models["w"][:, None] * x}
    both = {k: np.repeat(v, 2, axis=1) for k, v in records.items()}
    one = np.ones(32, np.float32)
    found = programs.prepared(task, way, "yes")(models, both, np.stack([one, 0 * one], 1), one)
    lengths = length(np.asarray(found, np.longdouble))
    assert np.min(lengths) > 0.99
    assert np.max(lengths) <= 1


@pytest.mark.parametrize("bound", [Clip(1.0), Normalize(1.0)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_adds_nothing_in_a_wide_gradient(bound, value):
    """A compiled maximum over many numbers passes over NaN."""
    rows = np.ones((7, 64, 32), np.float32)
    rows[1, 5, 3] = rows[2, 63, 31] = value
    rows[3] = np.nan
    found = jax.jit(jax.vmap(bound))({"w": rows, "b": rows[:, 0]})
    for leaf in map(np.asarray, found.values()):
        assert not np.any(leaf[1:4])
        assert np.all(leaf[[0, 4, 5, 6]] > 0)
