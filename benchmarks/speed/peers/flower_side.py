"""Flower: its simulation engine on Ray, one actor per core, server-side clipping and noise.

The simulation is started once and its server waits for requests, so the start of Ray is not timed.
Clients train in PyTorch with one thread each and read their records from memory-mapped files.
"""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.simulation import run_simulation

from benchmarks.speed.peers.flower_client import client_app
from benchmarks.speed.peers.torch_models import make_model, vector
from benchmarks.speed.protocol import Side, serve
from benchmarks.speed.usage import Meter
from benchmarks.speed.works import Floats, Work, data


class FlowerSide(Side):
    """Rounds of ``FedAvg`` under ``DifferentialPrivacyServerSideFixedClipping``."""

    def __init__(self, work: Work) -> None:
        self.work, self._model = work, make_model(work)
        self._folder = Path(tempfile.mkdtemp(prefix="flower-records-"))
        for name, column in zip(("x", "y"), data(work), strict=True):
            np.save(self._folder / f"{name}.npy", column)
        self._asked: queue.Queue[tuple[int, Meter] | None] = queue.Queue()
        self._answered: queue.Queue[BaseException | None] = queue.Queue()
        self._thread = threading.Thread(target=self._simulate, daemon=True)
        self._thread.start()

    def run(self, rounds: int, meter: Meter) -> None:
        self._asked.put((rounds, meter))
        failure = self._answered.get()
        if failure is not None:
            raise failure

    def params(self) -> Floats:
        return vector(self._model)

    def about(self) -> dict[str, Any]:
        return {"backend": "ray", "actors": os.cpu_count(), "threads of an actor": 1}

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join(60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _simulate(self) -> None:
        server = ServerApp()
        server.main()(self._serve)
        try:
            run_simulation(
                server_app=server,
                client_app=client_app(self.work, str(self._folder)),
                num_supernodes=self.work.clients,
                backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
            )
        except BaseException as failure:
            self._answered.put(failure)

    def _serve(self, grid: Grid, context: Context) -> None:
        del context
        work = self.work
        strategy = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(
                fraction_train=work.cohort / work.clients,
                fraction_evaluate=0.0,
                min_train_nodes=work.cohort,
                min_available_nodes=work.clients,
            ),
            noise_multiplier=work.noise,
            clipping_norm=work.clip,
            num_sampled_clients=work.cohort,
        )
        while (asked := self._asked.get()) is not None:
            rounds, meter = asked
            try:
                sent = ArrayRecord(self._model.state_dict())
                meter.start()
                result = strategy.start(grid=grid, initial_arrays=sent, num_rounds=rounds)
                meter.stop()
                self._model.load_state_dict(result.arrays.to_torch_state_dict())
                self._answered.put(None)
            except BaseException as failure:
                self._answered.put(failure)


if __name__ == "__main__":
    serve(FlowerSide, ("flwr", "ray", "torch", "numpy"))
