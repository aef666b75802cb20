"""Facts about the machine: processor, peak speed of matrix products, present load."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PEAK = """
import json, os, time
import numpy as np, jax, jax.numpy as jnp
n, best = {n}, {{}}
a = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
product = jax.jit(jnp.matmul)
b = jnp.asarray(a)
for name, work in (("numpy", lambda: a @ a), ("jax", lambda: product(b, b).block_until_ready())):
    work()
    times = []
    for _ in range({repeats}):
        begun = time.perf_counter(); work(); times.append(time.perf_counter() - begun)
    best[name] = 2 * n ** 3 / min(times) / 1e9
print(json.dumps(best))
"""


def gemm_peak(size: int = 2048, repeats: int = 15) -> dict[str, float]:
    """The peak speed of a single-precision matrix product on all cores, in GFLOP/s, by library."""
    code = _PEAK.format(n=size, repeats=repeats)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def describe() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "when": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "load_before": os.getloadavg(),
    }


def _processor() -> str:
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    family = f"family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"
    return f"{facts.get('model name', platform.processor())} ({family})"
