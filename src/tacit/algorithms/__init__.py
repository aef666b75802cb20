"""The methods, one paper per file."""

from tacit.algorithms.adaptdp_fedavg import AdaptDPFedAvg
from tacit.algorithms.dp_fedavg_record import RecordDPFedAvg
from tacit.algorithms.fedavg import DPFedAvg, FedAvg

__all__ = ["AdaptDPFedAvg", "DPFedAvg", "FedAvg", "RecordDPFedAvg"]
