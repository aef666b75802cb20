"""Opacus: DP-SGD in each silo with its per-sample gradients and optimizer, averaged over silos.

Batches are drawn by indexing the tensors of the silo, not by a ``DataLoader``: this is faster, so
that mainly Opacus is timed. Per-sample gradients by hooks were faster than ghost clipping on these
models. The averaging of two small models is plain PyTorch.
"""

from __future__ import annotations

import warnings

import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer

from benchmarks.speed.peers.torch_models import make_model, tensors, vector
from benchmarks.speed.protocol import Side, serve
from benchmarks.speed.usage import Meter
from benchmarks.speed.works import Floats, Work, data


class OpacusSide(Side):
    """Rounds of local DP-SGD, one silo after another."""

    def __init__(self, work: Work) -> None:
        warnings.simplefilter("ignore")
        torch.manual_seed(work.seed)
        self.work = work
        self._x, self._y = tensors(*data(work), work)
        self._server = make_model(work)
        self._client = GradSampleModule(make_model(work))
        self._optimizer = DPOptimizer(
            torch.optim.SGD(self._client.parameters(), lr=work.lr),
            noise_multiplier=work.noise,
            max_grad_norm=work.clip,
            expected_batch_size=work.batch or work.records,
        )

    def run(self, rounds: int, meter: Meter) -> None:
        meter.start()
        for _ in range(rounds):
            self._round()
        meter.stop()

    def _round(self) -> None:
        received = [p.detach().clone() for p in self._server.parameters()]
        total = [torch.zeros_like(p) for p in received]
        for silo in range(self.work.clients):
            with torch.no_grad():
                for mine, sent in zip(self._client.parameters(), received, strict=True):
                    mine.copy_(sent)
            for _ in range(self.work.steps):
                self._step(self._x[silo], self._y[silo])
            for summed, mine in zip(total, self._client.parameters(), strict=True):
                summed += mine.detach()
        with torch.no_grad():
            for own, summed in zip(self._server.parameters(), total, strict=True):
                own.copy_(summed / self.work.clients)

    def _step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        if self.work.batch is not None:
            rows = torch.randperm(len(y))[: self.work.batch]
            x, y = x[rows], y[rows]
        self._optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(self._client(x), y).backward()
        self._optimizer.step()

    def params(self) -> Floats:
        return vector(self._server)

    def about(self) -> dict[str, object]:
        return {"threads": torch.get_num_threads(), "per-sample gradients": "GradSampleModule"}


if __name__ == "__main__":
    serve(OpacusSide, ("opacus", "torch", "numpy"))
