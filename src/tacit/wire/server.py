"""The server of real clients: it sends requests, sums the valid replies and updates the model.

A reply that is missing, late, of another round, of a wrong shape, not finite or above its bound is
excluded with a reason (``arrival``). A sum that gets its noise at the server is exact, so rounding
cannot make one reply hide another. The divisor is the expected cohort size and the noise follows
the plan, whoever answers, so a lost reply costs accuracy but never privacy. Every request tells its
client which of its replies was counted last. A client whose reply was lost continues from the state
before it.

The ledger counts every release of the clients, whoever draws the noise, each time it is requested.
The guarantee of a run comes from this ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jax import Array

from tacit import tree
from tacit.accounting import Ledger
from tacit.accounting.events import Poisson
from tacit.algorithm import Algorithm, Phase, after_round, first_state
from tacit.boundary import addend, enter_server
from tacit.errors import BudgetError, TacitError
from tacit.mechanisms.rounded import exact_noise
from tacit.population import Population
from tacit.precision import Precision, precision
from tacit.release import charged_cohort
from tacit.secure_aggregation.collector import Collector
from tacit.secure_aggregation.statements import LiarError, SessionError
from tacit.streams import Stream
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.wire.arrival import arrived
from tacit.wire.codec import Scalar, encode
from tacit.wire.holdings import Covered
from tacit.wire.secure_server import SecureRound
from tacit.wire.secure_sum import context_of
from tacit.wire.shapes import RecordShapes, reply_shapes, to_fields

Ask = Callable[[Mapping[int, bytes]], Mapping[int, bytes | None]]


@dataclass(frozen=True)
class Excluded:
    """A client whose reply is excluded from a phase, and the reason."""

    client: int
    phase: str
    reason: str


class RepliesError(TacitError):
    """A round with too few valid replies; nothing of it was used."""

    def __init__(
        self, round_: int, minimum: int, excluded: Sequence[Excluded], why: str = ""
    ) -> None:
        told = f" ({why.rstrip('.')})" if why else ""
        missing = f"{len(excluded)} clients gave none{told}"
        super().__init__(f"round {round_} needs {minimum} valid replies; {missing}.")
        self.excluded = tuple(excluded)


@dataclass(frozen=True)
class RoundReport:
    """The clients that were asked in a round, and those that were excluded."""

    round: int
    cohort: tuple[int, ...]
    excluded: tuple[Excluded, ...]


class WireServer:
    """Runs rounds over any transport that can send bytes."""

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
        signers: Sequence[Ed25519PublicKey] = (),
    ) -> None:
        self.algorithm, self.task, self.population = algorithm, task, population
        self._labels = dict(labels or {})  # sent with every request: they identify the run
        self._minimum, self._covered = minimum, covered
        self._exact = exact  # noise from the operating system, on a grid
        self._signers = signers  # the sites' signing keys, for secure sums
        self._liars: set[int] = set()  # clients whose secrets did not open
        self._exchange = first_exchange - 1  # every request has its own number
        self.dtype, self.ledger, self.run = dtype, ledger, run
        self._phases = algorithm.phases(task, population)
        self.counted: dict[int, int] = {}  # client -> the exchange of its last reply that counted
        self._attempts: Counter[int] = Counter()
        with precision(dtype):
            self._stream = stream or Stream.from_entropy()
            self.state: Any = first_state(algorithm, task.init(self._stream.init))
            self._shapes = {p.name: reply_shapes(algorithm, task, p, record) for p in self._phases}
            self._steps = {p.name: jax.jit(self._step(p)) for p in self._phases}

    @property
    def params(self) -> Params:
        """The current model."""
        with precision(self.dtype):
            return self.algorithm.model(self.state)

    def round(self, number: int, ask: Ask) -> RoundReport:
        """One round: every phase asks the same cohort."""
        with precision(self.dtype):
            # A repeated round is a new release with a new cohort and new noise.
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
                self.state = after_round(self.state)
            except RepliesError:  # undo the first phases: a round counts as a whole or not at all
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
        if phase.secure and self._exact:
            sums, excluded, sound = self._secure_sum(round_, phase, cohort, ask, sent, about)
        else:
            sums, excluded, sound = self._sum(round_, phase, cohort, ask, sent, about)
        self.counted.update(dict.fromkeys(sound, self._exchange))
        key = stream.server(round_, place)
        step = self._steps[phase.name]
        self.state = step(self.state, key, sums, jnp.asarray(round_, jnp.int32))
        if self.ledger is not None and charge is not None:
            self.ledger.done(charge)
        return excluded

    def _sum(
        self,
        round_: int,
        phase: Phase,
        cohort: Sequence[int],
        ask: Ask,
        sent: Mapping[str, Any],
        about: Mapping[str, Scalar],
    ) -> tuple[Tree, list[Excluded], list[int]]:
        """The sum of all valid replies, who is excluded, and who is in it."""
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
        return sums, excluded, sound

    def _secure_sum(
        self,
        round_: int,
        phase: Phase,
        cohort: Sequence[int],
        ask: Ask,
        sent: Mapping[str, Any],
        about: Mapping[str, Scalar],
    ) -> tuple[Tree, list[Excluded], list[int]]:
        """The sum that the clients open, and nothing else of their messages."""
        shapes = self._shapes[phase.name]
        digest = str(self._labels.get("digest", ""))
        context, grids = context_of(phase, round_, self.run, digest, self.population, shapes)
        collector = Collector(context, self._signers)
        work = SecureRound(phase, round_, collector, grids, shapes, ask, about)
        asked = [client for client in cohort if client not in self._liars]
        work.left_out = dict.fromkeys(self._liars, "its secrets did not open before.")
        try:
            sums = work.run(asked, sent, self.counted)
        except LiarError as error:
            # Another try would be charged again, and end as this one did.
            if error.client is None or len(asked) <= context.present:
                raise TacitError(
                    f"round {round_} was stopped by a dishonest site: {error}"
                ) from None
            self._liars.add(error.client)
            excluded = [Excluded(error.client, phase.name, str(error))]
            raise RepliesError(round_, context.present, excluded, str(error)) from None
        except SessionError as error:
            excluded = [Excluded(c, phase.name, why) for c, why in work.left_out.items()]
            raise RepliesError(round_, context.present, excluded, str(error)) from None
        sound = sorted(collector.present())
        gone = [c for c in sorted(work.left_out) if c not in sound]
        return sums, [Excluded(c, phase.name, work.left_out[c]) for c in gone], sound

    def _secret_cohort(self, phase: Phase) -> bool:
        """Whether the accounting relies on a secret cohort; then a round counts with any replies.

        Repeating a round until enough clients answer would reveal something about the cohort: a
        client that did not answer would know that others were drawn.
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
        """Charge the cost of this exchange for a client, before any request is sent."""
        if self.ledger is None:
            return None
        event = self.algorithm.price_in_turn(phase, round_, self.population)
        if self._covered is not None and not self._covered(event, round_, phase.name):
            raise BudgetError(f"the remaining budget does not cover round {round_}.")
        return self.ledger.charge(event, run=self.run, round=round_, phase=phase.name)
