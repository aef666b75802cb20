"""Your own files as a federation.

Either a folder with one file per client (the file name is the client name), or one file with a
column that names the client. A public :class:`Preprocessing` turns cells into features; it is never
computed from the records. Arrays ``x`` and ``y`` in NPZ files are used unchanged if ``prepared``
states that their scaling is public.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Federation, Records
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.data.own_files.tables import (
    ENDINGS,
    Table,
    ending,
    is_table,
    joined,
    read_npz,
    read_table,
    stem,
)
from tacit.data.splits import cuts as splits
from tacit.data.splits.holdout import hold_out, leave_out_share, with_held_out
from tacit.errors import ConfigError, DataError


def own_data(
    path: str | Path,
    preprocessing: Preprocessing,
    *,
    client_column: str = "",
    test: str | Path | None = None,
    held_out: float = 0.0,
    held_out_clients: float = 0.0,
    seed: int = 0,
) -> Federation:
    """A federation from a folder of tables, or from one table and its ``client_column``.

    ``test`` is a file of public records with the same columns (the client column may be missing).
    ``held_out`` and ``held_out_clients`` test on private records instead; see ``holdout``.
    """
    where = Path(path)
    if where.is_dir():
        if client_column:
            raise ConfigError(
                f"{where} is a folder, so its file names are the clients: leave client_column out."
            )
        table, parts, names = _from_folder(where)
    else:
        table, parts, names = _from_file(where, client_column)
    records = preprocessing.encode(table, ignore=_some(client_column))
    public = _test_records(test, preprocessing, client_column)
    federation = Federation.from_parts(
        records,
        parts,
        names=names,
        test=public,
        classes=preprocessing.classes,
        title=stem(where),
    )
    return _tested(federation, held_out, held_out_clients, seed)


def prepared_data(
    path: str | Path,
    *,
    classes: int,
    test: str | Path | None = None,
    held_out: float = 0.0,
    held_out_clients: float = 0.0,
    seed: int = 0,
) -> Federation:
    """A federation from a folder of NPZ files with ready-made records.

    By calling this you state that the scaling of the arrays is public. ``classes`` is 0 for a
    numeric target.
    """
    folder = Path(path)
    clients: dict[str, Records] = {}
    for name, file in _client_files(folder).items():
        if ending(file) != ".npz":
            raise DataError(f"{file} is not an NPZ file: prepared records are NPZ files.")
        clients[name] = _arrays(file, classes)
    federation = Federation.from_clients(
        clients,
        test=_arrays(Path(test), classes) if test is not None else None,
        classes=classes,
        title=folder.name,
    )
    return _tested(federation, held_out, held_out_clients, seed)


def _from_folder(folder: Path) -> tuple[Table, splits.Parts, tuple[str, ...]]:
    files = _client_files(folder)
    whole = joined([read_table(file) for file in files.values()])
    bounds = np.cumsum([0, *whole.sizes])
    parts = [np.arange(a, b) for a, b in itertools.pairwise(bounds)]
    return whole, parts, tuple(files)


def _from_file(path: Path, client_column: str) -> tuple[Table, splits.Parts, tuple[str, ...]]:
    table = read_table(path)
    if not client_column:
        raise ConfigError(
            f"{path} is one file: give client_column = ..., the column that names the client of a "
            "record, or give a folder with one file per client."
        )
    owners = np.char.strip(table.column(client_column).astype(str))
    nobody = owners == ""
    if nobody.any():
        raise DataError(
            f"{table.where(int(np.argmax(nobody)))} has no client in column {client_column!r}."
        )
    return table, splits.natural(owners), splits.owner_names(owners)


def _client_files(folder: Path) -> Mapping[str, Path]:
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder or file: give the path of your data.")
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith(".") or not file.is_file() or not is_table(file):
            continue
        name = stem(file)
        if name in files:
            raise DataError(
                f"{files[name].name} and {file.name} are both client {name!r}: keep one of them."
            )
        files[name] = file
    if not files:
        raise DataError(f"{folder} has no files of a known kind ({', '.join(ENDINGS)}).")
    return files


def _arrays(file: Path, classes: int) -> Records:
    arrays = read_npz(file)
    missing = [key for key in ("x", "y") if key not in arrays]
    if missing:
        raise DataError(f"{file} has no array {missing[0]!r}: it has {sorted(arrays)}.")
    records: dict[str, NDArray[np.generic]] = dict(arrays)
    labels = arrays["y"]
    if classes and labels.dtype.kind == "f" and np.array_equal(labels, np.round(labels)):
        records["y"] = labels.astype(np.int32)
    return records


def _test_records(
    test: str | Path | None, preprocessing: Preprocessing, client_column: str
) -> Records | None:
    if test is None:
        return None
    return preprocessing.encode(read_table(Path(test)), ignore=_some(client_column))


def _some(name: str) -> Sequence[str]:
    return (name,) if name else ()


def _tested(
    federation: Federation, held_out: float, held_out_clients: float, seed: int
) -> Federation:
    chosen = [bool(federation.test), bool(held_out), bool(held_out_clients)]
    if sum(chosen) > 1:
        raise ConfigError("give one of test, held_out and held_out_clients.")
    if held_out:
        return with_held_out(*hold_out(federation, held_out, seed=seed))
    if held_out_clients:
        return with_held_out(*leave_out_share(federation, held_out_clients, seed=seed))
    return federation
