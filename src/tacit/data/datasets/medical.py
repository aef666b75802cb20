"""Medical images by hospital: IXI (brain masks from MRI volumes) and Messidor (retinopathy).

Intensities are scaled within each volume, a matter of one record; pixels are divided by 255.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.dataset import Dataset, fixed_split, parted
from tacit.data.datasets import formats
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import Store, bare_name, read_bytes
from tacit.errors import DataError

_IXI_NAME = re.compile(r"IXI(\d+)-(Guys|HH|IOP)")
_GRADES = 4


class Volume(NamedTuple):
    """A subject's scan and brain mask."""

    subject: int
    hospital: str
    image: Path
    mask: Path


def ixi(
    store: Store, *, shape: tuple[int, int, int] = (48, 60, 48), test_share: float = 0.2
) -> Dataset:
    """IXI Tiny by hospital: T1 volumes (n, *shape, 1) and 0/1 brain masks ``y`` (n, *shape).

    Looks under ``ixi/`` for ``IXI<number>-<hospital>...`` NIfTI files, masks in folders called
    ``label``. FLamby's ``metadata_tiny.csv`` gives its split if it lies there too; otherwise
    ``test_share`` of the subjects, always the same ones, test.
    """
    folder = store.folder("ixi")
    volumes = _volumes(folder)
    x = np.stack([_scan(v.image, shape) for v in volumes])[..., None]
    y = np.stack([_mask(v.mask, shape) for v in volumes])
    groups = {"hospital": np.array([v.hospital for v in volumes])}
    records = {"x": x, "y": y}
    named = folder / "metadata_tiny.csv"
    if named.is_file():
        rows = formats.delimited(read_bytes(named), str(named))
        split = {row[0]: row[-1] for row in rows.cells}
        chosen = np.array([split.get(str(v.subject)) == "test" for v in volumes])
        cut = parted(records, chosen, groups)
    else:
        cut = fixed_split(records, test_share, groups=groups)
    train, held, own, held_groups = cut
    return Dataset(
        name="ixi",
        title="IXI Tiny by hospital",
        records=train,
        test=held,
        classes=2,
        groups=own,
        test_groups=held_groups,
        natural="hospital",
    )


def messidor(store: Store, *, size: tuple[int, int] = (64, 64), test_share: float = 0.2) -> Dataset:
    """Messidor by ophthalmologic department: fundus images and retinopathy grades 0 to 3.

    Looks in ``messidor/`` for ``Annotation_Base11`` to ``Annotation_Base34`` (``.xls`` as
    published, or saved as ``.csv``) and for the images in ``Base11/`` ... or beside them.
    """
    folder = store.folder("messidor")
    annotations = sorted(
        p for p in folder.rglob("Annotation*Base*") if p.suffix.lower() in (".xls", ".csv")
    )
    if not annotations:
        raise DataError(
            f"{folder} has no Annotation_Base*.xls: put Messidor's annotation files there, with "
            "the images in folders Base11 to Base34."
        )
    pictures = {p.name.lower(): p for p in folder.rglob("*") if p.suffix.lower() in _PICTURES}
    images, grades, owners = [], [], []
    for file in annotations:
        for name, department, grade in _annotations(file):
            if name.lower() not in pictures:
                raise DataError(f"{file} lists the image {name!r}, which is not under {folder}.")
            images.append(_picture(pictures[name.lower()], size))
            grades.append(grade)
            owners.append(department)
    train, test, groups, test_groups = fixed_split(
        {"x": np.stack(images), "y": np.array(grades, dtype=np.int32)},
        test_share,
        groups={"hospital": np.array(owners)},
    )
    return Dataset(
        name="messidor",
        title="Messidor by department",
        records=train,
        test=test,
        classes=_GRADES,
        groups=groups,
        test_groups=test_groups,
        natural="hospital",
    )


def _volumes(folder: Path) -> list[Volume]:
    found: dict[tuple[int, str], dict[str, Path]] = {}
    for path in sorted(folder.rglob("*")):
        match = _IXI_NAME.search(path.name)
        if match and bare_name(path).endswith(".nii"):
            kind = "mask" if "label" in path.parent.name or "label" in path.name else "image"
            found.setdefault((int(match[1]), match[2]), {})[kind] = path
    for (subject, hospital), files in found.items():
        for kind, where in (("image", "T1"), ("mask", "label")):
            if kind not in files:
                raise DataError(
                    f"subject IXI{subject:03d}-{hospital} has no {kind}: put its NIfTI file in a "
                    f"folder called {where} under {folder}."
                )
    if not found:
        raise DataError(f"{folder} has no IXI<number>-<hospital> NIfTI files (.nii or .nii.gz).")
    return [Volume(s, h, f["image"], f["mask"]) for (s, h), f in sorted(found.items())]


def _scan(path: Path, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    volume = _resized(formats.nifti(read_bytes(path), str(path)), shape, path, order=1)
    spread = float(volume.std())
    scaled: NDArray[np.float32] = (volume - volume.mean()) / (spread if spread > 0 else 1.0)
    return scaled.astype(np.float32)


def _mask(path: Path, shape: tuple[int, int, int]) -> NDArray[np.int32]:
    volume = formats.nifti(read_bytes(path), str(path))
    return (_resized(volume, shape, path, order=0) > 0).astype(np.int32)


def _resized(
    volume: NDArray[np.float32], shape: tuple[int, int, int], path: Path, *, order: int
) -> NDArray[np.float32]:
    from scipy.ndimage import zoom

    if volume.ndim == 4 and volume.shape[-1] == 1:
        volume = volume[..., 0]
    if volume.ndim != 3:
        raise DataError(f"{path} has {volume.ndim} axes where a volume has three.")
    if volume.shape == shape:
        return volume
    factors = [new / old for new, old in zip(shape, volume.shape, strict=True)]
    resized: NDArray[np.float32] = zoom(volume, factors, order=order, mode="nearest")
    return resized


_PICTURES = (".tif", ".tiff", ".png", ".jpg", ".jpeg")


def _picture(path: Path, size: tuple[int, int]) -> NDArray[np.float32]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize(size[::-1]), dtype=np.float32)
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"{path} is not a readable image ({error}).") from None
    return pixels / np.float32(255)


def _annotations(path: Path) -> list[tuple[str, str, int]]:
    rows = _excel(path) if path.suffix.lower() == ".xls" else _csv(path)
    header = [cell.strip().lower() for cell in rows[0]]
    columns = []
    for wanted in ("image name", "ophthalmologic department", "retinopathy grade"):
        if wanted not in header:
            raise DataError(f"{path} has no column {wanted!r}: it has {header}.")
        columns.append(header.index(wanted))
    listed = []
    for number, row in enumerate(rows[1:], 2):
        name, department, grade = (row[c].strip() for c in columns)
        try:
            value = int(float(grade))
        except ValueError:
            value = -1
        if not 0 <= value < _GRADES:
            raise DataError(f"row {number} of {path} has the grade {grade!r}, not 0 to 3.")
        listed.append((name, department, value))
    return listed


def _csv(path: Path) -> list[list[str]]:
    rows = formats.delimited(read_bytes(path), str(path))
    return [rows.header, *rows.cells]


def _excel(path: Path) -> list[list[str]]:
    try:
        import xlrd
    except ImportError:
        raise DataError(
            f"reading {path.name} needs xlrd: install it with `pip install 'tacit[excel]'`, or "
            "save the sheet as CSV."
        ) from None
    try:
        sheet = xlrd.open_workbook(str(path)).sheet_by_index(0)
    except (xlrd.XLRDError, OSError) as error:
        raise DataError(f"{path} is not a readable Excel file ({error}).") from None
    return [[str(cell) for cell in sheet.row_values(i)] for i in range(sheet.nrows)]


ENTRIES = (
    Entry(
        name="ixi",
        title="IXI Tiny by hospital",
        kind="files",
        source="IXI (brain-development.org); small version as in FLamby's Fed-IXI",
        licence="CC BY-SA 3.0",
        citation="Terrail et al. (2022), FLamby; Perez-Garcia et al. (2021)",
        shape=(48, 60, 48, 1),
        classes=2,
        natural="hospital",
        natural_clients=3,
        folder="ixi",
        read=ixi,
        note="566 subjects when complete; y is a brain mask of the same shape",
    ),
    Entry(
        name="messidor",
        title="Messidor by department",
        kind="files",
        source="ADCIS, Messidor programme (registration required)",
        licence="research and education only, no redistribution",
        citation="Decenciere et al. (2014)",
        shape=(64, 64, 3),
        classes=_GRADES,
        natural="hospital",
        natural_clients=3,
        folder="messidor",
        read=messidor,
        note="1,200 images when complete",
    ),
)
