"""Make a run from the configuration of an entry, exactly as ``tacit run`` does.

An entry adds: the optimum of a logistic problem (to measure distances), its own metrics, and a
cache of noise levels and guarantees for lines with the same charges.
"""

from __future__ import annotations

import copy
import functools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from experiments.reproduce.entry import Config
from experiments.reproduce.optimum import logistic_optimum
from tacit.accounting import Budget, Guarantee
from tacit.data.config import from_config
from tacit.data.federation import Federation
from tacit.planning import Plan, calibrate
from tacit.run import Run, RunConfig
from tacit.run.measure import Measure, flat
from tacit.simulation import RunState, Simulator
from tacit.tasks.base import Params
from tacit.tasks.logistic import Logistic

_NOISE_FIELDS = ("noise", "radius_noise")


@dataclass(frozen=True)
class Outcome:
    """The metrics of one seed at every measurement, by name."""

    seed: int
    rounds: list[int]
    curves: dict[str, list[float]]
    seconds: float


def prepare(config: Config, delta: float, *, data_seed: int | None = None) -> Run:
    """The run of a configuration; ``delta`` is used if the configuration has none."""
    values = copy.deepcopy(dict(config))
    if data_seed is not None:
        values["data"]["seed"] = data_seed
    checked = RunConfig.from_dict(values)
    federation = _federation(json.dumps(checked.data, sort_keys=True))
    run = Run.from_config(checked, federation=federation, delta=delta, calibrate=_calibrated)
    task, federation = run.plan.task, run.federation
    if isinstance(task, Logistic) and federation.optimum is None and not task.bias and task.l2:
        optimum = _optimum(federation, task, run.plan.algorithm)
        run = Run(run.plan, replace(federation, optimum=optimum), run.settings, checked)
    return run


_NOISES: dict[tuple[str, ...], dict[str, Any]] = {}
_GUARANTEES: dict[str, Guarantee] = {}


def _calibrated(plan: Plan, budget: Budget, accountant: str) -> Plan:
    """Calibrate once for all runs with the same charges; steps and radii do not change them."""
    if plan.prelude is not None:
        return calibrate(plan, budget, accountant)
    events = repr(plan.with_noise(1.0).total())
    key = (type(plan.algorithm).__name__, events, repr(budget), accountant)
    if key not in _NOISES:
        found = calibrate(plan, budget, accountant).algorithm
        _NOISES[key] = {n: getattr(found, n) for n in _NOISE_FIELDS if hasattr(found, n)}
    return replace(plan, algorithm=replace(plan.algorithm, **_NOISES[key]))


def guarantee(run: Run) -> Guarantee:
    """The guarantee of the whole run, computed once for all runs with the same charges."""
    plan, delta = run.plan, run.settings.delta
    key = f"{plan.unit} {plan.relation} {plan.observer} {delta} {plan.total()!r}"
    if key not in _GUARANTEES:
        _GUARANTEES[key] = plan.guarantee(delta)
    return _GUARANTEES[key]


@functools.lru_cache(maxsize=4)
def _federation(data: str) -> Federation:
    return from_config(json.loads(data))


def _optimum(federation: Federation, task: Logistic, algorithm: Any) -> np.ndarray[Any, Any]:
    records = federation.records
    return logistic_optimum(
        np.asarray(records["x"], np.float64),
        np.asarray(records["y"], np.float64),
        l2=task.l2,
        l1=getattr(algorithm, "l1", 0.0),
        box=getattr(algorithm, "box", None) or float("inf"),
    )


def run_many(
    config: Config,
    seeds: Sequence[int],
    *,
    delta: float,
    metrics: Sequence[str],
    looks: int | None,
    redraw: bool,
) -> tuple[Run, list[Outcome]]:
    """Train and measure once per seed; the program is compiled once for all seeds."""
    run, outcomes = prepare(config, delta, data_seed=seeds[0] if redraw else None), []
    for number, seed in enumerate(seeds):
        if redraw and number:
            drawn = prepare(config, delta, data_seed=seed)
            same = np.array_equal(drawn.federation.sizes, run.federation.sizes)
            # other client sizes need another program and, at record level, other charges
            run = run.with_records(drawn.federation) if same else drawn
        outcomes.append(_train(run.with_seed(seed), seed, metrics, looks))
    return run, outcomes


def _train(run: Run, seed: int, metrics: Sequence[str], looks: int | None) -> Outcome:
    begun = time.monotonic()
    every = run.plan.rounds if looks is None else looks
    asked = Run(
        run.plan, run.federation, replace(run.settings, eval_every=every), shared=run.shared
    )
    rows = asked.train(measure=partial(_Look, metrics=metrics)).rows
    seen: dict[int, dict[str, float]] = {}
    for row in rows:
        seen.setdefault(row.round, {})[row.metric] = row.value
    rounds = [r for r in seen if looks is not None or r == run.plan.rounds]
    curves = {m: [seen[r].get(m, float("nan")) for r in rounds] for m in metrics}
    return Outcome(seed, rounds, curves, time.monotonic() - begun)


class _Look(Measure):
    """Computes only the requested metrics of a run."""

    def __init__(self, simulator: Simulator, *, oracle: bool, metrics: Sequence[str]) -> None:
        super().__init__(simulator, oracle=False)
        assert oracle, "experiments are simulations, which may use oracle metrics"
        self.places = {metric.split("/")[0] for metric in metrics}
        self.wanted = {metric.split("/")[1] for metric in metrics if metric.startswith("oracle/")}
        self._spread = 0.0
        self.floor = self._floor() if "suboptimality" in self.wanted else 0.0

    def __call__(self, state: RunState, round_: int) -> dict[str, float]:
        simulator, federation = self.simulator, self.simulator.federation
        params = simulator.params(state)
        found: dict[str, float] = {}
        if "server" in self.places:
            found |= {f"server/{k}": v for k, v in simulator.report(state).items()}
        if "test" in self.places and federation.test is not None:
            measured = simulator.evaluate(params, federation.test)
            found |= {f"test/{k}": v for k, v in measured.items()}
        return found | {f"oracle/{k}": v for k, v in self._private(params, state, round_).items()}

    def _private(self, params: Params, state: RunState, round_: int) -> dict[str, float]:
        simulator, records = self.simulator, self.simulator.federation.records
        found: dict[str, float] = {}
        if self.wanted & {"loss", "accuracy", "suboptimality"}:
            found |= simulator.evaluate(params, records)
            found["suboptimality"] = found["loss"] - self.floor
        if any(name.startswith("tau_") for name in self.wanted):
            found |= simulator.oracle(params, records)
        if self.wanted & {"target_step", "signal_to_noise"}:
            found |= simulator.probe(state, round_)
        if "aim" in self.wanted:
            found["aim"] = self._aim(state, round_)
        optimum = simulator.federation.optimum
        if optimum is not None and self.wanted & {"relative_distance", "relative_error"}:
            gap = float(np.linalg.norm(flat(params) - optimum) / np.linalg.norm(optimum))
            found |= {"relative_distance": gap, "relative_error": gap**2}
        return found

    def _aim(self, state: RunState, round_: int) -> float:
        """The target of FedEXP's last step: mean squared norm / squared norm of the NOISY mean."""
        server, spread = state.server, self._spread
        probed = self.simulator.probe(state, round_)
        self._spread = probed["target_step"] * probed["signal"] ** 2
        moved = np.linalg.norm(flat(server.params) - flat(server.before)) / float(server.step_size)
        return spread / float(moved) ** 2 if round_ else float("nan")

    def _floor(self) -> float:
        """The loss at the optimum, for a problem whose model is one vector."""
        simulator = self.simulator
        optimum = simulator.federation.optimum
        leaves, shape = jax.tree.flatten(simulator.params(simulator.init()))
        if optimum is None or len(leaves) != 1:
            return 0.0
        best = jax.tree.unflatten(shape, [np.asarray(optimum, leaves[0].dtype)])
        return simulator.evaluate(best, simulator.federation.records)["loss"]
