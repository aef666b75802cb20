"""One record's share of a step where a server chooses the model, and a neighbour the record.

Every task, both precisions, both bounds, compiled as in a run. Squares leave the range of floats
near the root of its ends, so models and records are scaled to there, to the ends, to zero and
beyond.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_cases import CASES

from tacit import local
from tacit.bounds import Clip, Normalize
from tacit.mechanisms import NoNoise
from tacit.release import Release

RADIUS = 0.7
BOUNDS = (Clip(RADIUS), Normalize(RADIUS))
# How many powers of ten lie between 1 and the ends of the range.
REACH = {"float32": 38, "float64": 308}
SEARCHED = [
    "quadratic",
    "logistic-no-bias",
    "least-squares-paper-003",
    "quadratic-vectors",
    "multinomial-no-bias",
    "mlp-deep",
    "mlp-none",
    "poisson",
    "weibull",
]
in_both = pytest.mark.parametrize("dtype", REACH)


@functools.cache
def compiled(name, dtype):
    """Sums of records, bounded in both ways, as a function of model, records and weights."""
    del dtype  # each has a program of its own
    task, _ = CASES[name]
    releases = [
        Release(bound=bound, mechanism=NoNoise(), at="step", unit="record") for bound in BOUNDS
    ]

    def sums(params, records, weights):
        each = (local.bounded_sum(task, r, params, records, weights, RADIUS) for r in releases)
        return [jnp.concatenate([jnp.ravel(v) for v in jax.tree.leaves(sum_)]) for sum_ in each]

    return jax.jit(sums)


@functools.cache
def shapes_of(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        return jax.eval_shape(CASES[name][0].init, jax.random.key(0))


def model(name, dtype, exponents, seed=0):
    """Random weights, each layer's times a power of ten, most biases 0, of one sign every other."""
    rng = np.random.default_rng(seed)
    shapes = shapes_of(name, dtype)

    def leaf(path, like):
        exponent = exponents[sorted(shapes).index(path[0].key)]
        values = rng.standard_normal(like.shape)
        if path[-1].key in ("b", "shift") and len(path) > 1 and rng.random() < 0.7:
            values = 0 * values
        values = np.abs(values) if seed % 2 else values
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(values * 10.0**exponent, dtype)

    return jax.tree.map_with_path(leaf, shapes)


def record(name, dtype, exponents=(0.0, 0.0), index=0):
    """One record, its features and its other numbers times a power of ten."""
    found = {}
    for column, values in CASES[name][1].items():
        one = np.asarray(values[index])
        if one.dtype.kind == "f":
            with np.errstate(over="ignore", under="ignore"):
                one = (one * 10.0 ** exponents[int(column not in ("x", "a"))]).astype(dtype)
        found[column] = one
    return found


def sums(name, dtype, params, records, weights):
    both = {k: np.stack([r[k] for r in records]) for k in records[0]}
    with jax.enable_x64(dtype == "float64"):
        found = compiled(name, dtype)(params, both, np.asarray(weights, dtype))
        return [np.asarray(v, np.longdouble) for v in found]


def length(vector):
    """The norm, safe from overflow and underflow; infinite if there is none."""
    largest = np.max(np.abs(vector))
    if not np.isfinite(largest):
        return np.inf
    return largest * np.sqrt(np.sum((vector / largest) ** 2)) if largest > 0 else 0.0


def ratio(name, dtype, params, wild):
    """The longest contribution of one record, in radii."""
    calm = record(name, dtype, index=1)
    return max(length(v) for v in sums(name, dtype, params, (wild, calm), (1, 0))) / RADIUS


def check(name, dtype, params, wild):
    """No contribution is above the radius, and each is the same in company as alone."""
    calm = record(name, dtype, index=1)
    ask = functools.partial(sums, name, dtype, params)
    alone, other, both = (ask((wild, calm), w) for w in ((1, 0), (0, 1), (1, 1)))
    without = ask((calm, calm), (0, 1))
    for one, two, sum_, same in zip(alone, other, both, without, strict=True):
        assert length(one) <= RADIUS
        assert length(two) <= RADIUS
        np.testing.assert_array_equal(two, same)
        assert length(sum_ - one - two) <= 4 * np.finfo(dtype).eps * RADIUS


def powers(dtype, layers, rng):
    """Exponents of a record's numbers and of layers: none, near the root of the range, anywhere."""
    reach, count = REACH[dtype], 2 + layers
    kinds = rng.integers(0, 4, count)
    kinds[:2] *= rng.integers(0, 2)
    near = rng.choice([-1, 1], count) * (reach / 2 + rng.uniform(-1.5, 1, count))
    return np.choose(kinds, [np.zeros(count), near, near, rng.uniform(-reach, reach, count)])


@in_both
@pytest.mark.parametrize("name", CASES)
def test_no_model_makes_a_record_count_for_more(name, dtype):
    rng = np.random.default_rng(1)
    layers = len(shapes_of(name, dtype))
    for seed in range(40):
        exponents = powers(dtype, layers, rng)
        params = model(name, dtype, exponents[2:], seed)
        check(name, dtype, params, record(name, dtype, exponents[:2]))


@in_both
@pytest.mark.parametrize("name", CASES)
def test_no_value_makes_a_record_count_for_more(name, dtype):
    """Zeros, subnormals, the largest float, infinity and NaN, in the model and in the record."""
    info = np.finfo(dtype)
    calm_model, calm = model(name, dtype, [0] * 9), record(name, dtype)
    for value in (0, info.smallest_subnormal, info.tiny, info.max, np.inf, np.nan):
        fill = lambda v, value=value: np.full(v.shape, value, v.dtype)
        for layer in calm_model:
            check(name, dtype, {**calm_model, layer: jax.tree.map(fill, calm_model[layer])}, calm)
        for column in (k for k, v in calm.items() if v.dtype.kind == "f"):
            check(name, dtype, calm_model, {**calm, column: fill(calm[column])})
            one = calm[column].copy()
            one.flat[0] = value
            check(name, dtype, calm_model, {**calm, column: one})
    if calm.get("y", np.ones(1)).dtype.kind == "i":
        check(name, dtype, calm_model, {**calm, "y": np.asarray(99, calm["y"].dtype)})


@in_both
@pytest.mark.parametrize("name", ["mlp-deep", "mlp-none"])
def test_small_slopes_meet_large_inputs(name, dtype):
    """The second layer's gradient is of any size while the squares of its slopes are not floats."""
    half = REACH[dtype] / 2
    for up, down in itertools.product(np.arange(-2, 1.1, 0.25), np.arange(-1.5, 1.6, 0.25)):
        params = model(name, dtype, (half + up, -half - 5, -half + down))
        check(name, dtype, jax.tree.map(np.abs, params), record(name, dtype))


@in_both
@pytest.mark.parametrize("name", SEARCHED)
def test_no_small_gradient_counts_for_more(name, dtype):
    """Features in fine steps down to where some of their squares are floats and some are 0."""
    params = model(name, dtype, [0] * 9)
    for step in np.arange(-3, 1, 0.05):
        wild = record(name, dtype, (step - REACH[dtype] / 2, 0.0))
        assert ratio(name, dtype, params, wild) <= 1


@in_both
@pytest.mark.parametrize("name", SEARCHED)
def test_no_search_finds_a_larger_contribution(name, dtype):
    """From the best of a few starts, exponents are changed wherever that shortens nothing."""
    rng = np.random.default_rng(2)
    layers = len(shapes_of(name, dtype))

    def tried(exponents, seed):
        params = model(name, dtype, exponents[2:], seed)
        found = ratio(name, dtype, params, record(name, dtype, exponents[:2]))
        assert found <= 1
        return found, tuple(exponents), seed

    best = max(tried(powers(dtype, layers, rng), seed) for seed in range(60))
    for _ in range(40):
        step = rng.choice([0.03, 0.3]) * rng.standard_normal(layers + 2)
        best = max(best, tried(np.clip(best[1] + step, -REACH[dtype], REACH[dtype]), best[2]))
    assert best[0] > 0.99


@in_both
@pytest.mark.parametrize("name", ["least-squares-paper-003", "multinomial-no-bias", "mlp-deep"])
def test_no_exponents_make_a_record_count_for_more(name, dtype):
    reach = REACH[dtype]
    layers = len(shapes_of(name, dtype))
    near = st.floats(reach / 2 - 1.5, reach / 2 + 1)
    power = st.one_of(st.just(0.0), near, near.map(lambda e: -e), st.floats(-reach, reach))

    @settings(max_examples=30)
    @given(st.lists(power, min_size=layers + 2, max_size=layers + 2), st.integers(0, 9))
    def search(exponents, seed):
        params = model(name, dtype, exponents[2:], seed)
        check(name, dtype, params, record(name, dtype, exponents[:2]))

    search()
