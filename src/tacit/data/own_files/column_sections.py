"""The sections of a configuration that say what a column or a target means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.data.own_files.columns import Categorical, Classes, Duration, Numeric, Target
from tacit.errors import ConfigError
from tacit.validation import check_names

REFUSAL = (
    "{what} is not computed from private records, because that would be a release without a "
    "charge: write {how}, or use Preprocessing.from_public with public records."
)
_COLUMN_KEYS = ("range", "fill", "indicator", "scaling", "categories", "other")
_TARGET_KEYS = ("column", "classes", "range", "scaled", "event", "longest", "unit")


def column_of(name: str, spec: Any) -> Numeric | Categorical:
    """The meaning of a column from its section."""
    where = f"[data.columns.{name}]"
    spec = _mapping(spec, where)
    check_names(where, spec, _COLUMN_KEYS, "key")
    _refuse_auto(name, spec, where)
    if "categories" in spec:
        if "scaling" in spec:
            raise ConfigError(f"{where} has categories, which have no scaling: leave scaling out.")
        return Categorical(
            values=tuple(str(v) for v in spec["categories"]),
            fill=None if spec.get("fill") is None else str(spec["fill"]),
            other=bool(spec.get("other", False)),
        )
    scaling = spec.get("scaling", "range")
    if scaling not in ("range", "release"):
        raise ConfigError(f"scaling of {where} is {scaling!r}: write 'range' or 'release'.")
    low, high = _range(spec["range"], where)
    return Numeric(
        low=low,
        high=high,
        fill=spec.get("fill"),
        indicator=bool(spec.get("indicator", False)),
        release=scaling == "release",
    )


def target_of(key: str, spec: Any) -> Target:
    """A target from its section."""
    where = "[data.target]" if key == "y" else f"[data.targets.{key}]"
    spec = _mapping(spec, where)
    check_names(where, spec, _TARGET_KEYS, "key")
    if "column" not in spec:
        raise ConfigError(f"{where} needs column = '...', the column to predict.")
    if "event" in spec:
        if "longest" not in spec:
            raise ConfigError(f"{where} needs longest = ..., a public cap on the survival time.")
        meaning = Duration(
            event=spec["event"], longest=float(spec["longest"]), unit=float(spec.get("unit", 1))
        )
        return Target(spec["column"], meaning)
    if "classes" in spec:
        if not isinstance(spec["classes"], (list, tuple)):
            raise ConfigError(f"classes of {where} must be a list of all labels, in order.")
        return Target(spec["column"], Classes(values=tuple(str(c) for c in spec["classes"])))
    if "range" not in spec or isinstance(spec["range"], str):
        what = f"the class list or range of the target {spec['column']!r}"
        how = f"classes = [...] or range = [low, high] in {where}"
        raise ConfigError(REFUSAL.format(what=what, how=how))
    low, high = _range(spec["range"], where)
    if spec.get("scaled", True):
        return Target(spec["column"], Numeric(low=low, high=high))
    return Target(spec["column"], Numeric(low=low, high=high, center=0.0, scale=1.0))


def _refuse_auto(name: str, spec: Mapping[str, Any], where: str) -> None:
    if "range" in spec and "categories" in spec:
        raise ConfigError(f"{where} has both a range and categories: keep one.")
    given = spec.get("categories", spec.get("range"))
    if given is None or isinstance(given, str):
        what = f"the {'category list' if 'categories' in spec else 'range'} of column {name!r}"
        how = f"{where} with range = [low, high] or categories = [...]"
        raise ConfigError(REFUSAL.format(what=what, how=how))
    if isinstance(spec.get("fill"), str) and "categories" not in spec:
        what = f"the fill value of column {name!r}"
        raise ConfigError(REFUSAL.format(what=what, how=f"fill = <a number> in {where}"))


def _range(given: Any, where: str) -> tuple[float, float]:
    pair = isinstance(given, (list, tuple)) and len(given) == 2
    if not pair or not all(isinstance(end, (int, float)) for end in given):
        raise ConfigError(f"range of {where} is {given!r}: write two numbers, [low, high].")
    return float(given[0]), float(given[1])


def _mapping(spec: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(spec, Mapping):
        raise ConfigError(f"{where} is {spec!r}: write it as a table of settings.")
    return spec
