"""Cores as devices, the precision of a run, and compiled programs that are kept between runs."""

from __future__ import annotations

import contextlib
import os
from typing import Literal

import jax

from tacit.cache import cache_folder
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


def keep_programs() -> None:
    """Keep compiled programs on disk, so that the next run like this one starts at once.

    A cache that JAX has been given already stays.
    """
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    folder = cache_folder("programs")
    with contextlib.suppress(OSError):  # a home that cannot be written costs time, not the run
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
