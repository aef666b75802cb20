"""DP-SCAFFOLD: local steps corrected by control variates (Karimireddy 2020; Noble 2022).

    server   sends x and c
    client   y = x; K times: y -= eta (gradient(y) - c_i + c);  sends Dy = y - x
             option II:  c_i <- c_i - c + (x - y) / (K eta)
             option I:   c_i <- gradient(x), a release of its own
    server   x += eta_g mean Dy;   c += (cohort / clients) * mean (change of c_i)

Record level (each local gradient is a DP-SGD release): y, and with option II c_i, are functions of
released gradients, so nothing more is charged; option I charges one more gradient a round. Client
level (noise on the message or the aggregate): the server finds the change of c from the released Dy
by option II alone, and a client its own c_i from its clipped Dy before the noise: c_i never leaves
it, and whatever it is the next message is bounded and noised. (With the noise in c_i, an update
would begin with the last round's noise, and little else would fit into the clip.) A message may be
PrivUnit's (``mechanism = "privunit"``). Signs and the K eta in the denominator are where others
have gone wrong.

Under a clip c is made of clipped messages, and c_i must fit it (a control of full length would take
a client's whole gradient away). ``controls = "summed"`` adds up clipped changes: convex problems
are solved without drift though every message is clipped, but a network's gradients change faster
than c_i can follow. ``"shortened"`` makes c_i the mean gradient of the local steps, shortened like
the message: it follows at once, and leaves drift while messages are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import jax.numpy as jnp
from jax import Array

from tacit import local, random_numbers, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase
from tacit.algorithms.dp_fedavg_record import Batches, record_batch
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, Mechanism, NoNoise, PrivUnit
from tacit.mechanisms.privunit import GammaRule
from tacit.population import Population
from tacit.release import Release
from tacit.sampling import Cohort, FullBatch, FullCohort
from tacit.tasks.base import Params, Task
from tacit.tree import Tree


class State(NamedTuple):
    """The model, the round, and the server's control variate."""

    params: Params
    round: Array
    control: Params


def _model_and_control(state: State) -> tuple[Params, Params]:
    return state.params, state.control


@dataclass(frozen=True, kw_only=True)
class DPScaffold(Algorithm):
    """SCAFFOLD under privacy, for records or for clients."""

    protects: Literal["record", "client"] = "record"
    noise_at: Literal["aggregate", "message"] = "message"  # client level only
    option: Literal["I", "II"] = "II"
    local_steps: int = 10
    local_lr: float = 0.1
    server_lr: float = 1.0
    clip: float = 1.0
    batch_size: int | None = 100
    batches: Batches = "fixed"
    clients_per_round: Cohort = field(default_factory=FullCohort)
    mechanism: Literal["gaussian", "privunit"] = "gaussian"
    gamma: GammaRule = "exact"
    eps0: float = 2.0
    eps1: float = 2.0
    eps2: float = 2.0
    controls: Literal["summed", "shortened"] = "summed"  # of clients whose messages are clipped
    noise: float = 0.0
    relation: Relation = "replace-one"

    def __post_init__(self) -> None:
        local_message = self.protects == "client" and self.noise_at == "message"
        if self.mechanism == "privunit" and not local_message:
            raise TacitError(
                "PrivUnit noises a client's whole message: set protects = 'client' and noise_at ="
                " 'message', or take the mechanism 'gaussian'."
            )
        if self.option == "I" and self.protects == "client":
            raise TacitError(
                "option I needs a gradient release of its own; at client level use option II, whose"
                " control variates follow from what is sent."
            )
        if self.controls == "shortened" and self.protects == "record":
            raise TacitError(
                "controls = 'shortened' is for clipped messages: set protects = 'client', for with"
                " records protected no message is clipped."
            )
        if self.local_steps < 1 or not 0 < self.local_lr < float("inf"):
            raise TacitError("give at least one local step, and a positive local_lr.")

    @property
    def cohort(self) -> Cohort:
        """Which clients take part in a round."""
        return self.clients_per_round

    @property
    def release(self) -> Release:
        """Noisy local gradients (record level), or the noisy update (client level)."""
        mechanism: Mechanism = Gaussian(self.noise) if self.noise else NoNoise()
        if self.mechanism == "privunit":
            whole = PrivUnit(self.eps0, self.eps1, self.eps2, self.gamma)
            mechanism = whole.scaled(self.noise) if self.noise else whole
        if self.protects == "client":
            return Release(bound=Clip(self.clip), mechanism=mechanism, at=self.noise_at)
        return Release(
            bound=Clip(self.clip),
            mechanism=mechanism,
            at="step",
            unit="record",
            times=self.local_steps,
            batch=record_batch(self.batches, self.batch_size),
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: corrected local steps, and the new control variate."""
        if self.protects == "client":
            return (
                Phase(
                    name="train",
                    client=self._client_level(task),
                    server=self._server_from_updates(population),
                    releases={"update": self.release},
                    send=_model_and_control,
                ),
            )
        releases = {"update": self.release}
        if self.option == "I":
            releases["control"] = replace(self.release, times=1)
        return (
            Phase(
                name="train",
                client=self._record_level(task),
                server=self._server_from_controls(population),
                releases=releases,
                send=_model_and_control,
            ),
        )

    def _record_level(self, task: Task) -> Any:
        release = self.release

        def work(
            moment: Moment, own: Params, data: ClientData, sent: tuple[Params, Params]
        ) -> tuple[Message, Params]:
            params, control = sent
            keys = random_numbers.split(moment.key, 3)
            reached, _ = local.private_steps(
                task,
                release,
                keys[0],
                params,
                data,
                moment.round,
                step_size=self.local_lr,
                correction=tree.subtract(control, own),
            )
            update = tree.subtract(reached, params)
            if self.option == "II":
                renewed = self.renewed(own, control, update)
                change = tree.subtract(renewed, own)
                return {"update": {"model": update, "control": change}}, renewed
            zero = jnp.zeros((), jnp.int32)
            renewed = local.private_gradient(
                task, release, (keys[1], keys[2]), zero, params, data, moment.round
            )
            return {
                "update": {"model": update},
                "control": tree.subtract(renewed, own),
            }, renewed

        return work

    def _client_level(self, task: Task) -> Any:
        bound = self.release.bound

        def work(
            moment: Moment, own: Params, data: ClientData, sent: tuple[Params, Params]
        ) -> tuple[Message, Params]:
            params, control = sent
            reached = local.gradient_steps(
                task,
                FullBatch(),
                moment.key,
                params,
                data,
                steps=self.local_steps,
                step_size=self.local_lr,
                correction=tree.subtract(control, own),
            )
            update = tree.subtract(reached, params)
            bounded = bound(update)
            if self.controls == "summed":
                return {"update": update}, self.renewed(own, control, bounded)
            whole, kept = tree.squared_norm(update), tree.squared_norm(bounded)
            share = jnp.where(whole > 0, jnp.sqrt(kept / whole), 1.0)
            return {"update": update}, tree.scale(share, self.renewed(own, control, update))

        return work

    def renewed(self, own: Params, control: Params, update: Params) -> Params:
        """c_i - c + (x - y) / (K eta), with update = y - x."""
        drift = tree.scale(-1 / (self.local_steps * self.local_lr), update)
        return tree.add(tree.subtract(own, control), drift)

    def _server_from_controls(self, population: Population) -> Any:
        share = self.cohort.expected(population.clients) / population.clients

        def move(state: State, mean: Message) -> State:
            change = mean["control"] if self.option == "I" else mean["update"]["control"]
            return self._moved(state, mean["update"]["model"], tree.scale(share, change))

        return move

    def _server_from_updates(self, population: Population) -> Any:
        share = self.cohort.expected(population.clients) / population.clients

        def move(state: State, mean: Message) -> State:
            # The mean over the cohort of c_i+ - c_i = -c - Dy / (K eta).
            update = self.release.mechanism.vector(mean["update"])
            drift = tree.scale(-1 / (self.local_steps * self.local_lr), update)
            change = tree.scale(share, tree.subtract(drift, state.control))
            return self._moved(state, update, change)

        return move

    def _moved(self, state: State, update: Params, change: Params) -> State:
        params = tree.add(state.params, tree.scale(self.server_lr, update))
        return State(params, state.round + 1, tree.add(state.control, change))

    def init(self, params: Params) -> State:
        """c = 0."""
        return State(params, jnp.zeros((), jnp.int32), tree.zeros_like(params))

    def init_client(self, params: Params) -> Tree:
        """c_i = 0."""
        return tree.zeros_like(params)

    def with_noise(self, noise: float, phase: str | None = None) -> Self:
        """Noise in units of the clip; for PrivUnit the factor that divides its budgets."""
        del phase
        return replace(self, noise=noise)
