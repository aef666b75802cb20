from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import Preprocessing, own_data, prepared_data, read_table
from tacit.errors import ConfigError, DataError

MEANING = Preprocessing.from_config(
    {
        "columns": {
            "age": {"range": [0, 100], "fill": 50},
            "smokes": {"categories": ["no", "yes"]},
        },
        "target": {"column": "ill", "classes": ["no", "yes"]},
    }
)
HEADER = "age,smokes,ill\n"


@pytest.fixture
def clinics(tmp_path: Path) -> Path:
    folder = tmp_path / "clinics"
    folder.mkdir()
    (folder / "north.csv").write_text(HEADER + "30,no,no\n,yes,yes\n")
    (folder / "south.csv.gz").write_bytes(gzip.compress((HEADER + "70,yes,yes\n").encode()))
    np.savez(folder / "west.npz", age=[40.0, np.nan], smokes=["no", "no"], ill=["no", "yes"])
    (folder / "notes.txt").write_text("not a client")
    (folder / ".hidden.csv").write_text("neither")
    return folder


def test_a_folder_with_a_file_per_client(clinics: Path) -> None:
    federation = own_data(clinics, MEANING)
    assert federation.names == ("north", "south", "west")
    assert federation.sizes.tolist() == [2, 1, 2]
    assert federation.classes == 2
    np.testing.assert_allclose(federation.client(0)["x"], [[-0.4, 1, 0], [0, 0, 1]])
    assert federation.client(2)["y"].tolist() == [0, 1]


def test_one_file_with_a_client_column(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("clinic;age;smokes;ill\nb;1;no;no\na;2;no;yes\n b ;3;yes;no\n")
    federation = own_data(path, MEANING, client_column="clinic")
    assert federation.names == ("a", "b")
    assert federation.sizes.tolist() == [1, 2]
    with pytest.raises(ConfigError, match="client_column"):
        own_data(path, MEANING)
    with pytest.raises(DataError, match="no column 'hospital'"):
        own_data(path, MEANING, client_column="hospital")
    path.write_text("clinic;age;smokes;ill\nb;1;no;no\n;2;no;yes\n")
    with pytest.raises(DataError, match=r"row 2 .* has no client"):
        own_data(path, MEANING, client_column="clinic")


def test_test_sets(clinics: Path, tmp_path: Path) -> None:
    public = tmp_path / "public.csv"
    public.write_text(HEADER + "10,no,no\n20,no,yes\n")
    federation = own_data(clinics, MEANING, test=public)
    assert federation.test is not None
    assert (len(federation.test["y"]), federation.test_from) == (2, "public")
    private = own_data(clinics, MEANING, held_out=0.5)
    assert (int(private.sizes.sum()), private.test_from) == (3, "clients")
    sites = own_data(clinics, MEANING, held_out_clients=0.3, seed=1)
    assert (sites.clients, sites.test_from) == (2, "clients")
    with pytest.raises(ConfigError, match="give one of"):
        own_data(clinics, MEANING, test=public, held_out=0.5)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "empty"),
        (HEADER, "no records"),
        ("age,smokes\n3,no\n", "differ in the columns 'ill'"),
        ("age,smokes,ill,more\n3,no,no,1\n", "differ in the columns 'more'"),
        (HEADER + "old,no,no\n", r"'age' is numeric but has 'old' in row 1 of .*zz\.csv"),
        (HEADER + "3,no\n", "row 2"),
        (HEADER + "3,no,perhaps\n", "label 'perhaps'"),
        (HEADER + "3,maybe,no\n", "'maybe'"),
    ],
)
def test_a_bad_client_is_named(clinics: Path, content: str, complaint: str) -> None:
    (clinics / "zz.csv").write_text(content)
    with pytest.raises(DataError, match=complaint) as caught:
        own_data(clinics, MEANING)
    assert "zz.csv" in str(caught.value)


def test_two_files_of_one_client(clinics: Path) -> None:
    (clinics / "north.csv.bz2").write_bytes(b"")
    with pytest.raises(DataError, match="both client 'north'"):
        own_data(clinics, MEANING)


def test_a_label_that_only_the_test_set_has(clinics: Path, tmp_path: Path) -> None:
    public = tmp_path / "public.csv"
    public.write_text(HEADER + "10,no,unclear\n")
    with pytest.raises(DataError, match=r"label 'unclear' .*public\.csv"):
        own_data(clinics, MEANING, test=public)


def test_folders_without_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no files of a known kind"):
        own_data(tmp_path, MEANING)
    with pytest.raises(DataError, match="missing"):
        own_data(tmp_path / "nowhere.csv", MEANING, client_column="c")
    with pytest.raises(ConfigError, match="leave client_column out"):
        own_data(tmp_path, MEANING, client_column="c")
    with pytest.raises(DataError, match="no known kind"):
        (tmp_path / "a.docx").write_text("x")
        own_data(tmp_path / "a.docx", MEANING, client_column="c")


def test_prepared_arrays(tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 3)):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((count, 4, 4)), y=np.ones(count))
    federation = prepared_data(tmp_path, classes=2)
    assert federation.records["x"].shape == (5, 4, 4)
    assert federation.records["y"].dtype == np.int32
    with pytest.raises(DataError, match="prepared = true"):
        read_table(tmp_path / "a.npz")
    np.savez(tmp_path / "c.npz", x=np.ones((1, 4, 5)), y=np.ones(1))
    with pytest.raises(DataError, match="different shapes"):
        prepared_data(tmp_path, classes=2)
    np.savez(tmp_path / "c.npz", x=np.ones((1, 4, 4)))
    with pytest.raises(DataError, match="no array 'y'"):
        prepared_data(tmp_path, classes=2)
    (tmp_path / "c.npz").write_bytes(b"PK not a zip")
    with pytest.raises(DataError, match=r"c\.npz is not a readable NPZ"):
        prepared_data(tmp_path, classes=2)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object), y=np.ones(1))
    with pytest.raises(DataError, match="not a readable NPZ"):
        prepared_data(tmp_path, classes=2)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"needs pyarrow.*tacit-fl\[parquet\]"):
        own_data(tmp_path, MEANING)


def test_parquet(tmp_path: Path) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    columns = {"age": [30.0, None], "smokes": ["no", "yes"], "ill": ["no", "yes"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    federation = own_data(tmp_path, MEANING)
    np.testing.assert_allclose(federation.records["x"], [[-0.4, 1, 0], [0, 0, 1]])
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(DataError, match="not a readable Parquet"):
        own_data(tmp_path, MEANING)


def test_ten_thousand_tiny_files(tmp_path: Path) -> None:
    for i in range(10_000):
        (tmp_path / f"{i:05d}.csv").write_text(f"{HEADER}{i % 100},no,yes\n")
    federation = own_data(tmp_path, MEANING)
    assert federation.clients == 10_000
    assert federation.records["x"].shape == (10_000, 3)
