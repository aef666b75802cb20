"""The prelude of a run: private means and scales, charged, released once, kept, and applied.

The charge is on disk before anything is computed, the released numbers are in ``scaling.json``
before they are used, and only then is the charge marked done. A run that is continued reads them
back. One that was stopped in between draws the same noise again: the same release, charged once.
"""

from __future__ import annotations

import json

from tacit.accounting import Ledger
from tacit.accounting.ledger_book import Label
from tacit.algorithms.private_moments import PrivateMoments
from tacit.data.federation import Federation
from tacit.data.waiting import Scaling, rescaled
from tacit.errors import TacitError
from tacit.planning import Plan
from tacit.run.folder import RunFolder
from tacit.simulation import Simulator
from tacit.simulation.devices import Precision

_FILE = "scaling.json"
# Before round 0, in the ledger and in the stream of randomness: no round draws the same noise.
_ROUND = -1


def scaled(
    prelude: Plan,
    federation: Federation,
    seed: int,
    dtype: Precision,
    ledger: Ledger | None = None,
    folder: RunFolder | None = None,
) -> tuple[Federation, Scaling]:
    """The federation by the means and scales that are released now, or were at an earlier start."""
    moments = prelude.algorithm
    if not isinstance(moments, PrivateMoments):
        raise TacitError("a run is preceded by a release of means and scales, or by nothing.")
    if ledger is None or folder is None:
        scaling = _released(moments, prelude, federation, seed, dtype)
        return rescaled(federation, moments.columns, scaling), scaling
    charges = _charged(prelude, ledger)
    if all(ledger.get(charge).done for charge in charges):
        scaling = _stored(moments, folder)
    else:
        scaling = _released(moments, prelude, federation, seed, dtype)
        named = {name: {"mean": mean, "scale": scale} for name, (mean, scale) in scaling.items()}
        folder.write_text(_FILE, json.dumps(named, indent=2) + "\n")
        ledger.done_all(charges)
    return rescaled(federation, moments.columns, scaling), scaling


def _released(
    moments: PrivateMoments, prelude: Plan, federation: Federation, seed: int, dtype: Precision
) -> Scaling:
    simulator = Simulator(moments, prelude.task, federation, seed=seed, dtype=dtype)
    return moments.scaling(simulator.advance(simulator.init(), _ROUND, 1).server)


def _charged(prelude: Plan, ledger: Ledger) -> list[int]:
    charges: list[int] = []
    for phase, event in prelude.events(_ROUND):
        label: Label = {"round": _ROUND, "phase": phase}
        charges += ledger.find(**label) or [ledger.charge(event, **label)]
    return charges


def _stored(moments: PrivateMoments, folder: RunFolder) -> Scaling:
    path = folder.path / _FILE
    try:
        named = json.loads(path.read_text(encoding="utf-8"))
        return {
            column.column: (
                float(named[column.column]["mean"]),
                float(named[column.column]["scale"]),
            )
            for column in moments.columns
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TacitError(
            f"{path} cannot be read ({error.__class__.__name__}), and its release is charged and"
            " done: bring the file back, or start again in another folder."
        ) from None
