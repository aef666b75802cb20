"""The ``[data]`` section of a configuration as a federation.

Either ``name`` (a dataset of the catalogue, with its split) or ``path`` (your own files, with
their columns described, or a ``public`` file of the same columns to take the description from).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.data.catalogue import federate
from tacit.data.federation import Federation
from tacit.data.own import own_data, prepared_data
from tacit.data.preprocessing import Preprocessing, check_keys
from tacit.data.tables import read_table
from tacit.data.waiting import Waiting
from tacit.errors import ConfigError

_MEANING = ("columns", "target", "targets", "drop")
_TESTING = ("test", "held_out", "held_out_clients", "seed")
_KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys(
        ("clients", "seed", "labels_per_client", "classes", "take"), ("a whole number", (int,))
    ),
    **dict.fromkeys(
        ("alpha", "iid_share", "held_out", "held_out_clients"), ("a number", (int, float))
    ),
    **dict.fromkeys(
        ("name", "path", "root", "split", "column", "client_column", "test", "public"),
        ("a text", (str, Path)),
    ),
    **dict.fromkeys(("reader", "columns", "target", "targets"), ("a table", (Mapping,))),
    **dict.fromkeys(("equal_sizes", "prepared"), ("true or false", (bool,))),
    "drop": ("a list", (list, tuple)),
}
_NAMED = (
    *("name", "root", "reader", "split", "clients", "column", "seed", "take"),
    *("alpha", "equal_sizes", "labels_per_client", "iid_share", "held_out", "held_out_clients"),
)


def from_config(config: Mapping[str, Any], *, base: str | Path = ".") -> Federation:
    """Make the federation that a ``[data]`` section describes; paths are relative to ``base``.

    Columns that wait for a release are refused: ``before_release`` takes them.
    """
    return _named(config, base, _read(config, base, bounded=False)[0])


def before_release(
    config: Mapping[str, Any], *, base: str | Path = "."
) -> tuple[Federation, tuple[Waiting, ...]]:
    """The same with waiting columns in their public ranges, and which columns these are."""
    federation, waiting = _read(config, base, bounded=True)
    return _named(config, base, federation), waiting


def _named(config: Mapping[str, Any], base: str | Path, federation: Federation) -> Federation:
    """The federation with the section that makes it again, its files named from the root."""
    return replace(federation, source={"data": anchored(config, base)})


def anchored(config: Mapping[str, Any], base: str | Path) -> dict[str, Any]:
    """The section with its files named from the root, so that it can be read anywhere."""
    named = {
        key: str((Path(base) / config[key]).resolve())
        for key in ("path", "public", "test", "root")
        if isinstance(config.get(key), str)
    }
    return {**config, **named}


def _read(
    config: Mapping[str, Any], base: str | Path, *, bounded: bool
) -> tuple[Federation, tuple[Waiting, ...]]:
    _check_kinds(config)
    if ("name" in config) == ("path" in config):
        raise ConfigError("[data] needs name = '...' (see `tacit data list`) or path = '...'.")
    if "name" in config:
        check_keys(config, _NAMED, "[data]")
        settings = {key: value for key, value in config.items() if key != "name"}
        if "root" in settings:
            settings["root"] = Path(base) / settings["root"]
        return federate(config["name"], **settings), ()
    testing = {key: config[key] for key in _TESTING if key in config}
    if "test" in testing:
        testing["test"] = Path(base) / testing["test"]
    path = Path(base) / config["path"]
    if config.get("prepared"):
        check_keys(config, ("path", "prepared", "classes", *_TESTING), "[data]")
        if "classes" not in config:
            raise ConfigError("prepared data need classes = <how many>, 0 for a numeric target.")
        return prepared_data(path, classes=config["classes"], **testing), ()
    check_keys(config, ("path", "client_column", "public", *_MEANING, *_TESTING), "[data]")
    client_column = config.get("client_column", "")
    meaning = _meaning(config, base, client_column)
    readable = meaning.bounded() if bounded else meaning
    federation = own_data(path, readable, client_column=client_column, **testing)
    return federation, meaning.waiting


def _check_kinds(config: Mapping[str, Any]) -> None:
    for key, value in config.items():
        wanted, kinds = _KINDS.get(key, ("", (object,)))
        if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
            raise ConfigError(f"{key} of [data] is {value!r}: give {wanted}.")


def _meaning(config: Mapping[str, Any], base: str | Path, client_column: str) -> Preprocessing:
    if "public" not in config:
        return Preprocessing.from_config({k: config[k] for k in _MEANING if k in config})
    target = config.get("target", {})
    if "columns" in config or "column" not in target:
        raise ConfigError(
            "with public = '...' the columns are described by that file: leave [data.columns] out "
            "and give [data.target] its column."
        )
    drop = [*config.get("drop", ()), *([client_column] if client_column else [])]
    return Preprocessing.from_public(
        read_table(Path(base) / config["public"]),
        target=target["column"],
        classes=target.get("classes"),
        drop=drop,
    )
