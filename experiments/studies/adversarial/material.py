"""Models and records to begin a search with, and random changes of them.

A server may send numbers of up to 2^40. The steps inside a client may lead anywhere, so some models
hold the largest floats, infinities and NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from experiments.studies.adversarial.cases import Case, Values
from tacit.precision import Precision
from tacit.tasks.base import Params
from tacit.wire.client import LARGEST

Both = tuple[Params, dict[str, Values]]  # a model and a record
MODELS = ("ordinary", "by leaf", "by number", "seesaw", "cancelling", "beyond")
RECORDS = ("ordinary", "scaled", "by number", "inverse", "fitted", "not finite")
SCALES: dict[Precision, tuple[float, ...]] = {
    "float32": (0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-10, 1, 1, 1, 1e8, 1e10, LARGEST, 1e19, 1e30),
    "float64": (0, 1e-320, 1e-300, 1e-160, 1e-30, 1, 1, 1, 1e8, 1e10, LARGEST, 1e30, 1e154, 1e300),
}
POSITIVE = ("time", "exposure")
_POWERS = (1, 2, 5, 10, 20, 40, 64)


@dataclass
class Material:
    """Draws for one task in one precision."""

    case: Case
    dtype: Precision
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.shapes = jax.eval_shape(self.case.task.init, jax.random.key(0))

    def model(self, recipe: str) -> Params:
        """A model of this recipe."""
        scales, tops, first = SCALES[self.dtype], [*self.shapes], 10 ** self.rng.uniform(-12, 20)

        def leaf(path: tuple[Any, ...], like: Any) -> Values:
            top = path[0].key
            scale = {
                "by leaf": self.rng.choice(scales),
                "by number": self.rng.choice(scales, like.shape),
                "seesaw": first ** (-1) ** tops.index(top),
                "cancelling": 1.0 if top != tops[0] else 1 / first,
                "beyond": self.rng.choice([*scales, np.inf, np.nan], like.shape),
            }.get(recipe, 1.0)
            drawn = self._numbers(like.shape, scale, np.inf if recipe == "beyond" else LARGEST)
            if recipe == "cancelling" and top == tops[-1] and drawn.ndim:
                drawn[...] = drawn[..., :1]  # slopes over classes sum to 0, up to rounding
            return drawn

        return jax.tree_util.tree_map_with_path(leaf, self.shapes)

    def record(self, recipe: str, params: Params) -> dict[str, Values]:
        """A record of this recipe; "inverse" and "fitted" undo the scale of the first weights."""
        first = next((v for v in jax.tree.leaves(params) if v.ndim > 1), None)
        first = params["w"] if first is None else first
        undo = 1 / max(float(np.max(np.abs(first))), 1e-30)
        found: dict[str, Values] = {}
        for name, like in self.case.like.items():
            odd = recipe == "not finite" and self.rng.random() < 0.6
            if like.dtype.kind == "i":
                found[name] = self.rng.integers(0, 3, like.shape, np.int32) + np.int32(99 * odd)
                continue
            scale: Any = undo if recipe != "ordinary" and name in ("x", "a") else 1.0
            if recipe not in ("ordinary", "inverse", "fitted"):
                many = like.shape if recipe == "by number" else None
                scale = self.rng.choice(SCALES[self.dtype], many)
            drawn = self._numbers(like.shape, scale, float(np.finfo(self.dtype).max))
            found[name] = np.asarray(np.abs(drawn) if name in POSITIVE else drawn)
            if odd:
                found[name].flat[0] = self.rng.choice([np.nan, np.inf, -np.inf])
        if recipe == "fitted" and first.ndim == 1 and "x" in found:
            self._fit(found, params)
        return found

    def changed(self, both: Both) -> Both:
        """One number, or a whole array, moved: by a power of two, an ulp, a sign, or to 0."""
        leaves, structure = jax.tree.flatten(both)
        place = int(self.rng.integers(len(leaves)))
        old = leaves[place]
        where = np.arange(old.size).reshape(old.shape) == self.rng.integers(old.size)
        where |= self.rng.random() < 0.4
        moved = self.rng.integers(0, 3, old.shape)
        if old.dtype.kind == "f":
            limit = LARGEST if place < len(jax.tree.leaves(both[0])) else np.finfo(old.dtype).max
            near = np.nextafter(old, np.asarray(self.rng.choice([-np.inf, np.inf]), old.dtype))
            power = 2.0 ** (self.rng.choice([-1, 1]) * self.rng.choice(_POWERS))
            moved = np.clip((old * power, near, -old, 0 * old)[self.rng.integers(4)], -limit, limit)
        leaves[place] = np.where(where, moved, old).astype(old.dtype)
        return jax.tree.unflatten(structure, leaves)

    def direction(self, both: Both) -> Any:
        """A direction in the logarithms of all floating numbers; 0 for others."""
        size = self.rng.choice([1e-6, 1e-3, 0.1, 2.0])

        def leaf(old: Values) -> Values:
            many = old.shape if self.rng.random() < 0.5 else ()
            return size * (old.dtype.kind == "f") * self.rng.normal(size=many) * np.ones(old.shape)

        return jax.tree.map(leaf, both)

    def scaled(self, both: Both, logs: Any, sign: float = 1.0) -> Both:
        """Every floating number times the exponential of its place in ``logs``."""

        def one(old: Values, log: Values, limit: float) -> Values:
            if old.dtype.kind != "f":
                return old
            factor = np.exp(np.clip(sign * log, -600, 600))
            return np.clip(old.astype(float) * factor, -limit, limit).astype(old.dtype)

        most = float(np.finfo(self.dtype).max)
        model = jax.tree.map(lambda v, s: one(v, s, LARGEST), both[0], logs[0])
        return model, jax.tree.map(lambda v, s: one(v, s, most), both[1], logs[1])

    def _numbers(self, shape: tuple[int, ...], scale: Any, limit: float) -> Values:
        kinds = (np.ones(shape), self.rng.choice([-1.0, 1.0], shape), self.rng.normal(size=shape))
        return np.asarray(np.clip(kinds[self.rng.integers(3)] * scale, -limit, limit), self.dtype)

    def _fit(self, record: dict[str, Values], params: Params) -> None:
        """Targets that the model hits: of the gradient only rounding is left."""
        z = record["x"] @ params["w"] + params.get("b", 0) + params.get("a", (0,))[0]
        told = {"y": np.exp(z) if "exposure" in record else z, "time": np.exp(-z)}
        for name, old in record.items():
            if name != "x" and old.dtype.kind == "f":
                record[name] = np.asarray(told.get(name, 1), self.dtype)
