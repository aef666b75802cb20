"""Binary classification sets in LIBSVM text: ijcnn1, Adult (a1a to a9a), mushrooms, phishing, w8a.

Labels become 0 and 1. ``unit_rows`` scales each record to norm one: it looks at one record at a
time, costs no privacy, and bounds a logistic gradient by 1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tacit.data.dataset import Dataset, fixed_split
from tacit.data.datasets import formats
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import SourceFile, Store
from tacit.data.federation import Records

_BASE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
# name: content checksum; the rebuilt and derived files (phishing, a6a.t) have none of their own
_SUMS = {
    "a1a": "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e",
    "a8a": "d08a37b3fadd4bd3c8b3fc30bdc93b54d7c0f371265c90cbfb931a7efe97cd28",
    "a9a": "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
    "a9a.t": "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
    "ijcnn1": "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f",
    "ijcnn1.t": "e7b0bbd518641980dc322746c6bc59d019d3153934e6258e48f9d8cfae2c4bb8",
    "mushrooms": "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
    "w8a": "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2",
}


def _file(name: str) -> SourceFile:
    packed = ".bz2" if name.startswith("ijcnn1") else ""
    return SourceFile(f"libsvm/{name}", _SUMS.get(name, ""), f"{_BASE}/{name}{packed}")


def _read(
    store: Store,
    *,
    name: str,
    title: str,
    features: int,
    positive: int,
    test_name: str,
    unit_rows: bool = False,
    test_share: float = 0.2,
) -> Dataset:
    """One LIBSVM set; ``test_share`` counts only where there is no test file."""
    parts: list[Records] = []
    for file in [name, test_name] if test_name else [name]:
        source = _file(file)
        x, labels = formats.libsvm(store.read(source), source.path, features)
        if unit_rows:
            norms = np.linalg.norm(x, axis=1, keepdims=True)
            x = (x / np.where(norms > 0, norms, 1)).astype(np.float32)
        parts.append({"x": x, "y": (labels == positive).astype(np.int32)})
    train, test = parts[0], parts[1] if test_name else None
    if test is None:
        train, test, _, _ = fixed_split(train, test_share)
    return Dataset(name=name, title=title, records=train, test=test, classes=2)


def _entry(
    name: str,
    title: str,
    shape: int,
    records: int,
    test: int | str,
    test_records: int,
    licence: str,
    citation: str,
    *,
    positive: int = 1,
    note: str = "",
) -> Entry:
    test_name = test if isinstance(test, str) else ""
    read = partial(
        _read, name=name, title=title, features=shape, positive=positive, test_name=test_name
    )
    return Entry(
        name=name,
        title=title,
        kind="files",
        source="LIBSVM binary classification collection",
        licence=licence,
        citation=citation,
        shape=(shape,),
        records=records,
        test_records=test_records,
        classes=2,
        files=(_file(name), _file(test_name)) if test_name else (_file(name),),
        read=read,
        note=note,
    )


_ADULT = "Becker and Kohavi (1996), Adult; coding by Platt (1998)"
_ADULT_SIZES = {
    "a1a": (1_605, 30_956),
    "a2a": (2_265, 30_296),
    "a3a": (3_185, 29_376),
    "a4a": (4_781, 27_780),
    "a5a": (6_414, 26_147),
    "a6a": (11_220, 21_341),
    "a7a": (16_100, 16_461),
    "a8a": (22_696, 9_865),
    "a9a": (32_561, 16_281),
}


def _adult(name: str) -> Entry:
    records, test_records = _ADULT_SIZES[name]
    note = ""
    test_name = f"{name}.t"
    if name == "a7a":
        # a7a.t is seldom kept; the people of a9a.t are in none of the training files
        test_name, test_records = "a9a.t", _ADULT_SIZES["a9a"][1]
        note = "tested on a9a.t, whose people are in no training file"
    title = f"Adult, {name}"
    return _entry(
        name, title, 123, records, test_name, test_records, "CC BY 4.0", _ADULT, note=note
    )


ENTRIES = (
    _entry(
        "ijcnn1",
        "ijcnn1",
        22,
        49_990,
        "ijcnn1.t",
        91_701,
        "none stated",
        "Prokhorov (2001), IJCNN challenge",
        note="rows are windows over one time series: neighbouring rows are strongly dependent",
    ),
    *(_adult(name) for name in _ADULT_SIZES),
    _entry(
        "mushrooms",
        "Mushrooms (1: poisonous)",
        112,
        6_499,
        0,
        1_625,
        "CC BY 4.0",
        "UCI Mushroom (1987)",
    ),
    _entry(
        "phishing",
        "Phishing websites, rows of norm one",
        68,
        8_844,
        0,
        2_211,
        "CC BY 4.0",
        "Mohammad, Thabtah and McCluskey (2012)",
    ),
    _entry("w8a", "Web pages, w8a", 300, 39_799, 0, 9_950, "none stated", "Platt (1998)"),
)
