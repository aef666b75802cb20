"""Runs inside a budget: what a folder may be continued with, and where training stops."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import tree
from tacit.accounting import Budget, Ledger
from tacit.algorithm import Algorithm
from tacit.algorithms import Auto, DPFedAvg, DPFedEXP, DynamicLDP, FedAvg, RecordDPFedAvg
from tacit.data.federation import Federation
from tacit.errors import BudgetError, TacitError
from tacit.planning import Plan, calibrate, rounds_within
from tacit.population import Population
from tacit.run import train
from tacit.run.exactness import chosen_precision
from tacit.run.folder import RunFolder, load_model
from tacit.run.loop import Progress, Settings
from tacit.run.result import Result
from tacit.run.run import Run
from tacit.tasks.logistic import Logistic

pytestmark = pytest.mark.usefixtures("quick_compilation")

DELTA = 1e-5
TASK = Logistic(features=2, l2=0.1)
NOISY = DPFedAvg(noise=5.0)


def make_federation() -> Federation:
    rng = np.random.default_rng(0)
    records = {"x": rng.standard_normal((20, 2)), "y": rng.integers(0, 2, 20)}
    return Federation(
        records=records,
        sizes=np.array([5, 7, 8]),
        names=("a", "b", "c"),
        classes=2,
        test={k: v[:6] for k, v in records.items()},
    )


FEDERATION = make_federation()


def plan_of(algorithm: Algorithm, rounds: int) -> Plan:
    return Plan(algorithm, TASK, Population((5, 7, 8)), rounds)


def spent(path: Path) -> float:
    return Ledger.read(path / "ledger.jsonl").guarantee(DELTA).epsilon


def test_the_ten_line_api(tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = train(
        DPFedAvg(),
        TASK,
        FEDERATION,
        rounds=3,
        budget=Budget(2.0, DELTA),
        eval_every=2,
        out=tmp_path / "run",
        on_progress=seen.append,
    )
    assert 1.99 < result.guarantee.epsilon <= 2.0
    assert result.guarantee.delta == DELTA
    assert spent(tmp_path / "run") == result.guarantee.epsilon
    assert result.stopped is None
    assert sorted({row.round for row in result.rows}) == [0, 2, 3]
    assert {"test/loss", "test/accuracy", "oracle/loss"} <= set(result.metrics)
    assert [p.round for p in seen][-1] == 3
    assert seen[-1].epsilon == result.guarantee.epsilon
    saved = load_model(tmp_path / "run" / "model.npz", result.params)
    for name, value in tree.to_named(result.params).items():
        assert (tree.to_named(saved)[name] == value).all()


def test_training_stops_before_the_budget_is_exceeded(tmp_path: Path) -> None:
    plan = plan_of(NOISY, 50)
    budget = Budget(plan.guarantee(DELTA, rounds=3).epsilon * 1.01, DELTA)
    settings = Settings(delta=DELTA, budget=budget)
    result = Run(plan, FEDERATION, settings).train(tmp_path / "run")
    assert result.rounds == 3
    assert "covers 3 of the 50 rounds" in str(result.stopped)
    assert result.guarantee.epsilon <= budget.epsilon < plan.guarantee(DELTA, rounds=4).epsilon
    assert spent(tmp_path / "run") == result.guarantee.epsilon
    assert len(list(Ledger.read(tmp_path / "run" / "ledger.jsonl").charges)) == 3


def test_a_schedule_is_not_spread_anew_when_training_stops_early(tmp_path: Path) -> None:
    """A shorter run of the same total noise would cost what the whole one does."""
    plan = plan_of(DynamicLDP(noise=1.0, strong_convexity=0.1), 6)
    whole = plan.guarantee(DELTA).epsilon
    budget = Budget(0.6 * whole, DELTA)
    rounds = rounds_within(plan, budget)
    assert 0 < rounds < 6
    settings = Settings(delta=DELTA, budget=budget)
    result = Run(plan, FEDERATION, settings).train(tmp_path / "run")
    assert result.guarantee.epsilon <= budget.epsilon
    assert spent(tmp_path / "run") == result.guarantee.epsilon


def test_not_even_one_round_fits() -> None:
    with pytest.raises(BudgetError, match="not even one round"):
        Run(
            plan_of(DPFedAvg(noise=0.1), 3),
            FEDERATION,
            Settings(delta=DELTA, budget=Budget(0.1, DELTA)),
        ).train()


def test_no_noise_never_fits_a_budget() -> None:
    with pytest.raises(TacitError, match="no noise"):
        calibrate(plan_of(FedAvg(), 2), Budget(1.0, DELTA))
    with pytest.raises(BudgetError, match="not even one round"):
        Run(
            plan_of(FedAvg(), 2), FEDERATION, Settings(delta=DELTA, budget=Budget(1.0, DELTA))
        ).train()


def run(path: Path, algorithm: Algorithm = NOISY, rounds: int = 3, **more: Any) -> Result:
    given = {"seed": 0, **more}
    return train(algorithm, TASK, FEDERATION, rounds=rounds, delta=DELTA, out=path, **given)


def test_a_folder_is_continued_by_the_same_run_only(tmp_path: Path) -> None:
    first = run(tmp_path)
    again = run(tmp_path)
    for name, value in tree.to_named(first.params).items():
        assert tree.to_named(again.params)[name].tobytes() == value.tobytes()
    assert again.rows == first.rows
    before = (tmp_path / "ledger.jsonl").read_bytes()
    for other in (
        {"algorithm": dataclasses.replace(NOISY, noise=1.0)},  # would be charged too little
        {"rounds": 2},  # would be told too small an epsilon
        {"seed": 1},
    ):
        with pytest.raises(TacitError, match="holds another run"):
            run(tmp_path, **other)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_more_rounds_are_charged_on_top(tmp_path: Path) -> None:
    run(tmp_path)
    longer = run(tmp_path, rounds=5)
    planned = plan_of(NOISY, 5).guarantee(DELTA, noise_from="seed")
    assert dataclasses.replace(longer.guarantee, uncharged=()) == planned
    assert spent(tmp_path) == longer.guarantee.epsilon
    at_once = run(tmp_path / "once", rounds=5)
    assert tree.to_named(longer.params)["['w']"].tolist() == (
        tree.to_named(at_once.params)["['w']"].tolist()
    )


def test_a_ledger_that_lost_charges_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    ledger = tmp_path / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:2]))
    with pytest.raises(TacitError, match="charges are missing"):
        run(tmp_path)


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    run(tmp_path)
    file = tmp_path / "checkpoint.npz"
    whole = file.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", b"not an archive"):
        file.write_bytes(damage)
        with pytest.raises(TacitError, match="cannot be read"):
            run(tmp_path)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(TacitError, match="holds another run"):
        run(tmp_path, dataclasses.replace(NOISY, server="adam"))


def test_two_writers_do_not_share_a_folder(tmp_path: Path) -> None:
    run(tmp_path)
    with (
        Ledger.open(tmp_path / "ledger.jsonl"),
        pytest.raises(TacitError, match="another process is writing"),
    ):
        run(tmp_path)


def test_a_run_in_float64_keeps_its_bits(tmp_path: Path) -> None:
    run(tmp_path, rounds=2, dtype="float64")
    longer = run(tmp_path, rounds=4, dtype="float64")
    at_once = run(tmp_path / "once", rounds=4, dtype="float64")
    for name, value in tree.to_named(at_once.params).items():
        assert value.dtype == np.float64
        assert tree.to_named(longer.params)[name].tobytes() == value.tobytes()


def test_an_oracle_can_be_closed() -> None:
    settings = Settings(delta=DELTA, oracle=False)
    result = Run(plan_of(NOISY, 1), FEDERATION, settings).train()
    assert {name.split("/")[0] for name in result.metrics} == {"test"}


def test_a_plan_needs_a_round() -> None:
    with pytest.raises(TacitError, match="at least one round"):
        plan_of(NOISY, 0)


class CrashError(Exception):
    """The process ends here."""


def crashing(at: int) -> Any:
    def watch(progress: Progress) -> None:
        if progress.round >= at:
            raise CrashError

    return watch


def test_real_noise_is_never_drawn_twice_and_lost_rounds_stay_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a seed a round that is run again is another release: other noise, another charge."""
    monkeypatch.setattr("tacit.run.loop._SAVE_SECONDS", 1e9)  # a busy machine is slow
    plan = calibrate(plan_of(NOISY, 40), Budget(4.0, DELTA))
    settings = Settings(delta=DELTA, budget=Budget(4.0, DELTA), eval_every=40)
    folder = RunFolder(tmp_path)
    with pytest.raises(CrashError):
        Run(plan, FEDERATION, settings).train(folder.path, on_progress=crashing(3))
    lost = [c.label["round"] for c in Ledger.read(tmp_path / "ledger.jsonl").charges]
    assert 3 <= len(lost) < 40  # nothing was saved: all of them are lost
    result = Run(plan, FEDERATION, settings).train(folder.path)
    charges = list(Ledger.read(tmp_path / "ledger.jsonl").charges)
    assert [c.label["round"] for c in charges] == lost + list(range(result.rounds))
    assert [c.done for c in charges] == [False] * len(lost) + [True] * result.rounds
    assert result.rounds == 40 - len(lost)
    assert "covers" in str(result.stopped)
    assert spent(tmp_path) == result.guarantee.epsilon <= 4.0
    assert "Noise: from the operating system." in result.guarantee.sentence()


def test_an_interrupt_loses_nothing_that_was_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(progress: Progress) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    settings = Settings(delta=DELTA, budget=Budget(4.0, DELTA), eval_every=1)
    plan, folder = calibrate(plan_of(NOISY, 5), Budget(4.0, DELTA)), RunFolder(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        Run(plan, FEDERATION, settings).train(folder.path, on_progress=press)
    result = Run(plan, FEDERATION, settings).train(folder.path)
    assert result.rounds == 5
    assert len(list(Ledger.read(tmp_path / "ledger.jsonl").charges)) == 5


def test_noise_without_a_seed_cannot_be_taken_off() -> None:
    """Subtracting the noise of seed 0 left an error of 1.8e-6 under "epsilon = 0.1"."""
    plan = calibrate(plan_of(NOISY, 1), Budget(0.1, DELTA))

    def model(seed: int | None) -> np.ndarray:
        result = Run(plan, FEDERATION, Settings(seed=seed, delta=DELTA)).train()
        return np.concatenate([np.ravel(v) for v in tree.to_named(result.params).values()])

    known = model(0)
    np.testing.assert_array_equal(known, model(0))
    distances = [np.linalg.norm(model(None) - known) for _ in range(2)]
    assert min(distances) > 0.01 * np.linalg.norm(known)
    assert distances[0] != distances[1]


def test_the_sentence_of_a_seed_says_simulation() -> None:
    said = {
        seed: train(NOISY, TASK, FEDERATION, rounds=1, delta=DELTA, seed=seed).guarantee.sentence()
        for seed in (None, 3)
    }
    assert said[3].startswith("This is a simulation: its noise comes from a seed")
    assert said[None].startswith("Over the whole run")
    assert all("Not counted: the metrics called oracle" in sentence for sentence in said.values())


def test_rounding_of_long_sums_needs_float64() -> None:
    """Noise must hide that floats round: a silo of 5,000 records is summed in float64."""
    method = RecordDPFedAvg(noise=1.0, batches="full", local_steps=1)
    plans = {n: Plan(method, TASK, Population((n, n)), 1) for n in (20, 5000)}
    assert [chosen_precision(None, p, real=True) for p in plans.values()] == ["float32", "float64"]
    assert chosen_precision(None, plans[5000], real=False) == "float32"
    with pytest.raises(TacitError, match="float64"):
        chosen_precision("float32", plans[5000], real=True)


def test_what_has_no_exact_sampler_needs_a_seed() -> None:
    method = DPFedEXP(trust="local-privunit")
    with pytest.raises(TacitError, match=r"PrivUnit is drawn in floating point.*\[train\] seed"):
        train(method, TASK, FEDERATION, rounds=1)
    train(method, TASK, FEDERATION, rounds=1, seed=0)


def test_a_run_that_stopped_at_its_budget_stays_there(tmp_path: Path) -> None:
    """Started a third time, it forgot what the first start had lost, and went on to 2.3 of 2."""
    budget = Budget(2.0, DELTA)
    plan = calibrate(plan_of(NOISY, 40), budget)
    settings = Settings(delta=DELTA, budget=budget, eval_every=40)
    with pytest.raises(CrashError):
        Run(plan, FEDERATION, settings).train(tmp_path, on_progress=crashing(3))
    results = [Run(plan, FEDERATION, settings).train(tmp_path) for _ in range(2)]
    assert results[0].rounds == results[1].rounds < 40
    assert results[1].guarantee.epsilon <= 2.0


def test_sums_of_a_silo_that_the_server_noises_need_float64_too() -> None:
    method = Auto(noise=1.0, protects="record", noise_at="aggregate", centre="public")
    plan = Plan(method, TASK, Population((30_000, 5)), 1)
    assert chosen_precision(None, plan, real=True) == "float64"
    with pytest.raises(TacitError, match="float64"):
        chosen_precision("float32", plan, real=True)


def test_very_many_clients_are_summed_in_float64() -> None:
    """In float32 the grids of exact sums over a million clients would cut everything off."""
    plan = Plan(DPFedAvg(noise=1.0), TASK, Population((1,) * 1_000_000), 1)
    assert chosen_precision(None, plan, real=True) == "float64"
