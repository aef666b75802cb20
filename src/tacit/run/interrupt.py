"""Ctrl-C that is not lost, and loses nothing.

Rounds are computed in stretches that are paid before they begin. An interrupt is remembered until
the stretch is done and can be saved; pressed again, it is raised at once. Python also cannot raise
out of a finaliser or a callback of the garbage collector, where JAX is now and then: an interrupt
that falls into one would be printed and forgotten.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Inside, the first interrupt is raised by the given check, and a second one where it falls."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, frame)
        pressed = True
        sys.stderr.write("stopping after these rounds; press Ctrl-C again to stop at once\n")

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    # Another handler is its owner's business, and only the main thread may set one.
    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, press)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
