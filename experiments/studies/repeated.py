"""Runs repeated over random problems; the program is compiled once."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import jax


def share_programs() -> None:
    """Keep compiled programs, so that the next problem of the same shape reuses them."""
    jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp(prefix="tacit-programs-"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation and standard error over seeds, and the values themselves."""
    spread = statistics.stdev(values)
    return {
        "mean": statistics.fmean(values),
        "std": spread,
        "standard_error": spread / len(values) ** 0.5,
        "seeds": list(values),
    }
