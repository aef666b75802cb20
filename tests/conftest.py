"""Set-up for all tests: two CPU devices, as on a small machine, and repeatable examples."""

from collections.abc import Iterator
from functools import partial

import jax
import pytest
from hypothesis import HealthCheck, settings

# Before any backend starts: shards of a federation need more than one device to be tested.
jax.config.update("jax_num_cpu_devices", 2)

settings.register_profile(
    "tacit", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tacit")

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """For programs that run a few times only: compile them quickly, not well."""
    import tacit.simulation  # noqa: F401  # whose inner functions are jitted before the change

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", partial(jax.jit, compiler_options=QUICK))
        yield


@pytest.fixture(autouse=True)
def _no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw curves and pages only where a test looks at them: a picture takes a second."""
    if request.node.get_closest_marker("pictures") is None:
        monkeypatch.setattr("tacit.report.run_pictures.draw_run", lambda *_: [])
        monkeypatch.setattr("tacit.report.charts._svg", lambda *_, **__: "<svg></svg>")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep together on one worker what shares a compiled program: a row of the table, or a file."""
    for item in items if config.pluginmanager.hasplugin("xdist") else []:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        group = getattr(case, "id", None) or item.nodeid.split("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
