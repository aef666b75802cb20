"""A run: the one object behind every door.

``tacit run``, ``tacit compare``, ``tacit.train``, the experiments and the benchmarks all make a
``Run``, from a configuration or from Python objects, and call ``train``. It holds the settled plan,
the records as they were given and the settings; it builds the engine, and keeps the compiled
program for other seeds of the same run.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tacit import features
from tacit.accounting import Budget, Guarantee, Ledger
from tacit.accounting.ledger_book import Label
from tacit.algorithm import Algorithm
from tacit.data.config import before_release
from tacit.data.federation import Federation
from tacit.errors import ConfigError
from tacit.planning import Plan, calibrate, rounds_within
from tacit.planning.rounds import rounds_for
from tacit.population import Population
from tacit.precision import Precision
from tacit.preludes.base import Released
from tacit.run import interrupt
from tacit.run.config import RunConfig
from tacit.run.exactness import chosen_precision, require_exact_noise
from tacit.run.fingerprint import fingerprint
from tacit.run.folder import RunFolder
from tacit.run.loop import MakeMeasure, OnProgress, Rounds, Settings, Spent, spent_after
from tacit.run.measure import Measure
from tacit.run.prelude import opened
from tacit.run.result import Result
from tacit.run.settled import Calibrate, settled_plan
from tacit.run.spelled import config_text, spelled
from tacit.run.trained_model import inputs_of, made_model
from tacit.run_status import RunStatus
from tacit.simulation import Simulator
from tacit.simulation.devices import devices
from tacit.simulation.tuning import tuned
from tacit.tasks.base import Task


@dataclass
class Shared:
    """What all runs of one plan share: the compiled program, and what their rounds cost."""

    simulator: Simulator | None = None
    plan: Plan | None = None  # the first run to use it decides
    spent: Spent = field(default_factory=dict)


class Run:
    """A plan on records with settings, ready to be trained."""

    def __init__(
        self,
        plan: Plan,
        federation: Federation,
        settings: Settings | None = None,
        config: RunConfig | None = None,
        *,
        shared: Shared | None = None,
    ) -> None:
        self.plan, self.federation = plan, federation
        self.settings = settings or Settings()
        self.config = config  # None: a configuration cannot name these objects
        if shared is None or shared.plan not in (None, plan):
            shared = Shared()  # another plan has other noise and another price
        shared.plan = plan
        self.shared = shared

    @classmethod
    def from_config(
        cls,
        config: RunConfig,
        *,
        base: str | Path = ".",
        federation: Federation | None = None,
        delta: float = 0.0,
        calibrate: Calibrate = calibrate,
    ) -> Run:
        """The run that a configuration describes; its files are relative to ``base``.

        ``federation`` replaces what [data] names. ``delta`` is for privacy = "none", where noise
        that the method itself states is accounted for.
        """
        devices()  # before anything else starts JAX with one device for all cores
        found, waiting = (
            before_release(config.data, base=base) if federation is None else (federation, ())
        )
        if waiting and config.features:
            raise ConfigError(
                "columns with scaling = 'release' keep their places: leave [[features]] out, or"
                " give those columns their public range alone."
            )
        found = features.apply(found, config.features or ())
        x = found.records["x" if "x" in found.records else "a"]
        plan = settled_plan(
            config,
            shape=x.shape[1:],
            classes=found.classes,
            population=Population(tuple(int(n) for n in found.sizes)),
            waiting=waiting,
            calibrate=calibrate,
        )
        privacy, train = config.privacy, config.train
        settings = Settings(
            seed=train.seed,
            delta=delta if privacy == "none" else float(privacy.delta or 0.0),
            budget=None if privacy == "none" else privacy.budget,
            eval_every=train.eval_every,
            dtype=train.dtype,
            block=train.block,
            oracle=train.oracle,
        )
        return cls(plan, found, settings, config)

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        task: Task,
        federation: Federation,
        *,
        rounds: int | None = None,
        budget: Budget | None = None,
        settings: Settings | None = None,
    ) -> Run:
        """The run of Python objects; with a budget the noise is calibrated to it."""
        devices()
        settings = settings or Settings()
        if budget is not None:
            settings = replace(settings, budget=budget, delta=budget.delta)
        population = Population(tuple(int(n) for n in federation.sizes))
        asked = rounds if rounds is not None else rounds_for(algorithm, task, population, budget)
        plan = Plan.of(algorithm, task, population, asked)
        if budget is not None:
            plan = calibrate(plan, budget)
        config = spelled(algorithm, task, federation, rounds, settings)
        return cls(plan, federation, settings, config)

    def with_seed(self, seed: int | None) -> Run:
        """The same run from another seed, or with noise from the operating system."""
        config = None if self.config is None else self.config.with_seed(seed)
        settings = replace(self.settings, seed=seed)
        return Run(self.plan, self.federation, settings, config, shared=self.shared)

    def with_records(self, federation: Federation) -> Run:
        """The same plan on other records of the same sizes; a configuration does not name them."""
        return Run(self.plan, federation, self.settings, shared=self.shared)

    @property
    def dtype(self) -> Precision:
        """The precision of the run: as asked for, or what its noise needs."""
        return chosen_precision(self.settings.dtype, self.plan, real=self.settings.seed is None)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the plan, the records and the settings, apart from the seed."""
        settings = {k: v for k, v in asdict(self.settings).items() if k != "seed"}
        return fingerprint(self.plan, self.federation, {**settings, "dtype": self.dtype})

    def guarantee(self) -> Guarantee:
        """What the run will cost if it goes as planned."""
        return spent_after(self.plan.rounds, self.plan, self.settings, self.shared.spent)

    def check(self) -> None:
        """Refuse what cannot be run, before anything is computed."""
        if self.settings.seed is None:
            require_exact_noise(self.plan)

    def train(
        self,
        out: str | Path | None = None,
        *,
        on_progress: OnProgress | None = None,
        measure: MakeMeasure = Measure,
    ) -> Result:
        """Train within the budget; ``out`` keeps everything, and a second call goes on there."""
        budget = self.settings.budget
        rounds = self.plan.rounds if budget is None else rounds_within(self.plan, budget)
        self.check()
        folder = None if out is None else RunFolder(out)
        with RunStatus(None if folder is None else folder.path) as status:
            return self._train(rounds, folder, status, on_progress, measure)

    def _train(
        self,
        rounds: int,
        folder: RunFolder | None,
        status: RunStatus,
        on_progress: OnProgress | None,
        measure: MakeMeasure,
    ) -> Result:
        plan, settings, dtype = self.plan, self.settings, self.dtype
        released: Released = {}
        federation = self.federation
        with self._ledger(folder) as ledger:
            epsilon = None if settings.budget is None else settings.budget.epsilon
            status.begin(rounds, delta=settings.delta, epsilon=epsilon)
            if plan.prelude is not None:
                federation, released = opened(
                    plan, federation, settings.seed, dtype, ledger, folder
                )
            simulator = self._simulator(federation, dtype)
            # The plan stays as it is: noise that is spread over its rounds must not be spread anew.
            training = Rounds(
                plan,
                rounds,
                simulator,
                settings,
                folder,
                ledger,
                on_progress=on_progress,
                measure=measure,
                spent=self.shared.spent,
                status=status,
            )
            with interrupt.remembered() as check_interrupt:
                training.go(check_interrupt)
            guarantee = training.final_guarantee()
        stopped = None
        if training.last < plan.rounds:
            stopped = f"the budget covers {training.last} of the {plan.rounds} rounds"
        params, inputs = simulator.params(training.state), inputs_of(self.federation, released)
        result = Result(
            params=params,
            guarantee=guarantee,
            rows=training.rows,
            rounds=training.last,
            stopped=stopped,
            seconds=training.seconds,
            released=released,
            model=made_model(params, plan, inputs, dtype, guarantee),
            trajectory=training.trajectory,
        )
        if folder is not None:
            self._keep(result, folder)
        return result

    def simulator(self) -> Simulator:
        """The engine of a run without a prelude, at its first round."""
        return self._simulator(self.federation, self.dtype)

    def _simulator(self, federation: Federation, dtype: Precision) -> Simulator:
        """The compiled program of an earlier seed on these records, or a new one."""
        found, seed = self.shared.simulator, self.settings.seed
        wanted = (self.plan.algorithm, self.plan.task, seed is None, dtype)
        # An engine of another plan would draw other noise than this plan charges.
        if found is None or (found.algorithm, found.task, found.exact, found.dtype) != wanted:
            found = tuned(
                self.plan.algorithm,
                self.plan.task,
                federation,
                seed=seed,
                dtype=dtype,
                block=self.settings.block,
            )
            self.shared.simulator = found
        found.load(federation)
        found.reseed(seed)
        return found

    def _ledger(self, folder: RunFolder | None) -> contextlib.AbstractContextManager[Ledger | None]:
        if folder is None:
            return contextlib.nullcontext()
        plan, settings = self.plan, self.settings
        about: Label = {
            "digest": self.digest,
            "seed": settings.seed,
            "noise_from": settings.noise_from,
        }
        return folder.begin(
            config_text(self.config, plan, settings),
            unit=plan.unit,
            relation=plan.relation,
            observer=plan.observer,
            about=about,
        )

    def _keep(self, result: Result, folder: RunFolder) -> None:
        from tacit.report.run_pictures import draw_run

        folder.write_model(result.params, result.model)
        folder.write_summary(result.summary(self.plan, seed=self.settings.seed, digest=self.digest))
        draw_run(result.rows, result.trajectory, folder.path, self.name, self.federation.title)

    @property
    def name(self) -> str:
        """The method's name, for tables and pictures."""
        if self.config is not None:
            return self.config.algorithm.name
        return type(self.plan.algorithm).__name__
