"""Cores as devices, and compiled programs that are kept between runs."""

from __future__ import annotations

import contextlib
import os

import jax

from tacit.cache_folder import cache_folder


def devices(limit: int | None = None) -> list[jax.Device]:
    """The devices to compute on: every core of a CPU is one, unless JAX was started otherwise."""
    with contextlib.suppress(RuntimeError):  # a backend that runs keeps its devices
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    found = jax.devices()
    return found[: limit or len(found)]


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
