"""Whether a sweep's optimum is said to be inside, and how its curves are named."""

from types import SimpleNamespace

import pytest

from experiments.reproduce.entry import Line
from experiments.reproduce.figures import _short
from experiments.reproduce.papers.scaffnew import NEW, clipped_at, named, sweep
from experiments.reproduce.summary import Cell, Verdict

CLIPS = (1.0, 2.0)
PLACES = (1, 10, 100)


def judged(values: dict[float, tuple[float, ...]]) -> Verdict:
    """The verdict at the printed settings on sweeps with these means; seeds differ by 0.2."""
    lines = tuple(
        Line(row=f"at {x}", x=x, method=named(NEW, clipped_at(clip)), config={}, stages=(None,))
        for clip in CLIPS
        for x in PLACES
    )
    names = tuple(map(clipped_at, CLIPS))
    entry = sweep("scaffnew/test", "A test", lines, "the steps", names, 10.0, budgets=())
    means = {
        (f"at {x}", named(NEW, clipped_at(clip))): mean
        for clip, row in values.items()
        for x, mean in zip(PLACES, row, strict=True)
    }

    def cell(row, method, stage):
        mean = means.get((row, method))
        if mean is None:
            return None
        side = -0.1 if row == "at 10" else 0.1
        values = (mean - side, mean, mean + side)
        return Cell(values, {}, (SimpleNamespace(failed=""),), len(values))

    (verdict,) = entry.judge(SimpleNamespace(entry=entry, cell=cell))
    return verdict


@pytest.mark.parametrize(
    ("best", "answer", "brief"),
    [
        ((40.0, 60.0, 50.0), "yes", "best at 10"),
        ((40.0, 60.0, 59.95), "not clear", "best at 10"),
        ((40.0, 50.0, 60.0), "no", "best at 100"),
        ((60.0, 50.0, 40.0), "no", "best at 1"),
        ((31.0, 32.0, 31.0), "yes", "best at 10"),
    ],
)
def test_the_best_sweep_decides(best, answer, brief):
    verdict = judged({1.0: (20.0, 20.0, 30.0), 2.0: best})
    assert (verdict.answer, verdict.brief) == (answer, brief)
    assert "clip 1: best at 100 (30.0 %)" in verdict.why


def test_an_optimum_of_guesses_is_none():
    verdict = judged({1.0: (9.0, 14.0, 9.0), 2.0: (9.0, 9.5, 9.0)})
    assert (verdict.answer, verdict.brief) == ("no", "nothing learnt")


def test_a_sweep_that_is_not_whole_is_not_judged():
    assert judged({1.0: (20.0, 20.0, 30.0)}).answer == "not run"


def test_names_in_a_panel_lose_what_all_begin_with():
    def short(*names):
        return [name for name, *_ in _short([(name, [], [], []) for name in names])]

    assert short("A, clip 1, claimed 2", "A, clip 1, claimed 3") == ["claimed 2", "claimed 3"]
    assert short("A, clip 1, claimed 2", "A, clip 5, claimed 2") == [
        "clip 1, claimed 2",
        "clip 5, claimed 2",
    ]
    assert short("A, x") == ["x"]
    assert short("A", "B") == ["A", "B"]
    assert short() == []
