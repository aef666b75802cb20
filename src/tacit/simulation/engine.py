"""The vectorised engine: whole rounds as one compiled program.

A round draws its cohort from the key of the round. Each device processes its own clients of the
cohort, one block at a time, and keeps only the sum of their releases. The numbers of clients and
rounds are not part of the program, so nothing is compiled twice. Keys depend on (round, phase,
client), as for real clients, so both engines draw the same noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, jit, lax
from jax.sharding import NamedSharding, PartitionSpec

from tacit import tree
from tacit.algorithm import Algorithm, Moment, Phase, after_round, first_state
from tacit.boundary import addend, enter_server, leave_client
from tacit.data.federation import Federation, Records
from tacit.errors import TacitError
from tacit.evaluation import Evaluator
from tacit.mechanisms.rounded import exact_noise
from tacit.population import Population
from tacit.precision import Precision, precision
from tacit.simulation.devices import devices, keep_programs
from tacit.simulation.layout import (
    AXIS,
    DeviceData,
    capacity_of,
    client_slice,
    lay_out,
    local_cohort,
    mesh_of,
    rows_at_once,
)
from tacit.simulation.probe import ratios, silent
from tacit.simulation.programs import Program
from tacit.streams import Stream
from tacit.tasks.base import Params, Task
from tacit.tree import Tree


class RunState(NamedTuple):
    """The complete state of a run: that of the server and of every client."""

    server: Any
    clients: Tree


class Simulator:
    """An algorithm on a federation, below ``train``; without a seed its noise is the system's."""

    def __init__(
        self,
        algorithm: Algorithm,
        task: Task,
        federation: Federation,
        *,
        seed: int | None = 0,
        dtype: Precision = "float32",
        block: int = 1,
        max_devices: int | None = None,
    ) -> None:
        self.algorithm, self.task, self.federation = algorithm, task, federation
        self.evaluate = Evaluator(algorithm, task, dtype)
        worked = self.evaluate.task
        self.population = Population(tuple(int(n) for n in federation.sizes))
        self.dtype, self.block = dtype, block
        self.exact = seed is None  # noise from the operating system, on a grid
        self.traces = 0  # how often a program was traced; a test holds that it stays 1
        keep_programs()
        found = devices(min(max_devices or federation.clients, federation.clients))
        self._mesh = mesh_of(found)
        self._capacity = capacity_of(federation.sizes)
        self._at_once = rows_at_once(federation.sizes)
        self._phases = algorithm.phases(worked, self.population)
        with precision(dtype):
            self._stream = self._stream_of(seed)
            self.data = self._laid_out(federation)
            spec = PartitionSpec(AXIS)
            whole = PartitionSpec()
            self._advance = Program(
                self.rounds_on_device,
                self._mesh,
                (whole, spec, spec, whole, whole, whole),
                (whole, spec),
                donated=(0, 1),
            )
            self._probe = Program(
                self._probe_on_device, self._mesh, (whole, spec, spec, whole, whole), whole
            )
            self._oracle = jax.jit(partial(algorithm.oracle, worked))

    def load(self, federation: Federation) -> None:
        """Use the records of another federation with the same sizes, without recompiling."""
        if federation is self.federation:
            return
        if not np.array_equal(self.federation.sizes, federation.sizes):
            raise TacitError("the clients have other sizes: make a new simulator for them.")
        self.federation = federation
        with precision(self.dtype):
            self.data = self._laid_out(federation)

    def reseed(self, seed: int | None) -> None:
        """Use another seed, without recompiling."""
        if (seed is None) != self.exact:
            raise TacitError(
                "a simulator cannot change between noise from a seed and noise from the operating"
                " system: make a new one."
            )
        with precision(self.dtype):
            self._stream = self._stream_of(seed)

    def _stream_of(self, seed: int | None) -> Stream:
        if seed is None and jax.process_count() > 1:
            raise TacitError("noise from the operating system needs one process: give a seed.")
        return Stream.from_entropy() if seed is None else Stream.seeded(seed)

    def init(self) -> RunState:
        """The state before the first round."""
        with precision(self.dtype):
            return self.place(self.first(self._stream))

    def first(self, stream: Stream) -> RunState:
        """The state before the first round of the run with this stream."""
        params = self.task.init(stream.init)
        per_device = -(-self.federation.clients // self.devices)
        one = self.algorithm.init_client(params)
        clients = jax.tree.map(
            lambda v: jnp.broadcast_to(v, (self.devices, per_device, *jnp.shape(v))), one
        )
        return RunState(first_state(self.algorithm, params), clients)

    @property
    def devices(self) -> int:
        """How many devices the clients are spread over."""
        return int(self._mesh.size)

    def place(self, state: RunState) -> RunState:
        """Put a state (from a checkpoint) on the devices."""
        whole = NamedSharding(self._mesh, PartitionSpec())
        split = NamedSharding(self._mesh, PartitionSpec(AXIS))
        with precision(self.dtype):
            return RunState(
                jax.tree.map(lambda v: jax.device_put(jnp.array(v), whole), state.server),
                jax.tree.map(lambda v: jax.device_put(jnp.array(v), split), state.clients),
            )

    def advance(self, state: RunState, first: int, rounds: int) -> RunState:
        """Run ``rounds`` rounds from round ``first``; the given state cannot be used again."""
        with precision(self.dtype):
            numbers = jnp.asarray(first, jnp.int32), jnp.asarray(rounds, jnp.int32)
            server, clients = self._advance(
                state.server, state.clients, self.data, self._stream, *numbers
            )
            return RunState(server, clients)

    def params(self, state: RunState) -> Params:
        """The model that the run would return in this state."""
        with precision(self.dtype):
            return self.algorithm.model(state.server)

    def oracle(self, params: Params, records: Records) -> dict[str, float]:
        """The algorithm's oracle metrics on private records, in simulation only."""
        with precision(self.dtype):
            found = self._oracle(params, self.evaluate.prepared(records))
            return {k: float(v) for k, v in found.items()}

    def probe(self, state: RunState, round_: int) -> dict[str, float]:
        """Signal and noise of the next round, in simulation only."""
        field = self.algorithm.probed
        if field is None:
            return {}
        phase = self._phases[-1]
        with precision(self.dtype):
            number = jnp.asarray(round_, jnp.int32)
            sums = self._probe(state.server, state.clients, self.data, self._stream, number)
            clients = self.federation.clients
            expected = self.algorithm.cohort.expected(clients)
            found = ratios(sums, phase.releases[field], clients, expected, round_)
            return {name: float(value) for name, value in found.items()}

    def report(self, state: RunState) -> dict[str, float]:
        """The public numbers in the state of the server."""
        with precision(self.dtype):
            return {k: float(v) for k, v in self.algorithm.report(state.server).items()}

    def _laid_out(self, federation: Federation) -> DeviceData:
        return lay_out(federation, self.evaluate.prepared(federation.records), self._mesh)

    def _probe_on_device(
        self, server: Any, clients: Tree, data: DeviceData, stream: Stream, round_: Array
    ) -> dict[str, Tree]:
        clients = jax.tree.map(lambda v: v[0], clients)
        data = jax.tree.map(lambda v: v[0], data)
        mask = self.algorithm.cohort.mask(stream.cohort(round_), self.federation.clients, round_)
        members = local_cohort(mask, self._mesh.size)
        last = len(self._phases) - 1
        phase = silent(self._phases[last], self.algorithm.probed or "")
        keys = partial(stream.client, round_, last)
        sent = phase.send(server)
        sums, _ = self._sum(phase, keys, members, clients, data, sent, round_)
        return lax.psum(sums, AXIS)

    def rounds_on_device(
        self,
        server: Any,
        clients: Tree,
        data: DeviceData,
        stream: Stream,
        first: Array,
        rounds: Array,
    ) -> tuple[Any, Tree]:
        """The rounds as one device computes them, for its own clients."""
        self.traces += 1
        clients = jax.tree.map(lambda v: v[0], clients)
        data = jax.tree.map(lambda v: v[0], data)

        def one(number: Array, carry: tuple[Any, Tree]) -> tuple[Any, Tree]:
            with exact_noise("secret" if self.exact else None):
                return self._round(*carry, data, stream, first + number)

        server, clients = lax.fori_loop(0, rounds, one, (server, clients))
        return server, jax.tree.map(lambda v: v[None], clients)

    def _round(
        self, server: Any, clients: Tree, data: DeviceData, stream: Stream, round_: Array
    ) -> tuple[Any, Tree]:
        everyone, cohort = self.federation.clients, self.algorithm.cohort
        mask = cohort.mask(stream.cohort(round_), everyone, round_)
        members = local_cohort(mask, self._mesh.size)
        for number, phase in enumerate(self._phases):
            sent = phase.send(server)
            keys = partial(stream.client, round_, number)
            sums, clients = self._sum(phase, keys, members, clients, data, sent, round_)
            sums = lax.psum(sums, AXIS)
            key = stream.server(round_, number)
            expected = cohort.expected(everyone)
            means = enter_server(phase, key, sums, round_, expected, self.population)
            server = phase.server(server, means)
        return after_round(server), clients

    def _sum(
        self,
        phase: Phase,
        keys: Callable[[Array], tuple[Array, Array]],
        members: tuple[Array, Array],
        clients: Tree,
        data: DeviceData,
        sent: Tree,
        round_: Array,
    ) -> tuple[dict[str, Tree], Tree]:
        """The sum of the releases of this device's clients in the cohort, and their new states."""
        order, active = members

        # Old states are read from one array and new ones written to another. With a single array,
        # the loop would copy the states of all clients in each iteration.
        @jit  # traced once, for both its shapes and its result
        def answer(client: Array, clients: Tree) -> tuple[dict[str, Tree], Tree]:
            name = client * self._mesh.size + lax.axis_index(AXIS)
            train_key, leave_key = keys(name)
            state = jax.tree.map(lambda v: v[client], clients)
            mine = client_slice(data, client, self._capacity, self._at_once)
            message, state = phase.client(Moment(round_, train_key), state, mine, sent)
            released, stats = leave_client(phase, leave_key, message, round_)
            kept = phase.remember(state, released)
            if self.exact:
                released = addend(phase, released, self.population)
            return {**released, **stats}, kept

        def one(place: Array, carry: tuple[dict[str, Tree], Tree]) -> tuple[dict[str, Tree], Tree]:
            sums, written = carry
            if self.block == 1:
                client = order[place]
                released, state = answer(client, clients)
                written = jax.tree.map(lambda v, s: v.at[client].set(s), written, state)
                return tree.add(sums, released), written
            places = place * self.block + jnp.arange(self.block)
            valid = places < active
            chosen = order[jnp.minimum(places, order.shape[0] - 1)]
            released, states = jax.vmap(answer, in_axes=(0, None))(chosen, clients)
            # Indices beyond the cohort write nowhere and add nothing.
            target = jnp.where(valid, chosen, order.shape[0])
            written = jax.tree.map(lambda v, s: v.at[target].set(s, mode="drop"), written, states)
            return jax.tree.map(lambda total, v: total + _kept(valid, v), sums, released), written

        shapes, _ = jax.eval_shape(answer, jnp.zeros((), order.dtype), clients)
        return lax.fori_loop(0, -(-active // self.block), one, (tree.zeros_like(shapes), clients))


def _kept(valid: Array, values: Array) -> Array:
    """The sum of the valid values; multiplying by 0 would not remove an infinite one."""
    flags = valid.reshape(-1, *(1,) * (values.ndim - 1))
    return jnp.sum(jnp.where(flags, values, 0), axis=0, dtype=values.dtype)
