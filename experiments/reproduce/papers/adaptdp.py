"""AdaptDP-FedAvg (Fukami, Murata and Niwa; TMLR 2025, openreview.net/forum?id=vvSHlH3a8V)."""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments.reproduce.entry import Entry, Figure, Grid, Line, Printed, Quantity
from experiments.reproduce.papers.adaptdp_tests import BATCH, LEVELS, T1, T2, T3, T4, Noises, Test
from experiments.reproduce.summary import Answer, Summary, Verdict, better
from experiments.theory.adaptdp import equation_3_epsilon

DELTA = 1e-4
AVG, ADAPT = "DP-FedAvg", "AdaptDP-FedAvg"


def _algorithm(
    test: Test, method: str, noises: Noises, radius: float, step: float
) -> dict[str, Any]:
    """The paper's noise is on means, Tacit's on sums: multiply by the batch size or all records."""
    common = {"local_steps": test.silo.steps, "local_lr": step, "batch_size": BATCH}
    if method == AVG:
        own = {"name": "dp-fedavg-record", "clip": radius, "noise": noises[0] * BATCH}
    else:
        own = {
            "name": "adaptdp-fedavg",
            "max_radius": radius,
            "noise": noises[1] * BATCH,
            "radius_noise": noises[2] * test.silo.records,
        }
    return own | common


def printed_line(test: Test, level: int, method: str, *, honest: bool = False) -> Line:
    """With the paper's noise, each level is a row; honest budgets have no levels and one row."""
    first = 0 if method == AVG else 2
    radius, step = test.chosen[level][first : first + 2]
    printed = test.printed[level][first : first + 2]
    grid: Grid = {
        "algorithm.local_lr": test.steps,
        "algorithm.clip" if method == AVG else "algorithm.max_radius": test.radii,
    }
    equation, _ = equation_3_epsilon(test.noises[level][0], test.silo, DELTA)
    return Line(
        row=f"{test.name}, honest" if honest else f"{test.name}, {LEVELS[level]}",
        method=method,
        config={
            "data": test.data,
            "task": test.task,
            "privacy": "none",  # the algorithm has two noise levels, set there
            "algorithm": _algorithm(test, method, test.noises[level], radius, step),
            "train": {"rounds": test.silo.rounds, **test.train},
        },
        printed=None if honest else Printed(*printed),
        honest_grid=grid,
        stages=(1.0, 2.0, 8.0) if honest else (None,),
        claimed="" if honest else f"{equation:.4g} by its equation (3)",
    )


def _lines(test: Test) -> tuple[Line, ...]:
    fixed = [printed_line(test, level, method) for level in range(3) for method in (AVG, ADAPT)]
    return (*fixed, *(printed_line(test, 0, method, honest=True) for method in (AVG, ADAPT)))


LOSS = Quantity(
    metric="oracle/loss",
    label="lowest training loss over the rounds",
    over="lowest",
    better="low",
    style=".3g",
)
_ACCURACY = Quantity(
    metric="test/accuracy", label="highest test accuracy, %", over="highest", scale=100.0
)
_CURVES = (
    "server/radius",
    *(f"oracle/tau_{q}" for q in ("0.5", "0.7", "0.8", "0.9", "0.95", "1")),
)
_COMMON = (
    " The lowest loss over the rounds and the hyperparameters are chosen on private data, as in the"
    " paper (oracle-tuned). Batches are drawn independently without replacement. The radius is"
    " measured on all records (the paper does not say on how many)."
)


def _table2(test: Test, suffix: str, finding: str, needs: str = "", **more: Any) -> Entry:
    return Entry(
        name=f"adaptdp/table2-{suffix}",
        title=f"Training loss, {test.name} (Table 2)",
        claim=f"AdaptDP-FedAvg reaches a lower training loss than DP-FedAvg ({test.name}).",
        quantity=LOSS,
        also=(_ACCURACY,) if needs else (),
        lines=_lines(test),
        delta=DELTA,
        judge=partial(better, first=ADAPT, second=AVG),
        needs=(needs,) if needs else (),
        finding=finding + _COMMON,
        **more,
    )


_T1_FINDING = (
    "The paper gives neither the dimension nor the distribution of T1. We inferred them from its"
    " Table 3: a stationary loss of eta sigma^2 C^2 d / (2 P (2 - eta h)), lowered by taking the"
    " minimum over the rounds, fits its cells with h = 1 and d between 80 and 100 for entries N(0,"
    " 1). So d = 100 was chosen to fit the printed numbers, and the agreement of five of six losses"
    " within a factor of 1.3 is not an independent confirmation. The sixth (AdaptDP-FedAvg, Lv.1)"
    " is lower here. A likely reason, not tested, is the lower limit of the radius: it depends on"
    " the failure probability and on the batch of the scalar, and the paper gives neither. The"
    " honest grid was widened once (steps down to 0.01, radii up to 10), because the best point of"
    " AdaptDP-FedAvg at epsilon 8 was at its edge; its reported seeds had been seen before. The"
    " choice stayed the same. At honest budgets the gain disappears, and an estimate explains why:"
    " the norm of a record's gradient is about sqrt(d) times the norm of the mean, so C^2 is near 2"
    " d times the loss, while noise s (on a mean, in units of C) keeps the loss at eta s^2 d C^2 /"
    " (2 P (2 - eta)). Both decrease together only if eta s^2 d^2 / (P (2 - eta)) is below one;"
    " with a step of 0.1 it is 0.6 at epsilon 8 and 5 at epsilon 2. With d = 20 there is a gain at"
    " epsilon 8, by a factor of 9 (`experiments/studies/adaptdp_t1.py`)."
)

TABLE2_T1 = _table2(
    T1,
    "t1",
    _T1_FINDING,
    seeds=5,
    looks=1,
    keep=("oracle/loss", *_CURVES),
    minutes=15,
)
_T2_FINDING = (
    "The paper trains on all 45,211 rows and does not say which rows it tests on. We use a fifth of"
    " them as test set, so a client holds 18,084 records instead of 22,605. With our features, the"
    " method that the paper describes cannot reach its printed losses (0.312 to 0.321 for every"
    " radius). The gradient of a record has a norm near 2.4 at the start; with radii of 0.05 to 0.5"
    " all records have the same weight, so the frequent class keeps pushing after it is learnt."
    " Without noise the final loss is then 0.49, 0.61 and 0.44 for radii of 0.05, 0.1 and 0.5,"
    " above the 0.36 of a model that knows only the class frequencies. Clipping the mean of a batch"
    " instead gives 0.298 to 0.300 for all three radii, and no clipping 0.298"
    " (`experiments/studies/adaptdp_clipping.py`). The printed numbers are similar to these, but a"
    " clipped mean of 100 records does not protect a single record at the stated noise. We cannot"
    " know what was run. The order of the methods follows from their radii. The radius of 2 was"
    " added to the honest grid after 0.5, then its edge, was best on the reported seeds; 2 is its"
    " edge again. There DP-FedAvg is better at every budget. A likely reason, not tested: the"
    " radius follows the root-mean-square norm, which decreases when the frequent class is learnt."
    " Then the long gradients of the rare class (one record in nine) are the ones that are clipped."
)
TABLE2_T2 = _table2(
    T2,
    "t2",
    _T2_FINDING,
    "bank-marketing",
    seeds=3,
    looks=5,
    minutes=10,
)
_ROUNDS = (
    "For the same losses, Table 2 of the paper states 1,000 rounds and its appendix 100; here it is"
    " 100. The paper does not say how the pixels and the frozen layer are scaled, and this decides"
    " the losses, so only the order of the methods can be compared. The printed losses cannot be"
    " reached here, for a simple reason: 100 rounds of 15 steps of 0.3 with a radius of 0.05 change"
    " the weights by at most 22.5, and with our features (norm about 9, or 12 on Fashion-MNIST) no"
    " weights of that norm have a training loss below about 0.06 (0.15). A loss of 5e-5 needs"
    " weights with a norm of about 100; without noise and without clipping, 1,000 rounds end at"
    " 0.020 (0.095). Another scale of the pixels does not explain the paper either: fits to 3,000"
    " digits with such losses have a test accuracy of 88 to 90 %, but the paper prints 56 to 65 %"
    " (`experiments/studies/adaptdp_reach.py`). So its data or features differ from its"
    " description."
)
TABLE2_T3 = _table2(
    T3, "t3", _ROUNDS, "mnist", seeds=3, looks=10, minutes=7, keep=("oracle/loss", *_CURVES)
)
TABLE2_T4 = _table2(T4, "t4", _ROUNDS, "fashion-mnist", seeds=3, looks=10, minutes=7)


def _moderate(test: Test, summary: Summary) -> list[Verdict]:
    """Whether the radius decreased, and the median and 0.7-quantile ratios stay moderate."""
    cell = summary.cell(_shown(test), ADAPT, None)
    if cell is None or not cell.records[0].curves:
        return [Verdict(None, "not run", "")]
    ends = {
        metric: [curve[-1] for record in cell.records for curve in record.curves.get(metric, [])]
        for metric in _CURVES
    }
    last = {metric: sum(values) / len(values) for metric, values in ends.items()}
    cap = test.chosen[2][2]
    good = last["server/radius"] < cap / 3 and 0.5 < last["oracle/tau_0.7"] < 2
    text = (
        f"the radius ends at {last['server/radius']:.2g} of a cap of {cap:g}; tau is"
        f" {last['oracle/tau_0.5']:.2f} at the median, {last['oracle/tau_0.7']:.2f} at q = 0.7 (the"
        f" paper: about 1.0) and {last['oracle/tau_1']:.1f} at the maximum"
    )
    answer: Answer = "yes" if good else "no"
    return [Verdict(None, answer, text, f"tau at q = 0.7 is {last['oracle/tau_0.7']:.2f}")]


def _shown(test: Test) -> str:
    return f"{test.name}, {LEVELS[2]}"


def _figure1(test: Test, table2: Entry, name: str, part: str) -> Entry:
    return table2.view(
        name=name,
        title=f"Training loss over the rounds, {test.name} (Figure 1{part})",
        claim="AdaptDP-FedAvg ends below DP-FedAvg.",
        figures=(
            Figure(
                name="loss",
                title=f"{test.name}, Lv.3 as printed",
                kind="rounds",
                metrics={"oracle/loss": ""},
                rows=(_shown(test),),
                ylabel="training loss",
                log="y",
            ),
        ),
    )


def _figure2(test: Test, table2: Entry, name: str, part: str) -> Entry:
    ratios = {f"oracle/tau_{q}": f"q = {q}" for q in ("0.5", "0.7", "0.9", "1")}
    return table2.view(
        name=name,
        title=f"Radius and quantile-to-mean ratios, {test.name} (Figure 2{part})",
        claim=f"The radius falls with the gradients, and the ratios stay moderate ({test.name}).",
        judge=partial(_moderate, test),
        figures=(
            Figure(
                name="radius",
                title=f"Clip radius, {test.name}, Lv.3 as printed",
                kind="rounds",
                metrics={"server/radius": ""},
                rows=(_shown(test),),
                methods=(ADAPT,),
                ylabel="radius",
                log="y",
            ),
            Figure(
                name="ratios",
                title=f"Quantiles q of squared norms over their mean, {test.name}, Lv.3",
                kind="rounds",
                metrics=ratios,
                rows=(_shown(test),),
                methods=(ADAPT,),
                ylabel="tau",
                log="y",
            ),
        ),
    )


ENTRIES = (
    TABLE2_T1,
    TABLE2_T2,
    TABLE2_T3,
    TABLE2_T4,
    _figure1(T1, TABLE2_T1, "adaptdp/figure1", "a"),
    _figure1(T3, TABLE2_T3, "adaptdp/figure1-mnist", "b"),
    _figure2(T1, TABLE2_T1, "adaptdp/figure2", "a"),
    _figure2(T3, TABLE2_T3, "adaptdp/figure2-mnist", "b"),
)
