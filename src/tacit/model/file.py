"""One file for a model: safetensors with a JSON description; nothing is unpickled."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit import tree
from tacit.algorithm import Algorithm
from tacit.algorithms import registry as algorithms
from tacit.atomic_write import write_atomically
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.errors import TacitError
from tacit.features.maps import MAPS, Centre, FeatureMap, Network, Projection
from tacit.features.pipeline import make_map
from tacit.features.projection import Learnt
from tacit.model.inputs import Inputs
from tacit.model.model import Model
from tacit.precision import precision
from tacit.tasks import registry as tasks
from tacit.tasks.base import Task

NAME = "model.safetensors"
_VERSION = 1
_KEY = "tacit"
_PLAIN = {"name": "fedavg"}  # a method that leaves records as they are
Arrays = dict[str, NDArray[Any]]


def write_model(model: Model, path: Path) -> Path:
    """Write the file in one step."""
    from safetensors.numpy import save

    arrays = {f"params{name}": np.asarray(v) for name, v in tree.to_named(model.params).items()}
    description, learnt = described(model)
    held = {k: np.asarray(v, order="C") for k, v in {**arrays, **learnt}.items()}
    write_atomically(path, save(held, metadata={_KEY: json.dumps(description)}))
    return path


def described(model: Model) -> tuple[dict[str, Any], Arrays]:
    """What the header says, and the arrays of learnt feature maps."""
    method = algorithms.spelled(model.algorithm)
    if method is None and type(model.algorithm).prepared is not Algorithm.prepared:
        raise TacitError(
            f"{type(model.algorithm).__name__} changes records and has no name in a configuration:"
            " its model cannot be kept in a file."
        )
    inputs, learnt = model.inputs, Arrays()
    steps = []
    for number, step in enumerate(inputs.maps):
        steps.append(_step(step))
        found: Learnt | None = getattr(step, "learnt", None)
        if found is not None:
            learnt |= {
                f"features.{number}.mean": found.mean,
                f"features.{number}.matrix": found.matrix,
            }
    description = {
        "version": _VERSION,
        "task": tasks.spelled(model.task),  # None: of the user's own functions
        "algorithm": {k: v for k, v in (method or _PLAIN).items() if k != "noise"},
        "shape": list(inputs.shape),
        "classes": inputs.classes,
        "columns": None if inputs.columns is None else inputs.columns.as_config(),
        "features": steps,
        "released": inputs.released,
        "dtype": model.dtype,
        "guarantee": _plain(model.guarantee),
    }
    return description, learnt


def read_model(path: Path, *, task: Task | None = None, networks: bool = False) -> Model:
    """The model of a file or of a run's folder; a damaged file is one sentence."""
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        raise TacitError(
            f"there is no model {path}: give a file of Model.save, or the folder of a finished run."
        )
    try:
        arrays, about = _opened(path)
        if about.get("version") != _VERSION:
            raise TacitError(
                f"{path} is of version {about.get('version')} of the format and this Tacit reads"
                f" version {_VERSION}: use the Tacit that wrote it."
            )
        return _built(path, arrays, about, task, networks=networks)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise TacitError(f"{path} is not a readable model of Tacit ({error}).") from None


def _opened(path: Path) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    if _KEY not in metadata:
        raise ValueError("its header holds no description by Tacit")
    return arrays, json.loads(metadata[_KEY])


def _built(
    path: Path, arrays: Arrays, about: Mapping[str, Any], task: Task | None, *, networks: bool
) -> Model:
    import jax

    shape, classes = tuple(int(n) for n in about["shape"]), int(about["classes"])
    if task is None:
        if about["task"] is None:
            raise TacitError(
                f"the model of {path} is of your own functions: give task=..., the task that was"
                " trained."
            )
        options = {k: v for k, v in about["task"].items() if k != "name"}
        task = tasks.make(about["task"]["name"], shape=shape, classes=classes, **options)
    method = dict(about["algorithm"])
    algorithm = algorithms.make(method.pop("name"), **method)
    columns = about["columns"]
    inputs = Inputs(
        shape=shape,
        classes=classes,
        columns=None if columns is None else Preprocessing.from_config(columns),
        maps=_maps(about["features"], arrays, path, networks=networks),
        released=about["released"],
    )
    with precision(about["dtype"]):
        like = jax.eval_shape(task.init, jax.random.key(0))
    own = {k.removeprefix("params"): v for k, v in arrays.items() if k.startswith("params")}
    return Model(
        params=tree.from_named(own, like),
        task=task,
        algorithm=algorithm,
        inputs=inputs,
        dtype=about["dtype"],
        guarantee=about["guarantee"],
    )


def _step(step: FeatureMap) -> dict[str, Any]:
    name = next(name for name, kind in MAPS.items() if kind is type(step))
    given = {f.name: getattr(step, f.name) for f in fields(cast(Any, step)) if f.name != "learnt"}
    return {"name": name, **given}


def _maps(
    steps: Sequence[Mapping[str, Any]], arrays: Arrays, path: Path, *, networks: bool
) -> tuple[FeatureMap, ...]:
    found: list[FeatureMap] = []
    for number, given in enumerate(steps):
        listed = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        step = make_map(listed)
        if isinstance(step, Network) and not networks:
            raise TacitError(
                f"{path} names the Python function {step.path!r} as a feature map: load it with"
                " networks=True (--networks) if you trust the file."
            )
        if isinstance(step, (Projection, Centre)):
            learnt = Learnt(arrays[f"features.{number}.mean"], arrays[f"features.{number}.matrix"])
            step = replace(step, learnt=learnt)
        found.append(step)
    return tuple(found)


def _plain(value: Any) -> Any:
    """Plain JSON: an infinite epsilon is a text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
