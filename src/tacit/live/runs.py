"""One run of the table: its small files, read again only when they change."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.accounting.guarantee import rounded_up
from tacit.live import parts
from tacit.live.files import BrokenError, Mark, mark, read
from tacit.run_status import works

_READERS: dict[str, tuple[Callable[[bytes], Any], int, bool]] = {  # bytes, and only the last ones
    "status.json": (parts.status, 100_000, False),
    "summary.json": (parts.summary, 10_000_000, False),
    "config.toml": (parts.config, 1_000_000, False),
    "metrics.csv": (parts.last_metrics, 65_536, True),
}
LEDGER, REPORT = "ledger.jsonl", "report.html"
_SILENT = 600.0  # seconds without a word from another machine
_ENDINGS = {
    "dead": "Its process ended without a word: it was killed, or the machine was restarted.",
    "stopped": "It was interrupted and has saved its state.",
}


class Run:
    """A run's folder as the view knows it."""

    def __init__(self, name: str, path: Path, root: Path) -> None:
        self.name, self.path, self.root = name, path, root
        self.marks: dict[str, Mark | None] = {}
        self.ledger: dict[str, Any] = {}  # what the ledger says, when it was read
        self.curves: dict[str, Any] = {}
        self.revision = 0  # of what was worked out from the ledger and the metrics
        self.stopping: Any = None  # the process that was asked to stop
        self._parts: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self.row: dict[str, Any] = {}

    def look(self) -> bool:
        """Read what has changed; whether the row is another one now."""
        for name, (reader, limit, tail) in _READERS.items():
            seen = mark(self.path / name)
            if name in self.marks and self.marks[name] == seen:
                continue
            self.marks[name] = seen
            self._parts.pop(name, None)
            self._errors.pop(name, None)
            if seen is not None:
                try:
                    data = read(self.path / name, limit, self.root, tail=tail)
                    self._parts[name] = reader(data)
                except BrokenError as error:
                    self._errors[name] = str(error)
                except (ValueError, TypeError, ArithmeticError) as error:
                    self._errors[name] = f"{name} cannot be shown ({type(error).__name__})."
        for name in (LEDGER, REPORT):
            self.marks[name] = mark(self.path / name)
        before, self.row = self.row, self._row()
        return before != self.row

    @property
    def status(self) -> dict[str, Any]:
        """What its process said last; empty if it says nothing."""
        found: dict[str, Any] = self._parts.get("status.json", {})
        return found

    @property
    def running(self) -> bool:
        """Whether its process works on it now."""
        return bool(self.row) and self.row["state"] == "running"

    @property
    def delta(self) -> float:
        """The delta of its guarantee."""
        for found in (self.status, self._parts.get("config.toml", {})):
            if found.get("delta") is not None:
                return float(found["delta"])
        summary = self._parts.get("summary.json")
        return 0.0 if summary is None else float(summary["guarantee"]["delta"])

    def guarantee(self) -> dict[str, Any]:
        """The guarantee of all that is spent so far: what the ledger says, once it is read."""
        if "error" in self.ledger:
            return {}  # a summary alone proves nothing
        said = self.ledger.get("guarantee")
        summary = self._parts.get("summary.json")
        told = None if summary is None else summary["guarantee"]
        if said is None:
            stale = self.status.get("state") == "running"  # it goes on after an earlier end
            return {} if told is None or stale else dict(told)
        if told is not None and told["epsilon"] == said["epsilon"]:
            return {**said, **told}  # the summary also says what it means
        return dict(said)

    def _row(self) -> dict[str, Any]:
        status, config = self.status, self._parts.get("config.toml", {})
        summary, sure = self._parts.get("summary.json"), self.guarantee()
        state, note, local = self._state(status, summary)
        broken = [*self._errors.values(), *self._ledger_errors(summary, state)]
        broken += [str(self.curves["error"])] if "error" in self.curves else []
        rounds = status.get("rounds") or config.get("rounds") or (summary or {}).get("rounds")
        budget = status.get("epsilon") or config.get("epsilon")
        oracle = any(m.startswith("oracle/") for m in self._parts.get("metrics.csv", {}))
        return {
            "id": self.name,
            "name": self.root.name if self.name == "." else self.name,
            "method": config.get("method", ""),
            "dataset": config.get("dataset", ""),
            "kind": status.get("kind", "simulated"),
            "state": "broken" if broken else state,
            "note": " ".join([*broken, note]).strip(),
            "round": status.get("round", (summary or {}).get("rounds", 0)),
            "rounds": rounds,
            "epsilon": sure.get("epsilon"),
            "epsilon_text": _up(sure.get("epsilon")),
            "budget": budget,
            "delta": sure.get("delta"),
            "promise": _promise(sure),
            "private": bool(sure) and sure.get("epsilon") is not None,
            "known": bool(sure),
            "simulated": sure.get("noise_from") == "seed",
            "quality": parts.quality(self._parts.get("metrics.csv", {})),
            "oracle": oracle,
            "started": status.get("started"),
            "report": self.marks.get(REPORT) is not None or self._parents_report() is not None,
            "reportable": summary is not None and not broken,
            "stoppable": state == "running" and local and status.get("stoppable", False),
            "stopping": state == "running" and self.stopping == status.get("process"),
            "curves": [self.marks.get("metrics.csv"), self.revision],
        }

    def _state(
        self, status: dict[str, Any], summary: dict[str, Any] | None
    ) -> tuple[str, str, bool]:
        """The state, a remark, and whether its process is on this machine."""
        if not status:
            if summary is not None:
                return "finished", summary["stopped"] or "", True
            return "stopped", "It has no status.json: an earlier version of Tacit made it.", True
        state, said = status["state"], status["said"]
        if state == "finished":
            told = summary["stopped"] if summary is not None and summary["stopped"] else said
            return "finished", told, True
        if state == "running":
            alive = works(status["process"])
            if alive:
                return "running", said, True
            seen = self.marks.get("status.json")
            silent = time.time() - (seen[0] / 1e9 if seen else 0.0)
            if alive is None and silent < _SILENT:
                return "running", f"It runs on {status['process']['host']}. {said}", False
            state, said = "dead", ""
        if state == "failed":
            return "failed", f"It ended with an error: {said} {self._go_on()}", True
        return state, f"{_ENDINGS[state]} {self._go_on()}", True

    def _go_on(self) -> str:
        """How such a run goes on."""
        folder = shlex.quote(str(self.path))
        if self.status.get("kind") == "deployed":
            return f"Go on with: tacit deploy server {shlex.quote(str(self.path.parent))}"
        if self._parts.get("config.toml", {}).get("python"):
            return "Go on: call tacit.train again with the same arguments and folder."
        return f"Go on with: tacit run --resume {folder}"

    def _ledger_errors(self, summary: dict[str, Any] | None, state: str) -> list[str]:
        if "error" in self.ledger:
            return [str(self.ledger["error"])]
        said = self.ledger.get("guarantee")
        if said is None or summary is None or state != "finished":
            return []
        if self.ledger.get("mark") != self.marks.get(LEDGER):
            return []
        promised = summary["guarantee"]["epsilon"]
        if (said["epsilon"] is None) != (promised is None):
            return ["summary.json does not promise what the ledger has spent."]
        if promised is not None and said["epsilon"] > promised * (1 + 1e-6):
            return ["summary.json promises a smaller epsilon than the ledger has spent."]
        return []

    def _parents_report(self) -> Path | None:
        """The page of all seeds, beside their folders."""
        if not self.path.name.startswith("seed-") or self.path == self.root:
            return None
        path = self.path.parent / REPORT
        return path if mark(path) is not None else None

    def report(self) -> Path | None:
        """The run's page, if there is one."""
        return self.path / REPORT if self.marks.get(REPORT) else self._parents_report()


def _up(epsilon: float | None) -> str | None:
    return None if epsilon is None else rounded_up(epsilon, 3)


def _promise(sure: dict[str, Any]) -> str:
    """Unit, relation, delta and observer of an epsilon, for a narrow column."""
    if not sure:
        return ""
    noise = "; simulated" if sure["noise_from"] == "seed" else ""
    return (
        f"{sure['unit']}, {sure['relation']}, delta {sure['delta']:g}, against"
        f" {sure['observer']}{noise}"
    )
