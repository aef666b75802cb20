"""The table of algorithms is complete."""

from registry import CASES

from tacit.algorithms.registry import ALGORITHMS, find


def test_every_named_algorithm_has_a_row() -> None:
    rows = {type(case.algorithm()) for case in CASES}
    missing = [name for name in ALGORITHMS if find(name) not in rows]
    assert not missing, "add a row to tests/algorithms/registry.py"


def test_ids_differ() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_variants_differ_in_their_records_only() -> None:
    for case in CASES:
        first, second = case.federation(0), case.federation(1)
        assert first.sizes.tolist() == second.sizes.tolist(), case.id
        for name, column in first.records.items():
            assert column.shape == second.records[name].shape, case.id
            assert column.tobytes() != second.records[name].tobytes(), case.id
