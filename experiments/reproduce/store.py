"""Storage of results: one JSON line per configuration, with all of its seeds.

A line holds the digest of the configuration, so an interrupted run can continue. The page is made
from these files only. With ``--quick`` the lines stay in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import TacitError


@dataclass(frozen=True, kw_only=True)
class Record:
    """Some seeds of one configuration."""

    entry: str
    row: str
    method: str
    stage: str
    settings: dict[str, Any]
    digest: str
    seeds: list[int]
    values: dict[str, list[float]]  # quantity label -> one number per seed
    rounds: int = 0
    epsilon: float = math.inf
    delta: float = 0.0
    guarantee: str = ""
    noise: float | None = None
    failed: str = ""
    looks: list[int] = field(default_factory=list)
    curves: dict[str, list[list[float]]] = field(default_factory=dict)  # metric -> seeds x looks
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""


class Store:
    """The records of all entries, in a folder of JSON lines or in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._records: dict[str, list[Record]] = {}

    def of(self, entry: str) -> list[Record]:
        """All records of an entry."""
        if entry not in self._records:
            self._records[entry] = list(self._read(entry))
        return self._records[entry]

    def add(self, record: Record) -> None:
        """Store a record; it is on disk when this returns."""
        plain = _plain(asdict(record))
        self.of(record.entry).append(Record(**_numbers(plain)))
        if self.folder is None:
            return
        path = self._path(record.entry)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(plain, separators=(",", ":")) + "\n")

    def forget(self, entry: str) -> None:
        """Delete all records of an entry."""
        self._records[entry] = []
        if self.folder is not None:
            self._path(entry).unlink(missing_ok=True)

    def seeds(self, entry: str, digest: str) -> set[int]:
        """The stored seeds of a configuration."""
        return {seed for r in self.of(entry) if r.digest == digest for seed in r.seeds}

    def with_digest(self, entry: str, digest: str) -> list[Record]:
        """All records of one configuration."""
        return [record for record in self.of(entry) if record.digest == digest]

    def _path(self, entry: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{entry}.jsonl"

    def _read(self, entry: str) -> Iterator[Record]:
        if self.folder is None or not self._path(entry).exists():
            return
        for number, line in enumerate(self._path(entry).read_text("utf-8").splitlines(), 1):
            try:
                yield Record(**_numbers(json.loads(line)))
            except (ValueError, TypeError):
                raise TacitError(
                    f"line {number} of {self._path(entry)} is damaged: delete that line and run"
                    " the entry again."
                ) from None


def merged(records: Iterable[Record], label: str, seeds: Iterable[int]) -> list[float]:
    """One quantity over the given seeds, in their order, without missing seeds."""
    found: dict[int, float] = {}
    for record in records:
        found |= dict(zip(record.seeds, record.values.get(label, []), strict=False))
    return [found[seed] for seed in seeds if seed in found]


_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.8g}") if math.isfinite(value) else str(value)
    return value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    return _SPECIAL.get(value, value) if isinstance(value, str) else value
