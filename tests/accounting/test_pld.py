"""Numerical composition, against closed forms, an independent composition and the library's own."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from tacit.accounting import gdp_eps
from tacit.accounting.gaussian import gdp_log_delta
from tacit.accounting.grid import epsilon_at, on_grid
from tacit.accounting.leaves import Leaf
from tacit.accounting.pairs import dominating_pairs
from tacit.accounting.pld import pld_epsilon
from tacit.accounting.renyi import rdp_epsilon
from tacit.errors import TacitError

Floats = NDArray[np.float64]
RATE_T2, RATE_T1 = 100 / 22605, 100 / 1500


def fixed(mu: float, rate: float, count: int, delta: float) -> float:
    return pld_epsilon([Leaf("gaussian", mu, "fixed", rate, count)], delta, "replace-one")


def poisson(mu: float, rate: float, count: int, delta: float) -> float:
    return pld_epsilon([Leaf("gaussian", mu, "poisson", rate, count)], delta, "add-remove")


# An independent composition: losses of small cells of outcomes, rounded to a grid, one plain FFT.


def compose_plainly(
    p: Floats, q: Floats, count: int, delta: float, *, step: float, cells: int, rounding: str
) -> float:
    """Epsilon of discrete P against Q; rounding "down" gives a lower bound, "up" an upper one."""
    kept = (p > 0) & (q > 0)
    infinite = -math.expm1(count * math.log1p(-float(p[~kept].sum())))
    p, places = p[kept], np.log(p[kept] / q[kept]) / step
    low = np.floor(places).astype(int)
    share = {"down": np.zeros_like(places), "up": np.ones_like(places), "mean": places - low}
    law = np.bincount(low % cells, p * (1 - share[rounding]), minlength=cells)
    law += np.bincount((low + 1) % cells, p * share[rounding], minlength=cells)
    composed = np.fft.irfft(np.fft.rfft(law) ** count, cells)[: cells // 2]
    losses = step * np.arange(cells // 2)
    above = np.cumsum(composed[::-1])[::-1] + infinite
    shrunk = np.cumsum((composed * np.exp(-losses))[::-1])[::-1]
    within = int(np.argmax(above - np.exp(losses) * shrunk <= delta))
    if within == 0:
        return 0.0
    return float(np.log((above[within] - delta) / shrunk[within]))


def gaussian_cells(*means: float, reach: float = 9.0) -> list[Floats]:
    points = np.linspace(-reach + min(means), reach + max(means), 60_001)
    laws = []
    for mean in means:
        below, above = ndtr(points - mean), ndtr(mean - points)
        right = points[:-1] > mean
        laws.append(np.where(right, above[:-1] - above[1:], below[1:] - below[:-1]))
    return laws


def fixed_size_pair(mu: float, rate: float) -> tuple[Floats, Floats]:
    """Above loss 0 the sampled pair, below 0 the same swapped, the rest at 0."""
    p, q = gaussian_cells(mu, 0.0)
    mixed = rate * p + (1 - rate) * q
    up = mixed > q
    rest = 1 - mixed[up].sum() - q[up].sum()
    return np.concatenate([mixed[up], q[up], [rest]]), np.concatenate([q[up], mixed[up], [rest]])


def realisable_pair(noise: float, rate: float) -> tuple[Floats, Floats]:
    """One record pulls by +1 or by -1, all others are silent: datasets that exist."""
    plus, none, minus = gaussian_cells(1 / noise, 0.0, -1 / noise)
    return rate * plus + (1 - rate) * none, rate * minus + (1 - rate) * none


# Closed forms of one step.


def one_step(mu: float, rate: float, delta: float, direction: str) -> float:
    def remove(epsilon: float) -> float:
        inner = epsilon - math.log(rate)
        if epsilon < 30:
            inner = math.log1p(math.expm1(epsilon) / rate)
        return math.log(rate) + gdp_log_delta(inner, mu)

    def add(epsilon: float) -> float:
        rest = -math.expm1(min(epsilon + math.log1p(-rate), 0.0))
        if rest <= 0:
            return -math.inf
        return math.log(rest) + gdp_log_delta(epsilon + math.log(rate) - math.log(rest), mu)

    profile = {"remove": remove, "add": add}[direction]
    target = math.log(delta)
    if profile(0.0) <= target:
        return 0.0
    high = mu * mu / 2 + 60 * mu + 1
    return float(brentq(lambda e: max(profile(e), -1e9) - target, 0.0, high, xtol=1e-14))


@settings(max_examples=50)
@given(
    mu=st.floats(-2, 1.3).map(lambda x: 10**x),
    rate=st.one_of(st.floats(-5, -0.01).map(lambda x: 10**x), st.floats(0.9, 0.9999)),
    delta=st.floats(-10, -1).map(lambda x: 10**x),
)
def test_one_step_equals_its_closed_form(mu: float, rate: float, delta: float) -> None:
    remove, add = (one_step(mu, rate, delta, way) for way in ("remove", "add"))
    for found, true in (
        (fixed(mu, rate, 1, delta), remove),
        (poisson(mu, rate, 1, delta), max(remove, add)),
    ):
        assert true * (1 - 1e-9) <= found <= true * (1 + 2e-4) + 1e-6 * delta


def test_rate_one_is_the_exact_gaussian() -> None:
    assert fixed(0.4, 1.0, 50, 1e-5) == pytest.approx(15.456156, rel=2e-5)
    assert fixed(0.4, 1 - 1e-12, 50, 1e-5) == pytest.approx(15.456156, rel=2e-5)
    assert fixed(0.4, 1 - 1e-12, 50, 1e-5) > 15.456155


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12, 1e-20, 1e-60, 1e-150])
@pytest.mark.parametrize(
    ("mu", "count"), [(1e-6, 1), (1e-3, 10**4), (0.1, 1), (0.4, 50), (3.0, 7), (50.0, 1), (1e4, 1)]
)
def test_unsampled_gaussians_at_every_scale(mu: float, count: int, delta: float) -> None:
    exact = gdp_eps(mu * math.sqrt(count), delta)
    found = pld_epsilon([Leaf("gaussian", mu, count=count)], delta, "add-remove")
    assert exact * (1 - 1e-8) <= found <= exact * (1 + 1.5e-4)


def test_a_million_tiny_steps() -> None:
    exact = gdp_eps(1.0, 1e-5)
    found = pld_epsilon([Leaf("gaussian", 1e-3, count=10**6)], 1e-5, "add-remove")
    assert exact <= found <= exact * (1 + 5e-5)


@pytest.mark.parametrize(
    ("mu", "rate", "count", "delta"),
    [(1.0, 0.1, 40, 1e-5), (0.5, 0.3, 20, 1e-3), (2.0, 0.02, 30, 1e-6), (3.0, 0.5, 8, 1e-4)],
)
def test_fixed_size_is_between_rounding_down_and_up(
    mu: float, rate: float, count: int, delta: float
) -> None:
    p, q = fixed_size_pair(mu, rate)
    low, high = (
        compose_plainly(p, q, count, delta, step=2e-4, cells=1 << 20, rounding=way)
        for way in ("down", "up")
    )
    found = fixed(mu, rate, count, delta)
    assert low <= found <= high
    assert high - low < 2e-4 * count + 1e-3


@pytest.mark.parametrize(
    ("mu", "rate", "count", "delta"),
    [(1.0, 0.1, 40, 1e-5), (0.5, 0.3, 20, 1e-2), (2.0, 0.02, 30, 1e-6)],
)
def test_poisson_is_between_rounding_down_and_up(
    mu: float, rate: float, count: int, delta: float
) -> None:
    p, q = gaussian_cells(mu, 0.0)
    mixed = rate * p + (1 - rate) * q
    low, high = (
        max(
            compose_plainly(*pair, count, delta, step=2e-4, cells=1 << 20, rounding=way)
            for pair in ((mixed, q), (q, mixed))
        )
        for way in ("down", "up")
    )
    assert low <= poisson(mu, rate, count, delta) <= high


@pytest.mark.parametrize(
    ("noise", "rate", "count", "lower", "upper"),
    [
        (3.0, RATE_T2, 22600, 1.481, 2.127),
        (5.043, RATE_T2, 22600, 0.822, 1.000),
        (3.543, RATE_T1, 1500, 5.975, 8.001),
    ],
)
def test_the_bound_is_above_what_real_datasets_lose_and_below_renyi(
    noise: float, rate: float, count: int, lower: float, upper: float
) -> None:
    p, q = realisable_pair(noise, rate)
    step = 1e-5 if count > 10_000 else 4e-5
    real = compose_plainly(p, q, count, 1e-4, step=step, cells=1 << 20, rounding="mean")
    assert real == pytest.approx(lower, abs=2e-3)
    found = fixed(2 / noise, rate, count, 1e-4)
    assert found == pytest.approx(upper, abs=1e-3)
    leaf = Leaf("gaussian", 2 / noise, "fixed", rate, count)
    assert real < found < rdp_epsilon([leaf], 1e-4, "replace-one")


def test_fixed_size_is_not_composed_one_direction_at_a_time() -> None:
    assert fixed(1.0, 0.1, 100, 1e-5) == pytest.approx(7.8049, abs=1e-3)
    assert poisson(1.0, 0.1, 100, 1e-5) == pytest.approx(7.05, abs=1e-2)


def test_poisson_under_replace_one_does_not_reuse_the_add_remove_number() -> None:
    leaf = Leaf("gaussian", 1.0, "poisson", 0.1, 100)
    assert pld_epsilon([leaf], 1e-5, "replace-one") == fixed(1.0, 0.1, 100, 1e-5)


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta", "step"),
    [(1.0, 0.01, 1000, 1e-5, 1e-4), (4.0962, 0.2, 500, 1e-5, 1e-4), (0.7, 0.05, 60, 1e-6, 1e-4)],
)
def test_poisson_agrees_with_the_library(
    noise: float, rate: float, count: int, delta: float, step: float
) -> None:
    library = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=step
    ).self_compose(count)
    theirs = library.get_epsilon_for_delta(delta)
    ours = poisson(1 / noise, rate, count, delta)
    assert theirs * (1 - 1e-3) <= ours <= theirs * (1 + 1e-4)


# Randomised response after Poisson sampling has two outcomes, so that its composition is a sum.


def two_outcomes(epsilon: float, rate: float, count: int, delta: float) -> tuple[float, float]:
    """The exact epsilon of either direction."""
    likely = 1 / (1 + math.exp(-epsilon))
    q = np.array([1 - likely, likely])
    p = rate * q[::-1] + (1 - rate) * q
    k = np.arange(count + 1)
    found = []
    for a, b in ((p, q), (q, p)):
        losses = k * math.log(a[0] / b[0]) + (count - k) * math.log(a[1] / b[1])
        weights = binom.pmf(k, count, a[0])

        def excess(eps: float, losses: Floats = losses, weights: Floats = weights) -> float:
            return float(weights @ -np.expm1(np.minimum(eps - losses, 0.0))) - delta

        high = float(losses.max())
        found.append(0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, high, xtol=1e-13))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("epsilon", "rate", "count", "delta", "worse"),
    [
        (1.0573513, 0.892925, 2, 0.409375, "add"),
        (0.0768437, 0.4184807, 30, 1.776e-3, "add"),
        (2.0, 0.3, 10, 1e-5, "remove"),
        (3.0, 0.5, 5, 0.3, "remove"),
    ],
)
def test_either_direction_can_be_the_worse(
    epsilon: float, rate: float, count: int, delta: float, worse: str
) -> None:
    remove, add = two_outcomes(epsilon, rate, count, delta)
    assert (add > 1.005 * remove) == (worse == "add")
    leaf = Leaf("pure", epsilon, "poisson", rate, count)
    found = pld_epsilon([leaf], delta, "add-remove")
    assert max(remove, add) <= found <= max(remove, add) * (1 + 1e-4)


@settings(max_examples=30)
@given(
    epsilon=st.floats(0.01, 4),
    count=st.integers(1, 200),
    delta=st.floats(-9, -1).map(lambda x: 10**x),
)
def test_pure_composition_is_the_optimal_one(epsilon: float, count: int, delta: float) -> None:
    """Kairouz, Oh and Viswanath: the sum over how often randomised response told the truth."""
    k = np.arange(count + 1)
    losses = (2 * k - count) * epsilon
    weights = binom.pmf(k, count, 1 / (1 + math.exp(-epsilon)))

    def optimal(delta: float) -> float:
        def excess(eps: float) -> float:
            return float(weights @ -np.expm1(np.minimum(eps - losses, 0.0))) - delta

        return float(brentq(excess, 0.0, count * epsilon, xtol=1e-13)) if excess(0.0) > 0 else 0.0

    found = pld_epsilon([Leaf("pure", epsilon, count=count)], delta, "replace-one")
    assert optimal(delta) * (1 - 1e-9) - 1e-12 <= found
    # Where the profile is steep, a little less delta is much more epsilon.
    assert found <= optimal(delta * (1 - 1e-4)) * (1 + 1e-3) + 1e-9
    assert found <= count * epsilon


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.0, 2.0, 6.0, 800.0])
@pytest.mark.parametrize("kind", ["pure", "laplace"])
def test_atoms_at_the_end_of_the_losses_do_not_become_infinite(kind: str, epsilon: float) -> None:
    for relation in ("add-remove", "replace-one"):
        for sampled, rate in (("no", 1.0), ("poisson", 0.1)):
            leaf = Leaf(kind, epsilon, sampled, rate)
            (pair, swapped) = dominating_pairs(leaf, relation)
            for one in (pair, swapped):
                low, high = one.span(1e-6, 1e-11)
                assert on_grid(one, (high - low) / 2000, (low, high)).infinite == 0
    found = pld_epsilon([Leaf(kind, epsilon)], 1e-5, "add-remove")
    assert epsilon - 3e-5 <= found <= epsilon


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"), [(0.5, 20, 1e-5), (0.1, 200, 1e-4), (2.0, 6, 1e-3)]
)
def test_laplace_composition(epsilon: float, count: int, delta: float) -> None:
    points = np.linspace(0, epsilon, 4001)  # outside, the loss is constant
    below = np.concatenate([[0], 0.5 * np.exp(points - epsilon), [1]])  # around epsilon
    above = np.concatenate([[1], 0.5 * np.exp(-points), [0]])  # around 0
    p, q = np.diff(below), -np.diff(above)
    low, high = (
        compose_plainly(p, q, count, delta, step=5e-5, cells=1 << 19, rounding=way)
        for way in ("down", "up")
    )
    found = pld_epsilon([Leaf("laplace", epsilon, count=count)], delta, "add-remove")
    assert low <= found <= high
    assert found < count * epsilon


# The published noise levels of AdaptDP-FedAvg.


@pytest.mark.parametrize(
    ("records", "steps", "sigma", "printed"),
    [
        (1500, 3000, 0.003, 4999.5),
        (1500, 3000, 0.006, 899.9),
        (1500, 3000, 0.010, 211.8),
        (22605, 22600, 0.006, 263.3),
        (22605, 22600, 0.010, 33.47),
        (22605, 22600, 0.030, 2.1268),
        (1500, 15000, 0.003, 21915.0),
        (1500, 15000, 0.006, 3828.8),
        (1500, 15000, 0.010, 850.4),
    ],
)
def test_huge_epsilons(records: int, steps: int, sigma: float, printed: float) -> None:
    found = fixed(0.02 / sigma, 100 / records, steps, 1e-4)
    assert 0.985 * printed <= found <= printed * (1 + 1e-4)


@pytest.mark.parametrize(("records", "steps", "sigma"), [(22605, 22600, 0.010)])
def test_a_sharper_number_than_printed_is_still_sound(
    records: int, steps: int, sigma: float
) -> None:
    p, q = fixed_size_pair(0.02 / sigma, 100 / records)
    estimate = compose_plainly(p, q, steps, 1e-4, step=1e-4, cells=1 << 20, rounding="mean")
    found = fixed(0.02 / sigma, 100 / records, steps, 1e-4)
    assert found == pytest.approx(estimate, rel=3e-4)
    assert found < 33.2


# Mixes.

MIX = (
    Leaf("gaussian", 0.3),
    Leaf("gaussian", 0.6, "fixed", 0.05, 50),
    Leaf("pure", 0.2, count=3),
    Leaf("laplace", 0.1, count=4),
)


def test_the_order_of_composition_does_not_matter() -> None:
    forward = pld_epsilon(MIX, 1e-5, "replace-one")
    backward = pld_epsilon(MIX[::-1], 1e-5, "replace-one")
    halves = [Leaf(x.kind, x.size, x.sampled, x.rate, x.count) for x in MIX for _ in (0, 1)]
    twice = [Leaf(x.kind, x.size, x.sampled, x.rate, 2 * x.count) for x in MIX]
    assert forward == pytest.approx(backward, rel=1e-9)
    assert pld_epsilon(halves, 1e-5, "replace-one") == pytest.approx(
        pld_epsilon(twice, 1e-5, "replace-one"), rel=1e-5
    )


def test_a_mix_is_above_its_parts_and_below_their_sum() -> None:
    whole = pld_epsilon(MIX, 1e-5, "replace-one")
    for leaf in MIX:
        assert whole > pld_epsilon([leaf], 1e-5, "replace-one")
    split = sum(pld_epsilon([leaf], 1e-5 / len(MIX), "replace-one") for leaf in MIX)
    assert whole < split


def test_a_mix_with_gaussians_matches_one_gaussian() -> None:
    exact = gdp_eps(math.sqrt(0.5**2 + 30 * 0.2**2), 1e-6)
    mixed = [Leaf("gaussian", 0.5), Leaf("gaussian", 0.2, count=30)]
    assert exact <= pld_epsilon(mixed, 1e-6, "add-remove") <= exact * (1 + 1e-4)


def test_very_different_scales_together() -> None:
    small = Leaf("gaussian", 0.6, "fixed", 0.1, 1000)
    alone = pld_epsilon([small], 1e-5, "replace-one")
    together = pld_epsilon([Leaf("pure", 50.0), small], 1e-5, "replace-one")
    assert 50 < together <= 50 + alone * (1 + 1e-4)


# Shape of the answer.

SETTING = {
    "mu": st.floats(0.05, 3.0),
    "rate": st.floats(0.001, 0.9),
    "count": st.integers(1, 300),
    "delta": st.floats(-8, -2).map(lambda x: 10**x),
    "factor": st.floats(1.1, 3.0),
}
ANSWERS: dict[str, Callable[..., float]] = {"fixed": fixed, "poisson": poisson}


@pytest.mark.parametrize("name", ANSWERS)
@settings(max_examples=10)
@given(**SETTING)
def test_more_noise_less_epsilon_and_the_rest(
    name: str, mu: float, rate: float, count: int, delta: float, factor: float
) -> None:
    answer = ANSWERS[name]
    middle, slack = answer(mu, rate, count, delta), 1 + 5e-4
    assert answer(mu / factor, rate, count, delta) <= middle * slack + 1e-9
    assert answer(mu, rate / factor, count, delta) <= middle * slack + 1e-9
    assert answer(mu, rate, math.ceil(count * factor), delta) * slack + 1e-9 >= middle
    assert answer(mu, rate, count, delta / factor) * slack + 1e-9 >= middle


@pytest.mark.parametrize("mu", [14.0, 20.0, 50.0, 1e3])
def test_almost_no_noise_is_a_large_epsilon_and_no_failure(mu: float) -> None:
    for answer in ANSWERS.values():
        found = answer(mu, 0.01, 100, 1e-5)
        assert mu * mu / 2 < found < 100 * (mu * mu / 2 + 10 * mu)


def test_the_ends() -> None:
    assert pld_epsilon([], 1e-5, "add-remove") == 0
    assert pld_epsilon([Leaf("none", math.inf)], 1e-5, "add-remove") == math.inf
    assert pld_epsilon([Leaf("gaussian", 1.0)], 0.0, "add-remove") == math.inf
    assert pld_epsilon([Leaf("pure", 2.0, count=3)], 0.0, "add-remove") == 6
    assert poisson(1.0, 1e-9, 1, 1e-5) == 0
    assert poisson(1e-9, 0.5, 1, 1e-5) == 0
    assert fixed(1.0, 0.1, 100, 0.9999999) == 0
    sampled = Leaf("laplace", 2.0, "poisson", 0.1, 3)
    amplified = 3 * math.log1p(0.1 * math.expm1(2.0))
    assert pld_epsilon([sampled], 0.0, "add-remove") == pytest.approx(amplified)


def test_what_double_precision_cannot_hold_is_refused() -> None:
    with pytest.raises(TacitError, match="too small for numerical composition"):
        poisson(1.0, 0.1, 10, 1e-250)
    with pytest.raises(TacitError, match="too many for numerical composition"):
        poisson(1.0, 0.1, 10**13, 1e-5)


@pytest.mark.parametrize("count", [1, 50])
def test_what_is_cut_off_above_is_counted(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("tacit.accounting.pld._CUT", 0.5)
    found = pld_epsilon([Leaf("gaussian", 0.4, count=count)], 1e-5, "add-remove")
    assert found > gdp_eps(0.4 * math.sqrt(count), 1e-5) * 1.005


def test_mass_at_infinity_cannot_be_hidden() -> None:
    losses, probs = np.array([0.0, 1.0]), np.array([0.5, 0.49])
    assert epsilon_at(losses, probs, 0.01, 0.005) == math.inf
    by_hand = 1 + math.log((0.49 + 0.01 - 0.1) / 0.49)
    assert epsilon_at(losses, probs, 0.01, 0.1, whole=True) == pytest.approx(by_hand)
