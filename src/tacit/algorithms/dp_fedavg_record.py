"""Record-level DP-FedAvg: every local step is DP-SGD (the baseline of AdaptDP-FedAvg).

    server   sends w
    client   y = w; K times: a fresh batch of b records,
             y -= eta * ( (sum of gradients clipped to C + N(0, (z C)^2)) / b )
             sends y - w
    server   w += step( mean of the updates )

Protected: one record of a client, against the server and everyone else. Batches are independent
draws without replacement (or Poisson); shuffled epochs are offered at their own, larger, price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jax import Array

from tacit import local, tree
from tacit.accounting.guarantee import Relation
from tacit.algorithm import ClientData, Message, Moment, Phase
from tacit.algorithms.fedavg import FedAvg
from tacit.bounds import Clip
from tacit.diagnostics import clipped_share
from tacit.errors import TacitError
from tacit.population import Population
from tacit.release import Release, gaussian_noise
from tacit.sampling import Batch, FixedBatch, FullBatch, PoissonBatch, ShuffledBatches
from tacit.tasks.base import Params, Record, Task
from tacit.tree import Tree
from tacit.validation import Positive

Batches = Literal["fixed", "poisson", "shuffled", "full"]


def record_batch(kind: Batches, size: int | None) -> Batch:
    """The batch scheme by name."""
    if kind == "full":
        return FullBatch()
    if size is None:
        raise TacitError(f"{kind} batches need a batch_size.")
    if kind == "poisson":
        return PoissonBatch(size)
    return ShuffledBatches(size) if kind == "shuffled" else FixedBatch(size)


@dataclass(frozen=True, kw_only=True)
class RecordDPFedAvg(FedAvg):
    """FedAvg whose local steps clip per-record gradients and add noise: one record is protected."""

    clip: Positive = 1.0
    noise: float = 0.0
    batch_size: int | None = 100
    batches: Batches = "fixed"
    relation: Relation = "replace-one"

    @property
    def release(self) -> Release:
        """K noisy gradients a round, each on a fresh batch."""
        return Release(
            bound=Clip(self.clip),
            mechanism=gaussian_noise(self.noise),
            at="step",
            unit="record",
            times=self.local_steps,
            batch=record_batch(self.batches, self.batch_size),
        )

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: private local steps, then the update, which is already released."""
        del population
        release = self.release

        def train(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            eta = self.local_lr * self.local_decay**moment.round
            steps = local.private_steps(task, release, moment, params, data, step_size=eta)
            return {"update": steps.map(lambda found: tree.subtract(found[0], params))}, state

        return (Phase(name="train", client=train, server=self.step, releases={"update": release}),)

    def oracle(self, task: Task, params: Params, records: Record) -> dict[str, Array]:
        """The share of the records whose gradient is longer than the radius."""
        return {
            "clipped": clipped_share(local.squared_gradient_norms(task, params, records), self.clip)
        }
