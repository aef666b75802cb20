"""All tables and figures by name, and those whose data is not available."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from experiments.reproduce.entry import Entry
from experiments.reproduce.papers import (
    adaptdp,
    adaptdp_grids,
    adaptdp_levels,
    dynamic,
    dynamic_network,
    fedexp,
    fedexp_budgets,
    fedexp_mnist,
    norm,
    norm_images,
    scaffnew,
    scaffnew_images,
)
from experiments.reproduce.store import Store
from experiments.reproduce.summary import Summary
from tacit.data.datasets.catalogue import CATALOGUE
from tacit.data.datasets.files import Store as Files
from tacit.errors import ConfigError
from tacit.validation import nearest

PAPERS: Mapping[str, str] = {
    "adaptdp": "AdaptDP-FedAvg: Fukami, Murata and Niwa",
    "norm": "DP-NormFedAvg: Das, Hashemi, Sanghavi and Dhillon",
    "dynamic": "LDP-FL with dynamic allocation: Zhang, Fay and Johansson",
    "fedexp": "DP-FedEXP: Takakura, Liew and Hasegawa",
    "scaffnew": "DP-ScaffNew: anonymous authors, arXiv:2304.05127",
}
_MODULES = (
    adaptdp_levels,
    adaptdp,
    adaptdp_grids,
    norm,
    norm_images,
    dynamic,
    dynamic_network,
    fedexp_budgets,
    fedexp,
    fedexp_mnist,
    scaffnew_images,
    scaffnew,
)
ENTRIES: Mapping[str, Entry] = {
    entry.name: entry for module in _MODULES for entry in module.ENTRIES
}

State = Literal["done", "partly", "not run", "needs data"]


@dataclass(frozen=True)
class Waiting:
    """A table or figure whose data is not available; ``dataset`` is empty if it has no reader."""

    name: str
    title: str
    dataset: str
    provide: str


WAITING: tuple[Waiting, ...] = (
    Waiting(
        "norm/table2-cifar100",
        "CIFAR-100 features (Table 2c)",
        "",
        "512 features a picture, in folders of client arrays (`data.prepared`)",
    ),
    Waiting(
        "scaffnew/figure4",
        "FEMNIST, clip radii (Figures 4 and 5)",
        "femnist",
        "the JSON files that LEAF's preprocessing writes, in TACIT_DATA/femnist",
    ),
    Waiting(
        "scaffnew/figure2-reddit",
        "Reddit, next word (Figures 2 and 3)",
        "reddit",
        "the JSON files that LEAF's preprocessing writes, in TACIT_DATA/reddit",
    ),
    Waiting(
        "scaffnew/figure8",
        "Fed-IXI, brain masks (Figures 8 and 11)",
        "",
        "an archive of prepared arrays (`data.prepared`) of each hospital's volumes and masks, and"
        " a 3D U-Net (`from_linen`)",
    ),
    Waiting(
        "scaffnew/figure9",
        "Messidor, retinopathy (Figure 9)",
        "",
        "an archive of prepared arrays (`data.prepared`) of each hospital's images and labels, and"
        " a VGG-11 (`from_linen`)",
    ),
)


def find(name: str) -> list[Entry]:
    """The entries of a name: one entry, the parts of a table, those of a paper, or ``all``."""
    waiting = {item.name: item for item in WAITING}
    if name in waiting:
        raise ConfigError(f"{name} needs data that is missing: provide {waiting[name].provide}.")
    if name in ENTRIES:
        return [ENTRIES[name]]
    parts = [entry for entry in ENTRIES.values() if entry.name.startswith((f"{name}-", f"{name}/"))]
    if name == "all":
        parts = list(ENTRIES.values())
    if not parts:
        raise ConfigError(f"there is no reproduction {name!r}{nearest(name, ENTRIES)}")
    return parts


def source(entry: Entry) -> Entry:
    """The entry whose runs are shown: itself, or the entry that it is a view of."""
    return ENTRIES[entry.of] if entry.of is not None else entry


def missing_data(entry: Entry) -> tuple[str, ...]:
    """The datasets that an entry needs and that are missing on this machine."""
    files = Files.default()
    return tuple(name for name in source(entry).needs if not CATALOGUE[name].present(files))


def state(entry: Entry, store: Store) -> State:
    """The progress of an entry; stored results count even if the data is missing."""
    progress = Summary(source(entry), store).progress
    if progress >= 1:
        return "done"
    if missing_data(entry):
        return "needs data"
    return "partly" if progress > 0 or store.of(source(entry).name) else "not run"
