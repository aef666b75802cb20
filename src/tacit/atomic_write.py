"""Files that are replaced in one step: a reader sees the old content or the new one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tacit.errors import TacitError


def write_atomically(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write beside, flush to disk, rename, flush the folder; ``mode`` as for ``chmod``."""
    beside = path.with_name(f".{path.name}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        handle = os.open(beside, flags, 0o666 if mode is None else mode)
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(handle, mode)
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
