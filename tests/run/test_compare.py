"""Runs side by side: the grid, its shares over the cores, and words about unequal privacy."""

import pytest

from tacit.errors import ConfigError
from tacit.measurements import Row
from tacit.run.compare import (
    Outcome,
    Share,
    compared,
    differences,
    joined,
    quality,
    run_share,
    shares,
    spread,
    suggests_auto,
    varied,
    with_auto,
)

BASE = {
    "data": {"name": "digits", "split": "iid", "clients": 8},
    "task": {"name": "multinomial"},
    "algorithm": {"name": "dp-fedavg", "clip": 0.5},
    "train": {"rounds": 2, "seed": 4},
    "privacy": {"epsilon": 8.0, "delta": 1e-3},
}


def outcome(value=0.5, **words):
    guarantee = {
        "unit": "client",
        "relation": "zero-out",
        "observer": "everyone",
        "delta": 1e-5,
        "epsilon": 2.0,
        **words,
    }
    return Outcome(guarantee, {0: [Row(0, "test/loss", 9.0), Row(1, "test/loss", value)]})


def test_every_base_meets_every_combination():
    found = varied(
        {"a": BASE, "b": BASE},
        ["algorithm.clip=0.1,0.2", "algorithm.server=sgd,adam"],
        ["train.rounds=3"],
    )
    assert len(found) == 8
    assert found[0].name == "a, clip 0.1, server sgd"
    assert found[-1].config.algorithm.options["server"] == "adam"
    assert {v.config.train.rounds for v in found} == {3}


@pytest.mark.parametrize("text", ["algorithm.clip", "algorithm.clip=", "algorithm.clip= , "])
def test_a_choice_without_values_is_refused(text):
    with pytest.raises(ConfigError, match="first,second"):
        varied({"a": BASE}, [text])


@pytest.mark.parametrize(("count", "jobs", "parts"), [(1, 2, 2), (2, 2, 1), (3, 2, 1), (1, 8, 3)])
def test_shares_hold_every_seed_once(count, jobs, parts):
    found = shares(varied({str(n): BASE for n in range(count)}), 3, jobs)
    assert len(found) == count * parts
    for name in map(str, range(count)):
        seeds = [seed for share in found if share.variant.name == name for seed in share.seeds]
        assert sorted(seeds) == [4, 5, 6]


def test_unequal_guarantees_are_named():
    assert differences({"a": outcome(), "b": outcome(epsilon=2.01)}) == []
    assert differences({"a": outcome(), "b": outcome(epsilon=2.1)}) == ["epsilon"]
    assert differences({"a": outcome(), "b": outcome(unit="record")}) == ["unit"]
    assert differences({"a": outcome(), "b": outcome(epsilon=float("inf"))}) == ["epsilon"]


def test_the_metric_is_one_that_all_have():
    assert quality({"a": outcome(), "b": outcome()}, None) == "test/loss"
    with pytest.raises(ConfigError, match="choose from test/loss"):
        quality({"a": outcome()}, "test/accuracy")
    other = Outcome(outcome().guarantee, {0: [Row(0, "server/step_size", 1.0)]})
    with pytest.raises(ConfigError, match="in common"):
        quality({"a": outcome(), "b": other}, None)


def test_shares_of_a_variant_are_joined():
    (variant,) = varied({"a": BASE})
    parts = [
        (Share(variant, (1,)), Outcome({}, {1: [Row(1, "m", 2.0)]})),
        (Share(variant, (0,)), Outcome({}, {0: [Row(1, "m", 1.0)]})),
    ]
    found = joined(parts)["a"]
    assert found.last("m") == [1.0, 2.0]
    assert spread(found.last("m")) == (1.5, pytest.approx(0.7071, abs=1e-4))


def test_two_processes_give_what_one_gives():
    (variant,) = varied({"a": BASE})
    apart = joined(list(compared([variant], 2, jobs=2)))["a"]
    together = run_share(Share(variant, (4, 5)))
    assert apart.guarantee == together.guarantee
    for seed in (4, 5):
        for a, b in zip(apart.rows[seed], together.rows[seed], strict=True):
            assert (a.round, a.metric) == (b.round, b.metric)
            assert a.value == pytest.approx(b.value, rel=1e-3, abs=1e-4)


def algorithm_of_auto(**algorithm):
    variants = varied({"a": {**BASE, "algorithm": algorithm}}, ["train.seed=1,2"])
    found = with_auto(variants)
    assert len(found) == 3, "two seeds are one problem"
    assert found[-1].name == "auto"
    assert found[-1].config.train.rounds is None
    return found[-1].config.algorithm


def test_auto_beside_a_method_protects_whom_it_protects():
    assert algorithm_of_auto(name="dp-fedavg").name == "auto"
    assert algorithm_of_auto(name="dp-fedexp").options["relation"] == "replace-one"
    assert algorithm_of_auto(name="dp-fedexp", trust="local").name == "auto-local"
    assert algorithm_of_auto(name="dp-fedavg-record").options["protects"] == "record"


def test_auto_is_suggested_where_it_can_stand():
    assert suggests_auto(varied({"a": BASE}))
    assert not suggests_auto(varied({"a": {**BASE, "privacy": "none"}}))
    assert not suggests_auto(varied({"a": {**BASE, "algorithm": {"name": "auto"}}}))
    assert not suggests_auto(with_auto(varied({"a": BASE})))
    other = {**BASE, "privacy": {"epsilon": 2.0, "delta": 1e-3}}
    names = [v.name for v in with_auto(varied({"a": BASE, "b": other}))]
    assert len(names) == len(set(names)) == 4
