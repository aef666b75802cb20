"""A search over models and records for the longest contribution, in radii.

Chains begin with recipes. A chain takes a change if its ratio grows, or stays while its guide
grows: how far the norm that the code used lies below the true one in float64 or, where every
contribution should have the length of the radius, how much shorter one is. Both come before a bound
that breaks. Changes are random ones, ascent by differences along a direction in the logarithms of
all numbers, and steps along the true gradient to the ends of the range of floats.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from experiments.studies.adversarial.cases import Case, Values
from experiments.studies.adversarial.material import MODELS, RECORDS, Both, Material
from experiments.studies.adversarial.programs import TRIED, WAYS, Compiled, prepared
from experiments.studies.adversarial.reference import Reference, edges, length, wide
from tacit.precision import Precision, precision

CHAINS, ALLOWED = 32, 1 + 1e-6
RADII = (1.0, 0.7, 1e-3, 1e6, 2.0**-90, 2.0**40)  # a server may send the radius, too


class Tried(NamedTuple):
    """A model, a record and a radius, how they came about, and what they achieve."""

    both: Both
    recipe: str
    radius: float = 1.0
    steps: int = 0
    ratio: float = -1.0
    guide: float = 0.0

    def beats(self, old: Tried) -> bool:
        """Whether a chain goes on from here."""
        same = self.ratio >= old.ratio * (1 - 1e-6) and self.guide >= old.guide
        return not self.steps or self.ratio > old.ratio or same

    def at(self, both: Both) -> Tried:
        """A step of this chain."""
        return self._replace(both=both, steps=self.steps + 1)


@dataclass
class Search:
    """One task in one precision, compiled in one way."""

    case: Case
    dtype: Precision
    compiled: Compiled
    reference: Reference
    seed: int = 0
    models: int = 0
    seconds: float = 0.0  # without compilation
    wrong: int = 0  # sums that are not finite, or sums of no records that are not 0
    worst: dict[str, Tried] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.material = Material(self.case, self.dtype, self.rng)

    def run(
        self, seconds: float = 0.0, ways: tuple[str, ...] | None = None, turns: int = 5
    ) -> None:
        """Search for so long, compilation included, and for so many turns in every way at least."""
        chosen = TRIED[self.compiled] if ways is None else ways
        turns = 1 if self.compiled == "no" else turns  # loops are compiled anew at every call
        end = time.monotonic() + seconds
        with precision(self.dtype), np.errstate(all="ignore"):
            for left, way in zip(range(len(chosen), 0, -1), chosen, strict=True):
                now = time.monotonic()
                starts = [self.fresh() for _ in range(CHAINS)]
                self._climb(way, starts, now + (end - now) / left, turns)

    def run_from(self, both: Both, way: str, turns: int = 5) -> None:
        """A few turns from one model and one record."""
        with precision(self.dtype), np.errstate(all="ignore"):
            self._climb(way, [Tried(both, "given")] * CHAINS, time.monotonic(), turns)

    def _climb(self, way: str, starts: list[Tried], end: float, turns: int) -> None:
        program = prepared(self.case.task, way, self.compiled)
        chains = self.measured(way, program, starts)
        self.steered(chains)  # compiled before the clock starts
        began, turn = time.monotonic(), 0
        while turn < turns or time.monotonic() < end:
            turn += 1
            for tried in self.moves(turn, chains):
                done = self.measured(way, program, tried)
                chains = [b if b.beats(a) else a for a, b in zip(chains, done, strict=True)]
        self.seconds += time.monotonic() - began

    def moves(self, turn: int, chains: list[Tried]) -> list[list[Tried]]:
        """What to try next from every chain."""
        if turn % 4 in (0, 2):
            return [self.steered(chains)]
        if turn % 4 == 1:  # the better side of a difference is the side to climb to
            ways = [self.material.direction(chain.both) for chain in chains]
            each = list(zip(chains, ways, strict=True))
            return [[c.at(self.material.scaled(c.both, w, s)) for c, w in each] for s in (1, -1)]
        return [[self.changed(chain) for chain in chains]]

    def fresh(self) -> Tried:
        """A start from recipes."""
        model, record = (str(self.rng.choice(kinds)) for kinds in (MODELS, RECORDS))
        params = self.material.model(model)
        both = params, self.material.record(record, params)
        return Tried(both, f"{model} model, {record} record", float(self.rng.choice(RADII)))

    def changed(self, chain: Tried) -> Tried:
        """A random change, or a new start; a chain that achieves nothing is left soon."""
        if self.rng.random() < (0.5 if chain.ratio <= 0 else 0.05):
            return self.fresh()
        return chain.at(self.material.changed(chain.both))

    def steered(self, chains: list[Tried]) -> list[Tried]:
        """Steps along the true gradient: the norm, or that of one array, to an edge."""
        params, record = stacked(chains)
        leaves = len(jax.tree.leaves(params))
        one = np.eye(leaves)[self.rng.integers(leaves, size=CHAINS)]
        counts = np.where(self.rng.random((CHAINS, 1)) < 0.3, 1.0, one)
        target = self.rng.choice(edges(self.dtype), CHAINS) + self.rng.normal(size=CHAINS)
        with precision("float64"):
            logs = self.reference.steps(*wide((params, record)), counts, target)
        logs = jax.tree.map(np.asarray, logs)
        each = [jax.tree.map(lambda v, i=i: v[i], logs) for i in range(CHAINS)]
        pairs = zip(chains, each, strict=True)
        return [c.at(self.material.scaled(c.both, log)) for c, log in pairs]

    def measured(self, way: str, program: Callable[..., Array], tried: list[Tried]) -> list[Tried]:
        """What these achieve beside a calm record; what must hold of every sum is checked."""
        chosen = WAYS[way]
        params, record = stacked(tried)
        calm = [self.material.record("ordinary", t.both[0]) for t in tried]
        records = {k: np.stack([[c[k] for c in calm], v], axis=1) for k, v in record.items()}
        radius = np.asarray([chosen.radius or t.radius for t in tried])

        def total(calm: int, own: int, limit: Values = radius) -> Values:
            weights = np.tile(np.asarray([calm, own], self.dtype), (CHAINS, 1))
            found = program(params, records, weights, limit.astype(self.dtype))
            return np.asarray(found, np.longdouble)

        both, own, none = total(1, 1), total(0, 1), total(0, 0)
        good = np.isfinite([both, own, none]).all(axis=(0, 2))
        guide = np.zeros(CHAINS)
        if chosen.unit == "client":
            ratios = np.max([length(v) for v in (both, own, none)], axis=0) / radius
        else:
            ratios = np.maximum(length(own), length(both - total(1, 0))) / radius
            good &= (none == 0).all(axis=1)
            if chosen.shows_norm:  # the norm that is used: this radius is not reached
                most = np.full(CHAINS, float(np.finfo(self.dtype).max) * 2.0**-27)
                guide = np.log2(self._true_norms(params, record) / length(total(0, 1, most)))
            if way == "normalised":
                guide = -np.log2(ratios)
        self.models += CHAINS
        self.wrong += int(np.sum(~good))
        ratios = np.where(good, ratios, np.inf)
        guide = np.nan_to_num(guide, nan=0, posinf=0, neginf=0)
        each = zip(tried, ratios, guide, strict=True)
        done = [t._replace(ratio=float(r), guide=float(g)) for t, r, g in each]
        self.worst[way] = max([*done, self.worst.get(way, done[0])], key=lambda t: t.ratio)
        return done

    def _true_norms(self, params: Any, record: Any) -> Values:
        with precision("float64"):
            leaves = jax.tree.leaves(self.reference.gradient(*wide((params, record))))
        return length(np.concatenate([np.reshape(v, (CHAINS, -1)) for v in leaves], axis=1))

    def row(self, name: str) -> dict[str, Any]:
        """The result; with the model and the record if they break the bound."""
        way, top = max(self.worst.items(), key=lambda item: item[1].ratio)
        row = {
            "task": name,
            "dtype": self.dtype,
            "compiled": self.compiled,
            "worst": top.ratio,
            "models": self.models,
            "seconds": round(self.seconds, 1),
            "recipe": f"{way}: {top.recipe}, {top.steps} steps",
            "wrong sums": self.wrong,
            "ways": {way: found.ratio for way, found in self.worst.items()},
        }
        if top.ratio > ALLOWED:
            row["model and record"] = jax.tree.map(lambda v: v.tolist(), top.both)
        return row


def stacked(tried: list[Tried]) -> Both:
    """All models and all records, each as one tree."""
    found: Both = jax.tree.map(lambda *v: np.stack(v), *(t.both for t in tried))
    return found
