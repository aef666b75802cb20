"""DP-SCAFFOLD for records: local steps corrected by control variates (Karimireddy et al., 2020;
Noble, Bellet and Dieuleveut, 2022).

    server   sends x and c
    client   y = x; K times: y -= eta (noisy gradient(y) - c_i + c);  sends Dy = y - x
             option II:  c_i <- c_i - c + (x - y) / (K eta)
             option I:   c_i <- noisy gradient(x), a release of its own
    server   x += eta_g mean Dy;   c += (cohort / clients) * mean (change of c_i)

Protected: one record of a client. Each local gradient is a DP-SGD release, so y, and with option II
c_i, are functions of released gradients and nothing more is charged; option I charges one more
gradient a round. The signs and the K eta in the denominator are easy to get wrong. For the
client-level form see ``scaffold_client``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from jax import Array

from tacit import local, random_numbers, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.algorithms.dp_fedavg_record import Batches, record_batch
from tacit.bounds import Clip
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import Cohort, FullCohort
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, Positive


class State(NamedTuple):
    """The model and the server's control variate."""

    params: Params
    control: Params
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class Scaffold(Algorithm):
    """What both forms share: the control variates of the clients and of the server."""

    local_steps: AtLeastOne = 10
    local_lr: Positive = 0.1
    server_lr: Positive = 1.0
    clip: Positive = 1.0
    clients_per_round: Cohort = field(default_factory=FullCohort)
    noise: float = 0.0
    relation: Relation = "replace-one"

    def init(self, params: Params) -> State:
        """c = 0."""
        return State(params, tree.zeros_like(params))

    def init_client(self, params: Params) -> Tree:
        """c_i = 0."""
        return tree.zeros_like(params)

    def drift(self, update: Params) -> Params:
        """(x - y) / (K eta), with update = y - x."""
        return tree.scale(-1 / (self.local_steps * self.local_lr), update)

    def renewed(self, own: Params, control: Params, update: Params) -> Params:
        """c_i - c + (x - y) / (K eta)."""
        return tree.add(tree.subtract(own, control), self.drift(update))

    def moved(self, state: State, update: Params, change: Params, population: Population) -> State:
        """The model along the mean update, and c by the mean change of the control variates."""
        share = self.cohort.expected(population.clients) / population.clients
        params = tree.add(state.params, tree.scale(self.server_lr, update))
        return state._replace(
            params=params, control=tree.add(state.control, tree.scale(share, change))
        )


def model_and_control(state: State) -> tuple[Params, Params]:
    """What the server sends."""
    return state.params, state.control


@dataclass(frozen=True, kw_only=True)
class DPScaffold(Scaffold):
    """SCAFFOLD whose local gradients are releases: one record is protected."""

    option: Literal["I", "II"] = "II"
    batch_size: int | None = 100
    batches: Batches = "fixed"

    @property
    def release(self) -> Release:
        """K noisy gradients a round, each on a fresh batch."""
        return Release(
            bound=Clip(self.clip),
            mechanism=gaussian_noise(self.noise),
            at="step",
            unit="record",
            times=self.local_steps,
            batch=record_batch(self.batches, self.batch_size),
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: corrected local steps, and the new control variate."""
        release, once = self.release, replace(self.release, times=1)

        def work(
            moment: Moment, own: Params, data: ClientData, sent: tuple[Params, Params]
        ) -> tuple[Message, Params]:
            params, control = sent
            keys = random_numbers.split(moment.key)
            steps = local.private_steps(
                task,
                release,
                moment._replace(key=keys[0]),
                params,
                data,
                step_size=self.local_lr,
                correction=tree.subtract(control, own),
            )
            update = steps.map(lambda found: tree.subtract(found[0], params))
            if self.option == "I":
                fresh = moment._replace(key=keys[1])
                renewed = local.private_gradient(task, once, fresh, params, data)
                change = renewed.map(lambda new: tree.subtract(new, own))
                return {"update": update, "control": change}, renewed.value
            renewed = update.map(lambda moved: self.renewed(own, control, moved))
            both = update.map(
                lambda moved: {"model": moved, "control": tree.subtract(renewed.value, own)}
            )
            return {"update": both}, renewed.value

        def move(state: State, mean: Message) -> State:
            if self.option == "I":
                return self.moved(state, mean["update"], mean["control"], population)
            both: Any = mean["update"]
            return self.moved(state, both["model"], both["control"], population)

        releases = {"update": release} | ({"control": once} if self.option == "I" else {})
        return (
            Phase(
                name="train",
                client=work,
                server=move,
                releases=releases,
                send=model_and_control,
            ),
        )
