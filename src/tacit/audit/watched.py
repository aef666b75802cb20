"""A method with an observer inside, who writes down what the guarantee lets it see.

The method's own phases do all the work. The observer of messages keeps what every client releases,
noise included; the observer of models keeps what the models say. ``tell`` chooses the numbers that
are kept of either. Nothing that the method computes depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase, first_state
from tacit.errors import TacitError
from tacit.population import Population
from tacit.sampling import Cohort
from tacit.tasks.base import HostRecords, Params, Task
from tacit.tree import Tree

_PHASES = 3  # the most that a round may have
Tell = Callable[[Tree], Array]


class Server(NamedTuple):
    """The method's state, and what models have told."""

    inner: Any
    models: Array
    round: Array | int = 0


class Client(NamedTuple):
    """The method's state of a client, and what its messages have told."""

    inner: Tree
    messages: Array
    round: Array


@dataclass(frozen=True, kw_only=True)
class Watched(Algorithm):
    """A planned method, with a log of ``rows`` rows of so many ``numbers``.

    Later rounds share the last row: it keeps their last model, and the sum of their messages.
    """

    method: Algorithm
    rows: int
    numbers: int
    tell: Tell

    @property
    def cohort(self) -> Cohort:
        """The method's."""
        return self.method.cohort

    def prepared(self, records: HostRecords) -> HostRecords:
        """As the method wants them."""
        return self.method.prepared(records)

    def init(self, params: Params) -> Server:
        """Nothing seen yet."""
        return Server(first_state(self.method, params), jnp.zeros((self.rows, self.numbers)))

    def init_client(self, params: Params) -> Client:
        """Nothing sent yet."""
        nothing = jnp.zeros((self.rows, _PHASES, self.numbers))
        return Client(self.method.init_client(params), nothing, jnp.zeros((), jnp.int32))

    def model(self, state: Any) -> Params:
        """The method's."""
        return self.method.model(_inside(state))

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """The method's phases, with what is seen kept beside their states."""
        found = self.method.phases(task, population)
        if len(found) > _PHASES:
            raise TacitError(f"an audit watches at most {_PHASES} exchanges of a round.")
        return tuple(self._seen(phase, number) for number, phase in enumerate(found))

    def _seen(self, phase: Phase, number: int) -> Phase:
        def client(
            moment: Moment, state: Client, data: ClientData, sent: Tree
        ) -> tuple[Message, Client]:
            message, inner = phase.client(moment, state.inner, data, sent)
            return message, state._replace(inner=inner, round=moment.round)

        def remember(state: Client, released: Message) -> Client:
            inner = phase.remember(state.inner, released)
            row = jnp.minimum(state.round, self.rows - 1)
            log = state.messages.at[row, number].add(self.tell(released))
            return state._replace(inner=inner, messages=log)

        def server(state: Server, mean: Message) -> Server:
            inner = phase.server(_inside(state), mean)
            row = jnp.minimum(state.round, self.rows - 1)
            log = state.models.at[row].set(self.tell(inner.params))
            return state._replace(inner=inner, models=log)

        return replace(
            phase,
            client=client,
            remember=remember,
            server=server,
            send=lambda state: phase.send(_inside(state)),
        )


def _inside(state: Server) -> Any:
    """The method's state in this round: the engine counts the rounds on the outside."""
    return state.inner._replace(round=state.round)


def first_numbers(value: Tree, most: int) -> Array:
    """The first number of each array, along the axis in which a worst case pulls."""
    leaves = jax.tree.leaves(value)
    if len(leaves) > most:
        raise TacitError(f"an audit watches messages of at most {most} arrays.")
    first = [jnp.ravel(leaf)[0].astype(jnp.result_type(float)) for leaf in leaves]
    return jnp.stack([*first, *[jnp.zeros(())] * (most - len(first))])
