"""A sequence of feature maps from a configuration, applied to a federation."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.data.federation import Federation
from tacit.errors import ConfigError
from tacit.features.maps import MAPS, FeatureMap, Features
from tacit.record_maps import with_x
from tacit.validation import check_names, check_types, nearest

Step = str | Mapping[str, Any]


@dataclass(frozen=True)
class Pipeline:
    """A sequence of maps for records of one raw shape."""

    maps: tuple[FeatureMap, ...]

    @classmethod
    def of(cls, steps: Sequence[Step], shape: tuple[int, ...]) -> Pipeline:
        """The maps with these names and options, each learnt after the ones before it."""
        settled: tuple[FeatureMap, ...] = ()
        digest = hashlib.sha256()
        for step in steps:
            found = make_map(step)
            settled = (*settled, found.settled(cls(settled), shape, digest.hexdigest()))
            digest.update(repr(found).encode())
        return cls(settled)

    def __call__(self, x: Features) -> Features:
        """The features of each record."""
        for found in self.maps:
            x = found.apply(x)
        return x

    @property
    def assumptions(self) -> list[str]:
        """The assumption of each map."""
        names = {kind: name for name, kind in MAPS.items()}
        return [f"{names[type(found)]}: {found.assumes}" for found in self.maps]


def apply(federation: Federation, steps: Sequence[Step]) -> Federation:
    """Apply the maps to the features of a federation and of its test set."""
    if not steps:
        return federation
    if "x" not in federation.records:
        raise ConfigError(f"{federation.title} has no features x to map.")
    pipeline = Pipeline.of(steps, np.shape(federation.records["x"])[1:])
    source = federation.source
    if source is not None:
        source = {**source, "features": [*source.get("features", ()), *steps]}
    found = federation.mapped(lambda records: with_x(records, pipeline(records["x"])))
    return replace(found, source=source, maps=(*federation.maps, *pipeline.maps))


def make_map(step: Step) -> FeatureMap:
    """The map for a name, or for a table with a name and options."""
    given = {"name": step} if isinstance(step, str) else dict(step)
    name = given.pop("name", None)
    if not isinstance(name, str) or name not in MAPS:
        raise ConfigError(f"there is no feature map {name!r}{nearest(str(name), MAPS)}")
    kind, what = MAPS[name], f"the feature map {name!r}"
    options = [f.name for f in dataclasses.fields(kind) if f.name != "learnt"]  # type: ignore[arg-type]
    check_names(what, given, options)
    missing = [
        f.name
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.default is dataclasses.MISSING and f.name not in given
    ]
    if missing:
        raise ConfigError(f"{what} needs {missing[0]} = ...")
    return kind(**check_types(what, given, kind))
