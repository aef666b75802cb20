"""Faults that are planted on purpose: changes of the library's own code that are undone at the end.

A fault is a function of a patch. ``planted`` makes a context manager of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytest import MonkeyPatch

from tacit import local, random_numbers, tree
from tacit.audit import mechanisms as audits
from tacit.bounds import Clip
from tacit.mechanisms import Gaussian, Laplace, PrivUnit, rounded
from tacit.mechanisms.additive import Additive
from tacit.release import Release
from tacit.sampling import PoissonCohort
from tacit.simulation import engine
from tacit.streams import Stream
from tacit.tasks.base import ByRecord
from tacit.tasks.linear import LeastSquares, linear_output
from tacit.tasks.unit import settled

Fault = Callable[[MonkeyPatch], None]


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The library with the fault."""
    with MonkeyPatch.context() as patch:
        fault(patch)
        yield


# Noise.


def noise_of_the_mean(patch: MonkeyPatch) -> None:
    patch.setattr(
        Release,
        "on_sum",
        lambda self, clients: replace(self, mechanism=self.mechanism.scaled(1 / clients)),
    )


def quiet_normals(patch: MonkeyPatch) -> None:
    real = Gaussian.draw
    patch.setattr(Gaussian, "draw", lambda *given: 0.6 * real(*given))


def quiet_rounded_normals(patch: MonkeyPatch) -> None:
    real = rounded.rounded_normals
    patch.setattr(rounded, "rounded_normals", lambda size, bits, words: real(size, bits - 1, words))


def no_normals(patch: MonkeyPatch) -> None:
    real = Gaussian.draw
    patch.setattr(Gaussian, "draw", lambda *given: 0.0 * real(*given))


def laplace_of_variance_one(patch: MonkeyPatch) -> None:
    real = Laplace.draw
    patch.setattr(Laplace, "draw", lambda *given: real(*given) / np.sqrt(2))


def another_coin(patch: MonkeyPatch) -> None:
    real = PrivUnit._direction
    patch.setattr(
        PrivUnit,
        "_direction",
        lambda self, *given: real(replace(self, eps0=4 * self.eps0), *given),
    )


def first_leaf_only(patch: MonkeyPatch) -> None:
    real = Additive.noised

    def noised(self: Any, key: Any, value: Any, *rest: Any) -> Any:
        leaves, structure = jax.tree.flatten(value)
        noisy = jax.tree.leaves(real(self, key, value, *rest))
        return jax.tree.unflatten(structure, [noisy[0], *leaves[1:]])

    patch.setattr(Additive, "noised", noised)


def shares_of_all(patch: MonkeyPatch) -> None:
    real = audits.Summands
    patch.setattr(
        audits, "Summands", lambda **given: real(**{**given, "carriers": given["clients"]})
    )


# Keys.


def one_key_for_all_clients(patch: MonkeyPatch) -> None:
    real = Stream.client
    patch.setattr(Stream, "client", lambda self, round_, number, _: real(self, round_, number, 0))


def one_key_for_all_rounds(patch: MonkeyPatch) -> None:
    real = Stream._round
    patch.setattr(Stream, "_round", lambda self, _: real(self, 0))


def a_known_seed(patch: MonkeyPatch) -> None:
    def known(self: Stream, round_: Any) -> Any:
        return random_numbers.fold_in(jax.random.key(0), round_)

    patch.setattr(Stream, "_round", known)


# Bounds.


def clip_after_noise(patch: MonkeyPatch) -> None:
    clip, noised = Clip.__call__, Release.noised
    patch.setattr(Clip, "__call__", lambda self, value, radius=None: value)
    patch.setattr(
        Release,
        "noised",
        lambda self, *given, **more: clip(self.bound, noised(self, *given, **more)),
    )


def clip_by_layer(patch: MonkeyPatch) -> None:
    real = Clip.__call__
    patch.setattr(
        Clip,
        "__call__",
        lambda self, value, radius=None: jax.tree.map(lambda v: real(self, v, radius), value),
    )


def naive_clip(patch: MonkeyPatch) -> None:
    def clip(self: Clip, value: Any, radius: Any = None) -> Any:
        whole = jnp.sqrt(tree.squared_norm(value))
        sound = jnp.isfinite(whole) & (whole > 0)
        share = jnp.where(sound, jnp.minimum(1, self.radius / jnp.where(sound, whole, 1)), 0)
        return jax.tree.map(lambda v: jnp.where(sound, share * v, 0), value)

    patch.setattr(Clip, "__call__", clip)


def underflowing_norms(patch: MonkeyPatch) -> None:
    def by_record(self: Any, params: Any, records: Any) -> ByRecord:
        x = self.rows(params, records)
        slopes = self.slopes(linear_output(params, x), records)
        gradients = settled(slopes[:, None] * x)
        norms = jnp.sqrt(jnp.sum(jnp.square(gradients), axis=1))
        sound = (norms > 0) & (norms < jnp.inf)

        def combined(lengths: Any) -> Any:
            share = jnp.where(sound, lengths / norms, 0)
            return {"w": share @ jnp.where(sound[:, None], gradients, 0)}

        return ByRecord(jnp.where(sound | (norms == 0), norms, jnp.inf), combined)

    patch.setattr(LeastSquares, "by_record", by_record)


def noise_of_a_smaller_radius(patch: MonkeyPatch) -> None:
    real = local.bounded_sum

    def at_the_cap(task: Any, given: Release, *rest: Any) -> Any:
        return real(task, given, *rest[:-1], given.bound.radius)

    patch.setattr(local, "bounded_sum", at_the_cap)


# Means.


def weights(patch: MonkeyPatch, share: float) -> None:
    """What leaves is multiplied by a share of the client's number of records."""
    cut, leave, held = engine.client_slice, engine.leave_client, []

    def mine(*given: Any) -> Any:
        found = cut(*given)
        held[:] = [found.size]
        return found

    def weighted(*given: Any) -> Any:
        sent, stats = leave(*given)
        return jax.tree.map(lambda v: v * (share * held[0]).astype(v.dtype), sent), stats

    patch.setattr(engine, "client_slice", mine)
    patch.setattr(engine, "leave_client", weighted)


def divided_by_who_came(patch: MonkeyPatch) -> None:
    mask, expected, came = PoissonCohort.mask, PoissonCohort.expected, []

    def watched(self: Any, *given: Any) -> Any:
        found = mask(self, *given)
        came[:] = [jnp.maximum(1, jnp.sum(found))]
        return found

    patch.setattr(PoissonCohort, "mask", watched)
    patch.setattr(
        PoissonCohort, "expected", lambda self, n: came.pop() if came else expected(self, n)
    )
