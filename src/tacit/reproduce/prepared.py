"""From an entry's configuration to something that runs: data, plan, simulator, metrics.

The configuration is that of ``tacit run``, and two keys more in ``[data]`` that only reproductions
need: ``take`` keeps so many records of a dataset (papers train on 3,000 digits), and ``block`` in
``[train]`` tells the simulator how many clients to compute at once.

:func:`run_many` is the one place that trains: one compiled program serves all seeds.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from tacit import features
from tacit.accounting import Budget, Guarantee
from tacit.algorithms import registry as algorithms
from tacit.data.catalogue import federate, load
from tacit.data.config import from_config
from tacit.data.federation import Federation
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.reproduce.entry import Config
from tacit.reproduce.optimum import logistic_optimum
from tacit.run.config import RunConfig
from tacit.run.measure import flat
from tacit.simulation import RunState, Simulator
from tacit.tasks import registry as tasks
from tacit.tasks.base import Params
from tacit.tasks.logistic import Logistic

_FEW = 500
_NOISE_FIELDS = ("noise", "radius_noise")


@dataclass(frozen=True)
class Problem:
    """A run that is ready to start."""

    config: RunConfig
    federation: Federation
    plan: Plan
    delta: float


@dataclass(frozen=True)
class Outcome:
    """One seed's metrics at every look, by name."""

    seed: int
    rounds: list[int]
    curves: dict[str, list[float]]
    seconds: float


def prepare(config: Config, delta: float, *, data_seed: int | None = None) -> Problem:
    """Data, task and algorithm, with the noise that the configuration states or asks for."""
    plain = json.loads(json.dumps(config))
    data = plain["data"]
    if data_seed is not None:
        data["seed"] = data_seed
    take = data.pop("take", None)
    plain["train"].pop("block", None)
    checked = RunConfig.from_dict(plain)
    federation = _federation(json.dumps(data, sort_keys=True), take)
    if checked.features:
        federation = features.apply(federation, checked.features)
    numbers = federation.records["x" if "x" in federation.records else "a"]
    task = tasks.make(
        checked.task.name,
        shape=numbers.shape[1:],
        classes=federation.classes,
        **checked.task.options,
    )
    algorithm = algorithms.make(checked.algorithm.name, **checked.algorithm.options)
    if isinstance(task, Logistic) and federation.optimum is None and not task.bias and task.l2:
        federation = replace(federation, optimum=_optimum(federation, task, algorithm))
    population = Population(tuple(int(n) for n in federation.sizes))
    plan = Plan(algorithm, task, population, int(config["train"]["rounds"]))
    privacy = checked.privacy
    if privacy != "none" and privacy.noise is not None:
        plan = plan.with_noise(privacy.noise)
    elif privacy != "none" and privacy.budget is not None:
        plan = _calibrated(plan, privacy.budget, privacy.accountant)
    stated = None if privacy == "none" else privacy.delta
    return Problem(checked, federation, plan, delta if stated is None else stated)


_NOISES: dict[tuple[str, ...], dict[str, Any]] = {}
_GUARANTEES: dict[str, Guarantee] = {}


def _calibrated(plan: Plan, budget: Budget, accountant: str) -> Plan:
    """Calibrate once for all runs that charge the same: steps and radii change no event."""
    events = repr(plan.with_noise(1.0).total())
    key = (type(plan.algorithm).__name__, events, repr(budget), accountant)
    if key not in _NOISES:
        found = calibrate(plan, budget, accountant).algorithm
        _NOISES[key] = {n: getattr(found, n) for n in _NOISE_FIELDS if hasattr(found, n)}
    return replace(plan, algorithm=replace(plan.algorithm, **_NOISES[key]))  # type: ignore[type-var]


def guarantee(problem: Problem) -> Guarantee:
    """The sentence for the whole run, computed once for all runs that charge the same."""
    plan = problem.plan
    key = f"{plan.unit} {plan.relation} {plan.observer} {problem.delta} {plan.total()!r}"
    if key not in _GUARANTEES:
        _GUARANTEES[key] = plan.guarantee(problem.delta)
    return _GUARANTEES[key]


@functools.lru_cache(maxsize=4)
def _federation(data: str, take: int | None) -> Federation:
    settings = json.loads(data)
    if take is None:
        return from_config(settings)
    name, reader = settings.pop("name"), settings.pop("reader", {})
    dataset = load(name, **reader)
    chosen = np.random.default_rng(settings.get("seed", 0)).permutation(len(dataset))[:take]
    return federate(dataset.take(np.sort(chosen)), **settings)


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
    on_round: Callable[[int, int], None] = lambda _, __: None,
) -> tuple[Problem, list[Outcome]]:
    """Train once for each seed and measure; the program is compiled once for all of them."""
    problem, outcomes = prepare(config, delta, data_seed=seeds[0] if redraw else None), []
    simulator = _simulator(problem, config)
    for number, seed in enumerate(seeds):
        if redraw and number:
            drawn = prepare(config, delta, data_seed=seed)
            if np.array_equal(drawn.federation.sizes, problem.federation.sizes):
                problem = replace(problem, federation=drawn.federation)
                simulator.load(drawn.federation)
            else:  # other sizes are another program, and for records another price
                problem = drawn
                simulator = _simulator(problem, config)
        simulator.reseed(seed)
        outcomes.append(_train(simulator, problem, seed, metrics, looks, on_round))
    return problem, outcomes


def _simulator(problem: Problem, config: Config) -> Simulator:
    return Simulator(
        problem.plan.algorithm,
        problem.plan.task,
        problem.federation,
        dtype=problem.config.train.dtype or "float32",
        block=config["train"].get("block", 1),
        # Few clients have short rounds: devices would mostly wait for one another.
        max_devices=1 if problem.federation.clients <= _FEW else None,
    )


def _train(
    simulator: Simulator,
    problem: Problem,
    seed: int,
    metrics: Sequence[str],
    looks: int | None,
    on_round: Callable[[int, int], None],
) -> Outcome:
    begun, last = time.monotonic(), problem.plan.rounds
    look = _Look(simulator, metrics)
    state, round_ = simulator.init(), 0
    rounds, seen = list[int](), list[dict[str, float]]()
    if looks is not None:
        rounds.append(0)
        seen.append(look(state, 0))
    while round_ < last:
        until = last if looks is None else min(last, round_ + looks)
        state = simulator.advance(state, round_, until - round_)
        round_ = until
        rounds.append(round_)
        seen.append(look(state, round_))
        on_round(round_, last)
    curves = {m: [measured.get(m, float("nan")) for measured in seen] for m in metrics}
    return Outcome(seed, rounds, curves, time.monotonic() - begun)


class _Look:
    """The wanted metrics of a run and nothing else: what is not asked for is not computed."""

    def __init__(self, simulator: Simulator, metrics: Sequence[str]) -> None:
        self.simulator = simulator
        self.places = {metric.split("/")[0] for metric in metrics}
        self.oracle = {metric.split("/")[1] for metric in metrics if metric.startswith("oracle/")}
        self._spread = 0.0
        self.floor = self._floor() if "suboptimality" in self.oracle else 0.0

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
        if self.oracle & {"loss", "accuracy", "suboptimality"}:
            found |= simulator.evaluate(params, records)
            found["suboptimality"] = found["loss"] - self.floor
        if any(name.startswith("tau_") for name in self.oracle):
            found |= simulator.oracle(params, records)
        if self.oracle & {"target_step", "signal_to_noise"}:
            found |= simulator.probe(state, round_)
        if "aim" in self.oracle:
            found["aim"] = self._aim(state, round_)
        optimum = simulator.federation.optimum
        if optimum is not None and self.oracle & {"relative_distance", "relative_error"}:
            gap = float(np.linalg.norm(flat(params) - optimum) / np.linalg.norm(optimum))
            found |= {"relative_distance": gap, "relative_error": gap**2}
        return found

    def _aim(self, state: RunState, round_: int) -> float:
        """What FedEXP's last step aimed at: mean squared update over the NOISY mean's square."""
        server, spread = state.server, self._spread
        probed = self.simulator.probe(state, round_)
        self._spread = probed["target_step"] * probed["signal"] ** 2
        moved = np.linalg.norm(flat(server.params) - flat(server.before)) / float(server.step_size)
        return spread / float(moved) ** 2 if round_ else float("nan")

    def _floor(self) -> float:
        """The loss at the optimum of a problem whose model is one vector."""
        simulator = self.simulator
        optimum = simulator.federation.optimum
        leaves, shape = jax.tree.flatten(simulator.params(simulator.init()))
        if optimum is None or len(leaves) != 1:
            return 0.0
        best = jax.tree.unflatten(shape, [np.asarray(optimum, leaves[0].dtype)])
        return simulator.evaluate(best, simulator.federation.records)["loss"]
