"""Make a federation from the ``[data]`` section of a configuration.

Either ``name`` (a dataset of the catalogue, with its split) or ``path`` (your own files, with a
description of their columns, or a ``public`` file with the same columns to derive it from).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.data.datasets.catalogue import federate
from tacit.data.federation import Federation
from tacit.data.own_files.federation_of_files import own_data, prepared_data
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.data.own_files.tables import read_table
from tacit.errors import ConfigError
from tacit.released_scaling import Waiting
from tacit.validation import Section, check_names, validated

_MEANING = ("columns", "target", "targets", "drop")
_TESTING = ("test", "held_out", "held_out_clients", "seed")
_NAMED = (
    *("name", "root", "reader", "split", "clients", "column", "seed", "take"),
    *("alpha", "equal_sizes", "labels_per_client", "iid_share", "held_out", "held_out_clients"),
)
_OWN = ("path", "client_column", "public", *_MEANING, *_TESTING)
_PREPARED = ("path", "prepared", "classes", *_TESTING)


class DataSection(Section):
    """All keys of ``[data]``; not all of them can be combined."""

    name: str | None = None
    path: str | Path | None = None
    root: str | Path | None = None
    reader: dict[str, Any] | None = None
    split: str | None = None
    clients: int | None = None
    column: str | None = None
    seed: int | None = None
    take: int | None = None
    alpha: float | None = None
    equal_sizes: bool | None = None
    labels_per_client: int | None = None
    iid_share: float | None = None
    held_out: float | None = None
    held_out_clients: float | None = None
    client_column: str | None = None
    public: str | Path | None = None
    test: str | Path | None = None
    prepared: bool | None = None
    classes: int | None = None
    columns: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    targets: dict[str, Any] | None = None
    drop: list[str] | tuple[str, ...] | None = None


def from_config(config: Mapping[str, Any], *, base: str | Path = ".") -> Federation:
    """Make the federation that a ``[data]`` section describes; paths are relative to ``base``.

    Columns with ``scaling = "release"`` are refused here; ``before_release`` accepts them.
    """
    return _named(config, base, _read(config, base, bounded=False)[0])


def before_release(
    config: Mapping[str, Any], *, base: str | Path = "."
) -> tuple[Federation, tuple[Waiting, ...]]:
    """The same, with unreleased columns scaled by their public ranges, and these columns."""
    federation, waiting = _read(config, base, bounded=True)
    return _named(config, base, federation), waiting


def _named(config: Mapping[str, Any], base: str | Path, federation: Federation) -> Federation:
    """The federation with the section that reproduces it, with absolute paths."""
    return replace(federation, source={"data": anchored(config, base)})


def anchored(config: Mapping[str, Any], base: str | Path) -> dict[str, Any]:
    """The section with absolute paths, so that it can be used from any folder."""
    named = {
        key: str((Path(base) / config[key]).resolve())
        for key in ("path", "public", "test", "root")
        if isinstance(config.get(key), str)
    }
    return {**config, **named}


def _read(
    config: Mapping[str, Any], base: str | Path, *, bounded: bool
) -> tuple[Federation, tuple[Waiting, ...]]:
    validated(DataSection, config, "the configuration", within="data")
    if ("name" in config) == ("path" in config):
        raise ConfigError("[data] needs name = '...' (see `tacit data list`) or path = '...'.")
    if "name" in config:
        check_names("[data] with a name", config, _NAMED, "key")
        settings = {key: value for key, value in config.items() if key != "name"}
        if "root" in settings:
            settings["root"] = Path(base) / settings["root"]
        return federate(config["name"], **settings), ()
    testing = {key: config[key] for key in _TESTING if key in config}
    if "test" in testing:
        testing["test"] = Path(base) / testing["test"]
    path = Path(base) / config["path"]
    if config.get("prepared"):
        check_names("[data] of prepared records", config, _PREPARED, "key")
        if "classes" not in config:
            raise ConfigError("prepared data needs classes = <number>, 0 for a numeric target.")
        return prepared_data(path, classes=config["classes"], **testing), ()
    check_names("[data] with a path", config, _OWN, "key")
    client_column = config.get("client_column", "")
    meaning = meaning_of(config, base)
    readable = meaning.bounded() if bounded else meaning
    federation = own_data(path, readable, client_column=client_column, **testing)
    return federation, meaning.waiting


def meaning_of(config: Mapping[str, Any], base: str | Path = ".") -> Preprocessing:
    """The meaning of the columns of one's own files, as a ``[data]`` section states it."""
    client_column = config.get("client_column", "")
    if "public" not in config:
        return Preprocessing.from_config({k: config[k] for k in _MEANING if k in config})
    target = config.get("target", {})
    if "columns" in config or "column" not in target:
        raise ConfigError(
            "with public = '...' that file describes the columns: leave [data.columns] out, and "
            "give [data.target] only its column."
        )
    drop = [*config.get("drop", ()), *([client_column] if client_column else [])]
    return Preprocessing.from_public(
        read_table(Path(base) / config["public"]),
        target=target["column"],
        classes=target.get("classes"),
        drop=drop,
    )
