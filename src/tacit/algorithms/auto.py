"""Auto: a budget in, a model out; nothing to tune, with a trusted server or between silos.

    before   the mean of all records at norm 1, released with a quarter of mu or, when clients are
             few, up to half of it (``PrivateMean``)
    client   one full-batch gradient on centred unit records, sent at norm 1, or shorter where it
             is below 0.02: a client whose records are learnt has little to say; where the noise
             decides (few clients, a small budget), the update after 20 local steps, at norm 1
    server   heavy ball, with a step and a number of rounds that follow from the noise alone

``protects = "client"``: the server adds the noise to the sum over clients, so a whole client is
protected against everyone who sees the models; the server is trusted. s1 = 1 / (n mu).

``protects = "record"``: every record's gradient has norm 1, each silo adds the noise to its own sum
and sends it; a record is protected against the server too. With M silos and N records in all,
s1 = sqrt(M) / (N mu). With ``noise_at = "aggregate"`` the server is trusted and adds the noise
once, to the sum over all silos: s1 = 1 / (N mu).

``noise_at = "shares"``, for clients and for records: the same noise in shares, on a secure sum. The
server is not trusted, and s1 grows by sqrt(n / carriers) only (``secure_sum``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import jax

from tacit import local, tree
from tacit.accounting.guarantee import Unit
from tacit.algorithm import ClientData, Message, Moment, Phase, WithSecureSum
from tacit.algorithms.auto_base import OneGradient, State, with_prior
from tacit.bounds import Clip, Normalize
from tacit.errors import TacitError
from tacit.population import Population
from tacit.release import At, Release, gaussian_noise
from tacit.sampling import Cohort, FullBatch, FullCohort
from tacit.schedules.auto import FEW
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, Positive, ZeroToOne

_ENOUGH_RECORDS, _MANY_STEPS = 5, 20


@dataclass(frozen=True, kw_only=True)
class Auto(OneGradient, WithSecureSum):
    """Normalised gradients of clients or records; the server or each silo adds the noise."""

    protects: Unit = "client"
    noise_at: Literal["silo", "aggregate", "shares"] | None = None  # records: at their silo
    local_steps: AtLeastOne | None = None  # by the rule if not given
    local_lr: Positive = 1.0
    floor: ZeroToOne = 0.02  # gradients below this norm are sent shorter than 1; 0 sends all at 1
    clients_per_round: Cohort = field(default_factory=FullCohort)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protects == "client" and self.noise_at == "silo":
            raise TacitError("for client-side noise use auto-local, or set protects = 'record'.")
        if self.protects == "record" and (self.local_steps or 1) > 1:
            raise TacitError("local steps are for clients: a record is protected in one gradient.")
        if self.protects == "record" and self.prior:
            raise TacitError(
                "a label prior joins all records of a client in each one's gradient: use it to"
                " protect clients, or set prior = false."
            )

    @property
    def release(self) -> Release:
        """A gradient of norm 1 of every unit, with noise on the sum."""
        return Release(
            bound=Clip(1.0) if self._has_floor else Normalize(1.0),
            mechanism=gaussian_noise(self.noise),
            at=self._at,
            unit=self.protects,
            trust=self.secure_sum,
        )

    @property
    def spread(self) -> float:
        """The noise over the expected cohort, or over its records, drawn once or by every silo."""
        population = self.known.population
        expected = self.cohort.expected(population.clients)
        if self._at == "step":
            return self.noise / math.sqrt(expected) * population.sums_to_mean
        summed = self.noise / expected
        if self._at == "shares":
            summed *= self.secure_sum.excess(population.clients)
        return summed if self.protects == "client" else summed * population.sums_to_mean

    @property
    def _at(self) -> At:
        if self.noise_at == "shares":
            return "shares"
        return "aggregate" if self.protects == "client" or self.noise_at == "aggregate" else "step"

    @property
    def few(self) -> bool:
        """Whether the noise decides: see ``schedules.auto``."""
        if self.protects == "record" or self.records == "as-is" or self.problem is None:
            return False
        if self.problem.task.score_scale < 1:  # found for log-odds, and worse for targets
            return False
        return self.spread / math.sqrt(self.problem.rounds) > FEW

    @property
    def usual_kappa(self) -> float:
        """How far the noise of the whole run moves a record's score."""
        return 2.0 if self.few else super().usual_kappa

    def steps(self, population: Population) -> int:
        """The local steps before an answer."""
        if self.local_steps is not None:
            return self.local_steps
        enough = population.records >= _ENOUGH_RECORDS * population.clients
        return _MANY_STEPS if self.few and enough else 1

    @property
    def _has_floor(self) -> bool:
        """An update of local steps has no floor: its length says little."""
        one = self.problem is None or self.steps(self.problem.population) == 1
        return self.floor > 0 and one

    def _in_floors(self, gradient: Tree) -> Tree:
        return tree.scale(1 / self.floor, gradient) if self._has_floor else gradient

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: a gradient."""
        release = self.release
        share = population.sums_to_mean
        steps = self.steps(population)

        def whole(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            if steps == 1:
                found = self.gradient(task, params, data, moment.key)
                return {"gradient": self._in_floors(found)}, state
            start = with_prior(params, data) if self.prior else params
            update = local.update(
                task, FullBatch(), moment, start, data, steps=steps, step_size=self.local_lr
            )
            return {"gradient": self.in_units(tree.scale(-1.0, update))}, state

        def by_record(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            def each(records: Record) -> Tree:
                found = jax.vmap(jax.grad(task.loss), in_axes=(None, 0))(params, records)
                return self._in_floors(self.in_units(found))

            summed = local.record_sum(release, moment, data, params, each)
            if isinstance(summed, local.Noised):
                return {"gradient": summed.map(lambda v: tree.scale(share, v))}, state
            return {"gradient": summed}, state

        def by_all_records(state: State, mean: Message) -> State:
            return self.step(state, {"gradient": tree.scale(share, mean["gradient"])})

        client = whole if self.protects == "client" else by_record
        server = by_all_records if release.by_record else self.step
        return (Phase(name="train", client=client, server=server, releases={"gradient": release}),)
