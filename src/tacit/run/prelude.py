"""The prelude of a run: charged, released once, kept, and applied to the records.

The charge is on disk before anything is computed, the released numbers are in the prelude's file
before they are used, and only then is the charge marked done. A run that is continued reads them
back. One that was stopped in between draws the same noise again if it has a seed: the same release,
charged once. Without a seed it draws other noise, and is charged again.
"""

from __future__ import annotations

import json

from tacit.accounting import Ledger
from tacit.accounting.ledger_book import Label
from tacit.data.federation import Federation
from tacit.errors import TacitError
from tacit.planning import Plan
from tacit.precision import Precision
from tacit.preludes.base import Prelude, Released
from tacit.run.folder import RunFolder
from tacit.simulation import Simulator

_ROUND = -1  # its name in the ledger: before round 0


def opened(
    plan: Plan,
    federation: Federation,
    seed: int | None,
    dtype: Precision,
    ledger: Ledger | None = None,
    folder: RunFolder | None = None,
) -> tuple[Federation, Released]:
    """The federation after what the prelude releases now, or has released at an earlier start."""
    prelude = plan.prelude
    algorithm = None if prelude is None else prelude.algorithm
    if prelude is None or not isinstance(algorithm, Prelude):
        raise TacitError("what runs before a training must prepare its records: give a Prelude.")
    if ledger is None or folder is None:
        released = _released(algorithm, plan, prelude, federation, seed, dtype)
        return _applied(algorithm, federation, released), released
    if _is_done(prelude, ledger):
        return _stored(algorithm, federation, folder)
    charges = _charged(prelude, ledger, repeatable=seed is not None)
    released = _released(algorithm, plan, prelude, federation, seed, dtype)
    folder.write_text(algorithm.file, json.dumps(released, indent=2) + "\n")
    ledger.done_all(charges)
    return _applied(algorithm, federation, released), released


def restored(plan: Plan, federation: Federation, folder: RunFolder) -> Federation:
    """The federation after what the prelude of a kept run has released."""
    algorithm = None if plan.prelude is None else plan.prelude.algorithm
    if not isinstance(algorithm, Prelude):
        return federation
    return _stored(algorithm, federation, folder)[0]


def _applied(algorithm: Prelude, federation: Federation, released: Released) -> Federation:
    return federation.mapped(lambda records: algorithm.applied(records, released))


def _released(
    algorithm: Prelude,
    plan: Plan,
    prelude: Plan,
    federation: Federation,
    seed: int | None,
    dtype: Precision,
) -> Released:
    simulator = Simulator(algorithm, prelude.task, federation, seed=seed, dtype=dtype)
    state = simulator.advance(simulator.init(), plan.opening_round, 1)
    return algorithm.released(state.server)


def _is_done(prelude: Plan, ledger: Ledger) -> bool:
    """Whether an earlier start has released it."""
    found = [ledger.find(round=_ROUND, phase=phase) for phase, _ in prelude.events(_ROUND)]
    return all(any(ledger.get(charge).done for charge in charges) for charges in found)


def _charged(prelude: Plan, ledger: Ledger, *, repeatable: bool) -> list[int]:
    charges: list[int] = []
    for phase, event in prelude.events(_ROUND):
        label: Label = {"round": _ROUND, "phase": phase}
        known = ledger.find(**label) if repeatable else []
        charges += known or [ledger.charge(event, **label)]
    return charges


def _stored(
    algorithm: Prelude, federation: Federation, folder: RunFolder
) -> tuple[Federation, Released]:
    path = folder.path / algorithm.file
    try:
        released: Released = json.loads(path.read_text(encoding="utf-8"))
        return _applied(algorithm, federation, released), released
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TacitError(
            f"{path} cannot be read ({error.__class__.__name__}), and its release is charged and"
            " done: bring the file back, or start again in another folder."
        ) from None
