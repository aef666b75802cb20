"""The server's checks of a reply; it trusts nothing that a site claims.

A reply must have the public names, shapes and types, and finite numbers within the limits of an
honest client: a bounded value must satisfy its bound, and a message with Gaussian noise must be
within the range of that noise. Numbers that follow from other fields (statistics, a squared norm)
are computed again. A reply that fails a check is excluded with a reason, and the round continues.
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
from tacit.wire.codec import Message, WireError, decode

_NO = "its budget does not cover the round"
_REASONS: Mapping[Any, str] = {
    "run": "its copy of the run differs from the one that was announced",
    "policy": "its policy does not allow this run",
    "unprepared": "it has not received the release from before the first round",
    "trust": "it does not trust the server, or enough of the sites",
}
_ROUNDING = 1 + 2.0**-18


def arrived(reply: bytes | None, phase: Phase, round_: int, like: Tree, records: int) -> Tree:
    """The checked reply of a client with ``records`` records, or a WireError with the reason."""
    message = heard(reply, phase.name, round_)
    value = tree.from_named(message.fields, like)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(value)):
        raise WireError("a reply with numbers that are not finite.")
    for name, release in phase.releases.items():
        _check_bound(value[name], release, round_, records)
    return _recomputed(phase, value)


def heard(reply: bytes | None, kind: str, round_: int) -> Message:
    """The reply to a request of this kind, or a WireError with the reason why there is none."""
    if reply is None:
        raise WireError("no reply.")
    message = decode(reply)
    if message.kind == REFUSED:
        raise WireError(f"the client refused: {_REASONS.get(message.meta.get('reason'), _NO)}.")
    if message.kind == FAILED:
        raise WireError("the client failed.")
    if message.kind != kind or message.meta.get("round") != round_:
        raise WireError("a reply to another request.")
    return message


def _check_bound(value: Tree, release: Release, round_: int, records: int) -> None:
    entries = [np.ravel(leaf).astype(np.float64) for leaf in jax.tree.leaves(value)]
    flat = np.concatenate(entries)
    largest = float(np.abs(flat).max(initial=0.0))
    radius = release.bound.radius
    if release.summed:
        limit = radius * (records if release.by_record else 1)
        # The largest entry first: a square could overflow.
        if largest > limit or largest * np.linalg.norm(flat / (largest or 1.0)) > limit * _ROUNDING:
            raise WireError("a reply above its bound.")
    elif release.at == "message" and isinstance(release.mechanism, Additive):
        reach = radius * (1 + REACH * release.mechanism.level(round_)) * _ROUNDING
        if largest > reach:
            raise WireError("a reply outside the range of its bound and noise.")


def _recomputed(phase: Phase, value: dict[str, Tree]) -> dict[str, Tree]:
    """The reply, with every number that follows from other fields computed again."""
    sound = dict(value)
    if phase.norm_of is not None:
        scalar, vector = phase.norm_of
        squared = tree.squared_norm(jax.tree.map(jnp.asarray, value[vector]))
        sound[scalar] = phase.releases[scalar].bound(squared.astype(value[scalar].dtype))
    fields = {name: jax.tree.map(jnp.asarray, sound[name]) for name in phase.releases}
    for name, rule in phase.stats.items():
        sound[name] = jnp.asarray(rule(fields)).astype(value[name].dtype)
    return sound
