"""The methods, one paper per file; each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.algorithms.adaptdp_fedavg import AdaptDPFedAvg
    from tacit.algorithms.auto import Auto
    from tacit.algorithms.auto_local import AutoLocal
    from tacit.algorithms.dp_fedavg_record import RecordDPFedAvg
    from tacit.algorithms.dynamic_ldp import DynamicLDP
    from tacit.algorithms.fedavg import DPFedAvg, FedAvg
    from tacit.algorithms.fedexp import DPFedEXP
    from tacit.algorithms.isrl_dp import ISRLDP
    from tacit.algorithms.norm_fedavg import DPNormFedAvg
    from tacit.algorithms.scaffnew import DPScaffNew
    from tacit.algorithms.scaffold import DPScaffold

__all__ = [
    "ISRLDP",
    "AdaptDPFedAvg",
    "Auto",
    "AutoLocal",
    "DPFedAvg",
    "DPFedEXP",
    "DPNormFedAvg",
    "DPScaffNew",
    "DPScaffold",
    "DynamicLDP",
    "FedAvg",
    "RecordDPFedAvg",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    registry = import_module(f"{__name__}.registry")
    modules = {place.split(":")[1]: place.split(":")[0] for place in registry.ALGORITHMS.values()}
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
