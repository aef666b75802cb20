"""What a method is: phases of one exchange each, with a release for every field that is sent.

An algorithm is a frozen dataclass of public numbers. It reads like its pseudo-code, holds no engine
code, and runs unchanged in the simulator and between real clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit.accounting.dp_events import dp_event
from tacit.accounting.events import (
    DpEvent,
    Everyone,
    Poisson,
    SamplingScheme,
    compose,
    in_turn,
    joint_event,
)
from tacit.accounting.guarantee import Relation, Unit, observer
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, Mechanism, NoNoise
from tacit.population import Population
from tacit.release import PLACES, At, Release, charged_cohort
from tacit.sampling import Cohort, FullCohort
from tacit.tasks.base import HostRecords, Params, Record, Task
from tacit.tree import Tree
from tacit.validation import check_limits

Message = Mapping[str, Tree]

AT_ONCE = 1024  # more rows together would only take memory


@partial(
    jax.tree_util.register_dataclass, data_fields=("records", "size"), meta_fields=("at_once",)
)
@dataclass(frozen=True)
class ClientData:
    """A client's records, in rows of a static number of which the first ``size`` count.

    ``at_once`` is how many rows to treat together: clients of very different sizes are worked
    through in parts, or the small ones would cost as much as the largest.
    """

    records: Record
    size: Array
    at_once: int = AT_ONCE

    @property
    def capacity(self) -> int:
        """The static number of rows."""
        return int(jax.tree.leaves(self.records)[0].shape[0])


class Moment(NamedTuple):
    """When and with which randomness a client works: the round and its own key for it."""

    round: Array
    key: Array


ClientFn = Callable[[Moment, Tree, ClientData, Tree], tuple[Message, Tree]]
ServerFn = Callable[[Tree, Message], Tree]


def _params_of(state: Any) -> Tree:
    return state.params


def _keep(client_state: Tree, released: Message) -> Tree:
    del released
    return client_state


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One exchange: the server sends, the clients answer, the server moves on.

    ``stats`` are computed by the client from what it released, so they are free; ``remember`` lets
    a client keep what it released (control variates do). ``norm_of`` names a field that is the
    squared norm of another: the boundary computes it from the bounded value, so that both together
    are one Gaussian release and are charged as one.
    """

    name: str
    client: ClientFn
    server: ServerFn
    releases: Mapping[str, Release]
    send: Callable[[Any], Tree] = _params_of
    stats: Mapping[str, Callable[[Message], Array]] = field(default_factory=dict)
    remember: Callable[[Tree, Message], Tree] = _keep
    norm_of: tuple[str, str] | None = None  # (the scalar, the vector)
    joint: bool = True  # charge norm_of's two fields as the one release that they are

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        cohort: SamplingScheme,
        records: int,
        places: tuple[At, ...] = PLACES,
    ) -> DpEvent:
        """What the releases of one round cost a client with so many records.

        ``places`` selects releases by where their noise is drawn: a server pays for aggregates,
        a client for the rest.
        """
        due = {name: r for name, r in sorted(self.releases.items()) if r.at in places}
        summed = [r for r in due.values() if r.at == "aggregate"]
        scheme = charged_cohort(cohort, summed[0].unit) if summed else Everyone()
        noisy = not any(isinstance(r.mechanism, NoNoise) for r in summed)
        if isinstance(scheme, Poisson) and scheme.rate < 1 and noisy:
            # All fields share one coin: what is sampled is everything that the cohort releases.
            given = partial(
                self.event, round_, relation=relation, cohort=Everyone(), records=records
            )
            own = tuple(place for place in places if place != "aggregate")
            whole = dp_event.PoissonSampledDpEvent(scheme.rate, given(places=("aggregate",)))
            return compose(whole, given(places=own))
        parts: list[DpEvent] = []
        if self.joint and self.norm_of is not None and set(self.norm_of) <= set(due):
            scalar, vector = (due.pop(name) for name in self.norm_of)
            vector.check_relation(relation)
            parts.append(
                joint_event(
                    vector_noise=_level(vector.mechanism, round_),
                    scalar_noise=_level(scalar.mechanism, round_),
                    relation=relation,
                )
            )
        parts += [
            release.event(round_, relation=relation, cohort=cohort, records=records)
            for release in due.values()
        ]
        return compose(*parts)

    def __post_init__(self) -> None:
        if self.norm_of is not None and any(
            not isinstance(self.releases[name].mechanism, (Gaussian, NoNoise))
            or self.releases[name].at != "aggregate"
            for name in self.norm_of
        ):
            raise TacitError("a value and its squared norm are one release only as an aggregate.")
        if self.stats and any(r.at == "aggregate" for r in self.releases.values()):
            raise TacitError(
                f"phase {self.name!r} computes stats from values that are noised only at the"
                " server: declare them as fields with a release of their own."
            )
        if set(self.stats) & set(self.releases):
            raise TacitError(f"phase {self.name!r} has a field and a statistic of one name.")


def _level(mechanism: Mechanism, round_: int) -> float:
    return mechanism.level(round_) if isinstance(mechanism, Gaussian) else 0.0


class ServerState(NamedTuple):
    """The least a server keeps: the model, the round, and what else the algorithm needs."""

    params: Params
    extra: Tree = ()
    round: Array | int = 0  # counted by the engine


@dataclass(frozen=True)
class Problem:
    """What a method is planned for: a task, who takes part, and how many rounds there are."""

    task: Task
    population: Population
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """A method: a frozen dataclass of public numbers, whose annotations say which are allowed."""

    relation: Relation = "zero-out"
    problem: Problem | None = field(default=None, repr=False)  # set when a run is planned
    uses_problem: ClassVar[bool] = False  # whether anything in it depends on the problem
    probed: ClassVar[str | None] = None  # the field whose signal and noise a simulation watches

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def cohort(self) -> Cohort:
        """Which clients take part in a round."""
        found: Cohort = getattr(self, "clients_per_round", FullCohort())
        return found

    def price(
        self,
        phase: Phase,
        round_: int,
        *,
        clients: int,
        records: int,
        places: tuple[At, ...] = PLACES,
        cohort: SamplingScheme | None = None,
    ) -> DpEvent:
        """What a phase costs a client that takes part in this round: nobody else computes it.

        ``cohort`` is for a client that was asked outside the plan, where no sampling is secret.
        """
        scheme = self.cohort.scheme(clients) if cohort is None else cohort
        return phase.event(
            round_, relation=self.relation, cohort=scheme, records=records, places=places
        )

    def price_in_turn(self, phase: Phase, round_: int, population: Population) -> DpEvent:
        """What a ledger over all clients writes down: of groups that take turns, one is charged."""
        event = self.price(phase, round_, clients=population.clients, records=population.smallest)
        return in_turn(event, round_, self.cohort.scheme(population.clients))

    @property
    def known(self) -> Problem:
        """The problem that the method is planned for."""
        if self.problem is None:
            raise TacitError(
                f"{type(self).__name__} depends on the rounds and the clients: plan the run first."
            )
        return self.problem

    @abstractmethod
    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """The exchanges of one round, in order."""

    @abstractmethod
    def init(self, params: Params) -> Any:
        """The server's state before round 0: a NamedTuple with ``params`` and a ``round``."""

    def init_client(self, params: Params) -> Tree:
        """A client's state before its first round."""
        del params
        return ()

    def model(self, state: Any) -> Params:
        """The model that the run returns."""
        return state.params

    def prepared(self, records: HostRecords) -> HostRecords:
        """The records as the method wants them: a public map of each record by itself."""
        return records

    def prelude(self, task: Task, population: Population) -> Algorithm | None:
        """What the method releases once before round 0 (see ``algorithms.prelude``), or nothing."""
        del task, population
        return None

    def share(self, mu: float, population: Population) -> float:
        """What it takes of a budget's mu squared when it is the prelude of another method."""
        del mu, population
        return 0.05

    def enough_rounds(self) -> int | None:
        """The rounds that the method wants at its present noise; None: its user says."""
        return None

    def planned(self, problem: Problem) -> Self:
        """The same method for this problem, where anything in it depends on it."""
        return replace(self, problem=problem) if self.uses_problem else self

    def communications(self, rounds: int) -> int:
        """How many rounds a run of so many really has; coins drawn up front may decide it."""
        return rounds

    @property
    def shares(self) -> Mapping[str, float | None]:
        """How a budget is split over phases with noises of their own, as shares of mu squared.

        One phase has None and takes the rest. Empty: one noise serves the whole round.
        """
        return {}

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """The same method with this noise in units of its bound; what calibration searches on.

        ``phase`` names the phase whose noise is meant where the budget is split.
        """
        del phase
        if not hasattr(self, "noise"):
            raise TacitError(f"{type(self).__name__} has no noise: take a private method.")
        changes: dict[str, Any] = {"noise": noise}
        return replace(self, **changes)

    def report(self, state: Any) -> dict[str, Array]:
        """Public numbers of the server's state that are worth watching."""
        del state
        return {}

    def oracle(self, task: Task, params: Params, records: Record) -> dict[str, Array]:
        """Numbers of the private records that only a simulation may look at."""
        del task, params, records
        return {}


def first_state(algorithm: Algorithm, params: Params) -> Any:
    """The server's state before round 0; engines count the rounds, algorithms read them."""
    return algorithm.init(params)._replace(round=jnp.zeros((), jnp.int32))


def after_round(state: Any) -> Any:
    """The state when all phases of a round are done."""
    return state._replace(round=state.round + 1)


def releases(
    algorithm: Algorithm, task: Task, population: Population
) -> dict[tuple[str, str], Release]:
    """Every release of a round by (phase, field)."""
    found = {
        (phase.name, name): release
        for phase in algorithm.phases(task, population)
        for name, release in phase.releases.items()
    }
    if len({release.unit for release in found.values()}) > 1:
        raise TacitError("an algorithm protects one unit: its releases mix clients and records.")
    return found


def unit_of(found: Mapping[tuple[str, str], Release]) -> Unit:
    """The unit that the releases protect."""
    return next(iter(found.values())).unit


def observer_of(found: Mapping[tuple[str, str], Release]) -> str:
    """Against whom the releases protect: the most trusting of them decides."""
    return observer(trusts_server(found))


def trusts_server(found: Mapping[tuple[str, str], Release]) -> bool:
    """Whether the server sees something before its noise."""
    return any(release.at == "aggregate" for release in found.values())
