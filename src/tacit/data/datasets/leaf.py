"""LEAF's federated sets in their own JSON form: FEMNIST by writer and Reddit by author.

Each file under ``train/`` and ``test/`` is ``{"users": [...], "num_samples": [...], "user_data":
{user: {"x": [...], "y": [...]}}}``. Users may spread over several files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.dataset import Dataset
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import Store, bare_name, read_bytes
from tacit.errors import DataError

PAD, UNKNOWN = "<PAD>", "<UNK>"


def femnist(store: Store, *, flat: bool = True) -> Dataset:
    """FEMNIST: 28 x 28 characters of 62 classes by writer, pixels already in [0, 1]."""
    folder = store.folder("femnist")
    parts = {}
    for part in ("train", "test"):
        images: list[NDArray[np.float32]] = []
        labels: list[NDArray[np.int32]] = []
        owners: list[str] = []
        for user, data, name in _users(folder, part):
            x, y = _numbers(data, user, name)
            images.append(x)
            labels.append(y)
            owners += [user] * len(y)
        x = np.concatenate(images)
        shape = (len(x), 784) if flat else (len(x), 28, 28, 1)
        parts[part] = ({"x": x.reshape(shape), "y": np.concatenate(labels)}, np.array(owners))
    return Dataset(
        name="femnist",
        title="FEMNIST by writer",
        records=parts["train"][0],
        test=parts["test"][0],
        classes=62,
        groups={"writer": parts["train"][1]},
        test_groups={"writer": parts["test"][1]},
        natural="writer",
    )


def reddit(store: Store) -> Dataset:
    """Reddit comments by author: ``x`` and ``y`` are token codes, ``y`` moved one token on.

    The vocabulary must be public: ``vocab.txt`` (a token a line) or ``vocab.json`` (a list, or
    tokens with their codes) beside the data. It is not built from the comments, which are private.
    """
    folder = store.folder("reddit")
    codes = _vocabulary(folder)
    parts = {}
    for part in ("train", "test"):
        pairs: dict[str, list[list[int]]] = {"x": [], "y": []}
        owners: list[str] = []
        for user, data, name in _users(folder, part):
            for x, y in _sequences(data, user, name):
                pairs["x"].append([codes.get(token, codes[UNKNOWN]) for token in x])
                pairs["y"].append([codes.get(token, codes[UNKNOWN]) for token in y])
                owners.append(user)
        lengths = {len(s) for sequences in pairs.values() for s in sequences}
        if len(lengths) != 1:
            raise DataError(f"the Reddit sequences of {part} differ in length: {sorted(lengths)}.")
        parts[part] = (
            {key: np.array(value, dtype=np.int32) for key, value in pairs.items()},
            np.array(owners),
        )
    return Dataset(
        name="reddit",
        title="Reddit by author",
        records=parts["train"][0],
        test=parts["test"][0],
        classes=len(codes),
        groups={"author": parts["train"][1]},
        test_groups={"author": parts["test"][1]},
        natural="author",
    )


def _users(folder: Path, part: str) -> Iterator[tuple[str, Any, str]]:
    """Each user's data, with the file it came from."""
    base = next((d for d in (folder / part, folder / "data" / part) if d.is_dir()), None)
    files = sorted(p for p in base.iterdir() if bare_name(p).endswith(".json")) if base else []
    if not files:
        raise DataError(
            f"{folder / part} has no JSON files: run LEAF's preprocessing for {folder.name} and "
            f"copy its data/{part} folder there."
        )
    for file in files:
        try:
            content = json.loads(read_bytes(file))
            users, data = content["users"], content["user_data"]
            items = [(str(user), data[user], str(file)) for user in users]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file} is not a LEAF file ({error}).") from None
        yield from items


def _numbers(data: Any, user: str, name: str) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    try:
        x = np.asarray(data["x"], dtype=np.float32).reshape(len(data["y"]), 784)
        y = np.asarray(data["y"], dtype=np.int32)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"user {user!r} of {name} has no images of 28 x 28 ({error}).") from None
    return np.clip(x, 0, 1), y


def _sequences(data: Any, user: str, name: str) -> Iterator[tuple[list[str], list[str]]]:
    """Pairs of token sequences; a comment is one sequence or a list of them."""
    try:
        for comment, goal in zip(data["x"], data["y"], strict=True):
            targets = goal["target_tokens"]
            nested = bool(comment) and isinstance(comment[0], list)
            yield from zip(
                comment if nested else [comment], targets if nested else [targets], strict=True
            )
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"user {user!r} of {name} has no token sequences ({error}).") from None


def _vocabulary(folder: Path) -> dict[str, int]:
    words, table = folder / "vocab.txt", folder / "vocab.json"
    if words.is_file():
        tokens: Any = words.read_text(encoding="utf-8").split("\n")
        tokens = [token for token in tokens if token]
    elif table.is_file():
        try:
            tokens = json.loads(table.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{table} is not JSON ({error}).") from None
        if isinstance(tokens, dict):
            tokens = sorted(tokens, key=tokens.__getitem__)
    else:
        raise DataError(
            f"{folder} has no vocab.txt or vocab.json: put a public list of tokens there; it is "
            "not built from the comments, which are private."
        )
    head = [token for token in (PAD, UNKNOWN) if token not in tokens]
    return {str(token): code for code, token in enumerate([*head, *tokens])}


ENTRIES = (
    Entry(
        name="femnist",
        title="FEMNIST by writer",
        kind="files",
        source="LEAF (leaf.cmu.edu), JSON of its preprocessing",
        licence="BSD 2-Clause (LEAF); NIST SD19 is public domain",
        citation="Caldas et al. (2018), LEAF",
        shape=(784,),
        records=0,
        classes=62,
        natural="writer",
        folder="femnist",
        read=femnist,
        note="sizes depend on the preprocessing; the full set has about 3,500 writers",
    ),
    Entry(
        name="reddit",
        title="Reddit by author",
        kind="files",
        source="LEAF (leaf.cmu.edu), JSON of its preprocessing",
        licence="BSD 2-Clause (LEAF); comments belong to their authors",
        citation="Caldas et al. (2018), LEAF",
        shape=(10,),
        natural="author",
        folder="reddit",
        read=reddit,
        note="needs a public vocab.txt or vocab.json beside train/ and test/",
    ),
)
