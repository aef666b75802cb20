"""The state of a site on its own disk: control variates, dual variables, the head of its ledger.

    state/<run>.npz   the state, and the pending state until the server has counted the last reply
    state/<run>.json  the result of the prelude, for a method that has one
    state/head        the hash of the ledger's last line at the last reply

The head reveals a ledger that lost its last lines; the hash chain alone cannot detect this.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tacit import tree
from tacit.accounting import Ledger
from tacit.deployment.setup.private_files import private_folder, write_private
from tacit.errors import LedgerError, TacitError
from tacit.tree import Tree
from tacit.wire.memory import Kept, Pending

_META = "__tacit__"
_STATE, _PENDING = "state", "pending"


class DiskMemory:
    """The state of one run in one file, replaced atomically."""

    def __init__(self, folder: Path, run: str) -> None:
        self.path = private_folder(folder) / f"{run}.npz"

    def read(self, like: Tree) -> Kept | None:
        """The stored state; a damaged file is an error, because a site must not guess its state."""
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            exchange = json.loads(arrays.pop(_META).tobytes())["exchange"]
            state = tree.from_named(_part(arrays, _STATE), like)
            if exchange is None:
                return Kept(state, None)
            after = tree.from_named(_part(arrays, _PENDING), like)
            return Kept(state, Pending(int(exchange), after))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise TacitError(
                f"{self.path} cannot be read: remove it to restart the state of this run from zero."
            ) from None

    def write(self, kept: Kept) -> None:
        """Replace the file."""
        pending = kept.pending
        arrays = {f"{_STATE}{name}": value for name, value in tree.to_named(kept.state).items()}
        if pending is not None:
            named = tree.to_named(pending.state)
            arrays |= {f"{_PENDING}{name}": value for name, value in named.items()}
        meta = {"exchange": pending.exchange if pending is not None else None}
        arrays[_META] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_private(self.path, buffer.getvalue())

    def forget_others(self) -> None:
        """Remove the states of earlier runs, so that the stored data does not grow."""
        for path in self.path.parent.glob("*.*"):
            if path.suffix in (".npz", ".json") and path.stem != self.path.stem:
                path.unlink(missing_ok=True)

    @property
    def prelude(self) -> Path:
        """The file with the result of the run's prelude."""
        return self.path.with_suffix(".json")


class Head:
    """The head of the ledger when the last reply was sent."""

    def __init__(self, folder: Path) -> None:
        self.path = private_folder(folder) / "head"

    def check(self, ledger: Ledger) -> None:
        """Refuse a ledger that is older than the stored head."""
        if self.path.exists() and not ledger.contains(self.path.read_text().strip()):
            raise LedgerError(
                f"the ledger {ledger.path} is older than what this site has sent: charges are"
                " missing. Restore the newest copy; nothing is sent until then."
            )

    def write(self, ledger: Ledger) -> None:
        """Store the head."""
        write_private(self.path, ledger.head.encode() + b"\n")


def _part(arrays: dict[str, Any], part: str) -> dict[str, Any]:
    return {name[len(part) :]: value for name, value in arrays.items() if name.startswith(part)}
