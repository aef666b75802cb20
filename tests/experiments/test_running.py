"""Selection before report, resuming, results as data, verdicts, and the page made from them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small import ENTRY, config, line

from experiments.reproduce import catalogue, page, runner
from experiments.reproduce.check import check
from experiments.reproduce.entry import SELECTION_SEED, Quantity
from experiments.reproduce.jobs import Unit, chosen, digest, due, run_unit
from experiments.reproduce.optimum import logistic_optimum
from experiments.reproduce.page import write_page
from experiments.reproduce.prepared import prepare, run_many
from experiments.reproduce.store import Record, Store
from experiments.reproduce.summary import Summary, better
from tacit.errors import DataError, TacitError


def pretend(unit: Unit) -> Record:
    """A record without training: the loss is the clip radius, plus the seed's small part."""
    clip = unit.config["algorithm"]["clip"]
    values = [clip + 0.001 * seed for seed in unit.seeds]
    return Record(
        entry=unit.entry.name,
        row=unit.line.row,
        method=unit.line.method,
        stage="paper" if unit.stage is None else f"epsilon {unit.stage:g}",
        settings=dict(unit.settings),
        digest=digest(unit.entry, unit.config),
        seeds=list(unit.seeds),
        values={unit.entry.quantity.label: values},
        epsilon=3.0,
        looks=[0, 1],
        curves={"oracle/loss": [[1.0, value] for value in values]} if unit.reported else {},
    )


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(runner, "run_unit", pretend)
    store = Store(tmp_path / "results")
    runner.run_entry(ENTRY, store)
    return store


def test_points_of_a_grid_come_first_on_a_seed_of_their_own() -> None:
    units = due(ENTRY, Store(None))
    selecting = [unit for unit in units if unit.line.method == "first"]
    assert {unit.seeds for unit in selecting} == {(SELECTION_SEED,)}
    assert len(selecting) == 4  # two points at the paper's stage and at epsilon 8
    assert {unit.seeds for unit in units if unit.line.method == "second"} == {(0, 1)}
    assert SELECTION_SEED not in range(ENTRY.seeds)


def test_the_best_point_is_reported_and_nothing_runs_twice(filled: Store) -> None:
    assert due(ENTRY, filled) == []
    found = chosen(ENTRY, filled, ENTRY.lines[0], None)
    assert found is not None
    assert found[0] == {"algorithm.clip": 0.1}
    more = due(replace(ENTRY, seeds=3), filled)
    assert {unit.seeds for unit in more} == {(2,)}


def test_every_seed_of_a_long_entry_is_kept_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Store
) -> None:
    long = replace(ENTRY, minutes=300.0)
    reported = [unit.seeds for unit in due(long, Store(None)) if unit.line.method == "second"]
    assert set(reported) == {(0,), (1,)}
    assert due(long, filled) == []  # what was run together counts
    monkeypatch.setattr(runner, "run_unit", pretend)
    apart = Store(tmp_path / "apart")
    runner.run_entry(long, apart)
    together, singly = Summary(ENTRY, filled), Summary(ENTRY, apart)
    for compared in ENTRY.lines:
        one = together.cell(compared.row, compared.method, None)
        other = singly.cell(compared.row, compared.method, None)
        assert one is not None
        assert other is not None
        assert one.values == other.values


def test_results_are_read_back_as_they_were_written(filled: Store) -> None:
    again = Store(filled.folder)
    assert again.of(ENTRY.name) == filled.of(ENTRY.name)
    assert filled.folder is not None
    path = filled.folder / f"{ENTRY.name}.jsonl"
    path.write_text(path.read_text() + '{"entry": "small/entr\n')
    with pytest.raises(TacitError, match="damaged"):
        Store(filled.folder).of(ENTRY.name)


def test_infinite_and_missing_numbers_survive(tmp_path: Path) -> None:
    store = Store(tmp_path)
    unit = due(ENTRY, store)[0]
    store.add(replace(pretend(unit), epsilon=math.inf, values={"training loss": [math.nan]}))
    found = Store(tmp_path).of(ENTRY.name)[0]
    assert found.epsilon == math.inf
    assert math.isnan(found.values["training loss"][0])


def test_a_diverging_point_is_never_chosen(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for unit in due(ENTRY, store):
        bad = unit.config["algorithm"]["clip"] == 0.1 and not unit.reported
        record = pretend(unit)
        store.add(replace(record, values={"training loss": [math.nan]}) if bad else record)
    found = chosen(ENTRY, store, ENTRY.lines[0], None)
    assert found is not None
    assert found[0] == {"algorithm.clip": 0.5}


def test_verdicts_ask_for_two_standard_errors(filled: Store) -> None:
    summary = Summary(ENTRY, filled)
    cell = summary.cell("row", "second", None)
    assert cell is not None
    assert cell.values == (0.1, pytest.approx(0.101))
    assert cell.std == pytest.approx(0.001 / math.sqrt(2))
    assert [v.answer for v in better(summary, "first", "second")] == ["not clear"] * 2
    wide = replace(ENTRY, lines=(line("first", 0.1), line("second", 0.5)))
    store = Store(None)
    for unit in due(wide, store):
        store.add(pretend(unit))
    assert [v.answer for v in better(Summary(wide, store), "first", "second")] == ["yes"] * 2
    assert [v.answer for v in better(Summary(wide, store), "second", "first")] == ["no"] * 2


def test_the_page_is_made_of_the_results_and_the_same_twice(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (catalogue, page):
        monkeypatch.setattr(module, "ENTRIES", {ENTRY.name: ENTRY})
        monkeypatch.setattr(module, "PAPERS", {"small": "A small paper"})
    write_page(filled, tmp_path / "docs")
    first = {p.name: p.read_bytes() for p in (tmp_path / "docs").rglob("*") if p.is_file()}
    text = first["small.md"].decode()
    assert "| row | first | 3 | 1.00 ± 0.10 | 0.10 ± 0.00 | nothing | 0.10 ± 0.00 |" in text
    assert "clip 0.1*" in text  # the edge of the grid is marked
    assert "First is better than second." in first["index.md"].decode()
    write_page(filled, tmp_path / "docs")
    assert first == {p.name: p.read_bytes() for p in (tmp_path / "docs").rglob("*") if p.is_file()}
    assert {name for name in first if name.endswith(".svg")} == {
        "small-entry-rows.svg",
        "small-entry-panels.svg",
        "small-entry-r.svg",
    }


def test_a_unit_trains_and_says_what_it_guarantees() -> None:
    unit = Unit(ENTRY, ENTRY.lines[1], 8.0, {}, {}, (0, 1), True)
    _, calibrated = next(ENTRY.lines[1].candidates(8.0, 1e-4))
    record = run_unit(replace(unit, config=calibrated))
    assert record.epsilon <= 8.0
    assert record.epsilon == pytest.approx(8.0, rel=1e-3)
    assert "epsilon = 8" in record.guarantee
    first, second = record.values["training loss"]
    assert first != second
    assert record.looks == [0, 1, 2, 3]
    assert np.array(record.curves["oracle/loss"]).shape == (2, 4)


def test_an_impossible_setting_is_a_result() -> None:
    broken = {**config(0.5), "privacy": {"epsilon": 1e-30, "delta": 0.0}}
    record = run_unit(Unit(ENTRY, ENTRY.lines[1], None, {}, broken, (0,), True))
    assert record.failed
    assert math.isnan(record.values["training loss"][0])


def test_missing_data_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = catalogue.ENTRIES["dynamic/figure2"]
    with pytest.raises(DataError, match="a6a"):
        run_unit(due(entry, Store(None))[0])
    assert catalogue.missing_data(entry) == ("a6a",)
    assert catalogue.state(entry, Store(None)) == "needs data"


def test_a_redrawn_problem_is_that_of_its_seed() -> None:
    """Records are swapped under one compiled program: it must give what a new one gives."""
    ask = {"delta": 1e-4, "metrics": ["oracle/loss"], "looks": None, "redraw": True}
    _, both = run_many(config(0.5), [4, 7], **ask)  # type: ignore[arg-type]
    _, alone = run_many(config(0.5), [7], **ask)  # type: ignore[arg-type]
    assert both[1].curves == alone[0].curves
    assert both[0].curves != both[1].curves


def test_features_are_applied_before_training() -> None:
    plain = {
        "data": {"name": "digits", "clients": 3},
        "task": {"name": "multinomial"},
        "privacy": {"noise": 1.0, "delta": 1e-5},
        "algorithm": {"name": "dp-fedavg"},
        "train": {"rounds": 1},
    }
    mapped = {**plain, "features": [{"name": "standard", "mean": 0.5, "scale": 0.25}]}
    before, after = (prepare(config, 1e-5).federation for config in (plain, mapped))
    for part in ("records", "test"):
        raw, found = getattr(before, part)["x"], getattr(after, part)["x"]
        np.testing.assert_allclose(found, (raw - 0.5) / 0.25, atol=1e-5)


def test_fewer_records_of_a_dataset() -> None:
    asked = config(0.5) | {
        "data": {"name": "digits", "split": "iid", "clients": 2, "take": 30},
        "task": {"name": "multinomial"},
    }
    assert prepare(asked, 1e-4).federation.sizes.tolist() == [15, 15]


@pytest.mark.parametrize(("l1", "box"), [(0.0, math.inf), (0.02, math.inf), (0.0, 0.1)])
def test_the_optimum_is_one(l1: float, box: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 4)), rng.integers(2, size=60).astype(float)
    w = logistic_optimum(x, y, l2=0.1, l1=l1, box=box)

    def value(v: np.ndarray) -> float:
        losses = np.log1p(np.exp(-(2 * y - 1) * (x @ v)))
        return float(losses.mean() + 0.05 * v @ v + l1 * np.abs(v).sum())

    assert np.abs(w).max() <= box
    for _ in range(50):
        near = np.clip(w + 1e-3 * rng.standard_normal(4), -box, box)
        assert value(near) >= value(w)


def test_check_reruns_the_smallest_case(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = catalogue.ENTRIES["fedexp/table1"]
    runner.run_entry(entry, store)
    found = list(check(store, count=3))
    assert len(found) == 3
    assert all(item.agrees for item in found)
    for record in store.of(entry.name):
        record.values[entry.quantity.label][0] *= 1.1
    assert not any(item.agrees for item in check(store, count=3))


def test_table_1_of_fedexp_is_reached_and_its_truth_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = catalogue.ENTRIES["fedexp/table1"]
    runner.run_entry(entry, store)
    summary = Summary(entry, store)
    for item in entry.lines:
        cell = summary.cell(item.row, item.method, None)
        assert cell is not None
        assert item.printed is not None
        assert cell.mean == pytest.approx(item.printed.value, abs=2e-3)
    local = summary.cell("LDP (Gaussian)", "DP-FedEXP", None)
    assert local is not None
    assert local.epsilon == pytest.approx(289.339, abs=0.01)
    assert entry.judge is not None
    assert entry.judge(summary)[0].answer == "yes"


def test_a_verdict_waits_for_all_rows_and_an_order_of_failures_is_none() -> None:
    wide = replace(ENTRY, lines=(line("first", 0.1), line("second", 0.5)))
    more = replace(wide, lines=(*wide.lines, replace(line("first", 0.2), row="another")))
    more = replace(more, lines=(*more.lines, replace(line("second", 0.3), row="another")))
    store = Store(None)
    for unit in due(wide, store):
        store.add(pretend(unit))
    assert [v.answer for v in better(Summary(more, store), "first", "second")] == ["not run"] * 2
    failing = replace(wide, quantity=replace(ENTRY.quantity, useless=0.05))
    assert [v.answer for v in better(Summary(failing, store), "first", "second")] == [
        "not clear"
    ] * 2


def test_what_is_learnt_depends_on_the_side_that_is_better() -> None:
    error = Quantity(metric="m", label="m", better="low", useless=0.5)
    accuracy = Quantity(metric="m", label="m", useless=15.0)
    assert [error.learnt(x) for x in (0.4, 0.5, 0.6)] == [True, False, False]
    assert [accuracy.learnt(x) for x in (14.0, 15.0, 16.0)] == [False, False, True]
    assert Quantity(metric="m", label="m").learnt(0.0)
