from __future__ import annotations

import functools
import gzip
import hashlib
import io
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tacit.data import describe
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.fetch import fetch
from tacit.data.datasets.files import SourceFile
from tacit.errors import DataError

CONTENT = b"1 1:1\n-1 2:1\n"
SUM = hashlib.sha256(CONTENT).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def source(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "source"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def line(*files: SourceFile) -> Entry:
    return replace(describe("ijcnn1"), files=files)


def test_plain_packed_and_archived_files(source: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = source
    (folder / "plain").write_bytes(CONTENT)
    (folder / "packed.gz").write_bytes(gzip.compress(CONTENT))
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("inner.csv", CONTENT)
    with tarfile.open(folder / "all.tar.gz", "w:gz") as packed:
        info = tarfile.TarInfo("deep/inner.bin")
        info.size = len(CONTENT)
        packed.addfile(info, io.BytesIO(CONTENT))
    files = (
        SourceFile("set/a", SUM, f"{url}/plain"),
        SourceFile("set/b", SUM, f"{url}/packed.gz"),
        SourceFile("set/c", SUM, f"{url}/all.zip", "inner.csv"),
        SourceFile("set/d", "", f"{url}/all.tar.gz", "deep/inner.bin"),
    )
    root = tmp_path / "data"
    results = fetch(line(*files), root=root)
    assert [r.path.read_bytes() for r in results] == [CONTENT] * 4
    assert [r.checked for r in results] == [True, True, True, False]
    again = fetch(line(*files), root=root)
    assert not any(r.downloaded for r in again)


def test_a_wrong_file_is_not_kept(source: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = source
    (folder / "file").write_bytes(b"an error page")
    with pytest.raises(DataError, match="not the published file"):
        fetch(line(SourceFile("set/a", SUM, f"{url}/file")), root=tmp_path / "data")
    assert not list((tmp_path / "data").rglob("*"))
    with pytest.raises(DataError, match="answered 404"):
        fetch(line(SourceFile("set/a", SUM, f"{url}/none")), root=tmp_path / "data")
    with pytest.raises(DataError, match="does not hold x"):
        fetch(line(SourceFile("set/a", SUM, f"{url}/file", "x")), root=tmp_path / "data")


def test_without_a_network(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=r"cannot be reached from here .*put it in .*set"):
        fetch(line(SourceFile("set/a", SUM, f"http://127.0.0.1:{port}/a")), root=tmp_path)


def test_what_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs no files"):
        fetch(describe("digits"), root=tmp_path)
    with pytest.raises(DataError, match="cannot be downloaded by a program"):
        fetch(describe("femnist"), root=tmp_path)
    with pytest.raises(DataError, match="cannot be downloaded by a program"):
        fetch(describe("cifar10-features"), root=tmp_path)
