"""Auto without a trusted server: every client speaks once, with its whole budget.

    before   clients are split into as many disjoint groups as there are rounds
    round    only its group is asked: one gradient a client, of norm 1, with noise from the client
    server   heavy ball, with a step and a number of rounds that follow from the noise alone

A client's data is touched by its own messages alone, though later clients see models that earlier
ones have made; so its guarantee is that of ``times`` messages, and the run's is the worst client's.
The message is PrivUnitG's noisy direction, of pure epsilon: s1 = 1 / (m sqrt(M)), about a tenth of
the variance of ``mechanism = "gaussian"``, whose s1 is 2 / (mu sqrt(M)). Splitting a budget over
more messages costs accuracy; ``times`` is there to compare, and for few clients.

Protected: a whole client, under replace-one, against the server and everyone who sees the models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tacit.accounting.guarantee import Relation
from tacit.algorithm import ClientData, Message, Moment, Phase
from tacit.algorithms.auto_base import Centre, OneGradient
from tacit.bounds import Normalize
from tacit.mechanisms import Gaussian, NoNoise, PrivUnitG
from tacit.mechanisms.privunitg import Sampler
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import Cohort, TurnsCohort
from tacit.schedules.auto import most_rounds
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne


@dataclass(frozen=True, kw_only=True)
class AutoLocal(OneGradient):
    """Normalised gradients that clients noise themselves, ``times`` messages each."""

    mechanism: Literal["privunitg", "gaussian"] = "privunitg"
    sampler: Sampler = "fast"
    times: AtLeastOne = 1
    centre: Centre = "public"
    prior: bool | None = None
    relation: Relation = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.problem is not None:
            self.cohort.expected(self.problem.population.clients)  # refuses too many groups

    @property
    def cohort(self) -> Cohort:
        """The group whose turn it is."""
        return TurnsCohort(groups=-(-self.known.rounds // self.times))

    @property
    def release(self) -> Release:
        """A gradient of norm 1 with noise from the client. PrivUnitG has epsilon 1 / noise."""
        mechanism: Any = NoNoise()
        if self.noise and self.mechanism == "gaussian":
            mechanism = Gaussian(self.noise)
        elif self.noise:
            mechanism = PrivUnitG(1.0, self.sampler).scaled(self.noise)
        return Release(bound=Normalize(1.0), mechanism=mechanism, at="message")

    @property
    def spread(self) -> float:
        """The deviation of one message over the root of the group."""
        mechanism = self.release.mechanism
        one = mechanism.deviation if isinstance(mechanism, PrivUnitG) else self.noise
        return one / math.sqrt(self.cohort.expected(self.known.population.clients))

    @property
    def most_rounds(self) -> int:
        """As many as there are messages."""
        return most_rounds(self.known.population.clients, self.times)

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: a gradient with noise."""
        del population

        def speak(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            return {"gradient": self.gradient(task, params, data, moment.key)}, state

        return (
            Phase(
                name="train", client=speak, server=self.step, releases={"gradient": self.release}
            ),
        )
