"""What is measured while a run goes on, under names that say who may know it.

test/…      the public test set
server/…    public numbers of the server's state
oracle/…    computed from the clients' own records: a simulation may look, a deployment may not
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.federation import Federation, Records
from tacit.simulation import RunState, Simulator

_ORACLE_RECORDS = 20_000


class Measure:
    """Measures a simulator's model; ``oracle`` allows what only a simulation may look at."""

    def __init__(self, simulator: Simulator, *, oracle: bool) -> None:
        self.simulator, self.oracle = simulator, oracle
        self._records = _some(simulator.federation.records) if oracle else None

    def __call__(self, state: RunState, round_: int) -> dict[str, float]:
        """All metrics of the model after ``round_`` rounds."""
        simulator, federation = self.simulator, self.simulator.federation
        params = simulator.params(state)
        measured: dict[str, float] = {}
        public = federation.test_from == "public"
        if federation.test is not None and (public or self.oracle):
            place = "test" if public else "oracle/held_out"
            measured |= _prefixed(place, simulator.evaluate(params, federation.test))
        if self._records is not None:
            measured |= _prefixed("oracle", simulator.evaluate(params, self._records))
            measured |= _prefixed("oracle", simulator.oracle(params, self._records))
            measured |= _prefixed("oracle", simulator.probe(state, round_))
            measured |= _prefixed("oracle", _distance(params, federation))
        return measured | _prefixed("server", simulator.report(state))


def _some(records: Records) -> Records:
    """All records, or a fixed random part of very many."""
    total = len(next(iter(records.values())))
    if total <= _ORACLE_RECORDS:
        return records
    chosen = np.random.default_rng(0).choice(total, _ORACLE_RECORDS, replace=False)
    return {name: column[chosen] for name, column in records.items()}


def _distance(params: Any, federation: Federation) -> dict[str, float]:
    """The distance to the known optimum of a generated problem."""
    if federation.optimum is None:
        return {}
    found = flat(params)
    if found.shape != federation.optimum.shape:
        return {}
    return {"distance": float(np.linalg.norm(found - federation.optimum))}


def flat(params: Any) -> NDArray[np.float64]:
    """The parameters as one vector."""
    leaves = [np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(params)]
    return np.concatenate(leaves)


def _prefixed(prefix: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in values.items()}
