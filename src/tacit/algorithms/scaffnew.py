"""DP-ScaffNew: local steps with control variates, a number of them planned up front
("Balancing Privacy and Performance for Private Federated Learning Algorithms", arXiv:2304.05127).

    client   x = w; for each step until a coin falls (probability p): x -= eta (grad f_i(x) - h_i)
             (the gradient over all records, or over ``batch_size`` fresh ones)
             sends Delta_i = clip(x - w, C) + N(0, sigma^2)
    server   Dbar = mean Delta_i;  w += Dbar                              broadcasts w and Dbar
    client   h_i += (p/eta) (Dbar - Delta_i)

Protected: a whole client, against the server, under replace-one: only Delta_i leaves, and h_i is
made of what has left. A round is one communication. The coins are data independent and are drawn
before training, so the noise is calibrated to the communications that really happen (calibrating
to their expectation overspends about half of the time), and the last step communicates.
``local_steps`` instead of ``probability`` takes the same number of steps every round (p = 1/steps).
Control variates sum to zero over the clients at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.bounds import Bound, Clip, Unbounded
from tacit.errors import TacitError
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import step_batch
from tacit.tasks.base import Params, Task
from tacit.tree import Tree
from tacit.validation import AtLeastOne, Positive, Probability


class State(NamedTuple):
    """The last synchronised model, the round, and the mean of the last messages."""

    params: Params
    moved: Params
    round: Array | int = 0


class Control(NamedTuple):
    """A client's control variate and its last message."""

    h: Params
    sent: Params


@dataclass(frozen=True, kw_only=True)
class DPScaffNew(Algorithm):
    """ScaffNew with clipped, noisy messages; without noise and clip it is ScaffNew."""

    lr: Positive = 0.1  # eta
    probability: Probability | None = None  # p
    local_steps: AtLeastOne | None = None
    batch_size: int | None = None  # records of a local step; None: all
    iterations: AtLeastOne | None = None  # T: steps to draw coins for; a round is a coin that fell
    coin_seed: int = 0
    clip: Positive | None = 1.0
    noise: float = 0.0
    relation: Relation = "replace-one"
    uses_problem: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.probability is None) == (self.local_steps is None):
            raise TacitError("give probability (random numbers of local steps) or local_steps.")

    @property
    def p(self) -> float:
        """The probability of a communication after a step."""
        return self.probability if self.probability is not None else 1 / (self.local_steps or 1)

    @property
    def steps(self) -> tuple[int, ...]:
        """Local steps before each communication, from coins drawn up front."""
        if self.iterations is not None:
            return steps_of_coins(self.iterations, self.p, self.coin_seed, self.local_steps)
        rounds = self.known.rounds
        if self.local_steps is not None:
            return (self.local_steps,) * rounds
        coins = np.random.default_rng(self.coin_seed)
        return tuple(int(g) for g in coins.geometric(self.p, rounds))

    @property
    def release(self) -> Release:
        """The change since the last communication."""
        bound: Bound = Unbounded() if self.clip is None else Clip(self.clip)
        mechanism = gaussian_noise(self.noise)
        return Release(bound=bound, mechanism=mechanism, at="message")

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One communication: correct h with the broadcast, take the round's steps, send."""
        del population
        planned = np.array(self.steps, np.int32)
        batch = step_batch(self.batch_size)

        def work(
            moment: Moment, control: Control, data: ClientData, sent: tuple[Params, Params]
        ) -> tuple[Message, Control]:
            params, moved = sent
            pull = tree.scale(self.p / self.lr, tree.subtract(moved, control.sent))
            h = tree.select(moment.round == 0, control.h, tree.add(control.h, pull))
            change = local.update(
                task,
                batch,
                moment,
                params,
                data,
                steps=jnp.asarray(planned)[moment.round],
                step_size=self.lr,
                correction=tree.scale(-1.0, h),
            )
            return {"change": change}, Control(h, control.sent)

        return (
            Phase(
                name="communicate",
                client=work,
                server=self.move,
                releases={"change": self.release},
                send=lambda state: (state.params, state.moved),
                remember=lambda control, sent: Control(control.h, sent["change"]),
            ),
        )

    def move(self, state: State, mean: Message) -> State:
        """Move by the mean of the messages."""
        moved = mean["change"]
        return state._replace(params=tree.add(state.params, moved), moved=moved)

    def init(self, params: Params) -> State:
        """The model before the first communication."""
        return State(params, tree.zeros_like(params))

    def init_client(self, params: Params) -> Tree:
        """h = 0."""
        return Control(tree.zeros_like(params), tree.zeros_like(params))

    def communications(self, rounds: int) -> int:
        """A round is a communication: with ``iterations`` their number follows from the coins."""
        return rounds if self.iterations is None else len(self.steps)

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """Noise of this standard deviation on a message, in units of the clip."""
        if self.clip is None:
            raise TacitError("a private ScaffNew needs a clip.")
        return super().with_noise(noise, phase)


def steps_of_coins(
    iterations: int, p: float, seed: int, local_steps: int | None = None
) -> tuple[int, ...]:
    """The local steps before each communication among ``iterations``; the last one is forced."""
    if local_steps is not None:
        falls = np.arange(1, iterations + 1) % local_steps == 0
    else:
        falls = np.random.default_rng(seed).random(iterations) < p
    falls[-1] = True
    places = np.flatnonzero(falls)
    return tuple(int(g) for g in np.diff(places, prepend=-1))
