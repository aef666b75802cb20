"""Clinical and customer tables: Heart Disease by hospital, TCGA-BRCA by region, Bank Marketing.

The ranges below are fixed constants. Category lists are those that the datasets publish; numeric
ranges are round choices from what an attribute measures (an age, a blood pressure in mm Hg, a
balance in euros). None is computed from the records, and values outside are clipped.
"""

from __future__ import annotations

import numpy as np

from tacit.data.dataset import Dataset, fixed_split
from tacit.data.datasets import formats
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import SourceFile, Store
from tacit.data.federation import Records
from tacit.data.own_files.columns import Categorical, Classes, Numeric, Target
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.data.own_files.tables import Table
from tacit.errors import DataError

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_FLAMBY = "https://raw.githubusercontent.com/owkin/FLamby/main/flamby/datasets/fed_tcga_brca"
HEART_FILES = tuple(
    SourceFile(
        f"heart-disease/processed.{hospital}.data",
        digest,
        f"{_UCI}/heart-disease/processed.{hospital}.data",
    )
    for hospital, digest in (
        ("cleveland", "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
        ("hungarian", "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
        ("switzerland", "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
        ("va", "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
    )
)
BRCA_FILES = (
    SourceFile(
        "tcga-brca/brca.csv",
        "07cb53423f7d579d33cfdbf2cba57b2aee75318b85866c68ce39a75b1f1ba020",
        f"{_FLAMBY}/brca.csv",
    ),
    SourceFile(
        "tcga-brca/train_test_split.csv",
        "1249c6543a4060ff0fdaf8510fc37017755836db6c9fc5e6af96057c36510990",
        f"{_FLAMBY}/dataset_creation_scripts/train_test_split.csv",
    ),
)
BANK_FILE = SourceFile(
    "bank-marketing/bank-full.csv",
    "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    f"{_UCI}/00222/bank.zip",
    "bank-full.csv",
)

_HEART_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak"),
    *("slope", "ca", "thal", "num"),
)
_HEART_DROPPED = ("slope", "ca", "thal")
_YES_NO = Numeric(low=0, high=1, center=0, scale=1)
_HEART = Preprocessing(
    columns={
        "age": Numeric(low=20, high=90),
        "sex": _YES_NO,
        "cp": Categorical(values=("1", "2", "3", "4"), drop_first=True),
        "trestbps": Numeric(low=80, high=200),
        "chol": Numeric(low=0, high=600),
        "fbs": _YES_NO,
        "restecg": Categorical(values=("0", "1", "2"), drop_first=True),
        "thalach": Numeric(low=60, high=220),
        "exang": _YES_NO,
        "oldpeak": Numeric(low=-3, high=7),
    },
    # a diagnosis of 1 to 4 is a disease, 0 is none: the range cuts it at 1
    targets={"y": Target("num", _YES_NO)},
    drop=_HEART_DROPPED,
)
_REGIONS = ("northeast", "south", "west", "midwest", "europe", "canada")

_BANK = Preprocessing(
    columns={
        "age": Numeric(low=18, high=95),
        "job": Categorical(
            values=(
                *("admin.", "unknown", "unemployed", "management", "housemaid", "entrepreneur"),
                *("student", "blue-collar", "self-employed", "retired", "technician", "services"),
            )
        ),
        "marital": Categorical(values=("married", "divorced", "single")),
        "education": Categorical(values=("unknown", "secondary", "primary", "tertiary")),
        "default": Categorical(values=("no", "yes"), drop_first=True),
        "balance": Numeric(low=-2_000, high=20_000),
        "housing": Categorical(values=("no", "yes"), drop_first=True),
        "loan": Categorical(values=("no", "yes"), drop_first=True),
        "contact": Categorical(values=("unknown", "telephone", "cellular")),
        "day": Numeric(low=1, high=31),
        "month": Categorical(
            values=(
                *("jan", "feb", "mar", "apr", "may", "jun"),
                *("jul", "aug", "sep", "oct", "nov", "dec"),
            )
        ),
        "duration": Numeric(low=0, high=1_800),
        "campaign": Numeric(low=1, high=20),
        "pdays": Numeric(low=-1, high=400),
        "previous": Numeric(low=0, high=20),
        "poutcome": Categorical(values=("unknown", "other", "failure", "success")),
    },
    targets={"y": Target("y", Classes(values=("no", "yes")))},
)


def heart_disease(store: Store) -> Dataset:
    """Heart Disease of four hospitals by FLamby's rule: no slope, ca, thal; complete rows only.

    The two thirds that train and the third that tests are FLamby's own, stratified by diagnosis.
    """
    from sklearn.model_selection import train_test_split

    parts: list[list[Records]] = []
    for file in HEART_FILES:
        rows = formats.delimited(store.read(file), file.path, header=False)
        if len(rows.header) != len(_HEART_COLUMNS):
            raise DataError(f"{file.path} has {len(rows.header)} columns where 14 are due.")
        kept = [i for i, c in enumerate(_HEART_COLUMNS) if c not in _HEART_DROPPED]
        complete = [r for r in rows.cells if all(r[i].strip() != "?" for i in kept)]
        if len(complete) < 3:
            raise DataError(f"{file.path} has only {len(complete)} complete patients.")
        cells = np.array(complete)
        table = Table(dict(zip(_HEART_COLUMNS, cells.T, strict=True)), (file.path,))
        records = dict(_HEART.encode(table))
        sick = records["y"].astype(np.int32)
        records["y"] = sick
        stratify = sick if min(sick.sum(), len(sick) - sick.sum()) > 2 else None
        halves = train_test_split(
            np.arange(len(complete)),
            test_size=1.0 - 0.66,
            train_size=0.66,
            random_state=43,
            stratify=stratify,
        )
        parts.append([{k: v[np.sort(half)] for k, v in records.items()} for half in halves])
    names = [file.path.split(".")[1] for file in HEART_FILES]
    train, groups = _stacked([p[0] for p in parts], names)
    test, test_groups = _stacked([p[1] for p in parts], names)
    return Dataset(
        name="heart-disease",
        title="Heart Disease by hospital",
        records=train,
        test=test,
        classes=2,
        groups={"hospital": groups},
        test_groups={"hospital": test_groups},
        natural="hospital",
    )


def tcga_brca(store: Store) -> Dataset:
    """TCGA-BRCA survival by region, FLamby's split; ``y`` is (event, years), event 1 is a death.

    Features are 0/1 codes and the age, 0 to 100 years scaled to [-1, 1].
    """
    rows = formats.delimited(store.read(BRCA_FILES[0]), BRCA_FILES[0].path)
    folds = formats.delimited(store.read(BRCA_FILES[1]), BRCA_FILES[1].path)
    if len(rows.header) != 42 or rows.header[-2:] != ["E", "T"] or len(folds.header) != 3:
        raise DataError(f"{BRCA_FILES[0].path} and its split are not FLamby's TCGA-BRCA tables.")
    fold_of = {row[0]: row[2] for row in folds.cells}
    used = [row for row in rows.cells if row[0] in fold_of]
    try:
        values = np.array([row[1:] for row in used], dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{BRCA_FILES[0].path} holds a cell that is no number ({error}).") from None
    x = values[:, :39].astype(np.float32)
    x[:, 0] = np.clip(x[:, 0] / 50 - 1, -1, 1)
    outcome = np.stack([values[:, 39], values[:, 40] / 365.25], axis=1)
    records = {"x": x, "y": outcome.astype(np.float32)}
    fold = np.array([fold_of[row[0]] for row in used])
    region = np.array([_REGIONS[int(f.rpartition("_")[2])] for f in fold])
    train = np.char.startswith(fold, "train")
    return Dataset(
        name="tcga-brca",
        title="TCGA-BRCA survival by region",
        records={k: v[train] for k, v in records.items()},
        test={k: v[~train] for k, v in records.items()},
        groups={"region": region[train]},
        test_groups={"region": region[~train]},
        natural="region",
    )


def bank_marketing(store: Store, *, duration: bool = False, test_share: float = 0.2) -> Dataset:
    """Bank Marketing: who takes the deposit. ``duration`` keeps a column known only afterwards."""
    rows = formats.delimited(store.read(BANK_FILE), BANK_FILE.path, delimiter=";")
    columns = dict(zip(rows.header, np.array(rows.cells).T, strict=True))
    table = Table(columns, (BANK_FILE.path,))
    meaning = _BANK
    if not duration:
        kept = {k: v for k, v in _BANK.columns.items() if k != "duration"}
        meaning = Preprocessing(columns=kept, targets=_BANK.targets, drop=("duration",))
    groups = {name: table.column(name) for name in ("job", "marital", "education", "month")}
    train, test, groups_of, test_groups = fixed_split(
        meaning.encode(table), test_share, groups=groups
    )
    return Dataset(
        name="bank-marketing",
        title="Bank Marketing",
        records=train,
        test=test,
        classes=2,
        groups=groups_of,
        test_groups=test_groups,
    )


def _stacked(parts: list[Records], names: list[str]) -> tuple[Records, np.ndarray]:
    sizes = [len(part["y"]) for part in parts]
    records = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    return records, np.repeat(np.array(names), sizes)


ENTRIES = (
    Entry(
        name="heart-disease",
        title="Heart Disease by hospital",
        kind="files",
        source="UCI Machine Learning Repository; split as in FLamby's Fed-Heart-Disease",
        licence="CC BY 4.0",
        citation="Janosi, Steinbrunn, Pfisterer and Detrano (1988)",
        shape=(13,),
        records=486,
        test_records=254,
        classes=2,
        natural="hospital",
        natural_clients=4,
        files=HEART_FILES,
        read=heart_disease,
    ),
    Entry(
        name="tcga-brca",
        title="TCGA-BRCA survival by region",
        kind="files",
        source="The Cancer Genome Atlas, clinical data; tables of FLamby",
        licence="GDC open-access policy: no attempt to identify participants",
        citation="Terrail et al. (2022), FLamby",
        shape=(39,),
        records=866,
        test_records=222,
        natural="region",
        natural_clients=6,
        files=BRCA_FILES,
        read=tcga_brca,
    ),
    Entry(
        name="bank-marketing",
        title="Bank Marketing",
        kind="files",
        source="UCI Machine Learning Repository, bank-full.csv",
        licence="CC BY 4.0",
        citation="Moro, Cortez and Rita (2014)",
        shape=(47,),
        records=36_169,
        test_records=9_042,
        classes=2,
        files=(BANK_FILE,),
        read=bank_marketing,
        note="group it by job, marital, education or month with a by-column split",
    ),
)
