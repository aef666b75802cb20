"""Programs here are compiled once and run for a few rounds: compile them quickly, not well."""

from collections.abc import Iterator
from functools import partial

import jax
import pytest

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", partial(jax.jit, compiler_options=QUICK))
        yield
