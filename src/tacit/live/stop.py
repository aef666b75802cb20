"""Stopping a local run as Ctrl-C does: it finishes the rounds it has paid for, saves and ends.

The signal goes to exactly the process that wrote the status. A number that another process has now
is never signalled, and a second request is not passed on: it would stop the run without saving.
"""

from __future__ import annotations

import os
import signal

from tacit.errors import TacitError
from tacit.live.runs import Run
from tacit.run_status import works


def stop(run: Run) -> None:
    """Ask the process of a run to stop, or say in a sentence why not."""
    run.look()
    process = run.status.get("process")
    if not run.running or process is None:
        raise TacitError("this run is not running.")
    if run.row["kind"] == "deployed":
        raise TacitError("a deployed run is stopped at its server, with tacit deploy stop.")
    if not run.row["stoppable"]:
        raise TacitError(
            "this run cannot be interrupted from here: it runs on another machine, in a thread, or"
            " where interrupts are ignored."
        )
    if run.stopping == process:
        raise TacitError("this run is stopping already: it saves after the present rounds.")
    _interrupt(int(process["pid"]), process)
    run.stopping = process


def _interrupt(number: int, process: dict[str, object]) -> None:
    if number <= 1:
        raise TacitError("this run is not running.")
    try:
        if not hasattr(os, "pidfd_open"):
            if not works(process):
                raise ProcessLookupError
            os.kill(number, signal.SIGINT)
            return
        handle = os.pidfd_open(number)  # from here on, the number cannot mean another process
        try:
            if not works(process):
                raise ProcessLookupError
            signal.pidfd_send_signal(handle, signal.SIGINT)
        finally:
            os.close(handle)
    except ProcessLookupError:
        raise TacitError("this run is not running.") from None
    except PermissionError:
        raise TacitError("this run belongs to another user, who alone can stop it.") from None
