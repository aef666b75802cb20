"""Renyi DP (RDP) and zero-concentrated DP (zCDP) accountants.

They are never tighter than the exact Gaussian profile or the PLD. They are here for comparison, and
to reproduce the numbers that papers print.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from tacit.accounting.guarantee import Relation
from tacit.accounting.leaves import Leaf
from tacit.errors import TacitError

ORDERS = (*range(2, 65), *range(68, 129, 4), *range(144, 257, 16), 320, 384, 512, 768, 1024)


def rdp_to_eps_mironov(alpha: float, rdp: float, delta: float) -> float:
    """Mironov's conversion of an RDP bound at one order."""
    return rdp - math.log(delta) / (alpha - 1)


def rdp_to_eps(alpha: float, rdp: float, delta: float) -> float:
    """The tighter conversion of Canonne, Kamath and Steinke (also an upper bound)."""
    return rdp + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)


def zcdp_to_eps(rho: float, delta: float) -> float:
    """Bun and Steinke's conversion: rho + 2 sqrt(rho log(1/delta))."""
    return rho + 2 * math.sqrt(-rho * math.log(delta))


def zcdp_to_eps_tight(rho: float, delta: float) -> float:
    """The tighter conversion of a zCDP bound, at its best order."""
    from scipy.optimize import minimize_scalar  # slow to load

    if rho == 0:
        return 0.0
    best = minimize_scalar(
        lambda t: rdp_to_eps(1 + math.exp(t), rho * (1 + math.exp(t)), delta),
        bounds=(-12.0, 12.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return max(0.0, float(best.fun))


def zcdp_epsilon(leaves: Sequence[Leaf], delta: float) -> float:
    """zCDP of Gaussian, Laplace and pure leaves without sampling; it has no amplification."""
    if any(leaf.sampled != "no" for leaf in leaves):
        raise TacitError(
            "zCDP has no amplification by sampling: use the accountant pld, rdp or best."
        )
    rho = math.fsum(
        leaf.count * (math.inf if leaf.kind == "none" else leaf.size**2 / 2) for leaf in leaves
    )
    return zcdp_to_eps(rho, delta) if math.isfinite(rho) else math.inf


def rdp_epsilon(
    leaves: Sequence[Leaf],
    delta: float,
    relation: Relation,
    *,
    wang: bool = False,
    mironov: bool = False,
    orders: Sequence[int] = ORDERS,
) -> float:
    """The smallest epsilon over integer orders, with a choice of bound and of conversion.

    ``wang`` uses the general bound for sampling without replacement, which does not go to zero as
    the noise grows; otherwise the stronger bound for Gaussian noise is used.
    """
    if any(leaf.kind == "none" for leaf in leaves):
        return math.inf
    if not leaves:
        return 0.0
    convert = rdp_to_eps_mironov if mironov else rdp_to_eps
    curve = rdp_curve(leaves, relation, orders, wang=wang)
    return max(0.0, min(convert(a, float(r), delta) for a, r in zip(orders, curve, strict=True)))


def rdp_curve(
    leaves: Sequence[Leaf], relation: Relation, orders: Sequence[int], *, wang: bool = False
) -> NDArray[np.float64]:
    """The Renyi divergence of the composition at each order."""
    total = np.zeros(len(orders))
    for leaf in leaves:
        if wang and leaf.sampled == "fixed" and leaf.kind == "gaussian":
            total += leaf.count * np.array([wang_wor(leaf.size, leaf.rate, a) for a in orders])
        else:
            total += leaf.count * np.array(_leaf_rdp(leaf, relation, tuple(orders)))
    return total


def wang_wor(mu: float, gamma: float, alpha: int) -> float:
    """Wang, Balle and Kasiviswanathan's S(alpha) for a Gaussian sampled without replacement.

    ``mu`` is the replace-one sensitivity over the noise; alpha is an integer from 2.
    """
    j = np.arange(3, alpha + 1)
    e2 = mu * mu
    log_binomial = gammaln(alpha + 1) - gammaln(j + 1) - gammaln(alpha - j + 1)
    pair_cost = min(math.log(4) + _log_expm1(e2), math.log(2) + e2)
    first = 2 * math.log(gamma) + math.log(alpha * (alpha - 1) / 2) + pair_cost
    rest = math.log(2) + j * math.log(gamma) + log_binomial + (j - 1) * j * mu * mu / 2
    return float(logsumexp(np.concatenate([[0.0, first], rest]))) / (alpha - 1)


def wang_floor(gamma: float, alpha: int) -> float:
    """The limit of Wang's bound as the noise goes to infinity."""
    j = np.arange(3, alpha + 1)
    if not len(j):
        return 0.0
    log_binomial = gammaln(alpha + 1) - gammaln(j + 1) - gammaln(alpha - j + 1)
    terms = math.log(2) + j * math.log(gamma) + log_binomial
    return float(np.log1p(np.exp(logsumexp(terms)))) / (alpha - 1)


def alpha_star(epsilon: float, delta: float) -> int:
    """The order of the RDP conversion in the AdaptDP-FedAvg paper; it costs half of epsilon."""
    return 1 + math.ceil(2 * math.log(1 / delta) / epsilon)


@lru_cache(maxsize=256)
def _leaf_rdp(leaf: Leaf, relation: Relation, orders: tuple[int, ...]) -> tuple[float, ...]:
    alphas = np.array(orders, dtype=float)
    if leaf.sampled == "no" and leaf.kind == "gaussian":
        return tuple(alphas * leaf.size**2 / 2)
    if leaf.sampled == "no" and leaf.kind == "pure":
        log_sum = np.logaddexp(leaf.size * alphas, leaf.size * (1 - alphas))
        return tuple((log_sum - np.logaddexp(0.0, leaf.size)) / (alphas - 1))
    if leaf.kind == "pure":
        raise TacitError("RDP of a sampled pure mechanism is not supported: use pld or best.")
    return _library_rdp(leaf, relation, orders)


def _library_rdp(leaf: Leaf, relation: Relation, orders: tuple[int, ...]) -> tuple[float, ...]:
    """The RDP curve of one leaf by the accountant of dp_accounting."""
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.rdp import RdpAccountant

    class Curve(RdpAccountant):  # type: ignore[misc]
        def values(self) -> tuple[float, ...]:
            return tuple(float(r) for r in self._rdp)

    noise = 1 / leaf.size
    gaussian = leaf.kind == "gaussian"
    event = dp_event.GaussianDpEvent(noise) if gaussian else dp_event.LaplaceDpEvent(noise)
    neighbours = NeighboringRelation.ADD_OR_REMOVE_ONE
    if leaf.sampled == "poisson":
        if relation == "replace-one":
            raise TacitError("RDP of Poisson sampling under replace-one is not supported: use pld.")
        event = dp_event.PoissonSampledDpEvent(leaf.rate, event)
    elif leaf.sampled == "fixed":
        from tacit.accounting.events import FixedSize

        sizes = FixedSize.of_rate(leaf.rate)
        event = dp_event.SampledWithoutReplacementDpEvent(sizes.population, sizes.sample, event)
        neighbours = NeighboringRelation.REPLACE_ONE
    curve = Curve(list(orders), neighbours)
    if not curve.supports(event):
        raise TacitError(f"RDP of a sampled {leaf.kind} mechanism is not supported: use pld.")
    try:
        return curve.compose(event).values()
    except (ValueError, OverflowError):  # its differences of cumulants cancel: ignore the sampling
        return tuple(a * leaf.size**2 / 2 for a in orders)


def _log_expm1(x: float) -> float:
    return x + math.log(-math.expm1(-x)) if x > 1e-300 else -math.inf
