"""Cores as devices, and the precision of a run."""

from __future__ import annotations

import contextlib
import os
from typing import Literal

import jax

from tacit.errors import TacitError

Precision = Literal["float32", "float64"]


def devices(limit: int | None = None) -> list[jax.Device]:
    """The devices to compute on: every core of a CPU is one, unless JAX was started otherwise."""
    with contextlib.suppress(RuntimeError):  # a backend that runs keeps its devices
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    found = jax.devices()
    return found[: limit or len(found)]


def precision(name: Precision) -> contextlib.AbstractContextManager[object]:
    """A context in which JAX computes with this precision."""
    if name not in ("float32", "float64"):
        raise TacitError(f"the precision is 'float32' or 'float64', not {name!r}.")
    return jax.enable_x64(name == "float64")
