"""What a method is: phases of one exchange each, with a release for every field that is sent.

An algorithm is a frozen dataclass of public numbers. It reads like its pseudo-code, holds no engine
code, and runs unchanged in the simulator and between real clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jax import Array

from tacit.accounting.events import (
    DpEvent,
    SamplingScheme,
    in_turn,
)
from tacit.accounting.guarantee import Relation, Unit, observer
from tacit.errors import TacitError
from tacit.phase import ClientData as ClientData
from tacit.phase import Message as Message
from tacit.phase import Moment as Moment
from tacit.phase import Phase as Phase
from tacit.population import Population
from tacit.release import PLACES, At, Release
from tacit.sampling import Cohort, FullCohort
from tacit.secure_sum import SecureSum
from tacit.tasks.base import HostRecords, Params, Record, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, WholeNumber, check_limits


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
            raise TacitError(
                f"{type(self).__name__} has no noise: choose a private method, such as dp-fedavg."
            )
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


@dataclass(frozen=True, kw_only=True)
class WithSecureSum(Algorithm):
    """A method whose noise can be drawn in shares; both numbers are read only then."""

    honest: AtLeastOne | None = None  # of the clients; two thirds if not given
    dropouts: WholeNumber = 0  # the clients that may be missing from a sum

    @property
    def secure_sum(self) -> SecureSum:
        """Who has to be trusted with a sum of shares."""
        return SecureSum(self.honest, self.dropouts)


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


def observer_of(
    found: Mapping[tuple[str, str], Release], clients: int, copied_keys: bool = False
) -> str:
    """Against whom the releases protect: the most trusting of them decides."""
    sums = [release.trust for release in found.values() if release.at == "shares"]
    honest = max((trust.honest_of(clients) for trust in sums), default=None)
    return observer(trusts_server(found), honest, clients, copied_keys)


def trusts_server(found: Mapping[tuple[str, str], Release]) -> bool:
    """Whether the server sees something before its noise."""
    return any(release.at == "aggregate" for release in found.values())
