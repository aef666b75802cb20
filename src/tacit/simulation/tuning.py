"""The block size: how many clients a device processes at the same time.

On a CPU it follows a rule; on other devices it is measured and cached. A CPU core is fastest with
one client at a time, unless a client is so little work that the overhead of the program dominates.
A GPU is fastest with many. The block size affects speed only: every block gives the same model up
to rounding.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from typing import Literal

import jax

from tacit import tree
from tacit.algorithm import Algorithm
from tacit.cache_folder import cache_folder
from tacit.data.federation import Federation
from tacit.precision import Precision
from tacit.simulation.devices import devices
from tacit.simulation.engine import Simulator
from tacit.tasks.base import Task

Block = int | Literal["auto"] | None

_CHOICES = (1, 4, 16, 64, 256)
_SMALL_CLIENT, _PIECE, _TINY_ROUND = 2**14, 2**16, 2**17  # multiplications


def tuned(
    algorithm: Algorithm,
    task: Task,
    federation: Federation,
    *,
    seed: int | None = 0,
    dtype: Precision = "float32",
    block: Block = None,
) -> Simulator:
    """A simulator with the given block size, the usual one, or a measured one ("auto")."""

    devices()  # must come first, otherwise JAX starts with one device for all cores
    sizes = federation.sizes
    numbers = tree.size(jax.eval_shape(task.init, jax.random.key(0)))
    work = int(sizes.mean()) * numbers  # multiplications for one pass over a client's records
    # For very little work, synchronising the devices costs more than the round itself.
    most_devices = 1 if work * len(sizes) < _TINY_ROUND else None

    def made(block: int) -> Simulator:
        return Simulator(
            algorithm,
            task,
            federation,
            seed=seed,
            dtype=dtype,
            block=block,
            max_devices=most_devices,
        )

    if block is None and jax.default_backend() == "cpu":
        return made(usual_block(work, len(sizes)))
    if block is None or block == "auto":
        block = best_block(made, clients=federation.clients)
    return made(block)


def usual_block(work: int, clients: int) -> int:
    """The block size for a CPU: one client, or several if the clients are small."""
    return 1 if work > _SMALL_CLIENT else max(1, min(clients, _PIECE // max(work, 1)))


def best_block(simulator: Callable[[int], Simulator], *, clients: int) -> int:
    """The fastest block size for this work on this machine, cached or measured."""
    path = cache_folder("blocks") / f"{_fingerprint(simulator(1))}.json"
    with contextlib.suppress(OSError, ValueError, KeyError):
        return int(json.loads(path.read_text(encoding="utf-8"))["block"])
    seconds: dict[int, float] = {}
    for block in _CHOICES:
        if block > clients:
            break
        seconds[block] = _seconds(simulator(block))
        if seconds[block] > 2 * min(seconds.values()):
            break
    found = min(seconds, key=lambda block: seconds[block])
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"block": found, "seconds": seconds}), encoding="utf-8")
    return found


def _seconds(simulator: Simulator) -> float:
    """The time of a round, measured after a first round that compiles."""
    state = jax.block_until_ready(simulator.advance(simulator.init(), 0, 1))
    begun = time.perf_counter()
    jax.block_until_ready(simulator.advance(state, 1, 1))
    return time.perf_counter() - begun


def _fingerprint(simulator: Simulator) -> str:
    """The cache key: machine, method, model and the shape of the data."""
    device = jax.devices()[0]
    shapes = {k: v.shape[1:] for k, v in simulator.federation.records.items()}
    sizes = simulator.federation.sizes
    told = (
        *(device.platform, device.device_kind, len(jax.devices()), simulator.dtype),
        *(type(simulator.algorithm).__name__, simulator.task),
        *(sorted(shapes.items()), len(sizes), int(sizes.max())),
    )
    return hashlib.sha256(repr(told).encode()).hexdigest()[:24]
