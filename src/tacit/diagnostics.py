"""Numbers that only an oracle could know: computed from private records, in simulation alone."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


def quantile_mean_ratios(squared_norms: Array) -> dict[str, Array]:
    """tau_q: quantiles of squared gradient norms over their mean, and the root-mean-square."""
    mean = jnp.mean(squared_norms)
    safe = jnp.where(mean > 0, mean, 1)
    ratios = jnp.quantile(squared_norms, jnp.asarray(QUANTILES, squared_norms.dtype)) / safe
    named = {f"tau_{q:g}": ratios[i] for i, q in enumerate(QUANTILES)}
    return {"gradient_rms": jnp.sqrt(mean), **named}


def clipped_share(squared_norms: Array, radius: float) -> Array:
    """The share of gradients that a clip to this radius shortens."""
    return jnp.mean(squared_norms > radius**2)
