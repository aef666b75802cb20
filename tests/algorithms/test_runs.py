"""Runs of every algorithm in a folder: the ledger equals the plan, and a crash changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engines import SEED, assert_same_bits, parts, plan_of, simulator
from registry import CASES, Case

from tacit import tree
from tacit.accounting import Ledger
from tacit.run import folder as folders
from tacit.run.loop import Settings
from tacit.run.result import Result
from tacit.run.run import Run, Shared

DELTA = 1e-5
FILES = ("metrics.csv", "model.npz")
# The machinery of a run knows an algorithm by its state and its events: an aggregate without client
# state and a local method whose clients remember are all there is to it.
THOROUGH = ("dp-fedavg", "dp-scaffnew")


def run(case: Case, path: Path) -> Result:
    settings = Settings(seed=SEED, delta=DELTA, eval_every=1, dtype="float64")
    shared = Shared(simulator=simulator(case))
    return Run(plan_of(case), case.federation(0), settings, shared=shared).train(path)


class Killed(BaseException):
    """What stands for kill -9: nothing catches it."""


@contextmanager
def killed_at(point: int, writes: list[str]) -> Iterator[None]:
    """Die at a point: an even one is before a write to disk, an odd one after it."""
    with pytest.MonkeyPatch.context() as patch:

        def watch(owner: Any, name: str) -> None:
            real = getattr(owner, name)

            def write(*args: Any, **options: Any) -> Any:
                number = len(writes)
                writes.append(name)
                if point == 2 * number:
                    raise Killed
                result = real(*args, **options)
                if point == 2 * number + 1:
                    if isinstance(result, Ledger):
                        result.close()  # a dead process has no open files
                    raise Killed
                return result

            patch.setattr(owner, name, write)

        watch(folders, "write_atomically")
        watch(Ledger, "charge_all")
        watch(Ledger, "done_all")
        watch(Ledger, "create")
        yield


def check_folder(case: Case, path: Path, result: Result) -> None:
    """What the ledger says is what the plan says."""
    plan = plan_of(case)
    ledger = Ledger.read(path / "ledger.jsonl")
    wanted = {(r, phase) for r in range(case.rounds) for phase, _ in plan.events(r)}
    labels = [(charge.label["round"], charge.label["phase"]) for charge in ledger.charges]
    assert len(labels) == len(set(labels))
    assert set(labels) == wanted
    assert all(charge.done for charge in ledger.charges)
    assert parts(ledger.spent(), plan.relation) == parts(plan.total(), plan.relation)
    assert ledger.guarantee(DELTA).epsilon == result.guarantee.epsilon
    assert (ledger.unit, ledger.observer) == (plan.unit, plan.observer)
    planned = plan.guarantee(DELTA, noise_from="seed")
    assert replace(result.guarantee, uncharged=()) == planned


def points_of(case: Case, path: Path) -> tuple[Result, list[str]]:
    """An undisturbed run and its writes."""
    writes: list[str] = []
    with killed_at(-1, writes):
        return run(case, path), writes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id, scope="module")
def test_plan_is_ledger_and_a_crash_changes_nothing(case: Case, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    result, writes = points_of(case, whole)
    check_folder(case, whole, result)
    assert [row.round for row in result.rows] == sorted(row.round for row in result.rows)
    points = range(2 * len(writes)) if case.id in THOROUGH else [len(writes)]
    for point in points:
        path = tmp_path / str(point)
        with killed_at(point, []), pytest.raises(Killed):
            run(case, path)
        spent = charges(path)
        again = run(case, path)
        check_folder(case, path, again)
        assert charges(path)[: len(spent)] == spent
        assert_same_bits(again.params, result.params)
        assert again.rows == result.rows
        for name in FILES:
            assert (path / name).read_bytes() == (whole / name).read_bytes()


def charges(path: Path) -> list[tuple[Any, Any]]:
    ledger = path / "ledger.jsonl"
    if not ledger.exists():
        return []
    return [(charge.event, charge.label) for charge in Ledger.read(ledger).charges]


def test_a_run_that_dies_again_and_again_arrives(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.id == "two-phases")
    result, _ = points_of(case, tmp_path / "whole")
    path, deaths, spent = tmp_path / "again", 0, []
    for point in range(1, 100):
        try:
            with killed_at(point, []):
                again = run(case, path)
        except Killed:
            deaths += 1
            assert charges(path)[: len(spent)] == spent
            spent = charges(path)
            continue
        break
    assert deaths > 5
    assert tree.to_named(again.params).keys() == tree.to_named(result.params).keys()
    assert_same_bits(again.params, result.params)
    check_folder(case, path, again)
