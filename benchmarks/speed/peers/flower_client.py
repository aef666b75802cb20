"""A Flower client for the works; a separate module, because Ray's actors import it."""

from __future__ import annotations

import functools

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.speed.peers.torch_models import make_model, tensors
from benchmarks.speed.works import Work


def client_app(work: Work, folder: str) -> ClientApp:
    """Full-batch steps on the client's own records, which are in the folder."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        x, y = _columns(folder, work)
        own = int(context.node_config["partition-id"])
        model = make_model(work)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=work.lr)
        for _ in range(work.steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[own]), y[own]).backward()
            optimizer.step()
        answer = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": len(y[own])}),
        }
        return Message(content=RecordDict(answer), reply_to=message)

    return app


@functools.lru_cache(maxsize=2)
def _columns(folder: str, work: Work) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (np.load(f"{folder}/{name}.npy", mmap_mode="c") for name in ("x", "y"))
    return tensors(x, y, work)
