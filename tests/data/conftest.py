from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or fills the user's download cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def data_folder() -> Path:
    """The real data folder; a test that needs it is skipped where there is none."""
    named = os.environ.get("TACIT_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("TACIT_DATA does not name a data folder")
    return Path(named)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACIT_DATA", raising=False)
