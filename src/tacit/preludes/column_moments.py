"""The mean and scale of some features, released once with noise, to scale them before training.

    client   v = its features, each in its public range as [-1, 1]
             u = (v, 1 - v^2) for every record
             sends the mean of u over its records
    server   mean = mean of v over clients, scale = sqrt(mean of v^2 - mean^2)

For any v in [-1, 1] the pair (v, 1 - v^2) has norm at most 1, so d columns have a contribution of
norm at most sqrt(d): one release serves both moments. It protects whom the training that follows
protects, in the same sense and against the same observer: a record (noise on the sum over each
client's records, or over all records) or a client (noise on its message, or on the sum over
clients). Every client
counts the same, whatever its size. All clients take part, once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import Array

from tacit import local
from tacit.accounting.guarantee import Unit
from tacit.algorithm import (
    Algorithm,
    ClientData,
    Message,
    Moment,
    Phase,
    ServerState,
)
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.population import Population
from tacit.preludes.base import Prelude, Released, is_number, protection_of
from tacit.release import At, Release, gaussian_noise
from tacit.released_scaling import Scaling, Waiting, rescaled
from tacit.secure_sum import SecureSum
from tacit.tasks.base import HostRecords, Params, Record, Task
from tacit.tree import Tree

_LEAST_SCALE = 0.01  # of half the public range
_LEAST_VARIANCE = _LEAST_SCALE**2
_NAMES = ("mean", "scale")


@dataclass(frozen=True, kw_only=True)
class PrivateMoments(Prelude):
    """One round that releases first and second moments of the waiting columns of ``x``."""

    columns: tuple[Waiting, ...]
    unit: Unit = "client"
    at: At = "aggregate"
    trust: SecureSum = field(default_factory=SecureSum)
    noise: float = 0.0
    file: ClassVar[str] = "scaling.json"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.columns:
            raise TacitError("no column waits for a mean and a scale: there is nothing to release.")

    @classmethod
    def before(
        cls,
        training: Algorithm,
        task: Task,
        population: Population,
        columns: Sequence[Waiting],
    ) -> Self:
        """The release that protects whom this training protects, against the same observer."""
        protection = protection_of(training, task, population)
        return cls(columns=tuple(columns), relation=training.relation, **protection._asdict())

    @property
    def release(self) -> Release:
        """Both moments of all columns as one vector."""
        return Release(
            bound=Clip(math.sqrt(len(self.columns))),
            mechanism=gaussian_noise(self.noise),
            at=self.at,
            unit=self.unit,
            trust=self.trust,
        )

    def spread(self, population: Population) -> float:
        """The standard deviation of the noise on each released moment: a public number."""
        clients, release = population.clients, self.release
        if release.summed:
            scale = release.on_mean(population)
        elif self.at == "message":
            scale = 1 / math.sqrt(clients)
        else:
            scale = math.sqrt(sum(n**-2 for n in population.sizes)) / clients
        return self.noise * release.bound.radius * scale

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        """One exchange: every client's moments."""
        del task
        release = self.release
        places = jnp.asarray([column.feature for column in self.columns])
        least = min(1.0, max(_LEAST_VARIANCE, self.spread(population)))
        share = population.sums_to_mean

        def each(records: Record, dtype: jnp.dtype) -> Array:
            v = jnp.clip(records["x"][:, places].astype(dtype), -1, 1)
            return jnp.concatenate([v, 1 - v * v], axis=1)

        def measure(
            moment: Moment, state: Tree, data: ClientData, sent: Tree
        ) -> tuple[Message, Tree]:
            like = jnp.concatenate([sent["mean"], sent["scale"]])
            size = data.size.astype(like.dtype)
            if self.unit == "record":
                total = local.record_sum(
                    release, moment, data, like, lambda records: each(records, like.dtype)
                )
                if isinstance(total, local.Noised):
                    return {"moments": total.map(lambda v: v / size)}, state
                return {"moments": total}, state
            summed = local.plain_sum(data, like, lambda records: each(records, like.dtype))
            return {"moments": summed / size}, state

        def settle(state: ServerState, means: Message) -> ServerState:
            found = means["moments"] * share if release.by_record else means["moments"]
            first, gap = jnp.split(found, 2)
            mean = jnp.clip(first, -1, 1)
            # Clamp the variance: noise can make it tiny or negative.
            variance = jnp.clip(1 - gap - mean * mean, least, 1)
            params = {"mean": mean, "scale": jnp.sqrt(variance)}
            return state._replace(params=params)

        return (
            Phase(name="moments", client=measure, server=settle, releases={"moments": release}),
        )

    def init(self, params: Params) -> ServerState:
        """The public ranges: mean 0 and scale 1 on [-1, 1]."""
        dtype = jnp.result_type(*jax.tree.leaves(params))
        count = len(self.columns)
        unscaled = {"mean": jnp.zeros(count, dtype), "scale": jnp.ones(count, dtype)}
        return ServerState(unscaled)

    def scaling(self, state: Any) -> Scaling:
        """The released means and scales, in the units of the columns."""
        mean, scale = state.params["mean"], state.params["scale"]
        return {
            column.column: column.in_units(float(mean[i]), float(scale[i]))
            for i, column in enumerate(self.columns)
        }

    def released(self, state: Any) -> Released:
        """Mean and scale of every column."""
        named = self.scaling(state)
        return {name: {"mean": mean, "scale": scale} for name, (mean, scale) in named.items()}

    def checked(self, outcome: Any) -> Released:
        """Means inside the columns' public ranges, scales of a hundredth to all of half of them."""
        return {column.column: self._in_range(column, outcome) for column in self.columns}

    def _in_range(self, column: Waiting, outcome: Any) -> dict[str, float]:
        told = outcome.get(column.column) if isinstance(outcome, Mapping) else None
        found = [told.get(name) if isinstance(told, Mapping) else None for name in _NAMES]
        if all(map(is_number, found)):
            mean, scale = (float(number) for number in found)  # type: ignore[arg-type]
            room = 1 + 1e-6
            centred = abs(mean - column.middle) <= column.half * room
            if centred and column.half * _LEAST_SCALE / room <= scale <= column.half * room:
                return {"mean": mean, "scale": scale}
        raise TacitError(f"the released mean and scale of {column.column!r} leave its range.")

    def applied(self, records: HostRecords, released: Released) -> HostRecords:
        """Each waiting column minus its mean and divided by its scale."""
        given = {
            column.column: (
                float(released[column.column]["mean"]),
                float(released[column.column]["scale"]),
            )
            for column in self.columns
        }
        return rescaled(records, self.columns, given)
