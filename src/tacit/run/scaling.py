"""The prelude of a run: charged, released once, kept, and applied to the records.

The charge is on disk before anything is computed, the released numbers are in the prelude's file
before they are used, and only then is the charge marked done. A run that is continued reads them
back. One that was stopped in between draws the same noise again: the same release, charged once.
"""

from __future__ import annotations

import json
from dataclasses import replace

from tacit.accounting import Ledger
from tacit.accounting.ledger_book import Label
from tacit.algorithm import Algorithm
from tacit.algorithms.prelude import Prelude, Released
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.planning import Plan
from tacit.run.folder import RunFolder
from tacit.simulation import Simulator
from tacit.simulation.devices import Precision

# Before round 0, in the ledger and in the stream of randomness: no round draws the same noise.
_ROUND = -1


def prepared(algorithm: Algorithm, federation: Federation) -> Federation:
    """The records as the algorithm wants them, each by itself: nothing is released."""
    test = federation.test
    return replace(
        federation,
        records=algorithm.prepared(federation.records),
        test=None if test is None else algorithm.prepared(test),
    )


def opened(
    prelude: Plan,
    federation: Federation,
    seed: int,
    dtype: Precision,
    ledger: Ledger | None = None,
    folder: RunFolder | None = None,
) -> tuple[Federation, Released]:
    """The federation after what the prelude releases now, or has released at an earlier start."""
    algorithm = prelude.algorithm
    if not isinstance(algorithm, Prelude):
        raise TacitError("what runs before a training must prepare its records: give a Prelude.")
    if ledger is None or folder is None:
        released = _released(algorithm, prelude, federation, seed, dtype)
        return algorithm.applied(federation, released), released
    charges = _charged(prelude, ledger)
    if all(ledger.get(charge).done for charge in charges):
        return _stored(algorithm, federation, folder)
    released = _released(algorithm, prelude, federation, seed, dtype)
    folder.write_text(algorithm.file, json.dumps(released, indent=2) + "\n")
    ledger.done_all(charges)
    return algorithm.applied(federation, released), released


def _released(
    algorithm: Prelude, prelude: Plan, federation: Federation, seed: int, dtype: Precision
) -> Released:
    simulator = Simulator(algorithm, prelude.task, federation, seed=seed, dtype=dtype)
    return algorithm.released(simulator.advance(simulator.init(), _ROUND, 1).server)


def _charged(prelude: Plan, ledger: Ledger) -> list[int]:
    charges: list[int] = []
    for phase, event in prelude.events(_ROUND):
        label: Label = {"round": _ROUND, "phase": phase}
        charges += ledger.find(**label) or [ledger.charge(event, **label)]
    return charges


def _stored(
    algorithm: Prelude, federation: Federation, folder: RunFolder
) -> tuple[Federation, Released]:
    path = folder.path / algorithm.file
    try:
        released: Released = json.loads(path.read_text(encoding="utf-8"))
        return algorithm.applied(federation, released), released
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TacitError(
            f"{path} cannot be read ({error.__class__.__name__}), and its release is charged and"
            " done: bring the file back, or start again in another folder."
        ) from None
