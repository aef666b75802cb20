"""One real client: its own records, state, ledger, budget and random numbers.

It trusts nothing in a request except the model: bounds, noise and costs come from its own copy of
the algorithm. It charges its ledger before it sends anything, and refuses a request that its budget
does not cover. After an error it only says that it failed, because an error text would be a release
too. Its replies depend on its records only through a release: a request is checked before any
record is used. After a failure of its own code that follows a charge it stops, because the next
request would be charged again. The state after a reply is pending until the server confirms that
the reply was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import tree
from tacit.accounting import Budget, DpEvent, Everyone, Ledger, SamplingScheme, compose
from tacit.algorithm import Algorithm, ClientData, Moment, Phase
from tacit.boundary import leave_client
from tacit.data.federation import Records
from tacit.errors import BudgetError, TacitError
from tacit.mechanisms.rounded import exact_noise
from tacit.population import Population
from tacit.precision import Precision, cast, precision
from tacit.release import PLACES, At
from tacit.secure_aggregation.party import Identity
from tacit.streams import Stream
from tacit.tasks.base import Task
from tacit.tree import Tree
from tacit.wire.codec import Message, WireError, decode, encode
from tacit.wire.holdings import Holdings
from tacit.wire.memory import Kept, Memory, Pending
from tacit.wire.secure_client import SecureClient
from tacit.wire.secure_sum import KEYS, phase_of, without_shares
from tacit.wire.shapes import from_fields, reply_shapes, sent_shapes

REFUSED, FAILED = "refused", "failed"
LARGEST = 2.0**40  # of any number that a server may send


class OwnFaultError(TacitError):
    """The client's own code failed after a charge; the request was valid."""


class WireClient:
    """Answers the requests of a server; requests and replies are bytes."""

    def __init__(
        self,
        algorithm: Algorithm,
        task: Task,
        population: Population,
        records: Records,
        *,
        index: int,
        stream: Stream | None = None,
        dtype: Precision = "float32",
        holdings: Holdings | None = None,
        run: str = "run",
        memory: Memory | None = None,
        exact: bool = False,
        identity: Identity | None = None,
    ) -> None:
        self.algorithm, self.task, self.index = algorithm, task, index
        self.dtype, self.run = dtype, run
        self.holdings = holdings or Holdings()
        self.last_error: Exception | None = None  # for the client itself, never sent
        self.stopped = False  # True after a failure of its own code
        self._size = len(next(iter(records.values())))
        self._clients = population.clients
        self._phases = {p.name: (n, p) for n, p in enumerate(algorithm.phases(task, population))}
        with precision(dtype):
            self._stream = stream or Stream.from_entropy()
            self._data = _padded(algorithm.prepared(records), dtype)
            self._state = algorithm.init_client(task.init(jax.random.key(0)))
        self._pending: Pending | None = None
        self._memory = memory if jax.tree.leaves(self._state) else None
        if self._memory is not None and (kept := self._memory.read(self._state)) is not None:
            self._state, self._pending = kept
        self._program = (algorithm, task, population)
        self._exact = exact  # noise from the operating system, on a grid
        self._shapes: dict[str, dict[str, Tree]] = {}
        self._secure: SecureClient | None = None
        if exact and any(phase.secure for _, phase in self._phases.values()):
            self._secure = SecureClient(identity, index, run, population)
        self._attempts: Counter[tuple[int, int]] = Counter()

    def answer(self, request: bytes) -> bytes:
        """The reply to a request; every failure is a short reply, never an exception."""
        number = -1
        self.last_error = None
        try:
            if self.stopped:
                raise TacitError("this client has stopped after an internal error.")
            asked = decode(request)
            number = _round_of(asked)
            with precision(self.dtype):
                return self._answer(asked, number)
        except BudgetError as error:
            self.last_error = error
            return encode(REFUSED, {}, {"round": number, "reason": "budget"})
        except Exception as error:  # the text may contain data, so it is not sent
            self.last_error = error
            return encode(FAILED, {}, {"round": number})

    def _answer(self, asked: Message, round_: int) -> bytes:
        name = phase_of(asked)
        if name not in self._phases:
            raise WireError(f"this algorithm has no phase {name!r}.")
        number, phase = self._phases[name]
        secure = self._secure if phase.secure else None
        if asked.kind != name:
            return self._about_sum(asked, round_, phase)
        fields, sealed = without_shares(asked.fields)
        sent = from_fields(fields, _sent_shapes(*self._program, number, self.dtype))
        _check_range(fields)
        self._exchange(asked, round_, number)
        if secure is not None:
            secure.receive(phase, round_, sealed)
        self._settle(asked)
        charge = self._charge(phase, round_)
        try:
            return self._paid_for(asked, round_, charge, sent)
        except Exception as error:
            self.stopped = True
            raise OwnFaultError(f"round {round_} was charged but not answered: {error}") from error

    def _paid_for(self, asked: Message, round_: int, charge: int | None, sent: Tree) -> bytes:
        """The reply to a request that is valid and charged."""
        number, phase = self._phases[asked.kind]
        keys = self._attempt(round_, number).client(round_, number, self.index)
        released, state = _worker(*self._program, number, self._exact)(
            self._state, self._data, sent, jnp.asarray(round_, jnp.int32), *keys
        )
        fields: Mapping[str, Any] = tree.to_named(released)
        if self._secure is not None and phase.secure:
            fields = self._secure.masked(phase, released)
        reply = encode(phase.name, fields, {"round": round_})
        self._pending = Pending(self._exchange(asked, round_, number), state)
        if self._memory is not None:
            self._memory.write(Kept(self._state, self._pending))
        if self.holdings.ledger is not None and charge is not None:
            self.holdings.ledger.done(charge)
        return reply

    def _about_sum(self, asked: Message, round_: int, phase: Phase) -> bytes:
        """A step of a secure sum that touches no record."""
        if self._secure is None:
            raise WireError(f"the phase {phase.name!r} is no secure sum.")
        if asked.kind == KEYS:
            return self._secure.keys(phase, round_, self._reply_shapes(phase))
        return self._secure.answer(asked, round_)

    def _reply_shapes(self, phase: Phase) -> dict[str, Tree]:
        """The shapes of a reply, from the public shape of a record."""
        if phase.name not in self._shapes:
            record = {
                name: jax.ShapeDtypeStruct(column.shape[1:], column.dtype)
                for name, column in self._data.records.items()
            }
            self._shapes[phase.name] = reply_shapes(self.algorithm, self.task, phase, record)
        return self._shapes[phase.name]

    def _exchange(self, asked: Message, round_: int, number: int) -> int:
        """The server's number for this exchange; a repeated round has a new number."""
        named = asked.meta.get("exchange", round_ * len(self._phases) + number)
        if type(named) is not int:
            raise WireError("the number of an exchange must be an integer.")
        return named

    def _attempt(self, round_: int, number: int) -> Stream:
        """New random numbers per attempt: equal noise would cancel between two replies."""
        attempt = self._attempts[round_, number]
        self._attempts[round_, number] += 1
        return self._stream.again(attempt)

    def _settle(self, asked: Message) -> None:
        """Keep the state after the last reply if the server counted it, otherwise discard it."""
        if self._pending is not None:
            if asked.meta.get("counted") == self._pending.exchange:
                self._state = self._pending.state
            self._pending = None

    def _charge(self, phase: Phase, round_: int) -> int | None:
        """Charge the releases to which this client adds noise, before they are computed."""
        if self.holdings.prepaid is not None and self.holdings.ledger is not None:
            return self._charge_sampled(phase, round_, self.holdings.prepaid, self.holdings.ledger)
        if not any(release.at in self.holdings.places for release in phase.releases.values()):
            return None
        return self._pay(phase, round_, self.holdings.places)

    def _charge_sampled(
        self, phase: Phase, round_: int, prepaid: set[tuple[int, str]], ledger: Ledger
    ) -> int | None:
        """Mark a planned round of a prepaid run as used; charge any other round in full."""
        place = (round_, phase.name)
        if place not in prepaid:
            return self._pay(phase, round_, PLACES, Everyone())
        prepaid.remove(place)
        return ledger.charge(compose(), run=self.run, round=round_, phase=phase.name)

    def _pay(
        self,
        phase: Phase,
        round_: int,
        places: tuple[At, ...],
        cohort: SamplingScheme | None = None,
    ) -> int | None:
        event = self.algorithm.price(
            phase,
            round_,
            clients=self._clients,
            records=self._size,
            places=places,
            cohort=cohort,
        )
        ledger, budget = self.holdings.ledger, self.holdings.budget
        if ledger is None:
            if budget is not None:
                raise TacitError("a client with a budget needs a ledger.")
            return None
        if budget is not None and not self._covered(event, round_, phase, ledger, budget):
            raise BudgetError(f"the remaining budget does not cover round {round_}.")
        return ledger.charge(event, run=self.run, round=round_, phase=phase.name)

    def _covered(
        self, event: DpEvent, round_: int, phase: Phase, ledger: Ledger, budget: Budget
    ) -> bool:
        if self.holdings.covered is not None:
            return self.holdings.covered(event, round_, phase.name)
        return not ledger.would_exceed(event, budget)


@lru_cache(maxsize=64)
def _worker(
    algorithm: Algorithm, task: Task, population: Population, number: int, exact: bool = False
) -> Callable[..., tuple[dict[str, Tree], Tree]]:
    """The computation of a phase as one compiled program, shared by all clients in this process."""
    phase = algorithm.phases(task, population)[number]

    @jax.jit
    def work(
        state: Tree, data: ClientData, sent: Tree, round_: Array, train: Array, leave: Array
    ) -> tuple[dict[str, Tree], Tree]:
        with exact_noise("system" if exact else None):
            message, state = phase.client(Moment(round_, train), state, data, sent)
            released, stats = leave_client(phase, leave, message, round_)
        return {**released, **stats}, phase.remember(state, released)

    return work


@lru_cache(maxsize=64)
def _sent_shapes(
    algorithm: Algorithm, task: Task, population: Population, number: int, dtype: Precision
) -> Tree:
    with precision(dtype):
        return sent_shapes(algorithm, task, algorithm.phases(task, population)[number])


def _check_range(fields: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Refuse a model with numbers out of range, before anything is charged or computed."""
    for name, value in fields.items():
        if value.dtype.kind == "f" and not (np.abs(value) <= LARGEST).all():
            raise WireError(f"{name!r} has numbers that are not finite or above 2^40.")


def _round_of(message: Message) -> int:
    round_ = message.meta.get("round")
    if not isinstance(round_, int) or isinstance(round_, bool) or not 0 <= round_ < 2**31:
        raise WireError("a message must state its round.")
    return round_


def _padded(records: Records, dtype: Precision) -> ClientData:
    """The records padded to a power of two of rows, so that few programs serve all sizes."""
    size = len(next(iter(records.values())))
    rows = 1 << max(0, (size - 1).bit_length())

    def pad(column: np.ndarray[Any, Any]) -> Array:
        kept = cast(column, dtype)
        filled = np.zeros((rows, *column.shape[1:]), kept.dtype)
        filled[:size] = kept
        return jnp.asarray(filled)

    return ClientData(
        {name: pad(np.asarray(column)) for name, column in records.items()},
        jnp.asarray(size, jnp.int32),
    )
