"""Tacit: federated learning with differential privacy that is true.

The names below are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.accounting import Budget as Budget
    from tacit.accounting import Guarantee as Guarantee
    from tacit.accounting import Ledger as Ledger
    from tacit.algorithms import ISRLDP as ISRLDP
    from tacit.algorithms import AdaptDPFedAvg as AdaptDPFedAvg
    from tacit.algorithms import Auto as Auto
    from tacit.algorithms import AutoLocal as AutoLocal
    from tacit.algorithms import DPFedAvg as DPFedAvg
    from tacit.algorithms import DPFedEXP as DPFedEXP
    from tacit.algorithms import DPNormFedAvg as DPNormFedAvg
    from tacit.algorithms import DPScaffNew as DPScaffNew
    from tacit.algorithms import DPScaffold as DPScaffold
    from tacit.algorithms import DynamicLDP as DynamicLDP
    from tacit.algorithms import FedAvg as FedAvg
    from tacit.algorithms import RecordDPFedAvg as RecordDPFedAvg
    from tacit.algorithms.registry import make as make_algorithm
    from tacit.data import Federation as Federation
    from tacit.data import federate as federate
    from tacit.errors import TacitError as TacitError
    from tacit.planning import Plan as Plan
    from tacit.run import train as train
    from tacit.simulation import Simulator as Simulator
    from tacit.tasks.registry import make as make_task

_WHERE = {
    "AdaptDPFedAvg": "tacit.algorithms",
    "Auto": "tacit.algorithms",
    "AutoLocal": "tacit.algorithms",
    "Budget": "tacit.accounting",
    "DPFedAvg": "tacit.algorithms",
    "DPFedEXP": "tacit.algorithms",
    "DPNormFedAvg": "tacit.algorithms",
    "DPScaffNew": "tacit.algorithms",
    "DPScaffold": "tacit.algorithms",
    "DynamicLDP": "tacit.algorithms",
    "FedAvg": "tacit.algorithms",
    "Federation": "tacit.data",
    "Guarantee": "tacit.accounting",
    "ISRLDP": "tacit.algorithms",
    "Ledger": "tacit.accounting",
    "Plan": "tacit.planning",
    "RecordDPFedAvg": "tacit.algorithms",
    "Simulator": "tacit.simulation",
    "TacitError": "tacit.errors",
    "federate": "tacit.data",
    "make_algorithm": "tacit.algorithms.registry:make",
    "make_task": "tacit.tasks.registry:make",
    "train": "tacit.run",
}

__all__ = [
    "ISRLDP",
    "AdaptDPFedAvg",
    "Auto",
    "AutoLocal",
    "Budget",
    "DPFedAvg",
    "DPFedEXP",
    "DPNormFedAvg",
    "DPScaffNew",
    "DPScaffold",
    "DynamicLDP",
    "FedAvg",
    "Federation",
    "Guarantee",
    "Ledger",
    "Plan",
    "RecordDPFedAvg",
    "Simulator",
    "TacitError",
    "federate",
    "make_algorithm",
    "make_task",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
