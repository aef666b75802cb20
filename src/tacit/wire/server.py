"""The server of real clients: it sends bytes, adds up the replies that are sound, and moves on.

A reply that is missing, late, of another round, of a wrong shape, not finite or above its bound is
left out with a reason (``arrival``). What is noised here is summed exactly, so that no reply can
round another away. The divisor is the expected cohort and the noise is that of the plan whoever
answers, so a lost reply costs accuracy and never privacy. Every request tells its client which of
its replies was counted last, so that a client whose reply was lost goes on from the state before.

The ledger counts everything that a round makes its clients release, whoever draws the noise, each
time that it is asked for: the sentence of a run comes from it.
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
from tacit.accounting.events import Poisson, in_turn
from tacit.algorithm import Algorithm, Phase
from tacit.boundary import addend, enter_server
from tacit.errors import BudgetError, TacitError
from tacit.mechanisms.rounded import exact_noise
from tacit.population import Population
from tacit.precision import Precision, precision
from tacit.release import charged_cohort
from tacit.streams import Stream
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.wire.arrival import arrived
from tacit.wire.client import Covered
from tacit.wire.codec import Scalar, encode
from tacit.wire.shapes import RecordShapes, reply_shapes, to_fields

Ask = Callable[[Mapping[int, bytes]], Mapping[int, bytes | None]]


@dataclass(frozen=True)
class Excluded:
    """A client whose reply does not count in a phase, and why."""

    client: int
    phase: str
    reason: str


class RepliesError(TacitError):
    """A round that fewer clients answered than it needs; nothing of it was used."""

    def __init__(self, round_: int, minimum: int, excluded: Sequence[Excluded]) -> None:
        super().__init__(
            f"round {round_} needs {minimum} sound replies; {len(excluded)} clients gave none."
        )
        self.excluded = tuple(excluded)


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
        labels: Mapping[str, Scalar] | None = None,
        minimum: int = 0,
        covered: Covered | None = None,
        exact: bool = False,
        first_exchange: int = 0,
    ) -> None:
        self.algorithm, self.task, self.population = algorithm, task, population
        self._labels = dict(labels or {})  # said in every request: which run this is
        self._minimum, self._covered = minimum, covered
        self._exact = exact  # noise from the operating system, on a grid
        self._exchange = first_exchange - 1  # every question has a number of its own
        self.dtype, self.ledger, self.run = dtype, ledger, run
        self._phases = algorithm.phases(task, population)
        self.counted: dict[int, int] = {}  # client -> the exchange of its last reply that counted
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
            clients = self.population.clients
            mask = self.algorithm.cohort.mask(stream.cohort(number), clients, number)
            cohort = tuple(int(i) for i in np.flatnonzero(np.asarray(mask)))
            excluded: list[Excluded] = []
            before = self.state, dict(self.counted)
            try:
                for place, phase in enumerate(self._phases):
                    excluded += self._phase(number, place, phase, cohort, ask, stream)
            except RepliesError:  # what its first phases did is not half a round
                self.state, self.counted = before
                raise
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
        sent = to_fields(phase.send(self.state))
        self._exchange += 1
        about = {**self._labels, "round": round_, "exchange": self._exchange}
        replies = ask(
            {
                client: encode(phase.name, sent, {**about, "counted": self.counted.get(client, -1)})
                for client in cohort
            }
        )
        like = self._shapes[phase.name]
        sums = tree.zeros_like(addend(phase, tree.zeros_like(like), self.population))
        excluded, sound = [], []
        for client in cohort:
            try:
                records = self.population.sizes[client]
                reply = arrived(replies.get(client), phase, round_, like, records)
            except TacitError as error:
                excluded.append(Excluded(client, phase.name, str(error)))
                continue
            sums = tree.add(sums, addend(phase, reply, self.population))
            sound.append(client)
        if len(sound) < min(self._minimum, len(cohort)) and not self._secret_cohort(phase):
            raise RepliesError(round_, self._minimum, excluded)
        self.counted.update(dict.fromkeys(sound, self._exchange))
        key = stream.server(round_, place)
        step = self._steps[phase.name]
        self.state = step(self.state, key, sums, jnp.asarray(round_, jnp.int32))
        if self.ledger is not None and charge is not None:
            self.ledger.done(charge)
        return excluded

    def _secret_cohort(self, phase: Phase) -> bool:
        """Whether the coins of a cohort are charged as secret: then no reply decides about a round.

        A round that is drawn again until enough clients answer would be one in which somebody was
        drawn, for all who know that they themselves have not answered.
        """
        scheme = self.algorithm.cohort.scheme(self.population.clients)
        units = {r.unit for r in phase.releases.values() if r.at == "aggregate"}
        return any(isinstance(charged_cohort(scheme, unit), Poisson) for unit in units)

    def _step(self, phase: Phase) -> Callable[[Any, Array, Tree, Array], Any]:
        expected = self.algorithm.cohort.expected(self.population.clients)

        def step(state: Any, key: Array, sums: Tree, round_: Array) -> Any:
            with exact_noise("system" if self._exact else None):
                means = enter_server(phase, key, sums, round_, expected, self.population)
            return phase.server(state, means)

        return step

    def _charge(self, phase: Phase, round_: int) -> int | None:
        """Write down what this exchange costs a client, before anybody is asked."""
        if self.ledger is None:
            return None
        cohort = self.algorithm.cohort.scheme(self.population.clients)
        event = phase.event(
            round_,
            relation=self.algorithm.relation,
            cohort=cohort,
            records=self.population.smallest,
        )
        event = in_turn(event, round_, cohort)
        if self._covered is not None and not self._covered(event, round_, phase.name):
            raise BudgetError(f"round {round_} is not covered by the budget that is left.")
        return self.ledger.charge(event, run=self.run, round=round_, phase=phase.name)
