"""One more process for what takes long: it has the lowest priority, so that trainings go first."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any

_LOWEST = 19


class Worker:
    """Calls functions one after the other; ``processes=False`` uses a thread, for tests."""

    def __init__(self, *, processes: bool = True) -> None:
        self._processes = processes
        self._pool: Executor | None = None

    async def __call__(self, work: Callable[..., Any], *given: Any) -> Any:
        """What ``work`` returns; a worker that was killed is replaced."""
        loop = asyncio.get_running_loop()
        for again in (False, True):
            if self._pool is None:
                self._pool = self._new()
            try:
                return await loop.run_in_executor(self._pool, work, *given)
            except BrokenProcessPool:
                self._pool = None
                if again:
                    return {"error": "it cannot be read: the process that tried was killed."}
        return None

    def close(self) -> None:
        """End the process, also in the middle of its work."""
        if self._pool is not None:
            for child in multiprocessing.active_children() if self._processes else ():
                child.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _new(self) -> Executor:
        if not self._processes:
            return ThreadPoolExecutor(1)
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, context, _begin)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    os.nice(_LOWEST)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed server cannot stop its worker."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
