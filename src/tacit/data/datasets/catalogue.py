"""Every dataset that is known by name, and the way from a name to a federation.

``load`` reads a dataset and ``federate`` gives its records to clients; a name will do for either:

    federate("mnist-writers")
    federate("digits", split="dirichlet", clients=100, alpha=0.3, seed=1)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.dataset import Dataset
from tacit.data.datasets import builtin, clinical, images, leaf, libsvm_sets, text
from tacit.data.datasets.entry import Entry
from tacit.data.datasets.files import Store
from tacit.data.datasets.generators import Problem
from tacit.data.federation import Federation
from tacit.data.splits import cuts as splits
from tacit.data.splits.holdout import hold_out, leave_out_share, with_held_out
from tacit.errors import ConfigError, DataError
from tacit.validation import nearest

CATALOGUE: Mapping[str, Entry] = {
    entry.name: entry
    for module in (builtin, images, libsvm_sets, clinical, text, leaf)
    for entry in module.ENTRIES
}
SPLITS: Mapping[str, Callable[..., splits.Parts]] = {
    "iid": splits.iid,
    "dirichlet": splits.dirichlet,
    "shards": splits.shards,
    "mixed": splits.mixed,
    "by-column": splits.by_column,
    "natural": splits.natural,
}


def describe(name: str) -> Entry:
    """The catalogue's line of a dataset; a wrong name is answered with the nearest one."""
    if name not in CATALOGUE:
        raise ConfigError(f"there is no dataset {name!r}{nearest(name, CATALOGUE)}")
    return CATALOGUE[name]


def load(
    name: str, *, root: str | Path | None = None, verify: bool = True, **options: Any
) -> Dataset:
    """Read a dataset by name from its files (``root``, else ``TACIT_DATA``) or from the package."""
    line = describe(name)
    if line.kind == "generated":
        raise ConfigError(f"{name} is generated with clients of its own: use federate({name!r}).")
    loaded = _read(line, Store.default(root, verify=verify), options)
    if not isinstance(loaded, Dataset):
        raise TypeError(f"the reader of {name} gave {type(loaded).__name__}")
    return loaded


def generate(name: str, **options: Any) -> Problem | Federation:
    """A generated problem by name, with its optimum where one is known."""
    line = describe(name)
    if line.kind != "generated":
        raise ConfigError(f"{name} is not generated: use load({name!r}).")
    made = _read(line, None, options)
    if isinstance(made, Problem | Federation):
        return made
    raise TypeError(f"the generator of {name} gave {type(made).__name__}")


def federate(
    dataset: Dataset | str,
    *,
    split: str = "",
    clients: int | None = None,
    seed: int = 0,
    column: str = "",
    held_out: float = 0.0,
    held_out_clients: float = 0.0,
    take: int | None = None,
    root: str | Path | None = None,
    reader: Mapping[str, Any] | None = None,
    **options: Any,
) -> Federation:
    """Give a dataset's records to clients.

    Args:
        dataset: A name of ``tacit data list``, or a dataset. A generated one has clients of its
            own, made with ``clients`` and ``seed``.
        split: Such as ``"iid"``, ``"dirichlet"`` or ``"shards"``; left out, natural where there are
            owners, else iid.
        clients: How many clients there are.
        seed: Draws the split, and whatever else is drawn here.
        column: The column that says whose record it is, for a split by owner.
        held_out: Test on this share of every client's records instead of the public test set.
        held_out_clients: Test on this share of the clients instead.
        take: Keep so many records, drawn with the seed, before they are split.
        root: The folder of downloaded datasets; left out, ``TACIT_DATA``.
        reader: Options of the dataset's reader.
        **options: The split's own: ``alpha``, ``labels_per_client``, ``iid_share``.

    Returns:
        The records of all clients, and the test records.
    """
    named = dataset if isinstance(dataset, str) else None
    if named is not None and describe(named).kind == "generated":
        if take is not None:
            raise ConfigError(f"{named} is generated: say how many records it has, not take.")
        whole = _generated(named, split, clients, seed, {**(reader or {}), **options})
    else:
        if isinstance(dataset, str):
            dataset = load(dataset, root=root, **(reader or {}))
        whole = _split(_taken(dataset, take, seed), split, clients, seed, column, options)
    if held_out and held_out_clients:
        raise ConfigError("give held_out or held_out_clients, not both.")
    if held_out:
        whole = with_held_out(*hold_out(whole, held_out, seed=seed))
    elif held_out_clients:
        whole = with_held_out(*leave_out_share(whole, held_out_clients, seed=seed))
    if named is None:
        return whole
    given = {
        "name": named,
        "split": split,
        "clients": clients,
        "seed": seed,
        "column": column,
        "held_out": held_out,
        "held_out_clients": held_out_clients,
        "take": take,
        "root": None if root is None else str(Path(root).resolve()),
        "reader": reader,
        **options,
    }
    return replace(whole, source={"data": {k: v for k, v in given.items() if v}})


def _taken(dataset: Dataset, take: int | None, seed: int) -> Dataset:
    """The dataset, or so many records of it, drawn with the seed."""
    if take is None:
        return dataset
    if not 1 <= take <= len(dataset):
        raise ConfigError(f"take is {take}: give a number from 1 to {len(dataset)}.")
    chosen = np.random.default_rng(seed).permutation(len(dataset))[:take]
    return dataset.take(np.sort(chosen))


def _generated(
    name: str, split: str, clients: int | None, seed: int, options: dict[str, Any]
) -> Federation:
    if split not in ("", "natural"):
        raise ConfigError(f"{name} is generated with clients of its own: leave the split out.")
    takes = inspect.signature(describe(name).read).parameters
    if clients is not None:
        options.setdefault("clients", clients)
    if "seed" in takes:
        options.setdefault("seed", seed)
    made = generate(name, **options)
    return made.federation if isinstance(made, Problem) else made


def _split(
    dataset: Dataset,
    split: str,
    clients: int | None,
    seed: int,
    column: str,
    options: Mapping[str, Any],
) -> Federation:
    chosen = split or ("natural" if dataset.natural else "iid")
    if chosen not in SPLITS:
        raise ConfigError(f"there is no split {chosen!r}{nearest(chosen, SPLITS)}")
    parts, names = _parts(dataset, chosen, clients, seed, column, options)
    return Federation.from_parts(
        dataset.records,
        parts,
        names=names,
        test=dataset.test,
        classes=dataset.classes,
        title=f"{dataset.title}, {chosen}",
    )


def _parts(
    dataset: Dataset,
    split: str,
    clients: int | None,
    seed: int,
    column: str,
    options: Mapping[str, Any],
) -> tuple[splits.Parts, tuple[str, ...] | None]:
    function = SPLITS[split]
    known = [p for p in inspect.signature(function).parameters if p not in _COMMON]
    for key in options:
        if key not in known:
            raise ConfigError(f"the split {split!r} has no option {key!r}{nearest(key, known)}")
    if split == "natural" or (split == "by-column" and clients is None):
        owners = _group(dataset, column or (dataset.natural or "" if split == "natural" else ""))
        if clients is not None:
            raise ConfigError(
                f"{dataset.name} has its own clients: leave the number of clients out."
            )
        return splits.natural(owners), splits.owner_names(owners)
    if clients is None:
        raise ConfigError(f"the split {split!r} needs the number of clients.")
    if split == "iid":
        return splits.iid(len(dataset), clients, seed=seed), None
    if split == "by-column":
        return splits.by_column(_group(dataset, column), clients, seed=seed), None
    required = [
        name
        for name in known
        if inspect.signature(function).parameters[name].default is inspect.Parameter.empty
    ]
    for name in required:
        if name not in options:
            raise ConfigError(f"the split {split!r} needs {name} = ...")
    if "y" not in dataset.records or not dataset.classes:
        raise ConfigError(f"{dataset.name} has no class labels: use iid, by-column or natural.")
    return function(dataset.records["y"], clients, seed=seed, **options), None


_COMMON = ("records", "labels", "values", "owners", "clients", "seed")


def _group(dataset: Dataset, column: str) -> np.ndarray[Any, Any]:
    if column in dataset.groups:
        return dataset.groups[column]
    if not dataset.groups:
        raise ConfigError(
            f"{dataset.name} does not say whose its records are: use an iid, dirichlet, shards or "
            "mixed split."
        )
    hint = "column = ..., one of " + ", ".join(dataset.groups)
    if column:
        raise ConfigError(f"{dataset.name} has no grouping {column!r}: give {hint}.")
    raise ConfigError(f"a split by column needs {hint}.")


def _read(line: Entry, store: Store | None, options: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(line.read).parameters
    fixed = getattr(line.read, "keywords", {})
    known = [p for p in parameters if p != "store" and p not in fixed]
    for key in options:
        if key not in known:
            raise ConfigError(f"{line.name} has no option {key!r}{nearest(key, known)}")
    try:
        return line.read(store, **options) if line.kind == "files" else line.read(**options)
    except MemoryError:
        raise DataError(f"{line.name} does not fit into memory.") from None
