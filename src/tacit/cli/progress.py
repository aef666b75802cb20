"""Progress while training: rounds, time, metrics and the epsilon spent, on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tacit.accounting.guarantee import rounded_up

if TYPE_CHECKING:
    from tacit.run.loop import Progress


class Watch:
    """A progress bar in a terminal, a few plain lines elsewhere, nothing if quiet."""

    def __init__(self, name: str, rounds: int, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        def whole() -> Column:
            return Column(no_wrap=True, overflow="ignore")

        self._console = Console(file=sys.stderr, highlight=False)
        self._quiet = quiet
        self._live = not quiet and self._console.is_terminal
        self._seen = ""
        self._bar = Bar(
            TextColumn("{task.description}", table_column=whole()),
            BarColumn(bar_width=8),
            MofNCompleteColumn(table_column=whole()),
            TimeRemainingColumn(compact=True, table_column=whole()),
            TextColumn("{task.fields[seen]}", table_column=whole()),
            console=self._console,
            disable=not self._live,
        )
        self._task = self._bar.add_task(name, total=rounds, seen="compiling")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show the progress of the run."""
        if self._quiet:
            return
        if progress.metrics:
            self._seen = _seen(progress)
        self._bar.update(self._task, completed=progress.round, seen=self._seen)
        if not self._live and progress.metrics:
            pace = f"{progress.seconds_per_round:.3f} s/round"
            self._console.print(
                f"round {progress.round}/{progress.rounds}  {self._seen}  {pace}", soft_wrap=True
            )


def _seen(progress: Progress) -> str:
    """What stands beside the bar: with it, at most 80 columns for up to 99,999 rounds."""
    parts = [
        f"{name.split('/')[-1]} {progress.metrics[name]:.3f}"
        for place in ("test", "oracle/held_out")
        for name in (f"{place}/loss", f"{place}/accuracy")
        if name in progress.metrics
    ]
    if progress.epsilon is not None and progress.epsilon != float("inf"):
        parts.append(f"epsilon {rounded_up(progress.epsilon, 3)}")
    return "  ".join(parts)
