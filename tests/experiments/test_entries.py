"""Every entry is well formed: its configurations are valid, its names and claims are there."""

import copy
import pickle

import pytest

from experiments.reproduce.catalogue import ENTRIES, PAPERS, WAITING, find, source
from experiments.reproduce.entry import Entry, Quantity, changed, part, quick
from tacit.algorithms import registry as algorithms
from tacit.data.datasets.catalogue import CATALOGUE
from tacit.errors import ConfigError
from tacit.run.config import RunConfig
from tacit.tasks import registry as tasks

NAMES = sorted(ENTRIES)


def checked(entry: Entry) -> int:
    """Build every configuration of an entry as far as it goes without data."""
    count = 0
    for line in entry.lines:
        for stage in entry.stages(line):
            for _, config in line.candidates(stage, entry.delta):
                plain = copy.deepcopy(dict(config))
                plain["data"] = {k: v for k, v in plain["data"].items() if k != "take"}
                plain["train"] = {k: v for k, v in plain["train"].items() if k != "block"}
                run = RunConfig.from_dict(plain)
                algorithms.make(run.algorithm.name, **run.algorithm.options)
                assert set(run.task.options) <= set(tasks.options(run.task.name))
                if stage is not None:
                    assert run.privacy != "none"
                    assert run.privacy.epsilon == stage
                    assert run.privacy.delta == entry.delta
                count += 1
    return count


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_is_valid(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.paper in PAPERS
    assert all(needed in CATALOGUE for needed in entry.needs)
    if entry.of is None:
        assert checked(entry) >= len(entry.lines) > 0
    else:
        assert entry.of in ENTRIES
        assert not entry.lines
    assert checked(quick(source(entry))) > 0


@pytest.mark.parametrize("name", NAMES)
def test_lines_are_distinct_and_cross_processes(name: str) -> None:
    entry = ENTRIES[name]
    keys = [(line.row, line.method) for line in entry.lines]
    assert len(keys) == len(set(keys))
    assert pickle.loads(pickle.dumps(entry)).name == name


def test_figures_name_rows_and_methods_that_exist() -> None:
    for entry in ENTRIES.values():
        lines = source(entry).lines
        for figure in entry.figures:
            assert set(figure.rows or ()) <= {line.row for line in lines}
            assert set(figure.methods or ()) <= {line.method for line in lines}
            assert set(figure.metrics) <= set(source(entry).keep)
            for methods in figure.panels.values():
                assert set(methods) <= {line.method for line in lines}


def test_a_name_may_stand_for_several() -> None:
    assert {e.name for e in find("adaptdp/table2")} == {
        f"adaptdp/table2-t{number}" for number in (1, 2, 3, 4)
    }
    assert {e.paper for e in find("norm")} == {"norm"}
    assert len(find("all")) == len(ENTRIES)
    with pytest.raises(ConfigError, match="did you mean 'fedexp/table1'"):
        find("fedexp/tabel1")
    with pytest.raises(ConfigError, match="provide"):
        find(WAITING[0].name)


def test_honest_stages_drop_the_printed_noise() -> None:
    line = next(x for x in ENTRIES["adaptdp/table2-t1"].lines if x.method == "AdaptDP-FedAvg")
    _, printed = next(line.candidates(None, 1e-4))
    assert printed["algorithm"]["radius_noise"] == pytest.approx(0.00097 * 1500)
    assert printed["algorithm"]["noise"] == pytest.approx(0.0042 * 100)
    _, honest = next(line.candidates(2.0, 1e-4))
    assert "noise" not in honest["algorithm"]
    assert "radius_noise" not in honest["algorithm"]


def test_a_part_of_an_entry_is_its_lines_with_a_name_and_its_first_stage() -> None:
    whole = ENTRIES["fedexp/table4"]
    some = part(whole, "cdp, dp-fed", printed=True)
    assert [line.method for line in some.lines] == ["DP-FedEXP", "DP-FedAvg"]
    assert {stage for line in some.lines for stage in some.stages(line)} == {None}
    assert part(whole) == whole
    with pytest.raises(ConfigError, match="no line with 'nothing': its lines are LDP"):
        part(whole, "nothing")


def test_changed_copies() -> None:
    before = {"a": {"b": 1, "c": 2}}
    after = changed(before, {"a.b": 3, "a.c": None, "d.e": 4})
    assert after == {"a": {"b": 3}, "d": {"e": 4}}
    assert before == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("over", "expected"),
    [("last", 30.0), ("first", 50.0), ("lowest", 20.0), ("highest", 50.0), ("mean of last", 25.0)],
)
def test_quantities(over: str, expected: float) -> None:
    quantity = Quantity(metric="m", label="l", over=over, count=2, scale=10.0)  # type: ignore[arg-type]
    assert quantity.of([5.0, 4.0, 2.0, 3.0]) == pytest.approx(expected)
