"""DP-SCAFFOLD for clients: the noise is on the message, or on the sum of messages (added by the
server, or in shares by the clients).

    server   sends x and c
    client   y = x; K times: y -= eta (gradient(y) - c_i + c);  sends Dy = y - x, clipped
             c_i <- c_i - c - (clipped Dy) / (K eta)
    server   x += eta_g mean Dy;   c += (cohort / clients) * (-c - mean Dy / (K eta))

Protected: a whole client. The server finds the change of c from the released Dy; a client renews
its c_i from its clipped Dy before the noise: c_i never leaves the client, and whatever it is, the
next message is bounded and gets noise. (With the noise in c_i, an update would begin with the last
round's noise, and little else would fit into the clip.) A message may be PrivUnit's.

Under a clip c is made of clipped messages, and c_i must fit it: a control variate of full length
would cancel the whole gradient of a client. ``controls = "summed"`` adds up clipped changes: convex
problems are solved without drift although every message is clipped, but a network's gradients
change faster than c_i can follow. ``"shortened"`` makes c_i the mean gradient of the local steps,
shortened like the message: it follows at once, and leaves drift while messages are clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp

from tacit import local, tree
from tacit.algorithm import ClientData, Message, Moment, Phase, WithSecureSum
from tacit.algorithms.scaffold import Scaffold, State, model_and_control
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.mechanisms import PrivUnit
from tacit.mechanisms.privunit import GammaRule
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import FullBatch
from tacit.tasks.base import Params, Task


@dataclass(frozen=True, kw_only=True)
class ClientDPScaffold(Scaffold, WithSecureSum):
    """SCAFFOLD with clipped, noisy updates: one client is protected."""

    noise_at: Literal["aggregate", "shares", "message"] = "message"
    controls: Literal["summed", "shortened"] = "summed"
    mechanism: Literal["gaussian", "privunit"] = "gaussian"
    gamma: GammaRule = "exact"
    eps0: float = 2.0
    eps1: float = 2.0
    eps2: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mechanism == "privunit" and self.noise_at != "message":
            raise TacitError(
                "PrivUnit protects a client's whole message: set noise_at = 'message', or take the"
                " mechanism 'gaussian'."
            )

    @property
    def release(self) -> Release:
        """The clipped update, with noise on the message or on the sum."""
        mechanism = gaussian_noise(self.noise)
        if self.mechanism == "privunit":
            whole = PrivUnit(self.eps0, self.eps1, self.eps2, self.gamma)
            mechanism = whole.scaled(self.noise) if self.noise else whole
        return Release(
            bound=Clip(self.clip), mechanism=mechanism, at=self.noise_at, trust=self.secure_sum
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: corrected local steps; both control variates follow from the update."""
        release = self.release

        def work(
            moment: Moment, own: Params, data: ClientData, sent: tuple[Params, Params]
        ) -> tuple[Message, Params]:
            params, control = sent
            update = local.update(
                task,
                FullBatch(),
                moment,
                params,
                data,
                steps=self.local_steps,
                step_size=self.local_lr,
                correction=tree.subtract(control, own),
            )
            bounded = release.bound(update)
            if self.controls == "summed":
                return {"update": update}, self.renewed(own, control, bounded)
            whole, kept = tree.squared_norm(update), tree.squared_norm(bounded)
            share = jnp.where(whole > 0, jnp.sqrt(kept / whole), 1.0)
            return {"update": update}, tree.scale(share, self.renewed(own, control, update))

        def move(state: State, mean: Message) -> State:
            # The mean over the cohort of c_i+ - c_i = -c - Dy / (K eta).
            update = release.mechanism.vector(mean["update"])
            change = tree.subtract(self.drift(update), state.control)
            return self.moved(state, update, change, population)

        return (
            Phase(
                name="train",
                client=work,
                server=move,
                releases={"update": release},
                send=model_and_control,
            ),
        )
