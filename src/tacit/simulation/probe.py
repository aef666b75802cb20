"""A round without its noise: the signal, the noise, and the step that FedEXP aims at.

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
from tacit.bounds import Unbounded
from tacit.mechanisms import Gaussian, NoNoise
from tacit.release import Release
from tacit.tree import Tree


def silent(phase: Phase, field: str) -> Phase:
    """The phase without noise: the bounded field and its squared norm."""
    release = phase.releases[field]
    open_door = Release(bound=Unbounded(), mechanism=NoNoise(), at="aggregate")

    def client(moment: Moment, state: Tree, data: ClientData, sent: Tree) -> tuple[Message, Tree]:
        message, state = phase.client(moment, state, data, sent)
        bounded = message[field] if release.by_record else release.bound(message[field])
        return {"value": bounded, "sq_norm": tree.squared_norm(bounded)}, state

    return Phase(
        name="probe",
        client=client,
        server=phase.server,
        releases={"value": open_door, "sq_norm": open_door},
        send=phase.send,
    )


def ratios(
    sums: dict[str, Any], release: Release, clients: int, expected: float, round_: int
) -> dict[str, Array | float]:
    """The norms of the mean message and of its noise, their ratio, and FedEXP's noise-free step."""
    mean_sq = tree.squared_norm(sums["value"]) / expected**2
    signal = jnp.sqrt(mean_sq)
    spread = sums["sq_norm"] / expected
    found: dict[str, Array | float] = {
        "signal": signal,
        "target_step": jnp.maximum(1.0, spread / jnp.maximum(mean_sq, 1e-30)),
    }
    if isinstance(release.mechanism, Gaussian):
        people = expected if release.summed else math.sqrt(expected)
        size = math.sqrt(tree.size(sums["value"]))
        level = release.mechanism.level(round_) * release.excess(clients)
        noise = level * release.bound.radius * size / people
        if noise > 0:
            found |= {"noise": noise, "signal_to_noise": signal / noise}
    return found
