"""Independent work over the cores: one process for each, one device in each process.

Runs that are independent (other seeds, other settings) leave no core waiting for another, and
compile side by side; a single run shares its clients out over the cores instead.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def over_cores(
    work: Callable[[Item], Found], items: Sequence[Item], jobs: int | None = None
) -> Iterator[tuple[Item, Found]]:
    """Every item with what ``work`` made of it, in the order in which they are done.

    ``work`` must be importable by name. Leaving the iteration early stops what has not begun.
    """
    jobs = min(jobs or os.cpu_count() or 1, len(items))
    if jobs <= 1:
        for item in items:
            yield item, work(item)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _start_worker) as pool:
        waiting = {pool.submit(work, item): item for item in items}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _start_worker() -> None:
    """One device for this process, which ends with the one that started it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()

    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    jax.devices()  # the backend starts now and keeps its one device


def _end_with_parent() -> None:
    """A killed parent cannot stop its workers, and they would go on computing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
