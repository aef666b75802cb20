"""Which class a name in a configuration stands for; adding an algorithm adds its line here."""

from __future__ import annotations

ALGORITHMS: dict[str, str] = {
    "adaptdp-fedavg": "adaptdp_fedavg:AdaptDPFedAvg",
    "auto": "auto:Auto",
    "auto-local": "auto_local:AutoLocal",
    "dp-fedavg": "fedavg:DPFedAvg",
    "dp-fedavg-record": "dp_fedavg_record:RecordDPFedAvg",
    "dp-fedexp": "fedexp:DPFedEXP",
    "dp-norm-fedavg": "norm_fedavg:DPNormFedAvg",
    "dp-scaffnew": "scaffnew:DPScaffNew",
    "dp-scaffold": "scaffold:DPScaffold",
    "dynamic-ldp": "dynamic_ldp:DynamicLDP",
    "fedavg": "fedavg:FedAvg",
    "isrl-dp": "isrl_dp:ISRLDP",
}
# Another class where protects = "client": the two forms of one method.
FOR_CLIENTS: dict[str, str] = {"dp-scaffold": "scaffold_client:ClientDPScaffold"}

# The classes by their own names, with their modules.
CLASSES: dict[str, str] = {
    place.split(":")[1]: place.split(":")[0]
    for place in (*ALGORITHMS.values(), *FOR_CLIENTS.values())
}
