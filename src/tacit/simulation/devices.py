"""CPU cores as JAX devices, and a disk cache for compiled programs."""

from __future__ import annotations

import contextlib
import os

import jax

from tacit.cache_folder import cache_folder


def devices(limit: int | None = None) -> list[jax.Device]:
    """The devices to compute on: one per CPU core, unless JAX was started otherwise."""
    with contextlib.suppress(RuntimeError):  # a running backend keeps its devices
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    found = jax.devices()
    return found[: limit or len(found)]


def keep_programs() -> None:
    """Cache compiled programs on disk, so that the next run of the same kind starts at once.

    If JAX already has a cache, it is used.
    """
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    folder = cache_folder("programs")
    with contextlib.suppress(OSError):  # without a writable home the run is only slower
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
