"""A release: the one object through which a value may leave.

It bounds the value, adds the noise and states the price, all from the same fields. ``at`` says who
draws the noise and when, and so against whom the unit is protected:

    step        the client, at each of ``times`` local steps    against the server
    message     the client, once, on the whole message          against the server
    shares      every client its share, on a secure sum         against the server, while enough
                                                                clients are honest (secure_sum)
    aggregate   the server, on the sum over the cohort          against everyone but the server
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.accounting.events import DpEvent, Everyone, Poisson, SamplingScheme, Turns
from tacit.accounting.guarantee import Relation, Unit
from tacit.bounds import Bound
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, Mechanism, NoNoise
from tacit.mechanisms.additive import Additive, Levels
from tacit.mechanisms.shares import Grid
from tacit.population import Population
from tacit.sampling import Batch, FullBatch
from tacit.secure_sum import SecureSum
from tacit.tree import Tree

At = Literal["step", "message", "shares", "aggregate"]
PLACES: tuple[At, ...] = get_args(At)


@dataclass(frozen=True, kw_only=True)
class Release:
    """Bound, noise, place and price of one field of a message."""

    bound: Bound
    mechanism: Mechanism
    at: At
    unit: Unit = "client"
    times: int = 1
    batch: Batch = field(default_factory=FullBatch)
    trust: SecureSum = field(default_factory=SecureSum)  # of shares

    def __post_init__(self) -> None:
        if self.at not in PLACES:
            raise TacitError(f"a release happens at one of {', '.join(PLACES)}, not {self.at!r}.")
        if self.times < 1:
            raise TacitError(f"a release happens at least once a round, not {self.times} times.")
        if self.at != "step" and self.times != 1:
            raise TacitError("only a release at a step is repeated.")
        if self.unit == "record" and self.at == "message":
            raise TacitError("noise on a message protects the client: protect records at a step.")
        if self.by_record and not isinstance(self.batch, FullBatch):
            raise TacitError("record-level noise on a sum over clients requires a full batch.")

    @property
    def summed(self) -> bool:
        """Noise is on the sum over clients: the server adds it, or every client its share."""
        return self.at in ("shares", "aggregate")

    @property
    def by_record(self) -> bool:
        """The client bounds each record and sends their sum; the noise is on the sum over all."""
        return self.unit == "record" and self.summed

    def excess(self, clients: int) -> float:
        """The noise on a sum over all clients, over the noise that is charged: 1 but for shares."""
        return self.trust.excess(clients) if self.at == "shares" else 1.0

    def on_mean(self, population: Population) -> float:
        """The noise on a mean over all units, over the noise that is charged, if it is summed."""
        units = population.records if self.unit == "record" else population.clients
        return self.excess(population.clients) / units

    def on_sum(self, clients: int) -> Release:
        """The release with the noise that a sum over all clients really has."""
        excess = self.excess(clients)
        if excess == 1:
            return self
        return replace(self, mechanism=self.mechanism.scaled(excess))

    def summed_radius(self, population: Population) -> float:
        """The largest sum of what all clients of a population contribute."""
        units = population.records if self.unit == "record" else population.clients
        return self.bound.radius * units

    def noised(
        self,
        key: Array,
        bounded: Tree,
        round_: Array | int,
        radius: Array | float | None = None,
        terms: int = 1,
    ) -> Tree:
        """A sum of so many bounded contributions with the noise of this round."""
        limit = self.bound.radius if radius is None else radius
        if isinstance(self.mechanism, Additive):
            return self.mechanism.noised(key, bounded, limit, round_, terms)
        return self.mechanism.noised(key, bounded, limit, round_)

    def share(self, bounded: NDArray[np.float64], grid: Grid) -> NDArray[np.int64]:
        """A client's bounded numbers with its share of the noise, in steps of a public grid."""
        if self.at != "shares":
            raise TacitError("only a release in shares is sent as one.")
        return grid.share(bounded)

    def event(
        self, round_: int, *, relation: Relation, cohort: SamplingScheme, records: int
    ) -> DpEvent:
        """What one round costs a client that holds ``records`` records.

        The cohort amplifies only noise on the sum over it: who else takes part hides nothing of a
        client's own message from the server.
        """
        self.check_relation(relation)
        sampling: SamplingScheme = Everyone()
        if self.at == "aggregate":
            sampling = charged_cohort(cohort, self.unit)
        elif self.unit == "record":
            sampling = self.batch.scheme(records)
        return self.mechanism.event(
            round_,
            relation=relation,
            shape=self.bound.shape,
            sampling=sampling,
            count=self.times,
        )

    def check_relation(self, relation: Relation) -> None:
        """Refuse neighbours that the noise of this release cannot hide."""
        if relation == "add-remove":
            raise TacitError(
                "means are divided by the public number of clients and records, which adding or"
                " removing one would change: use the relation zero-out (its contribution is"
                " replaced by nothing), which has the same price."
            )
        if self.at == "message" and relation != "replace-one":
            raise TacitError(
                "a local message hides what a client says, not that it is there: use the relation"
                " replace-one."
            )


def gaussian_noise(noise: Levels) -> Mechanism:
    """Gaussian noise in units of the bound, or none where it is 0."""
    return Gaussian(noise) if noise else NoNoise()


def charged_cohort(cohort: SamplingScheme, unit: Unit) -> SamplingScheme:
    """The scheme by which an aggregate over a cohort of clients is charged to a unit.

    Amplification has premises, and where one fails nothing is amplified:

    - The unit is what is sampled. Siblings of a record enter with it and give its client away.
    - Coins are independent of everything the observer sees. The other clients see the models and
      know when they were asked themselves. Poisson coins of others say nothing about one's own;
      in a cohort of fixed size they do, and with all of them nothing is hidden.
    - A client's state may depend on its own past coins: given all that was released before, a
      round is then a mixture of Poisson-sampled Gaussians with one rate, and hockey-stick
      divergences are jointly convex, so the mixture costs no more than its worst part
      (docs/explanation/accounting.md).

    Groups that take turns are no amplification: who speaks when is public.
    """
    if isinstance(cohort, Turns) or (isinstance(cohort, Poisson) and unit == "client"):
        return cohort
    return Everyone()
