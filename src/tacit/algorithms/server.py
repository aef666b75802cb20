"""The server's step: any optimiser of optax on the mean update, with a schedule over rounds."""

from __future__ import annotations

from typing import Literal

import optax

from tacit.errors import TacitError

ServerOptimizer = Literal["sgd", "adam"]


def server_optimizer(
    name: ServerOptimizer, *, learning_rate: float, momentum: float, decay: float
) -> optax.GradientTransformation:
    """Gradient descent (with momentum) or Adam; the step shrinks by ``decay`` every round."""
    schedule = (
        learning_rate
        if decay == 1
        else optax.exponential_decay(learning_rate, transition_steps=1, decay_rate=decay)
    )
    if name == "sgd":
        return optax.sgd(schedule, momentum=momentum or None)
    if name == "adam":
        return optax.adam(schedule, b1=momentum or 0.9, eps=1e-8)
    raise TacitError(f"the server's optimiser is 'sgd' or 'adam', not {name!r}.")
