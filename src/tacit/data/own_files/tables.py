"""Tables of named columns from CSV, Parquet and NPZ files.

CSV cells stay text until a public preprocessing gives them a meaning. A table knows the file and
row of each record, so an error message about a cell can name them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.datasets import formats
from tacit.data.datasets.files import COMPRESSIONS, bare_name, read_bytes
from tacit.errors import DataError

TEXT = (".csv", ".tsv", ".data")
ENDINGS = (*TEXT, ".parquet", ".npz")


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, and the files they were read from, in order."""

    columns: Mapping[str, NDArray[np.generic]]
    files: tuple[str, ...] = ("the table",)
    sizes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int) -> str:
        """The data row (counted from 1) and file of a record."""
        start = 0
        for file, size in zip(self.files, self.sizes, strict=False):
            if row < start + size:
                return f"row {row - start + 1} of {file}"
            start += size
        return f"row {row + 1} of {self.files[-1]}"

    def column(self, name: str) -> NDArray[np.generic]:
        """The column of this name; an error if it does not exist."""
        if name not in self.columns:
            raise DataError(
                f"{self.files[0]} has no column {name!r}: it has {_listed(self.columns)}."
            )
        return self.columns[name]


def ending(path: Path) -> str:
    """The format suffix of a file, without any compression suffix."""
    return Path(bare_name(path)).suffix.lower()


def stem(path: Path) -> str:
    """The file name without format and compression suffixes."""
    return Path(bare_name(path)).stem


def is_table(path: Path) -> bool:
    """Whether a file name has the suffix of a supported table."""
    inner = ending(path)
    if path.suffix in COMPRESSIONS:
        return inner in TEXT
    return inner in ENDINGS


def read_table(path: Path) -> Table:
    """Read one file of any supported format."""
    if not path.is_file():
        raise DataError(f"{path} is missing: give the file or folder of your data.")
    kind = ending(path)
    if kind == ".parquet":
        columns = _parquet(path)
    elif kind == ".npz":
        columns = read_npz(path)
        deep = [name for name, values in columns.items() if values.ndim != 1]
        if deep:
            raise DataError(
                f"the array {deep[0]!r} of {path} has shape {columns[deep[0]].shape}: columns have "
                "one value per record; for ready-made arrays x and y set prepared = true."
            )
    elif kind in TEXT:
        columns = _text(path)
    else:
        raise DataError(f"{path} is a file of no known kind: use {', '.join(ENDINGS)}.")
    sizes = {len(values) for values in columns.values()}
    if len(sizes) > 1:
        raise DataError(f"the columns of {path} have different lengths.")
    if not columns or sizes == {0}:
        raise DataError(f"{path} has no records.")
    return Table(columns, (str(path),), (sizes.pop(),))


def joined(tables: Sequence[Table]) -> Table:
    """The concatenated tables; all must have the same columns."""
    first = tables[0]
    for table in tables:
        if table.columns.keys() != first.columns.keys():
            other = sorted(table.columns.keys() ^ first.columns.keys())
            raise DataError(
                f"{table.files[0]} and {first.files[0]} differ in the columns "
                f"{_listed(other)}: give every client the same columns."
            )
    return Table(
        {name: _concatenated([t.columns[name] for t in tables]) for name in first.columns},
        tuple(file for t in tables for file in t.files),
        tuple(size for t in tables for size in t.sizes),
    )


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays of an NPZ file; pickled objects are refused."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable NPZ file ({error}).") from None


def _concatenated(parts: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
    if len({part.dtype.kind for part in parts} & {"U", "O"}) and any(
        part.dtype.kind not in "UO" for part in parts
    ):
        parts = [part.astype(str) for part in parts]
    return np.concatenate(parts)


def _text(path: Path) -> dict[str, NDArray[np.generic]]:
    rows = formats.delimited(read_bytes(path), str(path))
    if not rows.cells:
        raise DataError(f"{path} has a header but no records.")
    columns: dict[str, NDArray[np.generic]] = {}
    for name, cells in zip(rows.header, zip(*rows.cells, strict=True), strict=True):
        columns[name] = np.array(cells)
    return columns


def _parquet(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            "reading Parquet needs pyarrow: install it with `pip install 'tacit-fl[parquet]'`, or "
            "save the file as CSV."
        ) from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a readable Parquet file ({error}).") from None
    columns: dict[str, NDArray[np.generic]] = {}
    for name in table.column_names:
        values = table.column(name).to_numpy(zero_copy_only=False)
        if values.dtype.kind == "O":
            values = np.array(["" if v is None else str(v) for v in values])
        columns[name] = values
    return columns


def _listed(names: Mapping[str, object] | Sequence[str], limit: int = 8) -> str:
    shown = [repr(n) for n in list(names)[:limit]]
    return ", ".join(shown) + (", ..." if len(names) > limit else "")
