"""Shares of the noise of a secure sum: the two facts behind their price, and their grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.accounting import epsilon_of
from tacit.accounting.events import gaussian_event
from tacit.errors import TacitError
from tacit.mechanisms import normals
from tacit.mechanisms.normals import REACH
from tacit.mechanisms.shares import Grid, H, Summands, grids

LINE = np.arange(-200, 201)


def seeded_words(seed: int) -> normals.Words:
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, count, dtype=np.uint64)


def discrete(width: float, centre: float = 0.0) -> np.ndarray:
    """The discrete Gaussian on the integers of LINE."""
    weights = np.exp(-((LINE - centre) ** 2) / (2 * width**2))
    return weights / weights.sum()


def ripple(width: float) -> float:
    """How far a sum of Gaussian weights over the integers depends on its centre (Poisson)."""
    return 2 * sum(math.exp(-2 * (math.pi * width * m) ** 2) for m in range(1, 30))


def worst_ratio(one: np.ndarray, other: np.ndarray) -> float:
    """The largest |log ratio| of two laws, where floats resolve both."""
    seen = np.minimum(one, other) > 1e-14
    return float(np.abs(np.log(one[seen] / other[seen])).max())


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.5, 1.0), (1.0, 1.0), (2.0, 2.0)])
def test_a_sum_of_discrete_gaussians_is_one_up_to_a_ripple(first: float, second: float) -> None:
    summed = np.convolve(discrete(first), discrete(second))[200:-200]
    width = math.hypot(first, second)
    found = worst_ratio(summed, discrete(width))
    small = ripple(first * second / width)
    assert found <= math.log((1 + small) / (1 - small)) + 1e-9
    if small > 1e-6:
        assert found > small / 100, "on a rough grid the distance is there to be seen"


@pytest.mark.parametrize("part", [0.4, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("width", [1.2, 2.0])
def test_a_discrete_gaussian_is_a_normal_number_rounded_at_random(
    width: float, part: float
) -> None:
    """N(0, s^2 - h^2), then an integer near it with Gaussian weights of width h."""
    spread = math.sqrt(width**2 - part**2)
    fine = np.linspace(-12 * spread, 12 * spread, 20_001)
    density = stats.norm.pdf(fine, scale=spread) * (fine[1] - fine[0])
    weights = np.exp(-((LINE[:, None] - fine[None, :]) ** 2) / (2 * part**2))
    rounded = (weights / weights.sum(axis=0)) @ density
    small = ripple(part)
    found = worst_ratio(rounded, discrete(width))
    assert found <= 2 * math.log((1 + small) / (1 - small)) + 1e-6
    if small > 1e-2:
        assert found > small / 100


def test_the_constants_of_the_proof() -> None:
    """Both facts hold up to 2^-400 for every share that a grid allows, for 10^9 x 10^4 numbers."""
    # Two shares of width 2^6 already have s' = 2^6 / sqrt(2); more of them have a larger one.
    exponents = [2 * (math.pi * 2**6) ** 2 / 2, 2 * (math.pi * H) ** 2]
    assert all(exponent / math.log(2) - math.log2(1e13) - 2 > 400 for exponent in exponents)
    # The distance of 10^9 numbers of 10^4 clients in 10^3 rounds, at epsilon 10 and delta 1e-9.
    assert 1e16 * 2.0**-140 * (1 + math.exp(10)) < 1e-9 * 2.0**-40


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_the_sampler_has_the_law(bits: int) -> None:
    drawn = normals.discrete_normals(60_000, bits, seeded_words(bits))
    assert fits(drawn, 2.0**bits)
    for wrong in (0.95, 1.05):
        assert not fits(drawn, 2.0**bits * wrong)
    assert np.abs(normals.discrete_normals(1000, 20)).max() < REACH * 2**20


def test_summed_shares_have_the_law_of_one_draw() -> None:
    """What the simulator draws at once is what shares sum up to."""
    grid = Grid(step=1.0, bits=2, modulus=32, largest=10**6)
    summed = sum(grid.share(np.zeros(50_000), seeded_words(i)) for i in range(5))
    assert fits(summed, math.sqrt(5) * 4)
    assert not fits(summed, 2.1 * 4)


def fits(drawn: np.ndarray, width: float) -> bool:
    law = discrete(width)
    seen = law * len(drawn) > 20
    counts = np.array([(drawn == i).sum() for i in LINE[seen]], float)
    counts, law = np.append(counts, len(drawn) - counts.sum()), np.append(law[seen], 0)
    law[-1] = 1 - law.sum()
    return bool(stats.chisquare(counts, law * len(drawn)).pvalue > 1e-4)


SUMS = st.builds(
    Summands,
    numbers=st.integers(1, 10**6),
    radius=st.floats(1e-6, 1e6),
    reach=st.just(1.0),
    level=st.floats(0.01, 1000),
    clients=st.just(2),
    carriers=st.just(1),
    slack=st.sampled_from([0.0, 0.01]),
)


@settings(max_examples=200)
@given(SUMS, st.integers(2, 10_000), st.floats(0.01, 1), st.integers(1, 1000))
def test_every_grid_pays_for_its_rounding_and_cannot_overflow(
    asked: Summands, clients: int, honest: float, records: int
) -> None:
    carriers = max(1, int(honest * clients))
    summands = Summands(
        **{**vars(asked), "clients": clients, "carriers": carriers}
        | {"reach": asked.radius * clients * records}
    )
    try:
        grid = grids({"x": summands})["x"]
    except TacitError:
        return
    # In steps: the sum of the honest shares, less what random rounding takes.
    sigma = math.sqrt(carriers * 4.0**grid.bits - H * H)
    moved = summands.radius / grid.step + math.sqrt(summands.numbers)  # neighbours, both rounded
    charged = summands.level
    assert sigma / (moved * (1 + summands.slack)) >= charged * (1 - 1e-12)
    assert sigma / (summands.radius / grid.step) <= charged * (1 + summands.slack + 2.0**-9)
    most = clients * (int(REACH) * 2**grid.bits + 1) + math.ceil(summands.reach / grid.step)
    assert most <= grid.largest < 2 ** (grid.modulus - 1)


def test_a_small_sum_takes_32_bits_and_a_large_one_64() -> None:
    small = Summands(numbers=100_000, radius=1, reach=10, level=5, clients=10, carriers=7)
    large = Summands(numbers=100_000, radius=1, reach=10**6, level=50, clients=10, carriers=7)
    assert grids({"x": small})["x"].modulus == 32
    both = grids({"x": small, "y": large})
    assert {grid.modulus for grid in both.values()} == {64}


def test_sums_that_fit_nowhere_are_refused() -> None:
    wild = Summands(numbers=10**9, radius=1, reach=1e12, level=1e4, clients=10, carriers=7)
    with pytest.raises(TacitError, match="do not fit 64 bits"):
        grids({"x": wild})


def test_the_exact_trade_off_of_a_sum_keeps_what_is_charged() -> None:
    """Hockey-stick divergences of the opened sum itself, on a grid rough enough to compute."""
    carriers, width, moved = 3, 8.0, 9
    sigma = math.sqrt(carriers * width**2 - H * H)
    whole = np.arange(-2000, 2001)
    law = np.exp(-(whole**2) / (2 * carriers * width**2))
    law /= law.sum()
    shifted = np.roll(law, moved)
    for delta in (1e-2, 1e-4, 1e-6):
        event = gaussian_event(radius=moved, noise=sigma, relation="zero-out")
        epsilon = epsilon_of(event, delta=delta, relation="zero-out")
        spent = float(np.maximum(shifted - math.exp(epsilon) * law, 0).sum())
        assert spent <= delta
        # With one share missing, the same epsilon would not hold.
        fewer = np.exp(-(whole**2) / (2 * (carriers - 1) * width**2))
        fewer /= fewer.sum()
        assert float(np.maximum(np.roll(fewer, moved) - math.exp(epsilon) * fewer, 0).sum()) > delta


def test_values_come_back() -> None:
    summands = Summands(numbers=3, radius=2.0, reach=4.0, level=1e-3, clients=2, carriers=2)
    grid = grids({"x": summands})["x"]
    values = [np.array([0.5, -1.0, 1.5]), np.array([1.5, 0.25, np.nan])]
    total = grid.value(sum(grid.share(v) for v in values))
    np.testing.assert_allclose(total[:2], [2.0, -0.75], atol=0.05)
    assert abs(total[2] - 1.5) < 0.05, "what is not finite adds nothing"
