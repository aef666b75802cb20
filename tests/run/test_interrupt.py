"""An interrupt stops a run even where Python forgets the exception."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Ledger
from tacit.algorithms import DPFedAvg
from tacit.data.federation import Federation
from tacit.run import interrupt, train
from tacit.run.loop import Progress
from tacit.simulation import RunState, Simulator
from tacit.tasks.logistic import Logistic

pytestmark = [
    pytest.mark.usefixtures("quick_compilation", "usual_handler"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TASK = Logistic(features=2, l2=0.1)
NOISY = DPFedAvg(noise=5.0)
FEDERATION = Federation(
    records={"x": np.eye(2)[[0, 1, 0, 1]], "y": np.array([0, 1, 0, 1])},
    sizes=np.array([2, 2]),
    names=("a", "b"),
    classes=2,
    test={"x": np.eye(2), "y": np.array([0, 1])},
)


@pytest.fixture
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_while_collecting() -> None:
    """As if Ctrl-C came while the garbage collector calls back: the exception is swallowed."""

    def callback(phase: str, _: object) -> None:
        if phase == "start":
            signal.raise_signal(signal.SIGINT)

    gc.callbacks.append(callback)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(callback)


def test_an_interrupt_that_the_collector_swallowed_stops_the_run() -> None:
    seen: list[int] = []

    def watch(progress: Progress) -> None:
        seen.append(progress.round)
        if len(seen) == 2:
            press_while_collecting()

    with pytest.raises(KeyboardInterrupt):
        train(NOISY, TASK, FEDERATION, delta=1e-5, rounds=1000, eval_every=1, on_progress=watch)
    assert seen == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_handler_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this module is for. Should Python ever raise here, the module can go."""
    lost: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: lost.append(found.exc_type))
    press_while_collecting()
    assert lost == [KeyboardInterrupt]


def test_the_first_interrupt_waits_and_the_second_does_not() -> None:
    with interrupt.remembered() as check:
        check()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_in_the_middle_of_a_stretch_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was paid for is in the checkpoint: a run without a seed would have to pay again."""
    real = Simulator.advance
    calls: list[int] = []

    def press(self: Simulator, state: RunState, first: int, rounds: int) -> RunState:
        calls.append(first)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        return real(self, state, first, rounds)

    monkeypatch.setattr(Simulator, "advance", press)
    with pytest.raises(KeyboardInterrupt):
        train(
            NOISY,
            TASK,
            FEDERATION,
            delta=1e-5,
            rounds=500,
            eval_every=500,
            out=tmp_path,
        )
    charges = list(Ledger.read(tmp_path / "ledger.jsonl").charges)
    assert len(charges) >= 4
    assert all(charge.done for charge in charges)
    result = train(NOISY, TASK, FEDERATION, delta=1e-5, rounds=500, eval_every=500, out=tmp_path)
    assert result.rounds == 500
    assert len(list(Ledger.read(tmp_path / "ledger.jsonl").charges)) == 500


def test_a_handler_of_the_caller_is_left_alone() -> None:
    calls: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: calls.append(number))
    with interrupt.remembered() as check:
        signal.raise_signal(signal.SIGINT)
        check()
    assert calls == [signal.SIGINT]


def test_a_thread_trains_without_touching_signals() -> None:
    rounds: list[int] = []

    def work() -> None:
        rounds.append(train(NOISY, TASK, FEDERATION, delta=1e-5, rounds=2).rounds)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert rounds == [2]
