"""The real files, where they are: shapes, label counts, clients, checksums (checked on loading)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.data import CATALOGUE, Dataset, Store, describe, federate, load

MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
FACTS: dict[str, tuple[list[int], list[int]]] = {
    "mnist": (MNIST, MNIST_TEST),
    "mnist-writers": (MNIST, MNIST_TEST),
    "fashion-mnist": ([6000] * 10, [1000] * 10),
    "cifar10": ([5000] * 10, [1000] * 10),
    "cifar10-features": ([5000] * 10, [1000] * 10),
    "ijcnn1": ([45_137, 4_853], [82_989, 8_712]),
    "a1a": ([1_210, 395], [23_510, 7_446]),
    "a6a": ([8_528, 2_692], [16_192, 5_149]),
    "a7a": ([12_182, 3_918], [12_435, 3_846]),
    "a8a": ([17_190, 5_506], [7_530, 2_335]),
    "a9a": ([24_720, 7_841], [12_435, 3_846]),
}
TOTALS = {  # sets that we cut ourselves: both parts together
    "mushrooms": [4_208, 3_916],
    "phishing": [4_898, 6_157],
    "w8a": [48_270, 1_479],
    "bank-marketing": [39_922, 5_289],
    "heart-disease": [357, 383],
}
FILES = [e.name for e in CATALOGUE.values() if e.kind == "files"]


def real(name: str, folder: Path) -> Dataset:
    entry = describe(name)
    if not entry.present(Store((folder,))):
        pytest.skip(f"{name} is not in TACIT_DATA")
    return load(name, root=folder)


def counts(dataset: Dataset, *, test: bool) -> np.ndarray:
    part = dataset.test if test else dataset.records
    assert part is not None
    return np.bincount(part["y"].astype(np.int64), minlength=dataset.classes)


@pytest.mark.parametrize("name", FILES)
def test_sizes_shapes_and_labels(name: str, data_folder: Path) -> None:
    dataset, entry = real(name, data_folder), describe(name)
    assert dataset.test is not None
    if entry.records:
        assert (len(dataset), len(dataset.test["x"])) == (entry.records, entry.test_records)
    assert dataset.records["x"].shape[1:] == dataset.test["x"].shape[1:] == entry.shape
    assert dataset.classes == entry.classes
    if entry.natural_clients:
        assert len(np.unique(dataset.groups[entry.natural])) == entry.natural_clients
    if name in FACTS:
        assert counts(dataset, test=False).tolist() == FACTS[name][0]
        assert counts(dataset, test=True).tolist() == FACTS[name][1]
    if name == "cifar10":
        images = dataset.records["x"].reshape(-1, 32, 32, 3)
        mean = images.mean(axis=(0, 1, 2), dtype=np.float64)
        np.testing.assert_allclose(mean, [0.49139968, 0.48215841, 0.44653091], atol=1e-6)
    if name in TOTALS:
        total = counts(dataset, test=False) + counts(dataset, test=True)
        assert total.tolist() == TOTALS[name]


def test_mnist_writers_are_539_clients(data_folder: Path) -> None:
    dataset = real("mnist-writers", data_folder)
    federation = federate(dataset)
    assert federation.clients == 539
    assert (federation.sizes.min(), federation.sizes.max()) == (19, 131)
    assert np.median(federation.sizes) == 116
    assert not set(dataset.groups["writer"]) & set(dataset.test_groups["writer"])
    assert len(np.unique(dataset.test_groups["writer"])) == 297
    assert (dataset.groups["series"] == "employees").sum() == 30_950


def test_heart_disease_hospitals(data_folder: Path) -> None:
    dataset = real("heart-disease", data_folder)
    federation = federate(dataset)
    assert federation.names == ("cleveland", "hungarian", "switzerland", "va")
    assert federation.sizes.tolist() == [199, 172, 30, 85]
    patients, sick = {}, {}
    for hospital in federation.names:
        here = dataset.groups["hospital"] == hospital
        there = dataset.test_groups["hospital"] == hospital
        assert dataset.test is not None
        patients[hospital] = int(here.sum() + there.sum())
        sick[hospital] = int(dataset.records["y"][here].sum() + dataset.test["y"][there].sum())
    assert list(patients.values()) == [303, 261, 46, 130]
    assert list(sick.values()) == [139, 98, 45, 101]


def test_brca_regions(data_folder: Path) -> None:
    dataset = real("tcga-brca", data_folder)
    order = ("northeast", "south", "west", "midwest", "europe", "canada")
    train = [int((dataset.groups["region"] == r).sum()) for r in order]
    test = [int((dataset.test_groups["region"] == r).sum()) for r in order]
    assert train == [248, 156, 164, 129, 129, 40]
    assert test == [63, 40, 42, 33, 33, 11]
    assert set(np.unique(dataset.records["y"][:, 0])) == {0, 1}
    assert dataset.records["y"][:, 1].max() == pytest.approx(8605 / 365.25, rel=0.2)


def test_bank_jobs_and_shakespeare_roles(data_folder: Path) -> None:
    bank = federate(real("bank-marketing", data_folder), split="by-column", column="job")
    assert bank.clients == 12
    assert "management" in bank.names
    everything = load("bank-marketing", root=data_folder, test_share=0.0)
    assert len(everything) == 45_211
    roles = load("shakespeare", root=data_folder, min_speeches=10)
    assert len(np.unique(roles.groups["role"])) == 145
