"""Programs here run for a few rounds only, and there are many of them."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_compilation: None) -> None:
    """Compile quickly in every file of this folder."""
