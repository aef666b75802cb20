"""The methods, one paper per file."""

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
