"""Wrong files through ``tacit run``: one sentence on stderr, exit code 2, nothing written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tacit.cli import run as tacit

CONFIG = """
privacy = "none"
[data]
path = "clinics"
[data.target]
column = "ill"
classes = ["no", "yes"]
[data.columns.age]
range = [0, 120]
[task]
name = "logistic"
[algorithm]
name = "fedavg"
[train]
rounds = 1
"""
GOOD = b"age,ill\n30,no\n70,yes\n50,no\n"
PACKED = gzip.compress(GOOD * 50)


def one_sentence(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    (folder / "run.toml").write_text(CONFIG)
    out = folder / "out"
    code = tacit(["run", str(folder / "run.toml"), "--out", str(out), *options])
    said = capsys.readouterr()
    assert code == 2
    assert said.err.startswith("tacit: ") and said.err.count("\n") == 1
    assert said.out == "" and not out.exists()
    return said.err


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"b.csv.gz": PACKED[: len(PACKED) // 2]}, "b.csv.gz is truncated or damaged"),
        ({"b.csv.gz": GOOD}, "b.csv.gz is truncated or damaged"),
        ({"b.csv": bytes(range(256))}, "b.csv is not delimited text"),
        ({"b.npz": b"PK\x03\x04"}, "b.npz is not a readable NPZ file"),
        ({"a.csv": b"ill\nno\n"}, "a.csv has no column 'age'"),
        ({"b.csv": b"age,ill\n30,no\nold,yes\n"}, "has 'old' in row 2 of"),
        ({"b.csv": b"age,sick\n30,no\n"}, "give every client the same columns"),
        ({"a.csv": b"age,id,ill\n30,1,no\n"}, "the meaning of column 'id' is not computed"),
        ({"a.csv.gz": PACKED}, "are both client 'a'"),
        ({"a.csv": b"age,age,ill\n1,2,no\n"}, "two columns called 'age'"),
        ({"b.csv": b"age,ill\n30,maybe\n"}, "the label 'maybe' of column 'ill' in row 1"),
        ({"b.csv": b""}, "b.csv is empty"),
        ({"b.csv": b"age,ill\n"}, "a header but no records"),
        ({"b.csv": b"age,ill\n30\n"}, "has 1 cells where 2 are due"),
        ({"b.csv": b"age,ill\n,no\n"}, "missing value in row 1"),
    ],
)
def test_a_wrong_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, bytes],
    sentence: str,
) -> None:
    folder = tmp_path / "clinics"
    folder.mkdir()
    for name, content in ({"a.csv": GOOD} | files).items():
        (folder / name).write_bytes(content)
    assert sentence in one_sentence(tmp_path, capsys)


def test_a_folder_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "clinics is missing: give the file or folder" in one_sentence(tmp_path, capsys)
    (tmp_path / "clinics").mkdir()
    assert "no files of a known kind" in one_sentence(tmp_path, capsys)


def test_one_wrong_file_among_10_000_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "clinics"
    folder.mkdir()
    for number in range(10_000):
        (folder / f"c{number}.csv").write_bytes(b"age,ill\n%d,no\n" % (number % 100))
    (folder / "c7777.csv").write_bytes(b"age,ill\nx,no\n")
    assert "row 1 of" in (said := one_sentence(tmp_path, capsys)) and "c7777.csv" in said


@pytest.mark.parametrize("name", ["heart-disease", "tcga-brca", "mnist-writers"])
def test_an_example_without_its_data_says_what_to_provide(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    assert tacit(["run", "--example", name]) == 2
    said = capsys.readouterr().err
    assert "is missing: put it in" in said and said.count("\n") == 1


def test_survival_needs_times_and_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clinics").mkdir()
    (tmp_path / "clinics" / "a.csv").write_bytes(b"age,ill\n30,1\n70,2\n")
    target = 'data.target={"column"="ill","range"=[0,9]}'
    (tmp_path / "run.toml").write_text(CONFIG)
    changes = ["--set", target, "--set", "task.name=weibull"]
    assert tacit(["run", str(tmp_path / "run.toml"), *changes]) == 2
    assert "a target of times and events" in capsys.readouterr().err
