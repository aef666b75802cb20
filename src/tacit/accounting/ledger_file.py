"""The file under a ledger: JSON lines in a hash chain, one writer, on disk before it returns.

A line is a JSON object whose last field is its hash:

    {"kind":"done","id":7,"hash":"5f0c..."}

The hash is SHA-256 over the hash of the line before (64 zeros for the first) and the line's bytes
without the hash field, so a changed, moved, added or missing line breaks the chain where it stands.
A line is written in one append and ends in a newline, so bytes after the last newline are a write
that never finished: those, and nothing else, may be cut off.
"""

import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from tacit.errors import LedgerError

GENESIS: Final = b"0" * 64
_LINE_END: Final = re.compile(rb'"hash":"[0-9a-f]{64}"\}')


def seal(body: bytes, previous: bytes) -> tuple[bytes, bytes]:
    """The line of ``body``, a JSON object as text, and its hash."""
    digest = _digest(body, previous)
    return b'%b,"hash":"%b"}\n' % (body[:-1], digest), digest


def unsealed(data: bytes, path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """The number, body and hash of each finished line of a ledger's ``data``."""
    previous = GENESIS
    *lines, torn = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        body = line[:-75] + b"}"
        digest = _digest(body, previous)
        if line[-75:] != b',"hash":"%b"}' % digest:
            raise damaged(path, number, "its hash does not follow from what is written there")
        yield number, body, digest
        previous = digest
    for end in _LINE_END.finditer(torn):
        whole = _digest(torn[: end.start() - 1] + b"}", previous) == end[0][8:-2]
        if whole and end.end() < len(torn):  # a torn write is never longer than its line
            raise damaged(path, len(lines) + 1, "its end of line is overwritten")


def _digest(body: bytes, previous: bytes) -> bytes:
    return sha256(previous + body).hexdigest().encode()


def damaged(path: Path, number: int, reason: str) -> LedgerError:
    """The refusal of a ledger whose line ``number`` cannot be believed."""
    return LedgerError(
        f"the ledger {path} is damaged at line {number}: {reason}; put back a copy that is whole,"
        " and count everything charged since then as spent."
    )


def read_file(path: Path) -> bytes:
    """The bytes of a ledger that another process may be writing."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, "read", error) from error


def create_file(path: Path, line: bytes) -> None:
    """Put a file of one line at ``path``: after a crash it is there in full or not at all."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                file.write(line)
                _sync(handle)
            os.link(name, path)
        finally:
            Path(name).unlink()
    except FileExistsError as error:
        raise LedgerError(
            f"there is already a file at {path}: open that ledger, or give another path."
        ) from error
    except OSError as error:
        raise _unusable(path, "created", error) from error


class LedgerFile:
    """A ledger's file in the hands of its one writer.

    A failed write closes it: whether those bytes are on disk is then unknown, and only reading the
    file again can tell.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = os.getpid()
        self._size = 0
        try:
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND), "r+b", buffering=0)
        except OSError as error:
            raise _unusable(path, "opened for writing", error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            if isinstance(error, BlockingIOError):
                raise LedgerError(
                    f"another writer holds the ledger {path}: wait until it is closed, or open it"
                    " for reading only."
                ) from error
            raise _unusable(path, "locked", error) from error

    def read(self) -> bytes:
        """All that is in the file, torn end included."""
        try:
            data = self._file.readall()
        except OSError as error:
            raise _unusable(self.path, "read", error) from error
        self._size = data.rfind(b"\n") + 1
        return data

    def settle(self) -> int | None:
        """Make sure of what was read; the number of torn bytes cut off the end, None if none.

        A writer that was killed may have left lines that the disk does not have yet. From here on
        they count, so they must not vanish either.
        """
        with self.writing():
            torn = os.fstat(self._file.fileno()).st_size - self._size
            if torn:
                self._file.truncate(self._size)
            _sync(self._file.fileno())
            folder = os.open(self.path.resolve().parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return torn or None

    def append(self, data: bytes) -> None:
        """Write ``data`` at the end and wait until the disk has it; inside ``writing()``."""
        found = os.fstat(self._file.fileno())
        if found.st_size != self._size or found.st_nlink == 0:
            raise LedgerError(
                f"the ledger {self.path} was changed or removed by someone else while it was open:"
                " nothing was written; look into it before you open it again."
            )
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        _sync(self._file.fileno())
        self._size += len(data)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Check that the file is still ours; close it for good if anything inside fails."""
        if self._file.closed:
            raise LedgerError(f"the ledger {self.path} is closed: open it again to write.")
        if os.getpid() != self._owner:
            raise LedgerError(
                f"the ledger {self.path} belongs to the process that opened it: a forked process"
                " must not write to it."
            )
        try:
            yield
        except OSError as error:
            self.close()
            raise _unusable(self.path, "written", error) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file and of the lock."""
        if self._file.closed:
            return
        if os.getpid() == self._owner:  # a forked process would unlock its parent's file
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()


def _sync(handle: int) -> None:
    if sys.platform == "darwin":  # fsync leaves the data in the drive's own cache there
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def _unusable(path: Path, what: str, error: OSError) -> LedgerError:
    if isinstance(error, FileNotFoundError):
        where = path if path.parent.is_dir() else path.parent
        return LedgerError(f"the ledger {path} cannot be {what}: there is no {where}.")
    reason = error.strerror or type(error).__name__
    return LedgerError(f"the ledger {path} cannot be {what}: {reason}.")
