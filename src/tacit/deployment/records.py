"""The records of a site: federation.toml has their public description, site.toml their location.

[data]                       in federation.toml: the meaning of the columns, or a known dataset
[data] path = "records.csv"  in site.toml: one file with the records of this site
[data] client = "cleveland"  or, for a known dataset, the client that this site represents
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit import features
from tacit.data.config import from_config
from tacit.data.federation import Federation, Records
from tacit.data.own_files.tables import read_npz, read_table
from tacit.deployment.setup.settings import Public, public_columns
from tacit.errors import ConfigError, DataError
from tacit.preludes.base import Prelude, Released

_ALONE = "this_site"


def site_records(public: Public, own: Mapping[str, Any], name: str, *, base: Path) -> Records:
    """The records of a site, checked against their public description."""
    found = _mapped(public, _client(public.run.data, own, base))
    count = len(next(iter(found.values())))
    declared = public.about.sites[name]
    if count != declared:
        raise DataError(
            f"this site holds {count} records, but federation.toml says {declared}: sizes are"
            " public and must agree. Use the right file, or ask for a new federation.toml."
        )
    return _checked(public, found)


def test_records(public: Public, own: Mapping[str, Any], *, base: Path) -> Records:
    """The public test records of the server: a file, or the test set of the known dataset."""
    if "path" in own:
        return _checked(public, _mapped(public, _client(public.run.data, own, base)))
    known = from_config({**public.run.data, **own}, base=base)
    if known.test is None or known.test_from != "public":
        raise ConfigError(f"{known.title} has no public test set: give [test] path = '...'.")
    return _checked(public, _mapped(public, known.test))


def after_prelude(public: Public, records: Records, released: Released | None) -> Records:
    """The records after the result of the prelude is applied to them, if there is a prelude."""
    if public.prelude is None:
        return records
    before = public.prelude.algorithm
    if not isinstance(before, Prelude) or released is None:
        raise ConfigError("a phase before training must prepare the records: give a Prelude.")
    return before.applied(records, released)


def _mapped(public: Public, records: Records) -> Records:
    """The records after the public feature maps of the run."""
    maps = public.run.features
    return features.apply(_alone(public, records), maps).records if maps else records


def _client(public: Mapping[str, Any], own: Mapping[str, Any], base: Path) -> Records:
    if "path" in own:
        return _own_file(public, own, base)
    if "client" not in own:
        raise ConfigError("[data] of site.toml needs path = '...' or, for a dataset, client = ...")
    rest = {key: value for key, value in own.items() if key != "client"}
    known = from_config({**public, **rest}, base=base)
    if own["client"] not in known.names:
        raise ConfigError(
            f"{known.title} has no client {own['client']!r}: it has {', '.join(known.names[:9])}."
        )
    return known.client(known.names.index(own["client"]))


def _own_file(public: Mapping[str, Any], own: Mapping[str, Any], base: Path) -> Records:
    """The file of one site, read with the same public columns as a folder of such files."""
    path = base / own["path"]
    if not path.is_file():
        raise DataError(f"there is no file {path}: say in site.toml where the records are.")
    if public.get("prepared"):
        return _labelled(read_npz(path), int(public.get("classes", 0)))
    meaning = public_columns(public)
    if meaning is None:
        raise ConfigError(
            "federation.toml describes no columns: to read a file of records it needs"
            " [data.columns.NAME] and [data.target]."
        )
    ignored = [c for c in (public.get("client_column"),) if c]
    return meaning.bounded().encode(read_table(path), ignore=ignored)


def _labelled(arrays: Mapping[str, np.ndarray[Any, Any]], classes: int) -> Records:
    records = dict(arrays)
    labels = records.get("y")
    if classes and labels is not None and np.array_equal(labels, np.round(labels)):
        records["y"] = labels.astype(np.int32)
    return records


def _checked(public: Public, records: Records) -> Records:
    """Check that the records have the public shapes, finite values and known classes."""
    shapes = public.shapes
    if set(records) != set(shapes):
        raise DataError(
            f"the records have the columns {sorted(records)}, but federation.toml has"
            f" {sorted(shapes)}."
        )
    for name, shape in shapes.items():
        if records[name].shape[1:] != shape.shape:
            raise DataError(
                f"{name} of a record has the shape {list(records[name].shape[1:])}, but"
                f" federation.toml has {list(shape.shape)}."
            )
        if (records[name].dtype.kind == "f") != (np.dtype(shape.dtype).kind == "f"):
            raise DataError(
                f"{name} has type {records[name].dtype}, but federation.toml has {shape.dtype}."
            )
    return _alone(public, records).records


def _alone(public: Public, records: Records) -> Federation:
    """A federation with this site only; making it checks the records."""
    return Federation(
        records=records,
        sizes=np.array([len(next(iter(records.values())))]),
        names=(_ALONE,),
        classes=public.about.classes,
        title="this site's data",
    )
