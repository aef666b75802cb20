from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from tacit.data import from_config
from tacit.errors import ConfigError

OWN = """
path = "clinics"
held_out = 0.5
drop = ["id"]

[target]
column = "ill"
classes = ["no", "yes"]

[columns.age]
range = [0, 100]
fill = 50

[columns.smokes]
categories = ["no", "yes"]
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "clinics").mkdir()
    for name in ("north", "south"):
        rows = "1,30,no,no\n2,,yes,yes\n"
        (tmp_path / "clinics" / f"{name}.csv").write_text("id,age,smokes,ill\n" + rows)
    return tmp_path


def test_a_named_dataset() -> None:
    config = {"name": "digits", "split": "dirichlet", "clients": 7, "alpha": 0.5, "seed": 2}
    assert from_config(config).clients == 7
    whole = from_config({"name": "digits", "clients": 3, "reader": {"test_share": 0.5}})
    assert int(whole.sizes.sum()) == 1797 - 898


def test_own_files(base: Path) -> None:
    federation = from_config(tomllib.loads(OWN), base=base)
    assert federation.names == ("north", "south")
    assert federation.test_from == "clients"
    assert federation.records["x"].shape == (2, 3)


def test_columns_described_by_a_public_file(base: Path) -> None:
    (base / "public.csv").write_text("id,age,smokes,ill\n1,20,no,no\n2,80,yes,yes\n")
    config = {"path": "clinics", "public": "public.csv", "drop": ["id"], "test": "public.csv"}
    config["target"] = {"column": "ill"}  # type: ignore[assignment]
    federation = from_config(config, base=base)
    assert federation.test is not None
    np.testing.assert_allclose(federation.test["x"], [[-1, 1, 0], [1, 0, 1]])
    with pytest.raises(ConfigError, match=r"leave \[data\.columns\] out"):
        from_config({**config, "columns": {}}, base=base)


def test_prepared_arrays(tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    np.savez(tmp_path / "arrays" / "a.npz", x=np.ones((3, 2)), y=np.ones(3, int))
    config = {"path": "arrays", "prepared": True, "classes": 2}
    assert from_config(config, base=tmp_path).clients == 1
    with pytest.raises(ConfigError, match="classes"):
        from_config({"path": "arrays", "prepared": True}, base=tmp_path)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({}, "name = "),
        ({"name": "digits", "path": "x"}, "name = "),
        ({"name": "digits", "clints": 3}, "did you mean 'clients'"),
        ({"path": "x", "colums": {}}, "did you mean 'columns'"),
        ({"name": 3}, r"\[data.name\] \(3\) is not usable: it should be a valid string"),
        ({"name": "digits", "clients": "ten"}, "it should be a valid integer"),
        ({"name": "digits", "clients": True}, "it should be a valid integer"),
        ({"name": "digits", "clients": 3, "alpha": "small"}, "it should be a valid number"),
        ({"path": "x", "columns": ["age"]}, r"write a table \[data.columns\]"),
        ({"path": "x", "drop": "id"}, r"\[data.drop\].* it should be a valid list"),
    ],
)
def test_mistakes(config: dict, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_config(config)
