"""PrivUnitG: a direction with pure differential privacy, from a Gaussian (Asi et al., 2022).

u is the direction of the value. A standard normal vector V is drawn conditional on <V, u> >= gamma
with probability p, and conditional on <V, u> < gamma otherwise. For every u, its density is the
normal density times p/q in the half space and times (1-p)/(1-q) outside, with q = P(N >= gamma).
So the likelihood ratio of any two values is, at every point, at most

    exp(epsilon) = p/(1-p) * (1-q)/q.

E[V] = m u with m = phi(gamma) (p/q - (1-p)/(1-q)), so radius V/m is unbiased. Its variance is
radius^2/m^2 in every direction orthogonal to u, for any dimension. The split of epsilon between p
and q that maximises m is computed once per epsilon. A value shorter than the radius keeps its
direction with probability length/radius and gets a uniformly random one otherwise, which is
unbiased too (a zero update always gets a random one). The likelihood ratio holds for every mixture,
so a float may decide this. The choice of the side decides epsilon, so it is exact: 64 random bits
are compared with p.

Floating point. ``sampler = "fast"`` draws <V, u> by its quantile function and the rest of V
orthogonal to u. The rounding of the last bits of V then depends on u, which is acceptable in
simulations only. ``sampler = "rejection"`` protects against a server that inspects the last bits; a
real client always uses it. It draws whole normal vectors, independent of u, and takes the first one
on the chosen side. Then the likelihood ratio holds for the floats themselves, with q their own
share of the half space. 1e-4 of epsilon is reserved for the difference to the real q, which is a
few roundings.

Time. Rejection continues until it has found a vector on each side, whichever side was chosen. By
symmetry each try is inside with probability q for every u, and the first vectors inside and outside
are independent of the number of tries. So the running time reveals nothing about the value, the
side or the message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree
from jax.scipy.special import ndtri
from scipy.special import expit, log_expit, ndtri_exp

from tacit import random_numbers
from tacit.accounting.events import DpEvent, SamplingScheme, Shape, pure_event
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.mechanisms.rounded import wants_exact_noise
from tacit.tree import Tree

Sampler = Literal["fast", "rejection"]
_SLACK = 1e-4  # share of epsilon reserved for rounding
_MOST = 80.0  # q stays above the smallest float32
_BLOCK = 64  # vectors that rejection draws at once
_LEAST_SHARE = 1e-7  # rejection takes 1/q tries; the largest epsilon is about 19


@dataclass(frozen=True)
class PrivUnitG:
    """A noisy direction with pure ``epsilon``-DP; an unbiased estimate of the value."""

    epsilon: float
    sampler: Sampler = "fast"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise TacitError(f"epsilon of PrivUnitG is {self.epsilon}; give a number above 0.")
        if self.sampler not in ("fast", "rejection"):
            raise TacitError(f"the sampler is 'fast' or 'rejection', not {self.sampler!r}.")

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """The message: an unbiased estimate of the value, whose length reveals nothing."""
        del round_
        flat, restore = ravel_pytree(value)
        keep_key, stray_key, side_key, rest_key = random_numbers.split(key, 4)
        length = jnp.sqrt(jnp.vdot(flat, flat))
        kept = (length > 0) & (jax.random.uniform(keep_key, (), flat.dtype) < length / radius)
        stray = random_numbers.normal(stray_key, flat.size, flat.dtype)
        chosen = jnp.where(kept, flat, stray)
        unit = chosen / jnp.sqrt(jnp.vdot(chosen, chosen))
        half = half_space(self.epsilon)
        fast = self.sampler == "fast" and not wants_exact_noise()
        if not fast and half.share < _LEAST_SHARE:
            raise TacitError(
                f"drawing PrivUnitG by rejection at epsilon {self.epsilon:g} would take more than"
                f" {1 / _LEAST_SHARE:g} tries per message: use a smaller epsilon, or sampler ="
                " 'fast' in a simulation."
            )
        inside = random_numbers.coin(side_key, int(half.chance * 2**64))
        if fast:
            drawn = _by_quantile(rest_key, unit, half, inside)
        else:
            drawn, _ = _by_rejection(rest_key, unit, half, inside)
        return restore(jnp.asarray(radius / half.mean, flat.dtype) * drawn)

    def vector(self, released: Tree) -> Tree:
        """The released value is the estimate."""
        return released

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """The square of the radius: the length of a message does not depend on the value."""
        del released, round_
        return jnp.asarray(radius, jnp.result_type(float)) ** 2

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """A pure epsilon for every message; sampling of cohorts does not amplify local noise."""
        del round_, relation, shape, sampling
        return pure_event(self.epsilon, count=count)

    @property
    def deviation(self) -> float:
        """The standard deviation of a message orthogonal to u, in units of the radius."""
        return 1 / half_space(self.epsilon).mean

    def scaled(self, factor: float) -> PrivUnitG:
        """The mechanism with epsilon divided by ``factor``."""
        return replace(self, epsilon=self.epsilon / factor)


class HalfSpace(NamedTuple):
    """The half space for an epsilon: its edge, its mass q, its probability p, and E<V, u>."""

    edge: float  # gamma
    share: float  # q
    chance: float  # p
    mean: float  # m


@lru_cache(maxsize=256)
def half_space(epsilon: float) -> HalfSpace:
    """The split of epsilon into log p/(1-p) and log (1-q)/q that maximises the mean."""
    from scipy.optimize import minimize_scalar

    usable = min(epsilon, _MOST) * (1 - _SLACK)
    found = minimize_scalar(
        lambda place: -split_at(usable, place * usable).mean, bounds=(0, 1), method="bounded"
    )
    return split_at(usable, float(found.x) * usable)


def split_at(epsilon: float, first: float) -> HalfSpace:
    """The half space that spends ``first`` of epsilon on the choice of the side."""
    p, q = float(expit(first)), float(expit(first - epsilon))
    edge = -float(ndtri_exp(log_expit(first - epsilon)))
    log_density = -0.5 * (edge * edge + math.log(2 * math.pi))
    # p/q - (1-p)/(1-q), computed without cancellation for a small epsilon
    gap = float(expit(-first)) / float(expit(epsilon - first)) * math.expm1(epsilon)
    return HalfSpace(edge, q, p, math.exp(log_density) * gap)


def _by_quantile(key: Array, u: Array, half: HalfSpace, inside: Array) -> Array:
    """<V, u> by its quantile function (each side from its own tail), the rest orthogonal to u."""
    place_key, rest_key = random_numbers.split(key)
    place = jax.random.uniform(place_key, (), u.dtype)
    place = place + jnp.finfo(u.dtype).eps / 2  # the middle of its interval, so never 0
    above = -ndtri(jnp.asarray(half.share, u.dtype) * place)
    below = ndtri(jnp.asarray(1 - half.share, u.dtype) * place)
    t = jnp.where(inside, above, below)
    normal = random_numbers.normal(rest_key, u.size, u.dtype)
    return normal + (t - jnp.vdot(normal, u)) * u


def _by_rejection(key: Array, u: Array, half: HalfSpace, inside: Array) -> tuple[Array, Array]:
    """The first normal vector on the chosen side, and the number of blocks drawn for both sides."""

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, found, seen = carry
        block = jax.random.normal(random_numbers.fold_in(key, number), (_BLOCK, u.size), u.dtype)
        above = (block @ u) >= half.edge
        fits = jnp.stack([above, ~above])
        first = block[jnp.argmax(fits, axis=1)]
        return number + 1, jnp.where(seen[:, None], found, first), seen | fits.any(axis=1)

    start = (jnp.zeros((), jnp.int32), jnp.zeros((2, u.size), u.dtype), jnp.zeros(2, bool))
    blocks, found, _ = lax.while_loop(lambda carry: ~carry[2].all(), again, start)
    return jnp.where(inside, found[0], found[1]), blocks
