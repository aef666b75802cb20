"""One line of the catalogue: what a dataset is, where it comes from and how it is read."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tacit.data.dataset import Dataset
from tacit.data.datasets.files import SourceFile, Store
from tacit.data.datasets.generators import Problem
from tacit.data.federation import Federation

Kind = Literal["embedded", "generated", "files"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A dataset known by name. Sizes are those of the published data, with the default options."""

    name: str
    title: str
    kind: Kind
    source: str
    licence: str
    citation: str
    shape: tuple[int, ...]
    read: Callable[..., Dataset | Problem | Federation]
    records: int = 0
    test_records: int = 0
    classes: int = 0
    natural: str = ""
    natural_clients: int = 0
    files: tuple[SourceFile, ...] = ()
    folder: str = ""
    package: str = ""
    note: str = ""

    def present(self, store: Store) -> bool:
        """Whether it can be loaded here and now."""
        if self.package:
            return importlib.util.find_spec(self.package) is not None
        if self.folder:
            return any((root / self.folder).is_dir() for root in store.roots)
        return all(store.has(file) for file in self.files)
