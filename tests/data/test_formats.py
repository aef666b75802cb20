from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from originals import idx_bytes

from tacit.data.datasets import formats
from tacit.data.datasets.files import SourceFile, Store, read_bytes
from tacit.errors import DataError


@pytest.mark.parametrize("dtype", ["u1", "i4"])
def test_idx_round_trip(dtype: str) -> None:
    array = np.arange(24, dtype=dtype).reshape(2, 3, 4)
    np.testing.assert_array_equal(formats.idx(idx_bytes(array), "f"), array)


def test_idx_refuses_truncated_and_foreign_files() -> None:
    content = idx_bytes(np.zeros((3, 4), np.uint8))
    for cut in (0, 3, 7, len(content) - 1):
        with pytest.raises(DataError, match=r"idx file|truncated"):
            formats.idx(content[:cut], "f")
    with pytest.raises(DataError, match="announces"):
        formats.idx(content + b"x", "f")
    with pytest.raises(DataError, match="not an idx file"):
        formats.idx(b"\x89PNG and more", "f")


def test_libsvm_reads_labels_and_sparse_values() -> None:
    x, y = formats.libsvm(b"+1 1:0.5 3:-2\n-1 2:1e-3 \n1\n\n", "f", 3)
    np.testing.assert_allclose(x, [[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0]])
    assert y.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty"),
        (b"1 1:0.5\n1 x:2\n", "line 2"),
        (b"1 1:0.5 2:", "line 1"),
        (b"1 4:1\n", "index 4"),
        (b"1 0:1\n", "index 0"),
        (b"1;2;3\n", "line 1"),
        (b"1 1:1:1\n", "line 1"),
        (b"1 1:1\n1 1: 2:0.5 3\n", "line 2"),
    ],
)
def test_libsvm_refuses(content: bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        formats.libsvm(content, "f", 3)


def test_delimited_finds_its_delimiter() -> None:
    for mark in (",", ";", "\t"):
        rows = formats.delimited(f'a{mark}b\n1{mark}"x, y; z"\n'.encode(), "f")
        assert rows == (["a", "b"], [["1", "x, y; z"]])
    assert formats.delimited("\ufeffa,b\n1,2\n".encode(), "f").header == ["a", "b"]
    assert formats.delimited(b"a,b\r\n1,\xe9\r\n", "f").cells == [["1", "é"]]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "empty"), (b" \n", "empty"), (b"a,b\n1\n", "row 2"), (b"a,a\n1,2\n", "two columns")],
)
def test_delimited_refuses(content: bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        formats.delimited(content, "f")


def test_cifar_records_are_planes_after_a_label() -> None:
    planes = np.arange(2 * 3072).reshape(2, 3, 32, 32).astype(np.uint8)
    content = b"".join(bytes([k]) + planes[i].tobytes() for i, k in enumerate((7, 2)))
    images, labels = formats.cifar_records(content, "f")
    assert labels.tolist() == [7, 2]
    np.testing.assert_array_equal(images[1, :, :, 2], planes[1, 2])
    with pytest.raises(DataError, match="multiple"):
        formats.cifar_records(content[:-1], "f")


PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKERS)
def test_store_opens_plain_and_compressed(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / f"file{suffix}").write_bytes(PACKERS[suffix](b"content"))
    assert Store((tmp_path,)).read(SourceFile("set/file")) == b"content"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_truncated_compression_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    packed = PACKERS[suffix](np.random.default_rng(0).bytes(5000))
    for content in (packed[:-20], packed[: len(packed) // 2], b"not compressed at all"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="truncated or damaged"):
            read_bytes(path)


def test_store_names_the_missing_file_and_checks_content(tmp_path: Path) -> None:
    store = Store((tmp_path,))
    with pytest.raises(DataError, match=r"file .*is missing: put it in .*/set"):
        store.read(SourceFile("set/file"))
    (tmp_path / "file").write_bytes(b"other")
    with pytest.raises(DataError, match="differs from the published file"):
        store.read(SourceFile("file", sha256="0" * 64))
    assert Store((tmp_path,), verify=False).read(SourceFile("file", sha256="0" * 64)) == b"other"


def test_data_variable_must_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="not a folder"):
        Store.default()


@pytest.mark.usefixtures("no_data")
def test_without_variable_the_sentence_says_so() -> None:
    with pytest.raises(DataError, match="TACIT_DATA"):
        Store.default().read(SourceFile("mnist/train-images-idx3-ubyte"))
