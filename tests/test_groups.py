"""Tests that share a compiled program run on one worker; otherwise everything is compiled twice."""

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="needs several workers")
def test_workers_know_the_groups(request: pytest.FixtureRequest) -> None:
    # pytest 9.2 with pytest-xdist 3.8 lost them in silence, and the suite took half as long again.
    assert request.node.nodeid.endswith("@tests/test_groups.py")
