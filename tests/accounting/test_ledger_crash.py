"""A writer dies at any point: no charge that returned is lost, and ``spent`` never shrinks.

Two kinds of death.

1. Replayed, at 500 random points. A writer's appends are recorded together with the size of the
   file after each fsync. Up to the moment of death the disk holds everything up to the last fsync,
   and of what follows any prefix: so the file is cut at a random byte, which stands for a death
   during the append that this byte belongs to. The charges that had returned by then are those
   fsynced before.
2. Real, with SIGKILL. A process charges in a loop and prints each number after ``charge`` returned;
   it is killed after a random number of lines and a random delay. A number that came through the
   pipe must be in the file. The processes are forked from one that has done its imports, because
   importing takes a thousand times longer than dying.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from dp_accounting import dp_event

from tacit.accounting.ledger import Ledger
from tacit.errors import LedgerError

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
LAPLACE = dp_event.LaplaceDpEvent(3.0)
POINTS = 500
KILLS = 24

NURSERY = """
import os, sys
from dp_accounting import dp_event
from tacit.accounting.ledger import Ledger

def write(path):
    event = dp_event.GaussianDpEvent(2.0)
    with Ledger.open(path) as ledger:
        print("ready", os.getpid(), flush=True)
        for round_ in range(100_000):
            charge = ledger.charge(event, round=round_)
            print(charge, flush=True)
            if round_ % 3 == 0:
                ledger.done(charge)
            if round_ % 7 == 0:
                batch = [(event, {"round": round_, "batch": i}) for i in range(20)]
                print(ledger.charge_all(batch)[-1], flush=True)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        write(line.strip())
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("dead", status, flush=True)
"""


class Nursery:
    """A process that forks writers one after the other."""

    def __init__(self, process):
        self._process = process

    def start(self, path):
        """Start a writer and return its process number once it holds the ledger."""
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        word, number = self.line().split()
        assert word == "ready"
        return int(number)

    def line(self):
        return self._process.stdout.readline()

    def kill(self, writer):
        """Kill a writer; the lines it still said before it was dead."""
        os.kill(writer, signal.SIGKILL)
        said = []
        while "dead" not in (line := self.line()):  # it may follow on a line cut off by the kill
            assert line, "the nursery has gone"
            said.append(line)
        assert line.endswith(f"dead {-signal.SIGKILL}\n")
        return said


@pytest.fixture(scope="module")
def nursery():
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Nursery(process)
        process.stdin.close()


def charged(ledger):
    """How often each mechanism is spent, whatever form ``spent`` gives it."""
    spent = ledger.spent()
    parts = spent.events if isinstance(spent, dp_event.ComposedDpEvent) else [spent]
    counts = {}
    for part in parts:
        if isinstance(part, dp_event.SelfComposedDpEvent):
            counts[part.event] = part.count
        elif not isinstance(part, dp_event.NoOpDpEvent):
            counts[part] = 1
    return counts


def create(path):
    return Ledger.create(path, unit="client", relation="add-remove", observer="the public")


def recorded_run(path):
    """A run's bytes, and after each append: the file's size, and what had been charged."""
    rng = random.Random(7)
    with create(path) as ledger:
        states = [(path.stat().st_size, charged(ledger))]
        for round_ in range(60):
            event = GAUSSIAN if rng.random() < 0.7 else LAPLACE
            count = rng.choice([1, 1, 1, 5])
            numbers = ledger.charge_all([(event, {"round": round_})] * count)
            states.append((path.stat().st_size, charged(ledger)))
            if rng.random() < 0.6:
                ledger.done_all(numbers)
                states.append((path.stat().st_size, charged(ledger)))
    return path.read_bytes(), states


def at_least(found, expected):
    return all(found.get(event, 0) >= count for event, count in expected.items())


def test_no_returned_charge_is_lost_at_500_random_points(tmp_path):
    whole, states = recorded_run(tmp_path / "whole.ledger")
    rng = random.Random(11)
    path = tmp_path / "cut.ledger"
    before = {}
    points = sorted(rng.randrange(states[0][0], len(whole) + 1) for _ in range(POINTS))
    for number, at in enumerate(points):
        path.write_bytes(whole[:at])
        returned = max((state for state in states if state[0] <= at), key=lambda state: state[0])
        end = whole.rfind(b"\n", 0, at) + 1
        with Ledger.open(path) as ledger:
            found = charged(ledger)
            assert at_least(found, returned[1])
            assert at_least(found, before)
            assert ledger.cut == (at - end or None)
            assert path.read_bytes() == whole[:end]
            if number % 10 == 0:
                ledger.charge(GAUSSIAN, after=at)
        if number % 10 == 0:
            again = Ledger.read(path)
            assert charged(again) == {**found, GAUSSIAN: found.get(GAUSSIAN, 0) + 1}
        before = found


def test_a_death_before_the_first_line_is_whole_leaves_no_ledger_to_believe(tmp_path):
    whole, states = recorded_run(tmp_path / "whole.ledger")
    path = tmp_path / "cut.ledger"
    for at in range(states[0][0]):
        path.write_bytes(whole[:at])
        with pytest.raises(LedgerError, match="not a ledger"):
            Ledger.open(path)


def test_kill_9_never_loses_a_charge_that_had_returned(tmp_path, nursery):
    path = tmp_path / "run.ledger"
    create(path).close()
    rng = random.Random(5)
    before = 0
    for _ in range(KILLS):
        writer = nursery.start(path)
        said = [nursery.line() for _ in range(rng.randrange(25))]
        time.sleep(rng.random() * 0.003)
        said += nursery.kill(writer)
        last = int(said[-1]) if said else -1
        with Ledger.open(path) as ledger:
            found = charged(ledger).get(GAUSSIAN, 0)
            assert found == len(list(ledger.charges))
            assert found >= max(before, last + 1)
            assert ledger.charge(GAUSSIAN, run="parent") == found
            before = found + 1


def test_a_second_process_waits_for_the_death_of_the_first(tmp_path, nursery):
    path = tmp_path / "run.ledger"
    create(path).close()
    writer = nursery.start(path)
    with pytest.raises(LedgerError, match="another process is writing"):
        Ledger.open(path)
    seen = 0
    for _ in range(20):  # a reader meets the file at any moment of its growth
        now = len(list(Ledger.read(path).charges))
        assert now >= seen
        seen = now
    nursery.kill(writer)
    Ledger.open(path).close()


def test_a_forked_process_can_neither_write_nor_unlock(tmp_path):
    path = tmp_path / "run.ledger"
    script = """
import os, sys
from dp_accounting import dp_event
from tacit.accounting.ledger import Ledger
from tacit.errors import LedgerError

ledger = Ledger.open(sys.argv[1])
child = os.fork()
if child == 0:
    try:
        ledger.charge(dp_event.GaussianDpEvent(2.0))
    except LedgerError as error:
        ledger.close()
        os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
try:
    Ledger.open(sys.argv[1])
except LedgerError:
    print(ledger.charge(dp_event.GaussianDpEvent(2.0)))
"""
    create(path).close()
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("0\n", "")
