"""Gaussian noise, in units of the bound's radius, constant or one value per round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import tree
from tacit.accounting.events import DpEvent, SamplingScheme, Shape, gaussian_event
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.tree import Tree

Levels = float | tuple[float, ...]


def check_levels(noise: Levels, what: str) -> None:
    """Refuse negative, infinite or missing noise levels."""
    levels = noise if isinstance(noise, tuple) else (noise,)
    if not levels or any(not 0 <= level < math.inf for level in levels):
        raise TacitError(f"the noise of {what} is {noise}; give finite numbers from 0.")


def level_at(noise: Levels, round_: int) -> float:
    """The noise of a round; rounds beyond a schedule are refused."""
    if not isinstance(noise, tuple):
        return noise
    if not 0 <= round_ < len(noise):
        raise TacitError(f"the noise is planned for {len(noise)} rounds; round {round_} is beyond.")
    return noise[round_]


def scaled_levels(noise: Levels, factor: float) -> Levels:
    """``factor`` times the noise, level by level."""
    return tuple(factor * n for n in noise) if isinstance(noise, tuple) else factor * noise


def add_noise(
    draw: Callable[..., Array],
    noise: Levels,
    key: Array,
    value: Tree,
    radius: Array | float,
    round_: Array | int,
) -> Tree:
    """value + noise[round] * radius * draw; one flat draw for all leaves compiles fastest."""
    leaves, structure = jax.tree.flatten(value)
    dtype = jnp.result_type(*leaves)
    level = jnp.asarray(noise)[round_] if isinstance(noise, tuple) else noise
    noise_vector = jnp.asarray(level * radius, dtype) * draw(key, (tree.size(value),), dtype)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = jnp.split(noise_vector, ends)
    pairs = zip(leaves, parts, strict=True)
    return jax.tree.unflatten(structure, [v + n.reshape(v.shape).astype(v.dtype) for v, n in pairs])


@dataclass(frozen=True)
class Gaussian:
    """N(0, (noise * radius)^2) on every coordinate of the sum."""

    noise: Levels

    def __post_init__(self) -> None:
        check_levels(self.noise, "a Gaussian mechanism")

    def noised(self, key: Array, value: Tree, radius: Array | float, round_: Array | int) -> Tree:
        """The sum with independent normal noise on every coordinate."""
        return add_noise(jax.random.normal, self.noise, key, value, radius, round_)

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        shape: Shape,
        sampling: SamplingScheme,
        count: int,
    ) -> DpEvent:
        """Gaussian events of this round's noise over the sensitivity."""
        return gaussian_event(
            radius=1.0,
            noise=level_at(self.noise, round_),
            relation=relation,
            sampling=sampling,
            count=count,
            shape=shape,
        )

    def vector(self, released: Tree) -> Tree:
        """The released value is the estimate."""
        return released

    def sq_norm(self, released: Tree, radius: Array | float, round_: Array | int) -> Array:
        """The squared norm of the bounded value, unbiased: |c|^2 - d sigma^2."""
        noise = self.noise
        level = jnp.asarray(noise)[round_] if isinstance(noise, tuple) else noise
        return tree.squared_norm(released) - tree.size(released) * (level * radius) ** 2

    def scaled(self, factor: float) -> Gaussian:
        """``factor`` times the noise in every round."""
        return replace(self, noise=scaled_levels(self.noise, factor))
