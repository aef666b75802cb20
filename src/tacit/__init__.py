"""Tacit: federated learning with differential privacy that is true.

The names below are loaded when they are first used, so that importing the package is quick. The
algorithms among them are those of the registry.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.algorithms.names import CLASSES

if TYPE_CHECKING:
    from tacit.accounting import Budget as Budget
    from tacit.accounting import Guarantee as Guarantee
    from tacit.accounting import Ledger as Ledger
    from tacit.algorithms.registry import make as make_algorithm  # noqa: F401 - loaded by __getattr__
    from tacit.data import Federation as Federation
    from tacit.data import federate as federate
    from tacit.errors import TacitError as TacitError
    from tacit.model import Model as Model
    from tacit.planning import Plan as Plan
    from tacit.run import train as train
    from tacit.simulation import Simulator as Simulator
    from tacit.tasks.registry import make as make_task  # noqa: F401

_WHERE = {
    **dict.fromkeys(CLASSES, "tacit.algorithms"),
    "Budget": "tacit.accounting",
    "Federation": "tacit.data",
    "Guarantee": "tacit.accounting",
    "Ledger": "tacit.accounting",
    "Model": "tacit.model",
    "Plan": "tacit.planning",
    "Simulator": "tacit.simulation",
    "TacitError": "tacit.errors",
    "federate": "tacit.data",
    "make_algorithm": "tacit.algorithms.registry:make",
    "make_task": "tacit.tasks.registry:make",
    "train": "tacit.run",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name == "__version__":  # in one place, the metadata of the package
        from importlib.metadata import version

        return version("tacit-fl")
    if name not in _WHERE:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
