"""Local DP with dynamic noise allocation for composite objectives: equation (7)
of Zhang, Fay and Johansson (arXiv:2308.01139).

    minimise  (1/n) sum_i f_i(x) + g(x),   f_i the mean over m records, g with an easy prox

    client   xt = x - gamma ( (1/n) grad f_i(x) + zeta_t + Lambda ), zeta_t ~ N(0, xi_t^2); sends xt
    server   xbar = mean of xt;  broadcasts xbar
    client   Lambda += xt - xbar;   x = prox_{(gamma/n) g}( xt - gamma (xt - xbar) )

Protected: one record of a worker, against the server, under replace-one: x and Lambda are functions
of earlier messages and broadcasts, so each message is one Gaussian release of the clipped mean
gradient. The noise over the rounds is the dynamic allocation with the LIFTED constant mu/n. The
returned model is the prox of xbar, which is the mean of the workers when g = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.schedules.allocation import dynamic_levels, static_levels
from tacit.tasks.base import Params, Task
from tacit.tasks.prox import WeightedL1Box
from tacit.tree import Tree
from tacit.validation import NotNegative, Positive


class State(NamedTuple):
    """The mean of the last messages, and the round."""

    params: Params
    round: Array | int = 0


class Worker(NamedTuple):
    """A worker's last message and its dual variable."""

    message: Params
    dual: Params


@dataclass(frozen=True, kw_only=True)
class DynamicLDP(Algorithm):
    """Primal-dual private descent whose noise shrinks over the rounds."""

    step: float = 0.25  # gamma
    clip: Positive = 1.0  # B
    strong_convexity: NotNegative = 0.0  # of one worker's f_i: lifted to mu / n
    allocation: Literal["dynamic", "static"] = "dynamic"
    most_noise: float | None = 100.0  # cap of the first rounds' noise over the last one's
    l1: NotNegative = 0.0
    box: float | None = None
    noise: float = 0.0
    relation: Relation = "replace-one"
    uses_problem: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.step <= 0.25:
            raise TacitError(f"step is {self.step}; the method needs a step above 0, at most 1/4.")
        if self.allocation == "dynamic" and self.strong_convexity == 0:
            raise TacitError(
                "the dynamic allocation needs the strong_convexity of one worker's objective (for"
                " instance the task's l2); without one use allocation = 'static'."
            )

    @property
    def levels(self) -> tuple[float, ...]:
        """Noise on the sum of a worker's gradients over the clip, round by round."""
        rounds, clients = self.known.rounds, self.known.population.clients
        shape = static_levels(rounds)
        if self.allocation == "dynamic":
            lifted = min(self.strong_convexity / clients, 1.0)
            shape = dynamic_levels(rounds, 1 - self.step * lifted, self.most_noise)
        return tuple(self.noise * level for level in shape)

    @property
    def release(self) -> Release:
        """One noisy mean gradient a round, over all records."""
        return Release(
            bound=Clip(self.clip),
            mechanism=gaussian_noise(self.levels if self.noise else 0.0),
            at="step",
            unit="record",
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: finish the last round with the broadcast, then send the next message."""
        release, share = self.release, 1 / population.clients

        def work(
            moment: Moment, worker: Worker, data: ClientData, xbar: Params
        ) -> tuple[Message, Worker]:
            first = moment.round == 0
            gap = tree.subtract(worker.message, xbar)
            dual = tree.select(first, worker.dual, tree.add(worker.dual, gap))
            pulled = tree.subtract(worker.message, tree.scale(self.step, gap))
            x = tree.select(first, xbar, self.prox(pulled, population.clients))

            def moved(gradient: Tree) -> Tree:
                direction = tree.add(tree.scale(share, gradient), dual)
                return tree.subtract(x, tree.scale(self.step, direction))

            message = local.private_gradient(task, release, moment, x, data).map(moved)
            return {"point": message}, Worker(message.value, dual)

        return (Phase(name="train", client=work, server=self.mean, releases={"point": release}),)

    def prox(self, x: Params, clients: int) -> Params:
        """The prox of (gamma/n) g."""
        if self.l1 == 0 and self.box is None:
            return x
        g = WeightedL1Box(weight=self.l1, box=float("inf") if self.box is None else self.box)
        return g(x, self.step / clients)

    def mean(self, state: State, mean: Message) -> State:
        """xbar: the mean of the messages."""
        return state._replace(params=mean["point"])

    def init(self, params: Params) -> State:
        """x^1 is the model that the run starts from."""
        return State(params)

    def init_client(self, params: Params) -> Tree:
        """Lambda^1 = 0."""
        return Worker(params, tree.zeros_like(params))

    def model(self, state: Any) -> Params:
        """The prox of xbar."""
        return self.prox(state.params, self.known.population.clients)
