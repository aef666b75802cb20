"""Image datasets: MNIST (also by writer), Fashion-MNIST, CIFAR-10 and its public features.

Pixels 0 to 255 are divided by 255, a public constant. ``flat`` gives one vector per image,
otherwise images keep their height, width and channels.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from tacit.data.dataset import Dataset
from tacit.data.datasets import formats
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import SourceFile, Store, read_bytes
from tacit.data.federation import Records
from tacit.errors import DataError

_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_files(folder: str, base: str, sums: tuple[str, ...]) -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(f"{folder}/{name}", digest, f"{base}/{name}.gz")
        for name, digest in zip(_IDX, sums, strict=True)
    )


MNIST_FILES = _idx_files(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
FASHION_FILES = _idx_files(
    "fashion-mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
_QMNIST_BASE = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"
WRITER_FILES = tuple(
    SourceFile(f"mnist/{name}", digest, f"{_QMNIST_BASE}/{name}.gz")
    for name, digest in (
        (
            "qmnist-train-labels-idx2-int",
            "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
        ),
        (
            "qmnist-test-labels-idx2-int",
            "92d0ccb8c25f9c6534270fb4be7e1d24a1c6d315edfc8a638bfbd31c70f362dd",
        ),
    )
)
CIFAR_FILES = tuple(
    SourceFile(
        f"cifar10/{name}.bin",
        digest,
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        f"cifar-10-batches-bin/{name}.bin",
        (f"cifar10/{name}.webp", "cifar10/labels.npz"),
    )
    for name, digest in (
        ("data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        ("data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        ("data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        ("data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        ("data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        ("test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    )
)
FEATURES_FILE = SourceFile(
    "cifar10-features/cifar10_efflite0_1280_u8.npz",
    "a26d1e2f466defa9bb85e9ff90923e904a173ba39a070cc8b074421f8ea56317",
)


def mnist(store: Store, *, flat: bool = True) -> Dataset:
    """MNIST: 60,000 training and 10,000 test digits."""
    train, test = _idx_records(store, MNIST_FILES, flat)
    return Dataset(name="mnist", title="MNIST", records=train, test=test, classes=10)


def mnist_writers(store: Store, *, flat: bool = True) -> Dataset:
    """MNIST with the writer of each digit (QMNIST): 539 writers train, 297 others test."""
    train, test = _idx_records(store, MNIST_FILES, flat)
    tables = [formats.idx(store.read(f), f.path) for f in WRITER_FILES]
    groups = []
    for table, part in zip(tables, (train, test), strict=True):
        rows = table[: len(part["y"])]
        if rows.ndim != 2 or rows.shape[1] < 3 or not np.array_equal(rows[:, 0], part["y"]):
            raise DataError("the QMNIST writer table does not describe these MNIST digits.")
        series = np.where(rows[:, 1] == 0, "employees", "students")
        writer = np.char.add("writer-", np.char.zfill(rows[:, 2].astype(str), 4))
        groups.append({"writer": writer, "series": series})
    return Dataset(
        name="mnist-writers",
        title="MNIST by writer",
        records=train,
        test=test,
        classes=10,
        groups=groups[0],
        test_groups=groups[1],
        natural="writer",
    )


def fashion_mnist(store: Store, *, flat: bool = True) -> Dataset:
    """Fashion-MNIST: 60,000 training and 10,000 test pictures of clothes."""
    train, test = _idx_records(store, FASHION_FILES, flat)
    return Dataset(
        name="fashion-mnist", title="Fashion-MNIST", records=train, test=test, classes=10
    )


def cifar10(store: Store, *, flat: bool = True) -> Dataset:
    """CIFAR-10: official binary batches, or lossless WebP mosaics with ``labels.npz``."""
    batches = [_cifar_batch(store, file) for file in CIFAR_FILES]
    images = np.concatenate([x for x, _ in batches[:-1]])
    labels = np.concatenate([y for _, y in batches[:-1]])
    train = _pixels(images, labels, flat)
    return Dataset(
        name="cifar10",
        title="CIFAR-10",
        records=train,
        test=_pixels(*batches[-1], flat),
        classes=10,
    )


def cifar10_features(store: Store) -> Dataset:
    """CIFAR-10 as 1280 features of a public ImageNet network, each in [0, 6] and divided by 6."""
    content = store.read(FEATURES_FILE)
    try:
        arrays = np.load(io.BytesIO(content), allow_pickle=False)
        parts = [
            {
                "x": np.divide(arrays[f"x_{part}"], np.float32(255), dtype=np.float32),
                "y": arrays[f"y_{part}"].astype(np.int32),
            }
            for part in ("train", "test")
        ]
    except (KeyError, ValueError, OSError) as error:
        raise DataError(f"{FEATURES_FILE.path} is not the features file ({error}).") from None
    return Dataset(
        name="cifar10-features",
        title="CIFAR-10 features (EfficientNet-Lite0)",
        records=parts[0],
        test=parts[1],
        classes=10,
    )


def _idx_records(
    store: Store, files: tuple[SourceFile, ...], flat: bool
) -> tuple[Records, Records]:
    arrays = [formats.idx(store.read(file), file.path) for file in files]
    for k in (0, 2):
        images, labels = arrays[k], arrays[k + 1]
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(f"{files[k].path} and its labels do not belong together.")
    return _pixels(arrays[0], arrays[1], flat), _pixels(arrays[2], arrays[3], flat)


def _pixels(images: NDArray[np.generic], labels: NDArray[np.generic], flat: bool) -> Records:
    if images.ndim == 3:
        images = images[..., None]
    shaped = images.reshape(len(images), -1) if flat else images
    x = np.divide(shaped, np.float32(255), dtype=np.float32)
    return {"x": x, "y": labels.astype(np.int32)}


def _cifar_batch(store: Store, file: SourceFile) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    found = store.find(file.path)
    if found is not None:
        content = read_bytes(found)
    else:
        mosaic, labels = (store.find(path) for path in file.instead)
        if mosaic is None or labels is None:
            raise DataError(store.missing(file))
        found, content = mosaic, _records_of_mosaic(mosaic.read_bytes(), labels.read_bytes(), file)
    store.check(file, content, found)
    return formats.cifar_records(content, file.path)


def _records_of_mosaic(mosaic: bytes, labels: bytes, file: SourceFile) -> bytes:
    """The official binary records from a mosaic of 100 x 100 tiles and the table of labels."""
    from PIL import Image, UnidentifiedImageError

    batch = file.path.removeprefix("cifar10/").removesuffix(".bin")
    try:
        picture = np.asarray(Image.open(io.BytesIO(mosaic)).convert("RGB"))
        tiles = picture.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(10_000, -1)
        table = np.load(io.BytesIO(labels), allow_pickle=False)
        number = 0 if batch == "test_batch" else int(batch[-1]) - 1
        column = table["test" if batch == "test_batch" else "train"]
        values = column.reshape(-1, 10_000)[number].astype(np.uint8)
    except (UnidentifiedImageError, OSError, KeyError, ValueError, IndexError) as error:
        raise DataError(f"{file.instead[0]} is not a CIFAR-10 mosaic ({error}).") from None
    return np.concatenate([values[:, None], tiles], axis=1).tobytes()


_NIST = "LeCun, Cortes and Burges; from NIST Special Database 19"
ENTRIES = (
    Entry(
        name="mnist",
        title="MNIST",
        kind="files",
        source=_NIST,
        licence="CC BY-SA 3.0 as usually stated",
        citation="LeCun, Bottou, Bengio and Haffner (1998)",
        shape=(784,),
        records=60_000,
        test_records=10_000,
        classes=10,
        files=MNIST_FILES,
        read=mnist,
    ),
    Entry(
        name="mnist-writers",
        title="MNIST by writer",
        kind="files",
        source=f"{_NIST}; writers from QMNIST",
        licence="CC BY-SA 3.0 as usually stated; QMNIST: BSD-style",
        citation="Yadav and Bottou (2019), Cold case: the lost MNIST digits",
        shape=(784,),
        records=60_000,
        test_records=10_000,
        classes=10,
        natural="writer",
        natural_clients=539,
        files=MNIST_FILES + WRITER_FILES,
        read=mnist_writers,
        note="the 297 writers of the test digits wrote none of the training digits",
    ),
    Entry(
        name="fashion-mnist",
        title="Fashion-MNIST",
        kind="files",
        source="Zalando Research",
        licence="MIT",
        citation="Xiao, Rasul and Vollgraf (2017)",
        shape=(784,),
        records=60_000,
        test_records=10_000,
        classes=10,
        files=FASHION_FILES,
        read=fashion_mnist,
    ),
    Entry(
        name="cifar10",
        title="CIFAR-10",
        kind="files",
        source="University of Toronto",
        licence="none stated by the authors",
        citation="Krizhevsky (2009), Learning multiple layers of features from tiny images",
        shape=(3072,),
        records=50_000,
        test_records=10_000,
        classes=10,
        files=CIFAR_FILES,
        read=cifar10,
    ),
    Entry(
        name="cifar10-features",
        title="CIFAR-10 features (EfficientNet-Lite0)",
        kind="files",
        source="CIFAR-10 through a network trained on ImageNet, made independently of the records",
        licence="network Apache-2.0; CIFAR-10: none stated",
        citation="Krizhevsky (2009); Tan and Le (2019)",
        shape=(1280,),
        records=50_000,
        test_records=10_000,
        classes=10,
        files=(FEATURES_FILE,),
        read=cifar10_features,
    ),
)
