"""A round without its noise: signal, noise, who is clipped, and the step that FedEXP aims at.

The messages of a cohort are bounded as usual and summed without noise. This does not affect the
run. It is allowed in a simulation only, and the numbers are reported as ``oracle/…`` metrics.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from tacit import tree
from tacit.algorithm import ClientData, Message, Moment, Phase
from tacit.bounds import Clip, Unbounded
from tacit.mechanisms import Gaussian, NoNoise
from tacit.release import Release
from tacit.tree import Tree

_ROUNDING = 1 + 1e-5  # a contribution at the bound is not clipped


def silent(phase: Phase, field: str) -> Phase:
    """The phase without noise: the bounded field, its squared norm, and whether it was clipped."""
    release = phase.releases[field]
    open_door = Release(bound=Unbounded(), mechanism=NoNoise(), at="aggregate")
    fields = ("value", "sq_norm", "members", *(("clipped",) if _clips(release) else ()))

    def client(moment: Moment, state: Tree, data: ClientData, sent: Tree) -> tuple[Message, Tree]:
        message, state = phase.client(moment, state, data, sent)
        bounded = message[field] if release.by_record else release.bound(message[field])
        numbers = {"sq_norm": tree.squared_norm(bounded), "members": jnp.ones(())}
        if _clips(release):
            above = tree.squared_norm(message[field]) > release.bound.radius**2 * _ROUNDING
            numbers["clipped"] = above.astype(numbers["sq_norm"].dtype)
        return {"value": bounded, **numbers}, state

    return Phase(
        name="probe",
        client=client,
        server=phase.server,
        releases=dict.fromkeys(fields, open_door),
        send=phase.send,
    )


def _clips(release: Release) -> bool:
    """Whether clients are clipped here; records are clipped one by one inside the client."""
    return isinstance(release.bound, Clip) and not release.by_record


def ratios(
    sums: dict[str, Any], release: Release, clients: int, expected: float, round_: int
) -> dict[str, Array | float]:
    """Norms of the mean message and of its noise, the share of clipped ones, FedEXP's own step."""
    mean_sq = tree.squared_norm(sums["value"]) / expected**2
    signal = jnp.sqrt(mean_sq)
    spread = sums["sq_norm"] / expected
    found: dict[str, Array | float] = {
        "signal": signal,
        "target_step": jnp.maximum(1.0, spread / jnp.maximum(mean_sq, 1e-30)),
    }
    if "clipped" in sums:
        found["clipped"] = sums["clipped"] / jnp.maximum(sums["members"], 1)
    if isinstance(release.mechanism, Gaussian):
        people = expected if release.summed else math.sqrt(expected)
        size = math.sqrt(tree.size(sums["value"]))
        level = release.mechanism.level(round_) * release.excess(clients)
        noise = level * release.bound.radius * size / people
        if noise > 0:
            found |= {"noise": noise, "signal_to_noise": signal / noise}
    return found
