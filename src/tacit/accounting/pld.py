"""Numerical composition of privacy loss distributions (PLD), for any mix of leaves.

Every leaf has a dominating pair. Every pair is discretised on one grid such that the result
dominates it (``grid.on_grid``). Self-composition is one FFT.

Three things make the result tight and valid at every scale, from epsilon 1e-3 to 1e5:

- the mass of a cell is integrated, not computed as a difference of a profile, so tiny masses keep
  their digits;
- the distribution is tilted by exp(theta * loss) before the FFT and back afterwards, so the part
  that decides delta has most of the mass; a bound on the rounding error is added to every cell;
- the grid step follows from the size of the answer and the number of compositions.

Sampling. Poisson under add-remove: both directions are composed, and the larger epsilon counts.
Fixed size and Poisson under replace-one: by overlapping mixtures (Balle, Barthe, Gaboardi 2018) one
step is dominated by (rate P + (1 - rate) Q, Q) for losses above 0 and, because the relation is
symmetric, by the swapped pair for losses below 0; the remaining mass is at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tacit.accounting.grid import GridLaw, epsilon_at, on_grid
from tacit.accounting.guarantee import Relation
from tacit.accounting.leaves import Leaf
from tacit.accounting.pairs import Pair, dominating_pairs
from tacit.accounting.renyi import zcdp_epsilon
from tacit.errors import TacitError

Floats = NDArray[np.float64]

_PRECISION = 1e-5  # target for the relative error of epsilon; it decides the grid step
_COARSE_CELLS = 2_000
_MAX_CELLS = 1 << 22
_MAX_FINER_CELLS = 1 << 19
_LARGEST_SIZE = 1e6  # losses of 1e12 and more are too large for a grid in double precision
_LEAST_DELTA = 1e-200  # smaller tails cannot be represented in double precision
_CUT = 1e-6  # share of delta reserved for truncating large losses
_LIFT = 1e-4  # mass of small losses that is moved up to one point
_MOST_COMPOSITIONS = 10**12  # rounding errors add up
_ROUNDING = 1e-15  # bound on the rounding error of the loss or log delta of one composition
_TAIL = 1e-18  # mass of the tilted distribution outside the window of the FFT


def pld_epsilon(leaves: Sequence[Leaf], delta: float, relation: Relation) -> float:
    """An upper bound on epsilon at ``delta`` for the composition of the leaves."""
    if any(leaf.kind == "none" for leaf in leaves):
        return math.inf
    if not leaves:
        return 0.0
    if delta <= 0:
        return pure_sum(leaves)
    if delta < _LEAST_DELTA:
        raise TacitError(
            f"delta {delta:g} is too small for numerical composition: give {_LEAST_DELTA:g} or"
            " more, or 0."
        )
    if max(leaf.size for leaf in leaves) > _LARGEST_SIZE:  # here sampling makes no difference
        plain = [replace(leaf, sampled="no", rate=1.0) for leaf in leaves]
        return min(zcdp_epsilon(plain, delta), pure_sum(leaves))
    counts = [leaf.count for leaf in leaves]
    if sum(counts) > _MOST_COMPOSITIONS:
        raise TacitError(
            f"{sum(counts):,} releases are too many for numerical composition: at most"
            f" {_MOST_COMPOSITIONS:,} can be accounted for."
        )
    directions = zip(*(dominating_pairs(leaf, relation) for leaf in leaves), strict=True)
    worst = 0.0
    for pairs in dict.fromkeys(directions):
        worst = max(worst, _epsilon(pairs, counts, delta, enough=worst))
    return min(worst, pure_sum(leaves))


def pure_sum(leaves: Sequence[Leaf]) -> float:
    """Epsilon at delta 0 by basic composition; infinite if any leaf is Gaussian."""
    return math.fsum(
        math.inf if leaf.kind in ("gaussian", "none") else leaf.count * _pure_epsilon(leaf)
        for leaf in leaves
    )


def _pure_epsilon(leaf: Leaf) -> float:
    """A pure epsilon after sampling: log(1 + rate (exp(epsilon) - 1)), for both relations."""
    return (
        float(np.logaddexp(math.log1p(-leaf.rate), leaf.size + math.log(leaf.rate)))
        if (leaf.rate < 1)
        else leaf.size
    )


def _epsilon(
    pairs: Sequence[Pair], counts: Sequence[int], delta: float, *, enough: float = 0.0
) -> float:
    """An upper bound on epsilon, as tight as the grid allows; below ``enough`` it may be loose."""
    total = sum(counts)
    rounding = _ROUNDING * total
    delta *= math.exp(-rounding)
    # Moving up a mass m of small losses multiplies delta by at most 1 + m per composition. The
    # truncated mass of large losses adds to delta.
    spans = [pair.span(_LIFT / total, _CUT * delta / total) for pair in pairs]
    widths = [max(high - low, 1e-9 * max(high, -low), 1e-300) for low, high in spans]
    coarse = [
        on_grid(pair, width / _COARSE_CELLS, span)
        for pair, width, span in zip(pairs, widths, spans, strict=True)
    ]
    theta, rough = _chernoff(coarse, counts, delta)
    if rough + rounding <= enough or math.isinf(rough):
        return max(0.0, rough + rounding)
    step = max(_first_step(rough, theta, total), max(widths) / _MAX_CELLS)
    found, lowest = _composed(pairs, counts, delta, spans, theta, step)
    if enough < found and (found < rough / 2 or found <= lowest):
        # theta and the grid were chosen for a different epsilon: repeat with better ones.
        theta = _saddle(coarse, counts, max(found, step))
        step = max(_first_step(max(found, step), theta, total), max(widths) / _MAX_FINER_CELLS)
        found = min(found, _composed(pairs, counts, delta, spans, theta, step)[0])
    return max(0.0, min(found, rough) + rounding)


def _composed(
    pairs: Sequence[Pair],
    counts: Sequence[int],
    delta: float,
    spans: Sequence[tuple[float, float]],
    theta: float,
    step: float,
) -> tuple[float, float]:
    """Epsilon on a grid of this step (coarser if it has too many cells), and its lower limit."""
    while True:
        laws = [on_grid(pair, step, span) for pair, span in zip(pairs, spans, strict=True)]
        if sum(counts) == 1:
            only = laws[0]
            return epsilon_at(only.losses, only.probs, only.infinite, delta, whole=True), -math.inf
        window = _window(laws, counts, theta)
        cells = window[1] - window[0] + 1
        if cells <= _MAX_CELLS:
            break
        step *= 1.05 * cells / _MAX_CELLS
    losses = step * np.arange(window[0], window[1] + 1, dtype=np.float64)
    log_weight = _cumulant(laws, counts, theta)
    tilted, slack = _compose_tilted(laws, counts, theta, window)
    with np.errstate(over="ignore"):
        probs = (tilted + slack) * np.exp(log_weight - theta * losses)
    beyond = math.exp(min(0.0, log_weight - theta * losses[-1] + math.log(_TAIL)))
    return epsilon_at(losses, probs, _infinite(laws, counts) + beyond, delta), float(losses[0])


def _first_step(epsilon: float, theta: float, total: int) -> float:
    """The grid step h for the target precision.

    Discretisation adds about (1 + theta) h^2 / 8 per composition if the density is smooth at scale
    h, and never more than h. Epsilon itself is some thousand steps.
    """
    smooth = math.sqrt(8 * _PRECISION * epsilon / (total * (1 + theta)))
    return max(min(smooth, epsilon / 4_000), 10 * _PRECISION * epsilon / total)


def _chernoff(laws: Sequence[GridLaw], counts: Sequence[int], delta: float) -> tuple[float, float]:
    """The order theta with the best Chernoff bound on epsilon, and that bound.

    delta(eps) <= infinite + exp(K(theta) - theta * eps), for every theta > 0.
    """
    finite = delta - _infinite(laws, counts)
    if finite <= 0:
        return 1.0, math.inf

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return (_cumulant(laws, counts, theta) - math.log(finite)) / theta

    best = _least(bound)
    # For a bounded loss the best order is infinite: stop when a larger order no longer helps.
    order = min(best, math.log(max(10.0, 4 * -math.log(finite) / max(bound(best), 1e-300))))
    return math.exp(order), bound(order)


def _saddle(laws: Sequence[GridLaw], counts: Sequence[int], epsilon: float) -> float:
    """The order at which the mean of the tilted distribution is epsilon, or close to it."""

    def log_delta(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return _cumulant(laws, counts, theta) - theta * epsilon

    return min(math.exp(_least(log_delta)), max(10.0, 200 / epsilon))


def _least(function: Callable[[float], float]) -> float:
    from scipy.optimize import minimize_scalar  # slow to load

    found = minimize_scalar(function, bounds=(-25.0, 35.0), options={"xatol": 1e-2})
    return float(found.x)


def _cumulant(laws: Sequence[GridLaw], counts: Sequence[int], theta: float) -> float:
    return math.fsum(c * law.cumulant(theta) for c, law in zip(counts, laws, strict=True))


def _infinite(laws: Sequence[GridLaw], counts: Sequence[int]) -> float:
    return -math.expm1(
        math.fsum(c * math.log1p(-law.infinite) for c, law in zip(counts, laws, strict=True))
    )


def _window(laws: Sequence[GridLaw], counts: Sequence[int], theta: float) -> tuple[int, int]:
    """Grid indices that cover the tilted composition except for ``_TAIL`` on either side."""
    spread = 0.0
    for count, law in zip(counts, laws, strict=True):
        weights = law.tilted(theta)
        mean = float(weights @ law.losses)
        spread += count * float(weights @ (law.losses - mean) ** 2)
    scale = 1 / max(math.sqrt(spread), laws[0].step)
    base = [law.cumulant(theta) for law in laws]
    low = sum(count * law.first for count, law in zip(counts, laws, strict=True))
    high = sum(c * (law.first + len(law.probs) - 1) for c, law in zip(counts, laws, strict=True))
    for order in (1.0, 3.0, 6.0, 9.0, 13.0):
        for sign in (-1, 1):
            shift = sign * order * scale
            growth = math.fsum(
                c * (law.cumulant(theta + shift) - b)
                for c, law, b in zip(counts, laws, base, strict=True)
            )
            edge = (growth - math.log(_TAIL)) / shift / laws[0].step
            if sign > 0:
                high = min(high, math.ceil(edge))
            else:
                low = max(low, math.floor(edge))
    return low, high


def _compose_tilted(
    laws: Sequence[GridLaw], counts: Sequence[int], theta: float, window: tuple[int, int]
) -> tuple[Floats, float]:
    """The tilted composition over the window, and a bound on the rounding error of each cell.

    The error of a cell is at most the mean, over all frequencies, of the error of the product.
    Every factor has an error of a few log2(n) roundings, and its power multiplies it by the count.
    """
    low, high = window
    size = fft.next_fast_len(high - low + 1, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    amplification = np.ones(size // 2 + 1)
    shift = 0
    for count, law in zip(counts, laws, strict=True):
        weights = law.tilted(theta)
        centre = law.first + round(float(weights @ np.arange(len(weights))))
        folded = np.bincount(
            (law.first - centre + np.arange(len(weights))) % size, weights, minlength=size
        )
        spectrum = fft.rfft(folded)
        product *= spectrum**count
        amplification += count / np.maximum(np.abs(spectrum), 1e-300)
        shift += count * centre
    unit = 8 * np.finfo(float).eps * math.log2(size + 2)
    sizes = np.abs(product)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.minimum(np.nan_to_num(sizes * amplification, nan=0.0), 1.0)
    slack = unit * float(np.mean(errors))
    cells = np.roll(fft.irfft(product, size), shift - low)[: high - low + 1]
    return np.maximum(cells, 0.0), slack
