"""One watcher for all browsers: it looks at the folder every second and tells what has changed.

Files are stat-ed every second and read when they change. What takes long (ledgers, budgets of
sites) goes to a worker, one piece at a time, and only as often as it may cost: after a piece of
``t`` seconds, the same one rests for ``_REST * t``. While nobody looks, nothing is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.live import digests
from tacit.live.discovery import Found, look
from tacit.live.files import mark
from tacit.live.runs import LEDGER, Run
from tacit.live.worker import Worker

log = logging.getLogger("tacit.live")

_EVERY = 1.0  # seconds between two looks
_SEARCH = 3.0  # seconds between two searches for new folders
_REST = 10.0
_PATIENCE = 15.0  # seconds for which a request counts as somebody who looks
_ALIVE = 15.0  # seconds between two signs of life to a silent browser
_SHOWN = 60.0  # seconds for which a request for curves counts
_BEHIND = 100  # messages after which a slow browser gets everything anew

Key = tuple[str, str]  # ledger, curves or site; the name of its folder


@dataclass
class Job:
    """A piece of work that takes long: the files it was done from, and when it may be done next."""

    seen: Any = None
    due: float = 0.0


@dataclass(eq=False)
class Browser:
    """One open stream of events."""

    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_BEHIND))


class Watcher:
    """The runs of a folder, and the browsers that follow them."""

    def __init__(self, root: Path, worker: Worker | None = None) -> None:
        self.root = root.resolve()
        self.runs: dict[str, Run] = {}
        self.sites: dict[str, dict[str, Any]] = {}
        self.found = Found()
        self._worker = worker or Worker()
        self._browsers: set[Browser] = set()
        self._jobs: dict[Key, Job] = {}
        self._asked: dict[str, float] = {}  # runs whose curves are shown, and when that was said
        self._looked = self._searched = self._wanted = 0.0
        self._search_cost = 0.0
        self._lock = asyncio.Lock()
        self._work = asyncio.Event()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Watch in the background."""
        tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._digest())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._worker.close()

    def end(self) -> None:
        """End all streams."""
        for browser in self._browsers:
            with contextlib.suppress(asyncio.QueueFull):
                browser.queue.put_nowait(None)

    async def fresh(self) -> None:
        """Look now, unless it was just done."""
        self._wanted = time.monotonic()
        if time.monotonic() - self._looked > 2 * _EVERY:
            await self.look()

    def rows(self) -> dict[str, Any]:
        """Everything that the first page needs."""
        return {
            "folder": self.root.name or str(self.root),
            "path": str(self.root),
            "complete": self.found.complete,
            "rows": [run.row for run in self.runs.values()],
            "sites": list(self.sites.values()),
            "comparisons": sorted(self.found.comparisons),
        }

    def ask(self, name: str) -> Run | None:
        """A run of this name, whose curves are wanted from now on."""
        run = self.runs.get(name)
        if run is not None:
            self._wanted = self._asked[name] = time.monotonic()
            self._work.set()
        return run

    async def stream(self) -> AsyncIterator[bytes]:
        """The events of one browser: everything first, then what changes."""
        browser = Browser()
        await self.fresh()
        self._browsers.add(browser)
        try:
            yield _event("all", self.rows())
            while True:
                try:
                    said = await asyncio.wait_for(browser.queue.get(), _ALIVE)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if said is None:
                    return
                yield said
        finally:
            self._browsers.discard(browser)

    @property
    def _watched(self) -> bool:
        return bool(self._browsers) or time.monotonic() - self._wanted < _PATIENCE

    async def _watch(self) -> None:
        while True:
            try:
                if self._watched:
                    await self.look()
            except Exception:  # a folder that surprises us must not end the view of the others
                log.exception("looking at %s", self.root)
            await asyncio.sleep(_EVERY)

    async def look(self) -> None:
        """Look at all folders now, and tell what has changed."""
        async with self._lock:
            now = time.monotonic()
            if now - self._searched > max(_SEARCH, 50 * self._search_cost):
                self.found = await asyncio.to_thread(look, self.root)
                self._searched = time.monotonic()
                self._search_cost = self._searched - now
            paths = self.found.runs
            gone = [name for name in self.runs if name not in paths]
            for name in gone:
                del self.runs[name]
            new = [Run(n, path, self.root) for n, path in paths.items() if n not in self.runs]
            every = [*self.runs.values(), *new]
            changed = await asyncio.to_thread(lambda: [run for run in every if run.look()])
            self.runs |= {run.name: run for run in new}
            self._looked = time.monotonic()
            self._tell({"rows": [run.row for run in changed], "gone": gone})
            self._forget()
            self._work.set()

    def _forget(self) -> None:
        """Forget what belongs to folders that are gone."""
        sites, there = self.found.sites, {*self.found.sites, *self.runs}
        self._jobs = {key: job for key, job in self._jobs.items() if key[1] in there}
        self._asked = {name: when for name, when in self._asked.items() if name in self.runs}
        if not self.sites.keys() <= sites.keys():
            self.sites = {name: site for name, site in self.sites.items() if name in sites}
            self._tell({"sites": list(self.sites.values())})

    def _tell(self, changes: dict[str, Any]) -> None:
        if "sites" not in changes and not any(changes.values()):
            return
        said = _event("changed", changes)
        for browser in self._browsers:
            if not browser.queue.full():
                browser.queue.put_nowait(said)
                continue
            while not browser.queue.empty():  # it is slow, or asleep: it gets everything anew
                browser.queue.get_nowait()
            browser.queue.put_nowait(_event("all", self.rows()))

    def _wishes(self) -> Iterator[tuple[Key, int, Any, bool]]:
        """What there is to work out: how urgent it is, from which files, and whether to go on."""
        for name, run in self.runs.items():
            shown = self._shown(name)
            if run.marks.get(LEDGER) is not None:
                urgency = 0 if shown else 1 if run.running else 3
                more = shown and bool(run.ledger.get("more"))
                yield ("ledger", name), urgency, (run.marks[LEDGER], run.delta), more
            if shown and run.marks.get("metrics.csv") is not None:
                yield ("curves", name), 0, run.marks["metrics.csv"], False
        for name, path in self.found.sites.items():
            yield ("site", name), 2, (mark(path / LEDGER), mark(path / "site.toml")), False

    def _shown(self, name: str) -> bool:
        return time.monotonic() - self._asked.get(name, -_SHOWN) < _SHOWN

    def _next(self) -> Key | None:
        """The most urgent piece of work, if anything is due."""
        if not self._watched:
            return None
        now, due = time.monotonic(), list[tuple[int, float, Key, Any]]()
        for key, urgency, seen, more in self._wishes():
            job = self._jobs.setdefault(key, Job())
            if (job.seen != seen or more) and job.due <= now:
                due.append((urgency, job.due, key, seen))
        if not due:
            return None
        _, _, key, seen = min(due, key=lambda each: each[:3])
        self._jobs[key].seen = seen
        return key

    async def _digest(self) -> None:
        await self._worker(digests.ready)  # it starts while nobody waits for it
        while True:
            key = self._next()
            if key is None:
                self._work.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._work.wait(), _EVERY)
                continue
            begun = time.monotonic()
            try:
                await self._do(*key)
            except Exception:
                log.exception("%s of %s", *key)
            cost, waited_for = time.monotonic() - begun, self._shown(key[1])
            if key in self._jobs:
                self._jobs[key].due = time.monotonic() + cost * (1.0 if waited_for else _REST)
            if not waited_for:
                await asyncio.sleep(min(cost, 1.0))

    async def _do(self, kind: str, name: str) -> None:
        if kind == "site":
            path = self.found.sites[name]
            said = await self._worker(digests.site, path)
            told = {"id": name, "name": path.name, "federation": _federation(name)}
            self.sites[name] = {**told, **said}
            self._tell({"sites": list(self.sites.values())})
            return
        run = self.runs[name]
        if kind == "curves":
            path = run.path / "metrics.csv"
            said = await asyncio.to_thread(digests.curves, path, self.root)
        else:
            delta, seen = run.delta, mark(run.path / LEDGER)
            known = run.ledger if run.ledger.get("delta") == delta else {}
            looks = 3 if self._shown(name) else 0
            rounds = int(run.row["rounds"] or 0)
            given = (run.path / LEDGER, self.root, delta, rounds, known, looks)
            said = {**await self._worker(digests.ledger, *given), "mark": seen, "delta": delta}
        async with self._lock:  # the next look may be under way
            if kind == "curves":
                run.curves = said
            else:
                run.ledger = said
            run.revision += 1
            if run.look() and self.runs.get(name) is run:
                self._tell({"rows": [run.row]})


def _federation(name: str) -> str:
    """Of which run a site is: that of the server beside the folder of the sites."""
    parts = name.split("/")
    if len(parts) >= 2 and parts[-2] == "sites":
        return "/".join([*parts[:-2], "server", "run"])
    return ""


def _event(name: str, value: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), digests.as_json(value))
