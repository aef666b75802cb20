"""Tacit: the works through its public interface, with the real mechanisms and the ledger.

A measurement is a separate run in its own folder: every round is charged on disk before it happens,
checkpoints are written, and the guarantee is for the whole run. The meter counts from the end of
the first block of rounds to the end of the last one: everything that a round needs, and nothing
that a run needs only once (the final accounting is in ``whole``).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.speed.protocol import Side, serve
from benchmarks.speed.usage import Meter
from benchmarks.speed.works import SIDE, Floats, Work, data, flat, start
from tacit import DPFedAvg, DynamicLDP, Federation, Plan, RecordDPFedAvg, Simulator, gram_steps
from tacit.algorithm import Algorithm
from tacit.population import Population
from tacit.precision import Precision
from tacit.run.loop import Progress, Settings
from tacit.run.run import Run, Shared
from tacit.sampling import FixedCohort, FullCohort
from tacit.simulation import RunState
from tacit.simulation.tuning import tuned
from tacit.tasks import make
from tacit.tasks.base import Task

DELTA = 1e-5


class TacitSide(Side):
    """Runs of a plan, as in ``tacit run``."""

    dtype: Precision = "float32"

    def __init__(self, work: Work) -> None:
        self.work, self.federation = work, federation_of(work)
        self.algorithm, self.task = algorithm_of(work), task_of(work)
        self.fixed_rounds = work.rounds
        self._seed = 0
        self._whole = 0.0
        plan = self._plan(work.rounds or 1)
        self.simulator = tuned(plan.algorithm, plan.task, self.federation, dtype=self.dtype)
        self._params: Any = None

    def run(self, rounds: int, meter: Meter) -> None:
        if self.work.noise == 0:
            self._silent(rounds)
            return
        plan = self._plan(self.fixed_rounds or rounds + 1)
        last = plan.rounds

        def count(progress: Progress) -> None:
            if progress.round == last and meter.started:
                meter.stop()
            elif not meter.started:
                meter.start()
                self._counted_from = progress.round

        self._seed += 1
        settings = Settings(
            seed=self._seed,
            delta=DELTA,
            eval_every=last,
            dtype=self.dtype,
            oracle=False,
        )
        run = Run(plan, self.federation, settings, shared=Shared(self.simulator))
        place = Path(tempfile.mkdtemp(prefix="tacit-run-"))
        try:
            begun = time.perf_counter()
            result = run.train(place, on_progress=count)
            self._whole = time.perf_counter() - begun
        finally:
            shutil.rmtree(place)
        meter.reading |= {
            "rounds": last - self._counted_from,
            "whole": self._whole,
            "epsilon": result.guarantee.epsilon,
        }

    def _silent(self, rounds: int) -> None:
        """Run rounds without noise from the common initial model."""
        self._params = silent_rounds(self.simulator, self.work, rounds)

    def params(self) -> Floats:
        return flat(self._params)

    def about(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "block": self.simulator.block, "ledger": "on"}

    def _plan(self, rounds: int) -> Plan:
        population = Population(tuple(int(n) for n in self.federation.sizes))
        return Plan(self.algorithm, self.task, population, rounds)


def silent_rounds(simulator: Simulator, work: Work, rounds: int) -> dict[str, Any]:
    """The model after rounds from the common initial model."""
    state = simulator.init()
    dtype = np.dtype(simulator.dtype)
    params = {
        name: {k: v.astype(dtype) for k, v in part.items()}
        if isinstance(part, dict)
        else part.astype(dtype)
        for name, part in start(work).items()
    }
    fresh = RunState(simulator.algorithm.init(params), state.clients)
    state = simulator.advance(simulator.place(fresh), 0, rounds)
    found: dict[str, Any] = simulator.params(state)
    return found


def federation_of(work: Work) -> Federation:
    """The work's clients."""
    x, y = data(work)
    shape = (SIDE, SIDE, 1) if work.model == "cnn" else (work.features,)
    return Federation(
        records={"x": x.reshape(-1, *shape), "y": y.reshape(-1)},
        sizes=np.full(work.clients, work.records),
        names=tuple(f"client-{i}" for i in range(work.clients)),
        classes=work.classes,
        title=work.name,
    )


def task_of(work: Work) -> Task:
    """The work's model."""
    if work.model == "cnn":
        return make("cnn", shape=(SIDE, SIDE, 1), classes=work.classes)
    if work.model == "logistic":
        return make("logistic", shape=(work.features,), classes=2, bias=False, l2=work.l2)
    return make("multinomial", shape=(work.features,), classes=work.classes)


def algorithm_of(work: Work) -> Algorithm:
    """The work's method with its bound and noise."""
    if work.kind == "local":
        return DynamicLDP(step=work.lr, clip=work.clip, strong_convexity=work.l2, noise=work.noise)
    if work.kind == "records":
        return RecordDPFedAvg(
            local_steps=work.steps,
            local_lr=work.lr,
            clip=work.clip,
            noise=work.noise,
            batch_size=work.batch,
            batches="fixed" if work.batch else "full",
        )
    everyone = work.cohort == work.clients
    return DPFedAvg(
        local_steps=work.steps,
        local_lr=work.lr,
        clip=work.clip,
        noise=work.noise,
        clients_per_round=FullCohort() if everyone else FixedCohort(work.cohort),
        relation="zero-out" if everyone else "replace-one",
    )


if __name__ == "__main__":
    if os.environ.get("BENCH_PLAIN"):
        gram_steps.is_shorter = lambda *_: False  # type: ignore[assignment]
    serve(TacitSide, ("tacit", "jax", "jaxlib", "numpy"))
