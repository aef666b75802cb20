"""Small programs, compiled quickly."""

import pytest


@pytest.fixture(autouse=True)
def _quickly(quick_compilation: None) -> None:
    del quick_compilation
