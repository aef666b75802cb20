from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.data import (
    CATALOGUE,
    SPLITS,
    Dataset,
    Federation,
    Problem,
    describe,
    federate,
    generate,
    load,
)
from tacit.errors import ConfigError, DataError

EMBEDDED = [e.name for e in CATALOGUE.values() if e.kind == "embedded" and not e.package]
GENERATED = [e.name for e in CATALOGUE.values() if e.kind == "generated"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_are_as_described(name: str) -> None:
    entry, dataset = describe(name), load(name)
    assert dataset.test is not None
    assert (len(dataset), len(dataset.test["y"])) == (entry.records, entry.test_records)
    assert dataset.records["x"].shape[1:] == entry.shape
    assert dataset.classes == entry.classes
    assert np.abs(dataset.records["x"]).max() <= 1
    whole = load(name, test_share=0.0)
    assert whole.test is None
    assert len(whole) == entry.records + entry.test_records
    np.testing.assert_array_equal(load(name).records["x"], dataset.records["x"])


@pytest.mark.parametrize("name", GENERATED)
def test_generated_problems_are_as_described(name: str) -> None:
    entry, federation = describe(name), federate(name)
    assert federation.clients == entry.natural_clients
    assert int(federation.sizes.sum()) == entry.records
    first = "a" if name == "client-quadratics" else "x"
    assert federation.records[first].shape[1:] == entry.shape
    assert federate(name, clients=4).clients == 4
    made = generate(name)
    assert isinstance(made, Federation | Problem)


def test_generated_problems_have_their_own_ways() -> None:
    assert federate("quadratic", seed=1, records=10).sizes.tolist() == [10, 10]
    with pytest.raises(ConfigError, match="clients of its own"):
        federate("quadratic", split="iid")
    with pytest.raises(ConfigError, match="use federate"):
        load("quadratic")
    with pytest.raises(ConfigError, match="use load"):
        generate("digits")
    with pytest.raises(ConfigError, match="did you mean 'records'"):
        generate("quadratic", record=3)


def labelled(**fields: object) -> Dataset:
    base = {
        "name": "toy",
        "title": "Toy",
        "records": {"x": np.ones((40, 2)), "y": np.arange(40) % 4},
        "classes": 4,
        "groups": {"job": np.array(["cook", "nurse"] * 20), "age": np.arange(40)},
    }
    return Dataset(**{**base, **fields})  # type: ignore[arg-type]


OPTIONS = {
    "iid": {"clients": 5},
    "dirichlet": {"clients": 5, "alpha": 0.5},
    "shards": {"clients": 5, "labels_per_client": 2},
    "mixed": {"clients": 5, "iid_share": 0.5},
    "by-column": {"column": "job"},
    "natural": {"column": "job"},
}


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_by_name(split: str) -> None:
    federation = federate(labelled(), split=split, **OPTIONS[split])  # type: ignore[arg-type]
    assert int(federation.sizes.sum()) == 40
    assert split in federation.title


def test_natural_clients_keep_their_names() -> None:
    assert federate(labelled(natural="job")).names == ("cook", "nurse")
    assert (
        federate(labelled(natural="job"), split="by-column", column="age", clients=4).clients == 4
    )
    assert federate(labelled(), clients=3).clients == 3  # iid where nobody owns the records


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"split": "dirichlt"}, "did you mean 'dirichlet'"),
        ({"split": "dirichlet", "clients": 5}, "needs alpha"),
        ({"split": "iid"}, "needs the number of clients"),
        ({"split": "iid", "clients": 5, "alpha": 1.0}, "no option 'alpha'"),
        ({"split": "dirichlet", "clients": 5, "alfa": 1.0}, "did you mean 'alpha'"),
        ({"split": "by-column"}, "one of job, age"),
        ({"split": "by-column", "column": "jobs"}, "no grouping 'jobs'"),
        ({"split": "natural", "column": "job", "clients": 3}, "its own clients"),
        ({"clients": 3, "held_out": 0.2, "held_out_clients": 0.2}, "not both"),
    ],
)
def test_settings_that_are_refused(settings: dict, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        federate(labelled(), **settings)


def test_label_splits_need_labels() -> None:
    numbers = labelled(records={"x": np.ones((40, 2)), "y": np.ones(40)}, classes=0)
    with pytest.raises(ConfigError, match="no class labels"):
        federate(numbers, split="dirichlet", clients=5, alpha=1.0)
    nobody = labelled(groups={})
    with pytest.raises(ConfigError, match="whose its records are"):
        federate(nobody, split="natural")


def test_held_out_records_become_the_test_set() -> None:
    federation = federate(labelled(), clients=4, held_out=0.2)
    assert (int(federation.sizes.sum()), federation.test_from) == (32, "clients")
    federation = federate(labelled(natural="age"), held_out_clients=0.25)
    assert (federation.clients, federation.test_from) == (30, "clients")


def test_datasets_check_their_groups() -> None:
    with pytest.raises(DataError, match="3 values for 40 records"):
        labelled(groups={"job": np.arange(3)})
    with pytest.raises(DataError, match="no group column 'clinic'"):
        labelled(natural="clinic")
    few = labelled().take(np.arange(5))
    assert (len(few), len(few.groups["job"])) == (5, 5)
    with pytest.raises(DataError, match="test_share"):
        load("digits", test_share=1.0)


def test_the_catalogue_is_complete() -> None:
    for entry in CATALOGUE.values():
        assert entry.title
        assert entry.source
        assert entry.licence
        assert entry.citation
        assert entry.shape
        assert (entry.kind == "files") == bool(entry.files or entry.folder)
        for file in entry.files:
            assert len(file.sha256) in (0, 64)


def test_the_reference_page_lists_the_catalogue() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "datasets.md"
    text = page.read_text(encoding="utf-8")
    for entry in CATALOGUE.values():
        line = next((x for x in text.split("\n") if x.startswith(f"| `{entry.name}` |")), "")
        assert entry.title in line
        if entry.records:
            assert f"| {entry.records:,} |" in line
    for split in SPLITS:
        assert f"| `{split}` |" in text


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, tacit.data, tacit.cli.data; "
        "print([m for m in ('jax', 'matplotlib', 'PIL', 'scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
