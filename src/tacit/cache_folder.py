"""Where Tacit keeps what it can make or fetch again: one folder, with a part for each kind."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(part: str) -> Path:
    """The part's folder under ``TACIT_CACHE``, or under the user's cache folder."""
    given = os.environ.get("TACIT_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given) if given else base / "tacit") / part
