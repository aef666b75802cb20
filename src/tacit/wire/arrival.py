"""Replies on their arrival at the server: nothing that a site says of itself is believed.

A reply has the public names, shapes and types, finite numbers, and no more than its release lets an
honest client send: what a client bounds is within its bound again, and a message with Gaussian
noise within the reach of that noise. What follows from other fields (statistics, a squared norm) is
computed again here. A reply outside of this is left out with a reason, and the round goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import tree
from tacit.algorithm import Phase
from tacit.mechanisms.additive import Additive
from tacit.mechanisms.normals import REACH
from tacit.release import Release
from tacit.tree import Tree
from tacit.wire.client import FAILED, REFUSED
from tacit.wire.codec import WireError, decode

_NO = "its budget does not cover the round"
_REASONS: Mapping[Any, str] = {
    "run": "its copy of the run differs from the one that was announced",
    "policy": "its policy does not allow this run",
    "unprepared": "it has not heard what was released before the first round",
    "trust": "it does not trust the server to add the noise",
}
_ROUNDING = 1 + 2.0**-18


def arrived(reply: bytes | None, phase: Phase, round_: int, like: Tree, records: int) -> Tree:
    """What a client with so many records may have released, or a WireError that says why not."""
    if reply is None:
        raise WireError("no reply.")
    message = decode(reply)
    if message.kind == REFUSED:
        raise WireError(f"the client refused: {_REASONS.get(message.meta.get('reason'), _NO)}.")
    if message.kind == FAILED:
        raise WireError("the client failed.")
    if message.kind != phase.name or message.meta.get("round") != round_:
        raise WireError("a reply to another request.")
    value = tree.from_named(message.fields, like)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(value)):
        raise WireError("a reply that is not finite.")
    for name, release in phase.releases.items():
        _check_bound(value[name], release, round_, records)
    return _recomputed(phase, value)


def _check_bound(value: Tree, release: Release, round_: int, records: int) -> None:
    entries = [np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(value)]
    flat = np.concatenate(entries)
    largest = float(np.abs(flat).max(initial=0.0))
    radius = release.bound.radius
    if release.at == "aggregate":
        limit = radius * (records if release.by_record else 1)
        # The largest entry first: a square could overflow.
        if largest > limit or largest * np.linalg.norm(flat / (largest or 1.0)) > limit * _ROUNDING:
            raise WireError("a reply above its bound.")
    elif release.at == "message" and isinstance(release.mechanism, Additive):
        reach = radius * (1 + REACH * release.mechanism.level(round_)) * _ROUNDING
        if largest > reach:
            raise WireError("a reply beyond the reach of its bound and noise.")


def _recomputed(phase: Phase, value: dict[str, Tree]) -> dict[str, Tree]:
    """The reply with every number that follows from its other fields computed from them."""
    sound = dict(value)
    if phase.norm_of is not None:
        scalar, vector = phase.norm_of
        squared = tree.squared_norm(jax.tree.map(jnp.asarray, value[vector]))
        sound[scalar] = phase.releases[scalar].bound(squared.astype(value[scalar].dtype))
    fields = {name: jax.tree.map(jnp.asarray, sound[name]) for name in phase.releases}
    for name, rule in phase.stats.items():
        sound[name] = jnp.asarray(rule(fields)).astype(value[name].dtype)
    return sound
