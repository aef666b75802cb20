"""The runs below a folder: found by their files, without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DEPTH = 8
MOST = 20_000  # folders that are looked into
_LEDGER, _CONFIG, _SITE, _COMPARISON = "ledger.jsonl", "config.toml", "site.toml", "compare.json"


@dataclass
class Found:
    """The folders by their names: paths relative to the served folder, with slashes."""

    runs: dict[str, Path] = field(default_factory=dict)
    sites: dict[str, Path] = field(default_factory=dict)  # of deployments, where they are here
    comparisons: dict[str, Path] = field(default_factory=dict)
    complete: bool = True


def look(root: Path) -> Found:
    """Everything below ``root``, itself included."""
    found = Found()
    for number, (name, path, files) in enumerate(_folders(root)):
        if number >= MOST:
            found.complete = False
            break
        if _SITE in files:  # a site keeps a ledger too, over all of its runs
            found.sites[name] = path
        elif _is_run(files):
            found.runs[name] = path
        elif _COMPARISON in files:
            found.comparisons[name] = path
    return found


def _is_run(files: set[str]) -> bool:
    told = "status.json" in files or "summary.json" in files
    return _LEDGER in files or (_CONFIG in files and told)


def _folders(root: Path) -> Iterator[tuple[str, Path, set[str]]]:
    waiting = [(".", root, 0)]
    while waiting:
        name, path, depth = waiting.pop()
        files, inner = set(), []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        inner.append(entry.name)
                    else:
                        files.add(entry.name)
        except OSError:
            continue
        yield name, path, files
        if depth < DEPTH:
            waiting += [
                (each if name == "." else f"{name}/{each}", path / each, depth + 1)
                for each in inner
                if not each.startswith((".", "__"))
            ]
