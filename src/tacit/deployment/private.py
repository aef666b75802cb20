"""Files that only their owner may read, replaced in one step."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

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
    """Write beside with mode 0600, flush to disk, rename, flush the folder."""
    beside = path.with_name(f".{path.name}.new")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o600)
            file.write(data)
            file.flush()
            os.fsync(handle)
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise TacitError(f"{path} cannot be written ({error.strerror}).") from None
