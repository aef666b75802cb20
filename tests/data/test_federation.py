from __future__ import annotations

import numpy as np
import pytest

from tacit.data import Federation, hold_out, leave_out, leave_out_share, with_held_out
from tacit.errors import DataError


def clinics(sizes: tuple[int, ...] = (4, 1, 10)) -> Federation:
    total = sum(sizes)
    return Federation(
        records={"x": np.arange(total, dtype=float)[:, None], "y": np.arange(total) % 2},
        sizes=np.array(sizes),
        names=tuple(f"c{i}" for i in range(len(sizes))),
        classes=2,
    )


def test_clients_are_slices() -> None:
    federation = clinics()
    assert federation.offsets.tolist() == [0, 4, 5]
    assert federation.client(2)["x"][0, 0] == 5
    again = Federation.from_clients({f"c{i}": federation.client(i) for i in range(3)}, classes=2)
    np.testing.assert_array_equal(again.records["x"], federation.records["x"])
    parts = [np.array([3, 1]), np.array([0])]
    assert Federation.from_parts(federation.records, parts).client(0)["x"].ravel().tolist() == [
        3,
        1,
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sizes": [4, 0, 11]}, "'c1' has no records"),
        ({"sizes": [4, 1, 9]}, "15 rows, but 14"),
        ({"names": ("a", "a", "b")}, "two clients are called 'a'"),
        ({"names": ("a",)}, "1 names"),
        ({"records": {"x": np.full((15, 1), np.nan)}}, "NaN or infinity"),
        ({"records": {"x": np.full((15, 1), np.inf)}}, "NaN or infinity"),
        ({"records": {"x": np.array(["a"] * 15)}}, "encode it as numbers"),
        ({"records": {}}, "no columns"),
        ({"classes": 1}, "outside 0 to 0"),
        ({"records": {"y": np.arange(15) - 1}}, "a label of"),
        ({"records": {"y": np.ones(15)}}, "give integers"),
        ({"test": {"x": np.ones((2, 1))}}, "no column 'y'"),
        ({"test": {"x": np.ones((2, 3)), "y": np.ones(2, int)}}, "shape"),
        ({"test": {"x": np.ones((2, 1)), "y": np.array([0, 2])}}, "outside 0 to 1"),
    ],
)
def test_bad_federations(change: dict, complaint: str) -> None:
    good = clinics()
    fields = {
        "records": good.records,
        "sizes": good.sizes,
        "names": good.names,
        "classes": good.classes,
    }
    with pytest.raises(DataError, match=complaint):
        Federation(**{**fields, **change})


def test_a_client_with_other_columns() -> None:
    with pytest.raises(DataError, match="client 'b' has the columns"):
        Federation.from_clients({"a": {"x": np.ones(2)}, "b": {"z": np.ones(2)}})
    with pytest.raises(DataError, match="no clients"):
        Federation.from_clients({})


def test_hold_out_keeps_every_record_on_one_side() -> None:
    federation = clinics()
    train, held = hold_out(federation, 0.5, seed=1)
    assert train.sizes.tolist() == [2, 1, 5]
    assert held.names == ("c0", "c2")  # a client with one record trains on it
    values = np.concatenate([train.records["x"], held.records["x"]]).ravel()
    assert sorted(values.tolist()) == list(range(15))
    for index, name in enumerate(held.names):
        mine = federation.client(federation.names.index(name))["x"]
        assert np.isin(held.client(index)["x"], mine).all()
    whole = with_held_out(train, held)
    assert whole.test_from == "clients"
    assert whole.test is not None
    assert len(whole.test["y"]) == 7
    assert whole.with_test(held.records).test_from == "public"


def test_leave_out_whole_clients() -> None:
    train, held = leave_out(clinics(), ["c1"])
    assert (train.names, held.names) == (("c0", "c2"), ("c1",))
    train, held = leave_out_share(clinics(), 0.4, seed=0)
    assert (train.clients, held.clients) == (2, 1)
    again = leave_out_share(clinics(), 0.4, seed=0)[1]
    assert again.names == held.names


def test_impossible_shares() -> None:
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(DataError, match="share"):
            hold_out(clinics(), share)
        with pytest.raises(DataError, match="share"):
            leave_out_share(clinics(), share)
    with pytest.raises(DataError, match="no client has enough"):
        hold_out(clinics((1, 1)), 0.5)
    with pytest.raises(DataError, match="no client 'z'"):
        leave_out(clinics(), ["z"])
    with pytest.raises(DataError, match="keep at least one for training"):
        leave_out(clinics(), ["c0", "c1", "c2"])
