"""The methods, one paper per file."""

from tacit.algorithms.adaptdp_fedavg import AdaptDPFedAvg
from tacit.algorithms.dp_fedavg_record import RecordDPFedAvg
from tacit.algorithms.fedavg import DPFedAvg, FedAvg
from tacit.algorithms.fedexp import DPFedEXP
from tacit.algorithms.norm_fedavg import DPNormFedAvg

__all__ = ["AdaptDPFedAvg", "DPFedAvg", "DPFedEXP", "DPNormFedAvg", "FedAvg", "RecordDPFedAvg"]
