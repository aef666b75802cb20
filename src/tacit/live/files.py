"""Reading files that somebody else writes, and may have made to mislead.

A file is read only if it is a regular one, inside the served folder and not too large. Links are
never followed, and a pipe never blocks.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

Mark = tuple[int, int, int, int]  # what changes whenever a file is written


class BrokenError(Exception):
    """A file that cannot be shown, in one sentence."""


def mark(path: Path) -> Mark | None:
    """What tells this version of a file from others; None if there is no file."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def read(path: Path, limit: int, root: Path, *, tail: bool = False) -> bytes:
    """The bytes of a regular file below ``root``; ``tail``: only the last ``limit`` of them."""
    if Path(os.path.realpath(path.parent)) != path.parent or not path.is_relative_to(root):
        raise BrokenError(f"{path.name} is not in the served folder: links are not followed.")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BrokenError(f"{path.name} cannot be read ({error.strerror}).") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BrokenError(f"{path.name} is not a regular file.")
        if found.st_size > limit:
            if not tail:
                raise BrokenError(f"{path.name} has {found.st_size:,} bytes: too many to show.")
            file.seek(-limit, os.SEEK_END)
        return file.read(limit)
