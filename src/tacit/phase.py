"""One exchange between server and clients, with a release for every field that is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import Array

from tacit.accounting.dp_events import dp_event
from tacit.accounting.events import (
    DpEvent,
    Everyone,
    Poisson,
    SamplingScheme,
    compose,
    joint_event,
)
from tacit.accounting.guarantee import Relation
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, Mechanism, NoNoise
from tacit.release import PLACES, At, Release, charged_cohort
from tacit.tasks.base import Record
from tacit.tree import Tree

Message = Mapping[str, Tree]

AT_ONCE = 1024  # more rows together would only take memory


@partial(
    jax.tree_util.register_dataclass, data_fields=("records", "size"), meta_fields=("at_once",)
)
@dataclass(frozen=True)
class ClientData:
    """A client's records, in rows of a static number of which the first ``size`` count.

    ``at_once`` is how many rows to treat together: clients of very different sizes are worked
    through in parts, or the small ones would cost as much as the largest.
    """

    records: Record
    size: Array
    at_once: int = AT_ONCE

    @property
    def capacity(self) -> int:
        """The static number of rows."""
        return int(jax.tree.leaves(self.records)[0].shape[0])


class Moment(NamedTuple):
    """When and with which randomness a client works: the round and its own key for it."""

    round: Array
    key: Array


ClientFn = Callable[[Moment, Tree, ClientData, Tree], tuple[Message, Tree]]
ServerFn = Callable[[Tree, Message], Tree]


def _params_of(state: Any) -> Tree:
    return state.params


def _keep(client_state: Tree, released: Message) -> Tree:
    del released
    return client_state


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One exchange: the server sends, the clients answer, the server moves on.

    ``stats`` are computed by the client from what it released, so they are free; ``remember`` lets
    a client keep what it released (control variates do). ``norm_of`` names a field that is the
    squared norm of another: the boundary computes it from the bounded value, so that both together
    are one Gaussian release and are charged as one.
    """

    name: str
    client: ClientFn
    server: ServerFn
    releases: Mapping[str, Release]
    send: Callable[[Any], Tree] = _params_of
    stats: Mapping[str, Callable[[Message], Array]] = field(default_factory=dict)
    remember: Callable[[Tree, Message], Tree] = _keep
    norm_of: tuple[str, str] | None = None  # (the scalar, the vector)
    joint: bool = True  # charge norm_of's two fields as the one release that they are

    def event(
        self,
        round_: int,
        *,
        relation: Relation,
        cohort: SamplingScheme,
        records: int,
        places: tuple[At, ...] = PLACES,
    ) -> DpEvent:
        """What the releases of one round cost a client with so many records.

        ``places`` selects releases by where their noise is drawn: a server pays for aggregates,
        a client for the rest.
        """
        due = {name: r for name, r in sorted(self.releases.items()) if r.at in places}
        summed = [r for r in due.values() if r.at == "aggregate"]
        scheme = charged_cohort(cohort, summed[0].unit) if summed else Everyone()
        noisy = not any(isinstance(r.mechanism, NoNoise) for r in summed)
        if isinstance(scheme, Poisson) and scheme.rate < 1 and noisy:
            # All fields share one coin: what is sampled is everything that the cohort releases.
            given = partial(
                self.event, round_, relation=relation, cohort=Everyone(), records=records
            )
            own = tuple(place for place in places if place != "aggregate")
            whole = dp_event.PoissonSampledDpEvent(scheme.rate, given(places=("aggregate",)))
            return compose(whole, given(places=own))
        parts: list[DpEvent] = []
        if self.joint and self.norm_of is not None and set(self.norm_of) <= set(due):
            scalar, vector = (due.pop(name) for name in self.norm_of)
            vector.check_relation(relation)
            parts.append(
                joint_event(
                    vector_noise=_level(vector.mechanism, round_),
                    scalar_noise=_level(scalar.mechanism, round_),
                    relation=relation,
                )
            )
        parts += [
            release.event(round_, relation=relation, cohort=cohort, records=records)
            for release in due.values()
        ]
        return compose(*parts)

    @property
    def secure(self) -> bool:
        """Whether the server sees only the sum over clients."""
        return any(r.at == "shares" for r in self.releases.values())

    def __post_init__(self) -> None:
        if self.norm_of is not None and any(
            not isinstance(self.releases[name].mechanism, (Gaussian, NoNoise))
            or not self.releases[name].summed
            for name in self.norm_of
        ):
            raise TacitError("a value and its squared norm are one release only on a sum.")
        if self.stats and any(r.summed for r in self.releases.values()):
            raise TacitError(
                f"phase {self.name!r} computes stats from values that are noised only in their"
                " sum: declare them as fields with a release of their own."
            )
        if len({(r.at, r.trust) for r in self.releases.values()}) > 1 and self.secure:
            raise TacitError(f"phase {self.name!r} is one secure sum: all its releases are shares.")
        if set(self.stats) & set(self.releases):
            raise TacitError(f"phase {self.name!r} has a field and a statistic of one name.")


def _level(mechanism: Mechanism, round_: int) -> float:
    return mechanism.level(round_) if isinstance(mechanism, Gaussian) else 0.0
