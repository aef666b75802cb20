"""Public preprocessing: from named columns to the features and targets of records.

A scale, a list or a fill value must not be computed from private records without a charge. So a
:class:`Preprocessing` is written in the configuration, computed from public data with
:meth:`Preprocessing.from_public`, or completed with the mean and scale of a charged release
(:meth:`Preprocessing.with_release`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tacit.data.federation import Records
from tacit.data.own_files.column_sections import REFUSAL, column_of, target_of
from tacit.data.own_files.columns import (
    MISSING,
    Categorical,
    Classes,
    Numeric,
    Target,
    numbers,
    words,
)
from tacit.data.own_files.tables import Table
from tacit.errors import ConfigError, DataError
from tacit.released_scaling import Scaling, Waiting
from tacit.validation import check_names


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """The meaning of each column; ``targets`` maps a record's key (usually ``y``) to a column."""

    columns: Mapping[str, Numeric | Categorical]
    targets: Mapping[str, Target]
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            raise ConfigError("no feature is described: write [data.columns.NAME] for each.")
        for key, target in self.targets.items():
            if key == "x":
                raise ConfigError("a target cannot be called 'x': the features have this name.")
            twice = [name for name in target.columns if name in self.columns]
            if twice:
                raise ConfigError(f"the target {twice[0]!r} is also listed as a feature.")

    @property
    def features(self) -> list[str]:
        """The names of the entries of ``x``."""
        return [f for name, meaning in self.columns.items() for f in meaning.features(name)]

    @property
    def classes(self) -> int:
        """The number of classes of the target ``y``; 0 if it is numeric."""
        target = self.targets.get("y")
        meaning = target.meaning if target else None
        return len(meaning.values) if isinstance(meaning, Classes) else 0

    def encode(
        self,
        table: Table,
        *,
        ignore: Sequence[str] = (),
        unknown: Literal["refuse", "ignore"] = "refuse",
    ) -> Records:
        """Records from a table; every column must be described, dropped or ignored."""
        used = {*self.columns, *self._goals, *self.drop, *ignore}
        for name in table.columns if unknown == "refuse" else ():
            if name not in used:
                raise DataError(
                    REFUSAL.format(
                        what=f"the meaning of column {name!r}",
                        how=f"[data.columns.{name}] with range = [low, high] or "
                        f"categories = [...], or drop = [{name!r}]",
                    )
                )
        goals = {key: target.encode(table) for key, target in self.targets.items()}
        return {**self.features_of(table), **goals}

    def features_of(self, table: Table) -> Records:
        """The features alone, from a table that may lack the targets and have other columns."""
        waiting = self.to_release
        if waiting:
            raise DataError(
                f"column {waiting[0]!r} waits for a private mean and scale: run the release first "
                "and pass its result to Preprocessing.with_release."
            )
        parts = [
            meaning.encode(name, table.column(name), table.where)
            for name, meaning in self.columns.items()
        ]
        return {"x": np.concatenate(parts, axis=1)}

    def as_config(self) -> dict[str, Any]:
        """The section that ``from_config`` turns into this."""
        targets = {key: target.as_config() for key, target in self.targets.items()}
        return {
            "columns": {name: meaning.as_config() for name, meaning in self.columns.items()},
            "targets": targets,
            "drop": list(self.drop),
        }

    @property
    def _goals(self) -> list[str]:
        return [name for target in self.targets.values() for name in target.columns]

    @property
    def to_release(self) -> tuple[str, ...]:
        """Columns whose mean and scale are not released yet."""
        return tuple(n for n, m in self.columns.items() if isinstance(m, Numeric) and m.release)

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """The same columns with their indices in ``x`` and their public ranges."""
        found, place = [], 0
        for name, meaning in self.columns.items():
            if isinstance(meaning, Numeric) and meaning.release:
                found.append(Waiting(name, place, meaning.low, meaning.high))
            place += len(meaning.features(name))
        return tuple(found)

    def bounded(self) -> Preprocessing:
        """The same, with unreleased columns scaled by their public ranges, as the release needs."""
        return replace(
            self,
            columns={
                name: replace(meaning, release=False) if isinstance(meaning, Numeric) else meaning
                for name, meaning in self.columns.items()
            },
        )

    def with_release(self, given: Scaling) -> Preprocessing:
        """The same, with the released (mean, scale) pairs."""
        columns = dict(self.columns)
        for name, (mean, scale) in given.items():
            column = columns.get(name)
            if not isinstance(column, Numeric):
                raise DataError(f"there is no numeric column {name!r} to scale.")
            columns[name] = replace(column, center=mean, scale=scale, release=False)
        return replace(self, columns=columns)

    @classmethod
    def from_public(
        cls,
        table: Table,
        *,
        target: str,
        classes: Sequence[str] | None = None,
        drop: Sequence[str] = (),
    ) -> Preprocessing:
        """Ranges, categories and fill values of PUBLIC records; never pass private records.

        A column is numeric if all its non-missing cells are numbers. The target is a class if
        ``classes`` are given or if its cells are not numbers.
        """
        columns: dict[str, Numeric | Categorical] = {}
        for name, cells in table.columns.items():
            if name != target and name not in drop:
                columns[name] = _public_meaning(name, cells, table)
        goal: Numeric | Categorical | Classes
        if classes is not None:
            goal = Classes(values=tuple(str(c) for c in classes))
        else:
            goal = _public_meaning(target, table.column(target), table)
            if isinstance(goal, Categorical):
                goal = Classes(values=goal.values)
        return cls(columns=columns, targets={"y": Target(target, goal)}, drop=tuple(drop))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Preprocessing:
        """From the ``columns``, ``target`` (or ``targets``) and ``drop`` of a configuration."""
        check_names("the data section", config, ("columns", "target", "targets", "drop"), "key")
        if ("target" in config) == ("targets" in config):
            raise ConfigError("give [data.target] with the column to predict (or [data.targets]).")
        targets = config.get("targets") or {"y": config["target"]}
        return cls(
            columns={n: column_of(n, spec) for n, spec in config.get("columns", {}).items()},
            targets={key: target_of(key, spec) for key, spec in targets.items()},
            drop=tuple(config.get("drop", ())),
        )


def _public_meaning(name: str, cells: Any, table: Table) -> Numeric | Categorical:
    try:
        values, missing = numbers(name, cells, table.where)
    except DataError:
        text = words(cells)
        return Categorical(values=tuple(str(v) for v in np.unique(text[~np.isin(text, MISSING)])))
    present = values[~missing]
    if not len(present):
        raise DataError(f"column {name!r} of the public records has no values: drop it.")
    low, high = float(present.min()), float(present.max())
    middle = float(np.median(present))
    return Numeric(low=low, high=high if high > low else low + 1, fill=middle)
