"""Tests of the deployment: keys need cryptography, which comes with the extra ``deploy``."""

import importlib.util
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what makes a federation's keys where there is nothing to make them with."""
    if importlib.util.find_spec("cryptography") is not None:
        return
    skip = pytest.mark.skip(reason="needs the extra deploy: pip install 'tacit-fl[deploy]'")
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(skip)
