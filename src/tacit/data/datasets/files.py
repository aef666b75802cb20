"""Where data files lie and how they are opened.

Readers ask a :class:`Store` for a file by its path inside the data folder. The store looks in the
folder ``TACIT_DATA``, then in the download cache, takes the file plain or compressed, and checks
its content against the published checksum. A file that is missing is one sentence that names it.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tacit.cache_folder import cache_folder
from tacit.errors import DataError

VARIABLE = "TACIT_DATA"

_UNCOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}
COMPRESSIONS = tuple(_UNCOMPRESS)


@dataclass(frozen=True)
class SourceFile:
    """One file of a dataset: path in the data folder, checksum of its content, where it is from.

    ``sha256`` is that of the uncompressed content, and empty where copies may differ in form.
    ``member`` is the file's place inside the archive behind ``url``. ``instead`` are other files
    that together carry the same content.
    """

    path: str
    sha256: str = ""
    url: str = ""
    member: str = ""
    instead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Store:
    """The folders that hold data files; ``verify`` compares contents with known checksums."""

    roots: tuple[Path, ...]
    verify: bool = True

    @classmethod
    def default(cls, root: str | Path | None = None, *, verify: bool = True) -> Store:
        """``root`` if given, else the folder ``TACIT_DATA`` and the download cache."""
        if root is not None:
            return cls((Path(root),), verify)
        named = os.environ.get(VARIABLE, "")
        if named and not Path(named).is_dir():
            raise DataError(f"{VARIABLE} is {named!r}, which is not a folder: set it to one.")
        return cls(((Path(named),) if named else ()) + (download_folder(),), verify)

    def find(self, path: str) -> Path | None:
        """The file, plain or compressed, or None."""
        for root in self.roots:
            for suffix in ("", *COMPRESSIONS):
                candidate = root / (path + suffix)
                if candidate.is_file():
                    return candidate
        return None

    def folder(self, path: str) -> Path:
        """A folder that must exist."""
        for root in self.roots:
            if (root / path).is_dir():
                return root / path
        raise DataError(
            f"the folder {path} is missing: put it in {self._place()}, in its original layout."
        )

    def read(self, file: SourceFile) -> bytes:
        """The uncompressed content of a file that must exist."""
        found = self.find(file.path)
        if found is None:
            raise DataError(self.missing(file))
        content = read_bytes(found)
        self.check(file, content, found)
        return content

    def check(self, file: SourceFile, content: bytes, found: Path) -> None:
        """Refuse content that differs from the published file."""
        if self.verify and file.sha256 and hashlib.sha256(content).hexdigest() != file.sha256:
            raise DataError(
                f"{found} differs from the published file (its SHA-256 should be "
                f"{file.sha256[:16]}...): get it again, or pass verify=False to read it anyway."
            )

    def missing(self, file: SourceFile) -> str:
        """The sentence for a file that is not there."""
        folder, _, name = file.path.rpartition("/")
        fetch = ", or let `tacit data fetch` download it" if file.url else ""
        forms = " (plain, .gz, .bz2 or .xz)"
        place, note = self._place()
        return f"{name}{forms} is missing: put it in {place}/{folder}{note}{fetch}."

    def has(self, file: SourceFile) -> bool:
        """Whether the file, or what may stand for it, is there."""
        if self.find(file.path) is not None:
            return True
        return bool(file.instead) and all(self.find(path) is not None for path in file.instead)

    def _place(self) -> tuple[str, str]:
        if self.roots and self.roots[0] != download_folder():
            return str(self.roots[0]), ""
        return f"${VARIABLE}", f" (the variable {VARIABLE} names your data folder; it is not set)"


def download_folder() -> Path:
    """Where downloads are kept when ``TACIT_DATA`` is not set."""
    return cache_folder("data")


def read_bytes(path: Path) -> bytes:
    """Read a file, uncompressing by its suffix."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from None
    return uncompressed(content, path)


def uncompressed(content: bytes, path: Path) -> bytes:
    """The content of a file of this name, uncompressed by the name's suffix."""
    if path.suffix not in _UNCOMPRESS:
        return content
    try:
        return _UNCOMPRESS[path.suffix](content)
    except (EOFError, ValueError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} is truncated or damaged ({error}): get it again.") from None


def bare_name(path: Path) -> str:
    """The file name without its compression suffix."""
    return path.name.removesuffix(path.suffix) if path.suffix in COMPRESSIONS else path.name
