"""Float64 between sites and server, compiled as they compile it (5 of the attacks).

Noise is drawn by the host, in whatever thread calls it, and threads have a precision of their own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adversary import flat
from folders import SIZES, config, make, site_folders

from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.transport.in_memory import InMemory

METHODS = {
    "record": {"name": "dp-fedavg-record", "batches": "full", "local_steps": 2, "clip": 0.5},
    "aggregate": {"name": "dp-fedavg", "clip": 0.3, "local_steps": 2},
}


@pytest.mark.parametrize("noise_at", ["record", "aggregate"])
def test_a_thousand_features_in_float64(noise_at: str, tmp_path: Path) -> None:
    """13 to 21 of 25 requests failed, all charged; with central noise the server crashed."""
    wide = 1000
    method = METHODS[noise_at]
    run = config(
        method,
        train={"rounds": 25, "dtype": "float64"},
    )
    public = make(tmp_path / "f", run, records={"x": ["float", wide], "y": ["int32"]})
    rng = np.random.default_rng(0)
    for name, count in SIZES.items():
        x, y = rng.standard_normal((count, wide)), rng.integers(0, 2, count).astype(np.int32)
        np.savez(tmp_path / "f" / "sites" / name / "records.npz", x=x, y=y)
    sites = InMemory(site_folders(tmp_path / "f", public))
    outcome = Coordinator(tmp_path / "f" / "server", sites, pause=0.01).run()
    assert outcome.rounds == 25
    assert outcome.metrics["server/replies"] == 3
    assert all(len(list(site.ledger.charges)) == 25 for site in sites.sites.values())
    assert flat(outcome.params).dtype == np.float64
    sites.close()
