"""The methods, one paper per file."""

from tacit.algorithms.dp_fedavg_record import RecordDPFedAvg
from tacit.algorithms.fedavg import DPFedAvg, FedAvg

__all__ = ["DPFedAvg", "FedAvg", "RecordDPFedAvg"]
