"""Shakespeare's roles as clients: next-character prediction.

The alphabet is a public constant. A role's speeches are joined and cut into windows; ``y`` is
``x`` moved one character on.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tacit.data.dataset import Dataset
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import SourceFile, Store
from tacit.errors import DataError

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SHAKESPEARE_FILE = SourceFile(
    "shakespeare/tinyshakespeare.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
)


def shakespeare(store: Store, *, length: int = 80, min_speeches: int = 1) -> Dataset:
    """Windows of ``length`` characters by role; the last tenth of a long role's windows is test.

    A role shorter than one window is padded with line ends. ``min_speeches=10`` keeps the 145
    roles that speak often.
    """
    if length < 1:
        raise DataError(f"length is {length}: give at least 1.")
    roles = speeches(store.read(SHAKESPEARE_FILE), SHAKESPEARE_FILE.path)
    kept = {role: spoken for role, spoken in roles.items() if len(spoken) >= min_speeches}
    if not kept:
        raise DataError(f"no role has {min_speeches} speeches: ask for fewer.")
    parts: dict[str, list[NDArray[np.int32]]] = {"train": [], "test": []}
    owners: dict[str, list[str]] = {"train": [], "test": []}
    for role, spoken in kept.items():
        windows = _windows("\n".join(spoken) + "\n", length)
        held = len(windows) // 10
        cuts = {"train": windows[: len(windows) - held], "test": windows[len(windows) - held :]}
        for part, cut in cuts.items():
            parts[part].append(cut)
            owners[part] += [role] * len(cut)
    joined = {part: np.concatenate(cuts) for part, cuts in parts.items()}
    test = joined["test"]
    return Dataset(
        name="shakespeare",
        title="Shakespeare by role",
        records={"x": joined["train"][:, :-1], "y": joined["train"][:, 1:]},
        test={"x": test[:, :-1], "y": test[:, 1:]} if len(test) else None,
        classes=len(ALPHABET),
        groups={"role": np.array(owners["train"])},
        test_groups={"role": np.array(owners["test"])} if len(test) else {},
        natural="role",
    )


def speeches(content: bytes, name: str) -> dict[str, list[str]]:
    """The speeches of each role: blocks between blank lines that start with ``NAME:``."""
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not plain ASCII text.") from None
    roles: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        match = re.match(r"([^\n:]+):\n(.*)", block, re.DOTALL)
        if match:
            roles.setdefault(match.group(1), []).append(match.group(2).strip("\n"))
    if not roles:
        raise DataError(f"{name} has no speeches: blocks that start with a line `NAME:`.")
    return roles


def encode(text: str) -> NDArray[np.int32]:
    """Characters as their places in the alphabet; an unknown one is refused."""
    table = {character: code for code, character in enumerate(ALPHABET)}
    try:
        return np.array([table[character] for character in text], dtype=np.int32)
    except KeyError as error:
        raise DataError(f"the character {error.args[0]!r} is not in the alphabet.") from None


def _windows(text: str, length: int) -> NDArray[np.int32]:
    codes = encode(text)
    count = max(1, (len(codes) - 1) // length)
    short = count * length + 1 - len(codes)
    if short > 0:
        codes = np.concatenate([codes, np.zeros(short, dtype=np.int32)])
    starts = np.arange(count)[:, None] * length
    windows: NDArray[np.int32] = codes[starts + np.arange(length + 1)]
    return windows


ENTRIES = (
    Entry(
        name="shakespeare",
        title="Shakespeare by role",
        kind="files",
        source="tiny Shakespeare (char-rnn)",
        licence="public domain",
        citation="Karpathy (2015); roles as in McMahan et al. (2017)",
        shape=(80,),
        records=11_564,
        test_records=1_170,
        classes=len(ALPHABET),
        natural="role",
        natural_clients=299,
        files=(SHAKESPEARE_FILE,),
        read=shakespeare,
        note="x and y are 80 character codes; y is x moved one character on",
    ),
)
