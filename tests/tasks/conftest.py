import jax
import pytest


@pytest.fixture
def x64():
    """Run the test in float64."""
    with jax.enable_x64(True):
        yield
