"""Original file formats as arrays: idx, LIBSVM text, delimited text, CIFAR records.

Every reader takes the uncompressed content and the name to use in a complaint, and refuses a file
that is truncated or of another kind with one sentence.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
CIFAR_RECORD = 1 + 3 * 32 * 32


class Rows(NamedTuple):
    """A text table: the column names and the cells, row by row."""

    header: list[str]
    cells: list[list[str]]


def idx(content: bytes, name: str) -> NDArray[np.generic]:
    """An idx file (MNIST and its relatives)."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise DataError(f"{name} is not an idx file: it starts with {content[:4].hex()!r}.")
    dtype, axes = np.dtype(_IDX_TYPES[content[2]]), content[3]
    start = 4 + 4 * axes
    shape = tuple(int(n) for n in np.frombuffer(content[4:start].ljust(4 * axes, b"\0"), ">u4"))
    expected = start + int(np.prod(shape)) * dtype.itemsize
    if len(content) != expected:
        raise DataError(
            f"{name} has {len(content)} bytes where its header announces {expected}: it is "
            "truncated or damaged, get it again."
        )
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


def libsvm(
    content: bytes, name: str, features: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """LIBSVM text (``label index:value ...``, indices from 1) as a dense matrix and the labels."""
    lines = [line for line in content.split(b"\n") if line.strip()]
    if not lines:
        raise DataError(f"{name} is empty.")
    entries = np.array([line.count(b":") for line in lines])
    with warnings.catch_warnings():
        # numpy stops at the first word that is no number and says so only in a warning
        warnings.simplefilter("error", DeprecationWarning)
        try:
            numbers = np.fromstring(b" ".join(lines).replace(b":", b" "), sep=" ")
        except (DeprecationWarning, ValueError):
            numbers = np.empty(0)
    starts = np.concatenate([[0], np.cumsum(1 + 2 * entries)[:-1]])
    whole = len(numbers) == len(lines) + 2 * entries.sum()
    pairs = np.delete(numbers, starts).reshape(-1, 2) if whole else np.empty((0, 2))
    if not whole or (pairs[:, 0] != np.floor(pairs[:, 0])).any():
        raise DataError(f"{name} is not LIBSVM text: {_first_bad_libsvm_line(lines)}.")
    columns = pairs[:, 0].astype(np.int64) - 1
    if len(columns) and not (columns.min() >= 0 and columns.max() < features):
        bad = int(columns.max() if columns.max() >= features else columns.min()) + 1
        raise DataError(f"{name} has the feature index {bad}, outside 1 to {features}.")
    x = np.zeros((len(lines), features), dtype=np.float32)
    x[np.repeat(np.arange(len(lines)), entries), columns] = pairs[:, 1]
    return x, numbers[starts]


_LIBSVM_LINE = re.compile(rb"\s*[-+.\deE]+(\s+\d+:[-+.\deE]+)*\s*")


def _first_bad_libsvm_line(lines: list[bytes]) -> str:
    bad = (i for i, line in enumerate(lines) if not _LIBSVM_LINE.fullmatch(line))
    number = next(bad, len(lines) - 1)
    return f"line {number + 1} is {lines[number][:40].decode('utf-8', 'replace')!r}"


def delimited(
    content: bytes, name: str, *, delimiter: str | None = None, header: bool = True
) -> Rows:
    """Delimited text; the delimiter is taken from the first line (``;``, tab or ``,``)."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if not text.strip():
        raise DataError(f"{name} is empty.")
    if delimiter is None:
        first = text.split("\n", 1)[0]
        delimiter = max(",;\t", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except csv.Error as error:
        raise DataError(f"{name} is not delimited text ({error}).") from None
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise DataError(f"row {number} of {name} has {len(row)} cells where {width} are due.")
    if not header:
        return Rows([str(i) for i in range(width)], rows)
    names = [cell.strip() for cell in rows[0]]
    if len(set(names)) != width:
        twice = next(n for n in names if names.count(n) > 1)
        raise DataError(f"{name} has two columns called {twice!r}.")
    return Rows(names, rows[1:])


def cifar_records(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A CIFAR-10 binary batch: images (n, 32, 32, 3) and labels."""
    if not content or len(content) % CIFAR_RECORD:
        raise DataError(
            f"{name} has {len(content)} bytes, not a multiple of {CIFAR_RECORD}: it is truncated "
            "or not a CIFAR-10 binary batch."
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD)
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images, rows[:, 0]
