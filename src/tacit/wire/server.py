"""The server of real clients: it sends bytes, adds up the replies that are sound, and moves on.

A reply that is missing, late, of another round, of a wrong shape or not finite is left out with a
reason. The divisor is the expected cohort and the noise is that of the plan whoever answers, so a
lost reply costs accuracy and never privacy. Every request tells its client which of its replies was
counted last, so that a client whose reply was lost goes on from the state before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import tree
from tacit.accounting import Ledger
from tacit.algorithm import Algorithm, Phase, Population
from tacit.boundary import enter_server
from tacit.errors import TacitError
from tacit.simulation.devices import Precision, precision
from tacit.streams import Stream
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.wire.client import FAILED, REFUSED
from tacit.wire.codec import WireError, decode, encode
from tacit.wire.shapes import RecordShapes, reply_shapes

Ask = Callable[[Mapping[int, bytes]], Mapping[int, bytes | None]]


@dataclass(frozen=True)
class Excluded:
    """A client whose reply does not count in a phase, and why."""

    client: int
    phase: str
    reason: str


@dataclass(frozen=True)
class RoundReport:
    """Who was asked in a round, and who was left out."""

    round: int
    cohort: tuple[int, ...]
    excluded: tuple[Excluded, ...]


class WireServer:
    """Runs rounds over any transport that carries bytes."""

    def __init__(
        self,
        algorithm: Algorithm,
        task: Task,
        population: Population,
        record: RecordShapes,
        *,
        stream: Stream | None = None,
        dtype: Precision = "float32",
        ledger: Ledger | None = None,
        run: str = "run",
    ) -> None:
        self.algorithm, self.task, self.population = algorithm, task, population
        self.dtype, self.ledger, self.run = dtype, ledger, run
        self._phases = algorithm.phases(task, population)
        self._counted: dict[int, int] = {}  # client -> the exchange of its last reply that counted
        self._attempts: Counter[int] = Counter()
        with precision(dtype):
            self._stream = stream or Stream.from_entropy()
            self.state: Any = algorithm.init(task.init(self._stream.init))
            self._shapes = {p.name: reply_shapes(algorithm, task, p, record) for p in self._phases}
            self._steps = {p.name: jax.jit(self._step(p)) for p in self._phases}

    @property
    def params(self) -> Params:
        """The model now."""
        with precision(self.dtype):
            return self.algorithm.model(self.state)

    def round(self, number: int, ask: Ask) -> RoundReport:
        """One round: every phase asks the same cohort."""
        with precision(self.dtype):
            # A round that is tried again is another release: another cohort, another noise.
            stream = self._stream.again(self._attempts[number])
            self._attempts[number] += 1
            mask = self.algorithm.cohort.mask(stream.cohort(number), self.population.clients)
            cohort = tuple(int(i) for i in np.flatnonzero(np.asarray(mask)))
            excluded: list[Excluded] = []
            for place, phase in enumerate(self._phases):
                excluded += self._phase(number, place, phase, cohort, ask, stream)
            return RoundReport(number, cohort, tuple(excluded))

    def _phase(
        self,
        round_: int,
        place: int,
        phase: Phase,
        cohort: Sequence[int],
        ask: Ask,
        stream: Stream,
    ) -> list[Excluded]:
        charge = self._charge(phase, round_)
        sent = tree.to_named(phase.send(self.state))
        exchange = round_ * len(self._phases) + place
        replies = ask(
            {
                client: encode(
                    phase.name, sent, {"round": round_, "counted": self._counted.get(client, -1)}
                )
                for client in cohort
            }
        )
        like = self._shapes[phase.name]
        sums, excluded = tree.zeros_like(like), []
        for client in cohort:
            try:
                reply = self._read(replies.get(client), phase, round_, like)
            except TacitError as error:
                excluded.append(Excluded(client, phase.name, str(error)))
                continue
            sums = tree.add(sums, reply)
            self._counted[client] = exchange
        key = stream.server(round_, place)
        step = self._steps[phase.name]
        self.state = step(self.state, key, sums, jnp.asarray(round_, jnp.int32))
        if self.ledger is not None and charge is not None:
            self.ledger.done(charge)
        return excluded

    def _step(self, phase: Phase) -> Callable[[Any, Array, Tree, Array], Any]:
        expected = self.algorithm.cohort.expected(self.population.clients)

        def step(state: Any, key: Array, sums: Tree, round_: Array) -> Any:
            return phase.server(state, enter_server(phase, key, sums, round_, expected))

        return step

    def _charge(self, phase: Phase, round_: int) -> int | None:
        """Pay for what the server noises, before it is released."""
        aggregates = any(release.at == "aggregate" for release in phase.releases.values())
        if not aggregates or self.ledger is None:
            return None
        event = phase.event(
            round_,
            relation=self.algorithm.relation,
            cohort=self.algorithm.cohort.scheme(self.population.clients),
            records=self.population.smallest,
            places=("aggregate",),
        )
        return self.ledger.charge(event, run=self.run, round=round_, phase=phase.name)

    def _read(self, reply: bytes | None, phase: Phase, round_: int, like: Tree) -> Tree:
        if reply is None:
            raise WireError("no reply.")
        message = decode(reply)
        if message.kind == REFUSED:
            raise WireError("the client refused: its budget does not cover the round.")
        if message.kind == FAILED:
            raise WireError("the client failed.")
        if message.kind != phase.name or message.meta.get("round") != round_:
            raise WireError("a reply to another request.")
        value = tree.from_named(message.fields, like)
        if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(value)):
            raise WireError("a reply that is not finite.")
        return value
