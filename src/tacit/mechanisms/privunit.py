"""PrivUnit and ScalarDP: local messages with pure differential privacy.

This is LDP-PrivUnit of DP-FedEXP (arXiv:2504.09850, section 4.1). A vector of norm at most C is
sent as direction and length. PrivUnit draws a unit vector V from the cap {<v, u> >= gamma} around
the direction u with probability p, otherwise from the rest of the sphere; V/m is an unbiased
estimate of u. ScalarDP rounds the length at random to one of k + 1 levels and sometimes answers
with another level. Each message costs eps0 (choice of the cap) + eps1 (height of the cap) + eps2
(length), with delta 0.

Sampling needs one normal vector for any dimension d. The height t = <V, u> follows a symmetric beta
distribution. Its quantile function is smooth in the log-odds of the tail, so it is interpolated
(cubic) from a fine table of scipy's ``betaincinv``. The rest of V is a normalised Gaussian
orthogonal to u. A zero update has no direction: a fixed direction replaces it.

Floating point. The two random choices behind eps0 (cap or rest) and eps2 (true level or another)
are exact: 64 random bits are compared with an integer that is rounded to the safe side, so the cost
never exceeds eps0 or eps2. At the maximum of 30, the unlikely outcome has 1.7 million of the 2^64
cases, and rounding changes the cost by less than 1e-6. Keys have 64 bits too, so more random bits
would not help. The direction is drawn in floating point: the proof is for real numbers, and the
last bits of V depend on u. This is acceptable in simulations. A site refuses PrivUnit unless its
policy says ``inexact_noise = true``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, betaln, expit

from tacit import random_numbers
from tacit.accounting.events import DpEvent, SamplingScheme, Shape, pure_event
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.tree import Tree

GammaRule = Literal["exact", "A", "B"]
_REACH, _NODES = 60.0, 16_385  # the table covers log-odds from -60 to 60
_COIN = "64 random bits are exact up to this value"
_MOST = {  # maximum and reason; random_numbers.below can draw far more than the 22,027 levels
    "eps0": (30.0, _COIN),
    "eps1": (40.0, "the table of heights ends at this value"),
    "eps2": (30.0, _COIN),
}


@dataclass(frozen=True)
class PrivUnit:
    """PrivUnit with ScalarDP; ``gamma`` is the rule for the height of the cap.

    "exact" uses all of eps1; "A" and "B" are the looser rules of the papers, for comparison. eps0
    and eps2 are at most 30, and eps1 is at most 40.
    """

    eps0: float = 2.0
    eps1: float = 2.0
    eps2: float = 2.0
    gamma: GammaRule = "exact"

    def __post_init__(self) -> None:
        for name, (most, why) in _MOST.items():
            if not 0 < getattr(self, name) <= most:
                raise TacitError(
                    f"{name} of PrivUnit is {getattr(self, name)}; give a number above 0 and at"
                    f" most {most:g}: {why}."
                )

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """The message: an unbiased estimate of the value, and the level of its length."""
        del round_
        flat, restore = ravel_pytree(value)
        if flat.size < 2:
            raise TacitError("PrivUnit needs at least two dimensions: use another mechanism.")
        cap_key, rest_key, level_key, place_key = random_numbers.split(key, 4)
        length = jnp.sqrt(jnp.vdot(flat, flat))
        first = jnp.zeros_like(flat).at[0].set(1)
        direction = jnp.where(length > 0, flat / jnp.where(length > 0, length, 1), first)
        unit = self._direction(cap_key, place_key, rest_key, direction)
        level = self._level(level_key, length / radius)
        estimate = self.lengths(radius).astype(flat.dtype)[level]
        return {"vector": restore(estimate * unit), "level": level.astype(flat.dtype)}

    def vector(self, released: Tree) -> Tree:
        """The unbiased estimate of the value."""
        return released["vector"]

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """The estimate of the squared length, never above it in expectation."""
        del round_
        estimate = self.lengths(radius)[released["level"].astype(jnp.int32)]
        return scalar_sq_norm(estimate, self.eps2, radius)

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
    def epsilon(self) -> float:
        """The epsilon of one message."""
        return self.eps0 + self.eps1 + self.eps2

    def scaled(self, factor: float) -> PrivUnit:
        """The mechanism with each of the three epsilons divided by ``factor``."""
        return replace(
            self, eps0=self.eps0 / factor, eps1=self.eps1 / factor, eps2=self.eps2 / factor
        )

    def lengths(self, radius: Array | float) -> Array:
        """The unbiased estimate of the norm for each level."""
        levels, scale, shift = scalar_constants(self.eps2)
        return scale * radius * (jnp.arange(levels + 1) - shift)

    def _direction(self, cap_key: Array, place_key: Array, rest_key: Array, u: Array) -> Array:
        """V / m: the noisy direction, unbiased for u."""
        cap = cap_of(u.size, self.eps0, self.eps1, self.gamma)
        inside = ~random_numbers.coin(cap_key, random_numbers.rare(self.eps0))
        place = jax.random.uniform(place_key, (), u.dtype)
        place = place + jnp.finfo(u.dtype).eps / 2  # the middle of its interval, so never 0
        # Each branch measures from its own pole, so that rounding affects neither tail.
        log_share = jnp.where(inside, math.log(cap.share), math.log1p(-cap.share))
        log_tail = jnp.log(place) + log_share
        odds = log_tail - jnp.log(-jnp.expm1(log_tail))
        t = _height_at(u.size, jnp.where(inside, odds, -odds))
        normal = random_numbers.normal(rest_key, u.size, u.dtype)
        across = normal - jnp.vdot(normal, u) * u
        across = across / jnp.maximum(jnp.sqrt(jnp.vdot(across, across)), jnp.finfo(u.dtype).tiny)
        return (t * u + jnp.sqrt(jnp.maximum(0, 1 - t * t)) * across) / cap.mean

    def _level(self, key: Array, share: Array) -> Array:
        """ScalarDP: a randomly rounded level, sometimes replaced by another one."""
        levels, _, _ = scalar_constants(self.eps2)
        up_key, coin_key, stray_key = random_numbers.split(key, 3)
        place = jnp.clip(share, 0, 1) * levels
        # Rounding mixes two levels. Epsilon holds for any mixture, so a float may decide here.
        up = jax.random.uniform(up_key, (), share.dtype) < place - jnp.floor(place)
        level = jnp.floor(place).astype(jnp.int32) + up
        stray = random_numbers.below(stray_key, levels)  # uniform over the other levels
        stray = stray + (stray >= level)
        return jnp.where(
            random_numbers.coin(coin_key, random_numbers.rare(self.eps2, levels)), stray, level
        )


class Cap(NamedTuple):
    """A cap of the sphere: its height, its share of the sphere, and the resulting E<V, u>."""

    height: float  # gamma
    share: float  # q
    mean: float  # m


def cap_of(dimension: int, eps0: float, eps1: float, rule: GammaRule = "exact") -> Cap:
    """The cap of a rule: "exact" costs eps1 = log((1 - q)/q); "A" and "B" are upper bounds.

    In two dimensions "A" would cost more than eps1, so the exact height limits every rule.
    """
    a, share = (dimension - 1) / 2, float(expit(-eps1))
    x = float(betaincinv(a, a, share))  # (1 - gamma)/2, which is precise where gamma is near 1
    if rule != "exact":
        looser = (1 - _height_of_rule(dimension, eps1, rule)) / 2
        if looser > x:
            x, share = looser, float(betainc(a, a, looser))
    log_z = (dimension - 2) * math.log(2) + float(betaln(a, a))
    bulk = math.exp(a * math.log(4 * x * (1 - x)) - math.log(dimension - 1) - log_z)
    p = float(expit(eps0))
    return Cap(1 - 2 * x, share, bulk * (p / share - (1 - p) / (1 - share)))


def _height_of_rule(dimension: int, eps1: float, rule: GammaRule) -> float:
    rule_a = math.tanh(eps1 / 2) * math.sqrt(math.pi / (2 * (dimension - 1)))
    if rule == "A":
        return rule_a
    rule_b = height_rule_b(dimension, eps1)
    if rule_b is None:
        raise TacitError(f"rule B has no height for eps1 = {eps1} in dimension {dimension}.")
    return max(rule_a, rule_b)


def height_rule_b(dimension: int, eps1: float) -> float | None:
    """The largest gamma >= sqrt(2/d) that rule "B" allows; None if there is none."""

    def cost(gamma: float) -> float:
        bulk = 0.5 * math.log(dimension) + math.log(6) + math.log(gamma)
        return bulk - (dimension - 1) / 2 * math.log1p(-gamma * gamma)

    low, high = math.sqrt(2 / dimension), 1 - 1e-12
    if low >= high or cost(low) > eps1:
        return None
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) <= eps1 else (low, middle)
    return low


def scalar_constants(eps2: float) -> tuple[int, float, float]:
    """ScalarDP's k, and a/C and b of the unbiased length a (J - b)."""
    levels = math.ceil(math.exp(eps2 / 3))
    scale = (math.exp(eps2) + levels) / math.expm1(eps2) / levels
    return levels, scale, levels * (levels + 1) / (2 * (math.exp(eps2) + levels))


def scalar_sq_norm(length: Array, eps2: float, radius: Array | float) -> Array:
    """(r^2 - c2 r - c3) / (1 + c1): an estimate of the squared length from the unbiased length."""
    c1, c2, c3 = sq_norm_constants(eps2)
    return (length**2 - c2 * radius * length - c3 * radius**2) / (1 + c1)


def sq_norm_constants(eps2: float) -> tuple[float, float, float]:
    """c1, c2/C and c3/C^2 of the estimate of the squared length."""
    k, grown = math.ceil(math.exp(eps2 / 3)), math.exp(eps2)
    c1 = (k + 1) / (grown - 1)
    spread = (2 * k + 1) * (grown + k) / (6 * k * (grown - 1)) - (k + 1) / (4 * (grown - 1))
    return c1, -c1, (c1 + 1) / (4 * k * k) + c1 * spread


@lru_cache(maxsize=32)
def _height_table(dimension: int) -> NDArray[np.float64]:
    """Heights t at equally spaced log-odds of the upper tail probability of t."""
    a = (dimension - 1) / 2
    lower = betaincinv(a, a, expit(np.linspace(-_REACH, 0, (_NODES + 1) // 2)))
    heights = 1 - 2 * lower  # from near 1 down to 0; the other half is its mirror image
    return np.concatenate([heights, -heights[-2::-1]])


def _height_at(dimension: int, odds: Array) -> Array:
    """Cubic interpolation through the four nearest entries of the table."""
    table = jnp.asarray(_height_table(dimension), odds.dtype)
    place = (jnp.clip(odds, -_REACH, _REACH) + _REACH) * ((_NODES - 1) / (2 * _REACH))
    left = jnp.clip(jnp.floor(place).astype(jnp.int32), 1, _NODES - 3)
    x = place - left
    before, here, after, beyond = (table[left + k] for k in (-1, 0, 1, 2))
    outer = x * (x - 1) * ((x + 1) * beyond - (x - 2) * before) / 6
    inner = (x * x - 1) * (x - 2) * here / 2 - x * (x + 1) * (x - 2) * after / 2
    return inner + outer
