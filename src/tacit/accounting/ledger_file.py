"""The file of a ledger: JSON lines in a hash chain, with one writer and a disk sync per write.

A line is a JSON object whose last field is its hash:

    {"kind":"done","id":7,"hash":"5f0c..."}

The hash is SHA-256 over the hash of the previous line (64 zeros for the first) and the bytes of the
line without its hash field. So a changed, moved, added or missing line breaks the chain at its
position. A line is written in one append and ends in a newline, so bytes after the last newline are
an unfinished write. Only these bytes may be cut off.
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
    """The line for ``body`` (the text of a JSON object), and its hash."""
    digest = _digest(body, previous)
    return b'%b,"hash":"%b"}\n' % (body[:-1], digest), digest


def unsealed(data: bytes, path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """The number, body and hash of each complete line of a ledger's ``data``."""
    previous = GENESIS
    *lines, torn = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        body = line[:-75] + b"}"
        digest = _digest(body, previous)
        if line[-75:] != b',"hash":"%b"}' % digest:
            raise damaged(path, number, "its hash does not match its content")
        yield number, body, digest
        previous = digest
    for end in _LINE_END.finditer(torn):
        whole = _digest(torn[: end.start() - 1] + b"}", previous) == end[0][8:-2]
        if whole and end.end() < len(torn):  # an unfinished write is never longer than its line
            raise damaged(path, len(lines) + 1, "its newline is overwritten")


def _digest(body: bytes, previous: bytes) -> bytes:
    return sha256(previous + body).hexdigest().encode()


def damaged(path: Path, number: int, reason: str) -> LedgerError:
    """The error for a ledger whose line ``number`` is invalid."""
    return LedgerError(
        f"the ledger {path} is damaged at line {number}: {reason}; restore an undamaged copy, and"
        " count everything charged since then as spent."
    )


def read_file(path: Path) -> bytes:
    """The bytes of a ledger that another process may be writing."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, "read", error) from error


def create_file(path: Path, line: bytes) -> None:
    """Create a file of one line atomically: after a crash it is complete or does not exist."""
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
            f"the file {path} already exists: open that ledger, or give another path."
        ) from error
    except OSError as error:
        raise _unusable(path, "created", error) from error


class LedgerFile:
    """The file of a ledger, opened and locked by its only writer.

    A failed write closes the file: it is then unknown whether the bytes are on disk, and the file
    must be read again.
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
                    f"another process is writing to the ledger {path}: wait until it has closed"
                    " the file, or open it for reading only."
                ) from error
            raise _unusable(path, "locked", error) from error

    def read(self) -> bytes:
        """The whole content of the file, including an unfinished last line."""
        try:
            data = self._file.readall()
        except OSError as error:
            raise _unusable(self.path, "read", error) from error
        self._size = data.rfind(b"\n") + 1
        return data

    def settle(self) -> int | None:
        """Cut off an unfinished last line, sync the file, and return the number of bytes cut.

        A killed writer may have left lines that are not on disk yet. They count from now on, so
        they must not get lost. Returns None if nothing was cut.
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
        """Append ``data`` and wait until it is on disk; call it inside ``writing()``."""
        found = os.fstat(self._file.fileno())
        if found.st_size != self._size or found.st_nlink == 0:
            raise LedgerError(
                f"another program changed or removed the ledger {self.path} while it was open:"
                " nothing was written; find out why before you open it again."
            )
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        _sync(self._file.fileno())
        self._size += len(data)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Check that this process may write; close the file if anything inside fails."""
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
        """Close the file and release the lock."""
        if self._file.closed:
            return
        if os.getpid() == self._owner:  # a forked process would unlock its parent's file
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()


def _sync(handle: int) -> None:
    if sys.platform == "darwin":  # on macOS, fsync leaves the data in the cache of the drive
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def _unusable(path: Path, what: str, error: OSError) -> LedgerError:
    if isinstance(error, FileNotFoundError):
        where = path if path.parent.is_dir() else path.parent
        return LedgerError(f"the ledger {path} cannot be {what}: there is no {where}.")
    reason = error.strerror or type(error).__name__
    return LedgerError(f"the ledger {path} cannot be {what}: {reason}.")
