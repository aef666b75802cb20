"""A run's folder: configuration, metrics, ledger, checkpoint, model, summary.

    config.toml       what was asked for, resolved
    metrics.csv       one tidy table: round, metric, value
    ledger.jsonl      what was spent, written before it was used
    checkpoint.npz    the whole state, replaced in one step; holds the ledger's head
    scaling.json      released means and scales, where columns waited for them
    model.npz         the numbers of the model, for any program
    model.safetensors the model with what it needs to be used (``tacit predict``)
    summary.json      the guarantee and the last metrics
    status.json       which process works here now, and how far it is (see ``tacit.run_status``)

A checkpoint never speaks of a round that the ledger has not charged.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit import tree
from tacit.accounting import Ledger
from tacit.accounting.guarantee import Relation, Unit
from tacit.accounting.ledger_book import Label
from tacit.atomic_write import write_atomically
from tacit.errors import TacitError
from tacit.measurements import Row
from tacit.model import Model
from tacit.model.file import NAME as MODEL_FILE
from tacit.tree import Tree

_META = "__tacit__"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: the next round, its state, the ledger's head then, the time it took."""

    round: int
    state: Tree
    head: str
    seconds: float = 0.0


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TacitError(
                f"the folder {self.path} cannot be made ({error.strerror}): choose another --out."
            ) from None

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.toml"

    @property
    def ledger(self) -> Path:
        """What was spent."""
        return self.path / "ledger.jsonl"

    @property
    def started(self) -> bool:
        """Whether a run lives here already."""
        return self.ledger.exists()

    def begin(
        self, config: str, *, unit: Unit, relation: Relation, observer: str, about: Label
    ) -> Ledger:
        """Keep the configuration and open the ledger; one of other settings is not opened."""
        begun = self.started
        if not begun:
            self.write_text(self.config.name, config)
        ledger = self.open_ledger(unit=unit, relation=relation, observer=observer, about=about)
        if begun:  # more rounds may be asked for now
            try:
                self.write_text(self.config.name, config)
            except BaseException:
                ledger.close()
                raise
        return ledger

    def open_ledger(self, *, unit: Unit, relation: Relation, observer: str, about: Label) -> Ledger:
        """The ledger to write to: a new one, or that of the same run when it is continued."""
        if not self.started:
            return Ledger.create(
                self.ledger, unit=unit, relation=relation, observer=observer, about=about
            )
        ledger = Ledger.open(self.ledger)
        if dict(ledger.about) != dict(about):
            ledger.close()
            raise TacitError(
                f"{self.path} holds another run (its settings, its data or its seed differ):"
                " choose another folder, or give what it was begun with."
            )
        return ledger

    def write_text(self, name: str, text: str) -> None:
        """Replace a text file in one step."""
        write_atomically(self.path / name, text.encode())

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replace the summary."""
        self.write_text("summary.json", json.dumps(_plain(summary), indent=2) + "\n")

    def write_metrics(self, rows: Iterable[Row]) -> None:
        """Replace the table of metrics."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("round", "metric", "value"))
        writer.writerows((row.round, row.metric, repr(row.value)) for row in rows)
        self.write_text("metrics.csv", text.getvalue())

    def read_metrics(self, before: int) -> list[Row]:
        """The rows up to a round; later ones belong to rounds that will be run again."""
        path = self.path / "metrics.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            rows = [
                Row(int(r["round"]), r["metric"], float(r["value"])) for r in csv.DictReader(file)
            ]
        return [row for row in rows if row.round <= before]

    def write_model(self, params: Tree, model: Model | None) -> None:
        """Save the model's arrays under their paths, and the model to use, if there is one."""
        write_atomically(self.path / "model.npz", _npz(tree.to_named(params)))
        if model is not None:
            model.save(self.path / MODEL_FILE)

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint in one step."""
        meta = {
            "round": checkpoint.round,
            "head": checkpoint.head,
            "seconds": round(checkpoint.seconds, 3),
        }
        arrays = dict(tree.to_named(checkpoint.state))
        arrays[_META] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        write_atomically(self.path / "checkpoint.npz", _npz(arrays))

    def read_checkpoint(self, like: Tree) -> Checkpoint | None:
        """The checkpoint, or None before the first; a damaged one is refused."""
        path = self.path / "checkpoint.npz"
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            meta = json.loads(arrays.pop(_META).tobytes())
            state = tree.from_named(arrays, like)
            seconds = float(meta.get("seconds", 0.0))
            return Checkpoint(int(meta["round"]), state, str(meta["head"]), seconds)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise TacitError(
                f"{path} cannot be read ({error}): start again in another folder."
            ) from None


def load_model(path: str | Path, like: Tree) -> Tree:
    """A saved model in the shape of ``like``."""
    with np.load(path, allow_pickle=False) as archive:
        return tree.from_named({name: archive[name] for name in archive.files}, like)


def _npz(arrays: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
