"""Progress of a deployed run on stderr: a line for every round and for everything unusual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer


class Lines:
    """Prints what changed since the last call."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._last = quiet, ""

    def __call__(self, progress: Mapping[str, Any]) -> None:
        """Show the progress of the run."""
        if self._quiet or not progress:
            return
        line = self._line(progress)
        if line and line != self._last:
            self._last = line
            typer.echo(line, err=True)

    def note(self, text: str) -> None:
        """Show a note."""
        if not self._quiet:
            typer.echo(text, err=True)

    def _line(self, progress: Mapping[str, Any]) -> str:
        stage, said = progress.get("stage", ""), progress.get("said", "")
        if stage == "waiting":
            return f"waiting: {said}"
        if stage != "training":
            return ""
        metrics = progress.get("metrics", {})
        shown = [
            f"{name.split('/')[-1]} {metrics[name]:.4f}"
            for name in ("test/loss", "test/accuracy")
            if name in metrics
        ]
        sites = f"{int(metrics.get('server/replies', 0))} sites"
        parts = [f"round {progress['round']}/{progress['rounds']}", sites, *shown]
        return "  ".join(parts) + (f"  ({said})" if said else "")
