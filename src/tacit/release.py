"""A release: the one object through which a value may leave.

It bounds the value, noises it and names its price, all from the same fields. ``at`` says who draws
the noise and when, and so against whom the unit is protected:

    step        the client, at each of ``times`` local steps    against the server
    message     the client, once, on the whole message          against the server
    aggregate   the server, on the sum over the cohort          against everyone but the server
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jax import Array

from tacit.accounting.events import DpEvent, Everyone, SamplingScheme
from tacit.accounting.guarantee import Relation, Unit
from tacit.bounds import Bound
from tacit.errors import TacitError
from tacit.mechanisms import Mechanism
from tacit.sampling import Batch, FullBatch
from tacit.tree import Tree

At = Literal["step", "message", "aggregate"]


@dataclass(frozen=True, kw_only=True)
class Release:
    """Bound, noise, place and price of one field of a message."""

    bound: Bound
    mechanism: Mechanism
    at: At
    unit: Unit = "client"
    times: int = 1
    batch: Batch = field(default_factory=FullBatch)

    def __post_init__(self) -> None:
        if self.at not in ("step", "message", "aggregate"):
            raise TacitError(f"a release happens at a step, message or aggregate, not {self.at!r}.")
        if self.times < 1:
            raise TacitError(f"a release happens at least once a round, not {self.times} times.")
        if self.at != "step" and self.times != 1:
            raise TacitError("only a release at a step is repeated.")
        if self.unit == "record" and self.at == "message":
            raise TacitError("noise on a message protects the client: protect records at a step.")
        if self.by_record and not isinstance(self.batch, FullBatch):
            raise TacitError("where the server noises a sum of records, all records are in it.")

    @property
    def by_record(self) -> bool:
        """The client bounds each of its records and sends their sum; a trusted server noises it."""
        return self.unit == "record" and self.at == "aggregate"

    def noised(
        self,
        key: Array,
        bounded: Tree,
        round_: Array | int,
        radius: Array | float | None = None,
    ) -> Tree:
        """A sum of bounded contributions with the noise of this round."""
        return self.mechanism.noised(
            key, bounded, self.bound.radius if radius is None else radius, round_
        )

    def event(
        self, round_: int, *, relation: Relation, cohort: SamplingScheme, records: int
    ) -> DpEvent:
        """What one round costs a client that holds ``records`` records.

        The cohort amplifies only what is noised over the cohort: who else takes part hides nothing
        of a client's own message from the server. Nor does noise hide that the message is there,
        so neighbours that add or remove a client are refused for it.
        """
        if self.at == "message" and relation == "add-remove":
            raise TacitError(
                "a local message hides what a client says, not that it is there: use the relation"
                " replace-one."
            )
        sampling: SamplingScheme = Everyone()
        if self.at == "aggregate":
            sampling = cohort
        elif self.unit == "record":
            sampling = self.batch.scheme(records)
        return self.mechanism.event(
            round_,
            relation=relation,
            shape=self.bound.shape,
            sampling=sampling,
            count=self.times,
        )
