"""Many independent runs of one simulation in one compiled program, for statistics over runs.

Every run does what the engine does, with a seed of its own. Only the loop over runs is new.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.precision import precision
from tacit.simulation.engine import RunState, Simulator
from tacit.simulation.layout import AXIS
from tacit.streams import Stream
from tacit.tree import Tree

_AT_ONCE = 64  # runs


class Replicas:
    """Runs of a simulator on one device; ``seen`` is what is kept of a run's last state."""

    def __init__(self, simulator: Simulator, rounds: int, seen: Callable[[RunState], Tree]) -> None:
        if simulator.exact or simulator.devices != 1:
            raise TacitError("replicas need a seed, and a simulator on one device.")
        self._simulator, self._rounds, self._seen = simulator, rounds, seen
        self._program = jax.jit(self._all)

    def __call__(self, seeds: NDArray[np.int64]) -> Tree:
        """What is kept of the run of each seed, on the records that the simulator holds now."""
        with precision(self._simulator.dtype):
            keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
            return jax.tree.map(np.asarray, self._program(keys, self._simulator.data))

    def _all(self, keys: Array, data: Tree) -> Tree:
        def one(key: Array) -> Tree:
            return self._seen(self._run(Stream(key), data))

        return jax.lax.map(one, keys, batch_size=_AT_ONCE)

    def _run(self, stream: Stream, data: Tree) -> RunState:
        start = self._simulator.first(stream)
        first, rounds = jnp.zeros((), jnp.int32), jnp.asarray(self._rounds, jnp.int32)

        def on_device(clients: Tree, mine: Tree) -> tuple[Tree, Tree]:
            # The engine's device has a leading axis of its own.
            own, shard = jax.tree.map(lambda v: v[None], (clients, mine))
            server, after = self._simulator.rounds_on_device(
                start.server, own, shard, stream, first, rounds
            )
            return server, jax.tree.map(lambda v: v[0], after)

        server, clients = jax.vmap(on_device, axis_name=AXIS)(start.clients, data)
        return RunState(jax.tree.map(lambda v: v[0], server), clients)
