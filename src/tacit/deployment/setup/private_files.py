"""Files that only their owner may read, replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.atomic_write import write_atomically
from tacit.errors import TacitError


def own_files_only() -> None:
    """Whatever this process writes from here on is for its owner alone."""
    os.umask(0o077)


def private_folder(path: Path) -> Path:
    """The folder, made if it is missing, closed to others."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
    except OSError as error:
        raise TacitError(f"the folder {path} cannot be made ({error.strerror}).") from None
    return path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file that its owner alone may read."""
    write_atomically(path, data, mode=0o600)
