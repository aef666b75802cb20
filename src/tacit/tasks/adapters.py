"""Models of Flax (Linen and NNX) and Equinox as tasks.

The library stays the model's author; a task only needs its parameters as named arrays and a
function of one record. Layers that mix the records of a batch (batch normalisation) are refused:
with them a record's gradient depends on its neighbours, so no bound on one record holds, and their
running statistics would leave the client without a release.

The libraries are optional: ``pip install tacit-fl[flax]`` or ``tacit-fl[equinox]``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import ConfigError
from tacit.tasks.base import Params, Record
from tacit.tasks.functions import FunctionTask, Metrics, from_functions

OutputLoss = Callable[[Array, Record], Array]
_RUNNING_STATISTICS = "batch_stats"


def from_linen(
    module: Any,
    loss: OutputLoss,
    *,
    shape: tuple[int, ...],
    metrics: Metrics | None = None,
    dtype: Any = None,
    batched: bool = True,
) -> FunctionTask:
    """A task of a Flax Linen module; ``loss(output, record)`` scores one record.

    ``shape`` is that of a record's ``x``, ``dtype`` its type where that is not floating (tokens).
    With ``batched`` the module sees a batch of one.
    """
    errors = require("flax.errors", "flax")

    def variables(key: Array) -> Any:
        return module.init(key, _one(jnp.zeros(shape, dtype), batched))

    def init(key: Array) -> Params:
        return _default_precision(variables(key)["params"])

    def output(params: Params, record: Record) -> Array:
        return _call(lambda x: module.apply({"params": params}, x), record["x"], params, batched)

    try:
        found = jax.eval_shape(variables, jax.random.key(0))
        _refuse_state(set(found) - {"params"})
        jax.eval_shape(output, found["params"], {"x": jnp.zeros(shape, dtype)})
    except errors.FlaxError as error:
        reason = str(error).split(". ")[0]
        raise ConfigError(
            f"the Linen module cannot be called on one record without randomness ({reason}): "
            "give dropout deterministic=True."
        ) from None
    return _task(init, output, loss, metrics)


def from_nnx(
    build: Callable[[Any], Any],
    loss: OutputLoss,
    *,
    metrics: Metrics | None = None,
    batched: bool = True,
) -> FunctionTask:
    """A task of a Flax NNX module; ``build(rngs)`` makes it, ``loss(output, record)`` scores it.

    The module is put in evaluation mode: dropout is off. Parameters travel as ``{"a/kernel": …}``.
    """
    nnx = require("flax.nnx", "flax")
    abstract = nnx.eval_shape(lambda: build(nnx.Rngs(0)))
    abstract.eval()
    graph, slots, rest = nnx.split(abstract, nnx.Param, ...)
    kinds = {type(value).__name__: value for _, value in nnx.to_flat_state(rest)}
    if any(isinstance(value, nnx.BatchStat) for value in kinds.values()):
        _refuse_state({_RUNNING_STATISTICS})
    _refuse_state({k for k, value in kinds.items() if not isinstance(value, nnx.RngState)})
    paths = [path for path, _ in nnx.to_flat_state(slots)]

    def init(key: Array) -> Params:
        state = nnx.state(build(nnx.Rngs(key)), nnx.Param)
        values = {_name(path): value[...] for path, value in nnx.to_flat_state(state)}
        return _default_precision(values)

    def output(params: Params, record: Record) -> Array:
        state = nnx.from_flat_state((path, nnx.Param(params[_name(path)])) for path in paths)
        model = nnx.merge(graph, state, rest)
        return _call(model, record["x"], params, batched)

    return _task(init, output, loss, metrics)


def from_equinox(
    build: Callable[[Array], Any],
    loss: OutputLoss,
    *,
    metrics: Metrics | None = None,
) -> FunctionTask:
    """A task of an Equinox module; ``build(key)`` makes it, ``loss(output, record)`` scores it.

    As usual in Equinox the module takes one record's ``x``. It is put in inference mode: dropout
    is off. Parameters are its floating arrays, named by their path.
    """
    eqx = require("equinox", "equinox")
    abstract = eqx.nn.inference_mode(eqx.filter_eval_shape(build, jax.random.key(0)))
    mixes = (eqx.nn.BatchNorm, eqx.nn.StateIndex)
    for leaf in jax.tree.leaves(abstract, is_leaf=lambda node: isinstance(node, mixes)):
        if isinstance(leaf, mixes):
            is_norm = isinstance(leaf, eqx.nn.BatchNorm)
            _refuse_state({_RUNNING_STATISTICS if is_norm else "state"})
    leaves, treedef = jax.tree.flatten_with_path(abstract)
    names = [_name(path) for path, _ in leaves]
    floating = [_is_floating(leaf) for _, leaf in leaves]

    def init(key: Array) -> Params:
        values = jax.tree.leaves(build(key))
        found = zip(names, values, floating, strict=True)
        return _default_precision({name: value for name, value, yes in found if yes})

    def output(params: Params, record: Record) -> Array:
        found = zip(names, leaves, floating, strict=True)
        model = jax.tree.unflatten(
            treedef, [params[n] if yes else leaf for n, (_, leaf), yes in found]
        )
        return _call(model, record["x"], params, batched=False)

    return _task(init, output, loss, metrics)


def _task(
    init: Callable[[Array], Params],
    output: Callable[[Params, Record], Array],
    loss: OutputLoss,
    metrics: Metrics | None,
) -> FunctionTask:
    return from_functions(
        init, lambda params, record: loss(output(params, record), record), output, metrics
    )


def require(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"this model needs {extra}, which is not installed: pip install 'tacit-fl[{extra}]'."
        ) from None


def _refuse_state(collections: set[str]) -> None:
    if _RUNNING_STATISTICS in collections:
        raise ConfigError(
            "the model has batch normalisation, which mixes the records of a batch, so no record's "
            "gradient can be bounded: use GroupNorm or LayerNorm instead."
        )
    if collections:
        raise ConfigError(
            f"the model keeps state besides its parameters ({', '.join(sorted(collections))}): "
            "only parameters are trained here, so take those layers out."
        )


def _call(model: Callable[[Array], Any], x: Array, params: Params, batched: bool) -> Array:
    x = jnp.asarray(x)
    leaves = jax.tree.leaves(params)
    if leaves and jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(leaves[0].dtype)
    out = jnp.asarray(model(_one(x, batched)))
    return out[0] if batched else out


def _one(x: Array, batched: bool) -> Array:
    return x[None] if batched else x


def _name(path: tuple[Any, ...]) -> str:
    parts = (getattr(p, "name", getattr(p, "idx", getattr(p, "key", p))) for p in path)
    return "/".join(str(part) for part in parts)


def _is_floating(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def _default_precision(params: Params) -> Params:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.result_type(float)), params)
