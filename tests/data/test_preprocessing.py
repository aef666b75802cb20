from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data import Categorical, Classes, Duration, Numeric, Preprocessing, Table, Target
from tacit.errors import ConfigError, DataError


def table(**columns: list[Any]) -> Table:
    return Table({name: np.array(values) for name, values in columns.items()}, ("t.csv",))


CONFIG: dict[str, Any] = {
    "columns": {
        "age": {"range": [0, 100], "fill": 50, "indicator": True},
        "sex": {"categories": ["female", "male"], "other": True},
    },
    "target": {"column": "ill", "classes": ["no", "yes"]},
    "drop": ["id"],
}


def test_config_to_records() -> None:
    meaning = Preprocessing.from_config(CONFIG)
    records = meaning.encode(
        table(
            id=["1", "2", "3"],
            age=["0", "?", " 150 "],
            sex=["male", "female", "unknown"],
            ill=["yes", "no", "yes"],
        )
    )
    np.testing.assert_allclose(records["x"], [[-1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 1]])
    assert records["y"].tolist() == [1, 0, 1]
    assert meaning.classes == 2
    assert meaning.features == ["age", "age is missing", "sex=female", "sex=male", "sex=other"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1))
def test_numeric_features_never_leave_their_range(values: list[float]) -> None:
    cells = np.array(values)
    encoded = Numeric(low=-2, high=3).encode("a", cells, str)
    assert np.abs(encoded).max() <= 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"age": {}}, "range of column 'age' is not computed from private records"),
        ({"age": {"range": "auto"}}, "release without a charge"),
        ({"sex": {"categories": "auto"}}, "category list of column 'sex' is not computed"),
        ({"age": {"range": [0, 1], "fill": "mean"}}, "fill value of column 'age'"),
        ({"age": {"range": [0, 1], "categories": ["a"]}}, "both a range and categories"),
        ({"age": {"range": [3]}}, "two numbers"),
        ({"age": {"range": ["a", "b"]}}, "two numbers"),
        ({"age": {"range": [3, 1]}}, "must have low below high"),
        ({"age": {"rnage": [3, 1]}}, "did you mean 'range'"),
        ({"age": {"range": [0, 1], "scaling": "auto"}}, "'range' or 'release'"),
        ({"age": 3}, "table of settings"),
        ({"sex": {"categories": []}}, "at least one"),
        ({"sex": {"categories": ["a"], "fill": "b"}}, "not among"),
    ],
)
def test_column_configs_that_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises((ConfigError, DataError), match=complaint):
        Preprocessing.from_config({**CONFIG, "columns": {**CONFIG["columns"], **change}})


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ({"column": "ill"}, "not computed from private records"),
        ({"column": "ill", "range": "auto"}, "not computed from private records"),
        ({"classes": ["a"]}, "needs column"),
        ({"column": "ill", "classes": "auto"}, "a list of all labels"),
        ({"column": "age", "classes": ["a"]}, "also listed as a feature"),
        ({"column": "days", "event": "died"}, "longest"),
    ],
)
def test_target_configs_that_are_refused(target: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Preprocessing.from_config({**CONFIG, "target": target})


def test_the_data_section_needs_one_target() -> None:
    with pytest.raises(ConfigError, match="column to predict"):
        Preprocessing.from_config({"columns": CONFIG["columns"]})
    with pytest.raises(ConfigError, match="no feature"):
        Preprocessing.from_config({"target": CONFIG["target"]})


def test_every_column_must_be_spoken_for() -> None:
    meaning = Preprocessing.from_config(CONFIG)
    with pytest.raises(
        DataError, match=r"column 'postcode' is not computed.*drop = \['postcode'\]"
    ):
        meaning.encode(table(id=["1"], age=["3"], sex=["male"], ill=["no"], postcode=["1"]))
    with pytest.raises(DataError, match=r"t\.csv has no column 'sex'"):
        meaning.encode(table(id=["1"], age=["3"], ill=["no"]))


def test_cells_are_named_when_they_are_wrong() -> None:
    number = Numeric(low=0, high=1)
    place = Table({"a": np.array(["1", "x"])}, ("a.csv", "b.csv"), (1, 1)).where
    with pytest.raises(DataError, match=r"'a' is numeric but has 'x' in row 1 of b\.csv"):
        number.encode("a", np.array(["1", "x"]), place)
    with pytest.raises(DataError, match=r"missing value in row 1 of b\.csv: write fill"):
        number.encode("a", np.array(["1", ""]), place)
    with pytest.raises(DataError, match="infinite"):
        number.encode("a", np.array(["inf"]), place)
    with pytest.raises(DataError, match="'c' in row 1"):
        Categorical(values=("a", "b")).encode("a", np.array(["c"]), place)
    with pytest.raises(DataError, match="label '2' of column 'a' in row 1"):
        Classes(values=("0", "1")).encode("a", np.array([2]), place)


def test_numbers_written_differently_are_the_same_class() -> None:
    classes = Classes(values=("0", "1"))
    for cells in (["1.0", "0"], [1.0, 0.0], [1, 0], ["1", "0.0"]):
        assert classes.encode("y", np.array(cells), str).tolist() == [1, 0]
    assert Classes(values=("01", "1")).encode("y", np.array(["01", "1.0"]), str).tolist() == [0, 1]


def test_missing_categories_take_their_fill() -> None:
    column = Categorical(values=("a", "b"), fill="b")
    np.testing.assert_array_equal(column.encode("c", np.array(["?", "a"]), str), [[0, 1], [1, 0]])
    with pytest.raises(DataError, match="a missing value"):
        Categorical(values=("a",)).encode("c", np.array([""]), str)


def test_public_records_give_ranges_lists_and_fills() -> None:
    public = table(age=["20", "?", "60"], job=["cook", "nurse", ""], ill=["no", "yes", "no"])
    meaning = Preprocessing.from_public(public, target="ill")
    assert meaning.columns["age"] == Numeric(low=20, high=60, fill=40)
    assert meaning.columns["job"] == Categorical(values=("cook", "nurse"))
    assert meaning.targets["y"] == Target("ill", Classes(values=("no", "yes")))
    numeric = Preprocessing.from_public(public, target="age", drop=["ill"])
    assert numeric.classes == 0
    listed = Preprocessing.from_public(table(a=[1, 2], y=[0, 1]), target="y", classes=["0", "1"])
    assert listed.classes == 2
    constant = Preprocessing.from_public(table(a=[1, 1], y=["a", "b"]), target="y")
    assert constant.columns["a"] == Numeric(low=1, high=2, fill=1)
    with pytest.raises(DataError, match="no values"):
        Preprocessing.from_public(table(a=["", "?"], y=["a", "b"]), target="y")


def test_a_released_mean_and_scale_have_their_place() -> None:
    config = {**CONFIG, "columns": {"age": {"range": [0, 100], "scaling": "release"}}, "drop": []}
    meaning = Preprocessing.from_config(config)
    people = table(age=["40", "60"], ill=["no", "yes"])
    assert meaning.to_release == ("age",)
    with pytest.raises(DataError, match="waits for a private mean"):
        meaning.encode(people)
    released = meaning.with_release({"age": (50.0, 5.0)})
    assert released.to_release == ()
    np.testing.assert_allclose(released.encode(people)["x"], [[-2], [2]])
    with pytest.raises(DataError, match="no numeric column 'sex'"):
        meaning.with_release({"sex": (0, 1)})
    with pytest.raises(DataError, match="not positive"):
        meaning.with_release({"age": (0, 0)})


def test_number_and_survival_targets() -> None:
    config = {"columns": {"a": {"range": [0, 1]}}, "target": {"column": "b", "range": [0, 10]}}
    rows = table(a=["0", "1"], b=["0", "20"])
    assert Preprocessing.from_config(config).encode(rows)["y"].tolist() == [-1, 1]
    config["target"]["scaled"] = False
    assert Preprocessing.from_config(config).encode(rows)["y"].tolist() == [0, 10]
    config["target"] = {"column": "b", "event": "e", "longest": 15, "unit": 5}
    meaning = Preprocessing.from_config(config)
    assert meaning.targets["y"].meaning == Duration(event="e", longest=15, unit=5)
    rows = table(a=["0", "1"], b=["5", "20"], e=["0", "1"])
    np.testing.assert_allclose(meaning.encode(rows)["y"], [[0, 1], [1, 3]])
    for wrong in (["2", "1"], ["?", "1"]):
        with pytest.raises(DataError, match="row 1"):
            meaning.encode(table(a=["0", "1"], b=["5", "20"], e=wrong))
    with pytest.raises(DataError, match="row 2"):
        meaning.encode(table(a=["0", "1"], b=["5", "-1"], e=["0", "1"]))


def test_more_than_one_target() -> None:
    config = {
        "columns": {"a": {"range": [0, 1]}},
        "targets": {
            "y": {"column": "visits", "range": [0, 50], "scaled": False},
            "exposure": {"column": "years", "range": [0, 10], "scaled": False},
        },
    }
    records = Preprocessing.from_config(config).encode(table(a=[0], visits=[3], years=[2]))
    assert (records["y"].tolist(), records["exposure"].tolist()) == ([3], [2])
    config["targets"]["x"] = config["targets"]["y"]  # type: ignore[index]
    with pytest.raises(ConfigError, match="cannot be called 'x'"):
        Preprocessing.from_config(config)
