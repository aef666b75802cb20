"""Resource use of a measurement: wall time, CPU-seconds of a process and its children, memory.

It also measures the load by other programs, because timings under load are not reliable. Linux only
(``/proc``); it needs no packages, because every side imports it.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_SECONDS = 0.25


class Meter:
    """A meter, started and stopped once around a measurement, from any thread of the process."""

    def __init__(self) -> None:
        self._children = _Children()
        self._before: tuple[float, float, dict[str, float]] | None = None
        self.reading: dict[str, float] = {}

    @property
    def started(self) -> bool:
        """Whether it was started."""
        return self._before is not None

    def start(self) -> None:
        """Start the measurement."""
        self._children.watch()
        self._before = (_own_cpu(), time.perf_counter(), machine_time())

    def stop(self) -> dict[str, float]:
        """The resource use since ``start``."""
        assert self._before is not None, "a meter must be started before it is stopped"
        wall = time.perf_counter() - self._before[1]
        cpu = _own_cpu() - self._before[0] + self._children.stop()
        now, then = machine_time(), self._before[2]
        self.reading = {
            "wall": wall,
            "cpu": cpu,
            "peak_mib": peak_memory() + self._children.peak / 2**20,
            "others_cpu": max(0.0, now["busy"] - then["busy"] - cpu),
            "stolen_cpu": now["steal"] - then["steal"],
            "load": os.getloadavg()[0],
        }
        return self.reading


def peak_memory() -> float:
    """The peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine_time() -> dict[str, float]:
    """CPU-seconds of the whole machine since boot: used, and stolen by its host."""
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, first.split()[1:9])
    return {"busy": (user + nice + system + irq + soft) / _TICK, "steal": steal / _TICK}


class _Children:
    """CPU-seconds of all descendants, sampled regularly so that ended ones are counted too."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._quiet = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        self._first = self._read()
        self._last = dict(self._first)
        if self._first:  # only a side with children needs sampling
            self._quiet.clear()
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()

    def stop(self) -> float:
        if self._thread is not None:
            self._quiet.set()
            self._thread.join()
            self._thread = None
        self._last |= self._read()
        return sum(spent - self._first.get(pid, 0.0) for pid, spent in self._last.items())

    def _follow(self) -> None:
        while not self._quiet.wait(_SAMPLE_SECONDS):
            self._last |= self._read()

    def _read(self) -> dict[int, float]:
        parents: dict[int, list[int]] = defaultdict(list)
        spent: dict[int, float] = {}
        memory: dict[int, float] = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                _note(int(entry.name), parents, spent, memory)
        found: list[int] = []
        waiting = [os.getpid()]
        while waiting:
            below = parents[waiting.pop()]
            found += below
            waiting += below
        self.peak = max(self.peak, sum(memory[pid] for pid in found))
        return {pid: spent[pid] for pid in found}


def _note(
    pid: int, parents: dict[int, list[int]], spent: dict[int, float], memory: dict[int, float]
) -> None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has just ended
        return
    fields = text[text.rindex(")") + 2 :].split()
    parents[int(fields[1])].append(pid)
    spent[pid] = (int(fields[11]) + int(fields[12])) / _TICK
    memory[pid] = int(fields[21]) * _PAGE


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result of a call, and its resource use."""
    meter = Meter()
    meter.start()
    result = work()
    return result, meter.stop()
