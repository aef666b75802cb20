"""Files that only their owner may read, replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.atomic_write import write_atomically
from tacit.errors import TacitError


def own_files_only() -> None:
    """From now on, files that this process writes are readable by their owner only."""
    os.umask(0o077)


def private_folder(path: Path) -> Path:
    """Make the folder if it is missing, and close it to other users."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
    except OSError as error:
        raise TacitError(f"the folder {path} cannot be created ({error.strerror}).") from None
    return path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file that only its owner may read."""
    write_atomically(path, data, mode=0o600)
