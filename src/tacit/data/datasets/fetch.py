"""Download a dataset's files from their sources, check them, keep them.

Nothing is downloaded unless this is asked for. A file is kept only when its content has the
published checksum; it appears under its name at once or not at all.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import COMPRESSIONS, SourceFile, Store, uncompressed
from tacit.errors import DataError

_TIMEOUT = 30.0
_LARGEST = 2**30


@dataclass(frozen=True)
class Fetched:
    """A file that is in place now, and whether it had to be downloaded and could be checked."""

    path: Path
    downloaded: bool
    checked: bool


def fetch(line: Entry, *, root: str | Path | None = None) -> list[Fetched]:
    """Bring all files of a dataset to the first data folder."""
    store = Store.default(root)
    if line.kind != "files":
        raise DataError(f"{line.name} needs no files: it can be used at once.")
    if not line.files or any(not file.url for file in line.files):
        raise DataError(
            f"{line.name} cannot be downloaded by a program: get it from {line.source} and put it "
            f"in {store.roots[0] / (line.folder or Path(line.files[0].path).parent)}."
        )
    results = []
    archives: dict[str, bytes] = {}
    for file in line.files:
        if store.has(file):
            found = store.find(file.path) or store.roots[0] / file.path
            results.append(Fetched(found, False, bool(file.sha256)))
            continue
        if file.url not in archives:
            archives[file.url] = _download(file, store)
        content = _content(file, archives[file.url])
        target = store.roots[0] / file.path
        if file.sha256 and hashlib.sha256(content).hexdigest() != file.sha256:
            raise DataError(
                f"what {_host(file.url)} sent for {file.path} is not the published file (its "
                "SHA-256 differs): nothing was kept."
            )
        _write(target, content)
        results.append(Fetched(target, True, bool(file.sha256)))
    return results


def _download(file: SourceFile, store: Store) -> bytes:
    place = store.roots[0] / file.path
    try:
        with urllib.request.urlopen(file.url, timeout=_TIMEOUT) as answer:
            content: bytes = answer.read(_LARGEST + 1)
    except urllib.error.HTTPError as error:
        raise DataError(
            f"{file.url} answered {error.code}: get {place.name} elsewhere and put it in "
            f"{place.parent}."
        ) from None
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"{_host(file.url)} cannot be reached from here ({reason}): get {place.name} on a "
            f"machine with a network and put it in {place.parent}."
        ) from None
    if len(content) > _LARGEST:
        raise DataError(f"{file.url} sends more than {_LARGEST} bytes: this is not the file.")
    return content


def _content(file: SourceFile, content: bytes) -> bytes:
    """The file's own bytes, out of the archive or the compression that its address names."""
    name = Path(urlsplit(file.url).path)
    try:
        if file.member and name.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return archive.read(file.member)
        if file.member:
            with tarfile.open(fileobj=io.BytesIO(content)) as packed:
                member = packed.extractfile(file.member)
                if member is None:
                    raise KeyError(file.member)
                return member.read()
    except (zipfile.BadZipFile, tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise DataError(f"{file.url} does not hold {file.member} ({error}).") from None
    return uncompressed(content, name) if name.suffix in COMPRESSIONS else content


def _write(target: Path, content: bytes) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"{target} cannot be written ({error.strerror or error}).") from None


def _host(url: str) -> str:
    return urlsplit(url).hostname or url
