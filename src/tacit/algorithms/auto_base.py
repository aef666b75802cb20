"""What auto and auto-local share: one normalised gradient a client, a step from the noise alone.

    client   g = the full-batch gradient at w; sends g/|g|
    server   v = momentum v + (1 - momentum) noisy mean
             w -= lr v,   lr = kappa / (sqrt(T) spread)

No clip radius and, but for few clients, no local steps: a message of norm 1 has nothing to tune,
and the step follows from the noise on the mean (``schedules.auto``). The bias is learnt in
units of ``offset``, as the weight of one more feature of that constant value would be: beside a
record of norm 1 a constant of 1 would fill half of every message.

With ``prior`` a client adds the log of its own smoothed label frequencies to the scores before it
takes its gradient. Its message then speaks of what tells its labels apart and not of which labels
it happens to hold. The frequencies are inside its own message and need no release of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit import local, tree
from tacit.algorithm import Algorithm, ClientData, Message, Problem
from tacit.algorithms.output import Outputs
from tacit.errors import TacitError
from tacit.population import Population
from tacit.preludes.mean_record import PrivateMean
from tacit.record_maps import unit_rows, with_x
from tacit.sampling import FullBatch
from tacit.schedules.auto import MOST, enough_rounds, step_size
from tacit.tasks.base import HostRecords, Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, Momentum, Positive

Centre = Literal["private", "public"]
_BIASES = ("b", "bias")


class State(NamedTuple):
    """The model, the round, the velocity, and the sum of the last models."""

    params: Params
    velocity: Params
    kept: Tree
    round: Array | int = 0


@dataclass(frozen=True, kw_only=True)
class OneGradient(Algorithm):
    """Normalised gradients; a subclass says who adds the noise and who answers when."""

    kappa: Positive | None = None  # by the rule if not given
    momentum: Momentum = 0.8
    offset: Positive = 0.1
    records: Literal["unit", "as-is"] = "unit"
    centre: Centre = "private"
    prior: bool | None = False  # None: where the task has labels
    average_rounds: AtLeastOne | None = None  # a sixth of the rounds if not given
    noise: float = 0.0
    probed: ClassVar[str | None] = "gradient"

    @property
    @abstractmethod
    def spread(self) -> float:
        """The standard deviation of the noise on each number of a round's mean message."""

    @property
    def lr(self) -> float:
        """The server's step."""
        kappa = self.usual_kappa if self.kappa is None else self.kappa
        return step_size(self.spread, self.known.rounds, kappa)

    @property
    def usual_kappa(self) -> float:
        """How far the noise of the whole run moves a record's score."""
        return self.known.task.score_scale  # targets of size 1 bear less noise than log-odds

    @property
    def outputs(self) -> Outputs:
        """The mean of the last models."""
        rounds = None if self.problem is None else self.problem.rounds
        return Outputs("average", self.average_rounds or max(1, (rounds or 1) // 6), rounds)

    def prepared(self, records: HostRecords) -> HostRecords:
        """Every record at norm 1."""
        if self.records == "as-is" or "x" not in records:
            return records
        return with_x(records, unit_rows(records["x"]))

    def prelude(self, task: Task, population: Population) -> Algorithm | None:
        """The release of the mean record, unless the features are centred on public knowledge."""
        features = getattr(task, "features", None)
        if self.centre == "public" or self.records == "as-is" or features is None:
            return None
        return PrivateMean.before(self, task, population, features)

    def gradient(self, task: Task, params: Params, data: ClientData, key: Array) -> Tree:
        """A client's gradient, the bias in its own units."""
        at = with_prior(params, data) if self.prior else params
        step = jnp.zeros((), jnp.int32)
        return self.in_units(local.gradient(task, FullBatch(), key, step, at, data))

    def in_units(self, value: Tree) -> Tree:
        """Biases times the offset; twice, it is the step of a feature of that constant value."""
        return jax.tree_util.tree_map_with_path(
            lambda path, v: v * jnp.asarray(self.offset, v.dtype) if _is_bias(path) else v, value
        )

    def step(self, state: State, mean: Message) -> State:
        """A step along the running mean of noisy means."""
        fresh = tree.scale(1 - self.momentum, mean["gradient"])
        velocity = tree.add(tree.scale(self.momentum, state.velocity), fresh)
        moved = tree.scale(self.lr, self.in_units(velocity))
        params = tree.subtract(state.params, moved)
        kept = self.outputs.keep(state.kept, state.params, params, state.round)
        return state._replace(params=params, velocity=velocity, kept=kept)

    def init(self, params: Params) -> State:
        """The model before the first round."""
        return State(params, tree.zeros_like(params), self.outputs.start(params))

    def model(self, state: Any) -> Params:
        """The average of the last models."""
        return self.outputs.choose(state.kept, state.params, state.round)

    def planned(self, problem: Problem) -> Self:
        """A prior is for labels; the step depends on rounds, clients and the task's scores."""
        labels = problem.task.log_odds and getattr(problem.task, "bias", False)
        prior = labels if self.prior is None else self.prior
        return replace(self, problem=problem, prior=prior)

    def enough_rounds(self) -> int | None:
        """max(60, 1 / (10 s1))."""
        return enough_rounds(self.spread, self.known.rounds, self.most_rounds)

    @property
    def most_rounds(self) -> int:
        """More would only take time."""
        return MOST


def with_prior(params: Params, data: ClientData) -> Params:
    """The model with the client's own log frequencies of labels (plus one each) in its bias."""
    bias = params.get("b") if isinstance(params, dict) else None
    if bias is None or "y" not in data.records:
        raise TacitError("a label prior needs labels and a model with a bias: set prior = false.")
    classes = bias.shape[0] if bias.ndim else 2
    counts = jnp.arange(data.capacity) < data.size
    labels = jnp.reshape(data.records["y"], (-1,))
    held = jnp.zeros(classes, bias.dtype).at[labels].add(counts.astype(bias.dtype))
    log_share = jnp.log(held + 1)
    shift = log_share - jnp.mean(log_share) if bias.ndim else log_share[1] - log_share[0]
    return {**params, "b": bias + shift}


def _is_bias(path: tuple[Any, ...]) -> bool:
    return getattr(path[-1], "key", None) in _BIASES if path else False
