"""Small federations on disk for the tests of the deployment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.federation import Federation
from tacit.deployment.setup.folders import Wanted, make_federation
from tacit.deployment.setup.settings import Public
from tacit.run.config import RunConfig, as_toml, read_toml

SIZES = {"north": 5, "east": 7, "south": 6}
FEATURES = 3
LOCAL = {"name": "dp-fedavg-record", "batches": "full", "local_steps": 2, "clip": 0.5}


def make_records(seed: int, sizes: Mapping[str, int] = SIZES) -> dict[str, dict[str, np.ndarray]]:
    """Every site's records; the seed decides all of them."""
    rng = np.random.default_rng([3, seed])
    return {
        name: {"x": rng.standard_normal((n, FEATURES)), "y": rng.integers(0, 2, n).astype(np.int32)}
        for name, n in sizes.items()
    }


def federation(seed: int = 0, sizes: Mapping[str, int] = SIZES) -> Federation:
    return Federation.from_clients(make_records(seed, sizes), classes=2)


def config(algorithm: Mapping[str, Any] = LOCAL, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "data": {"prepared": True, "classes": 2, "path": "nowhere"},
        "task": {"name": "logistic", "l2": 0.1},
        "algorithm": dict(algorithm),
        "train": {"rounds": 3, "dtype": "float64"},
        "privacy": {"noise": 1.0, "delta": 1e-3},
    }
    return RunConfig.from_dict({**values, **changes})


def make(
    folder: Path,
    run: RunConfig | None = None,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] = SIZES,
    policy: Mapping[str, Any] | None = None,
    insecure: bool = True,
    records: Mapping[str, Any] | None = None,
    **wanted: Any,
) -> Public:
    """A federation whose sites hold NPZ files; ``policy`` changes every site's policy."""
    public = make_federation(
        folder,
        Wanted(
            config=run or config(),
            sites=sizes,
            records=records or {"x": ["float", FEATURES], "y": ["int32"]},
            classes=2,
            insecure=insecure,
            **wanted,
        ),
    )
    generous = {"epsilon": 1e6, "trust_server": True, "inexact_noise": True}
    for name, own in make_records(seed, sizes).items():
        site = folder / "sites" / name
        np.savez(site / "records.npz", **own)
        values = read_toml(site / "site.toml")
        values["data"] = {"path": "records.npz"}
        values["policy"] |= {**generous, **(policy or {})}
        (site / "site.toml").write_text(as_toml(values))
    return public


def site_folders(folder: Path, public: Public) -> dict[int, Path]:
    return {i: folder / "sites" / name for i, name in enumerate(public.names)}
