"""A model in other formats: plain arrays, PyTorch's own names, ONNX.

NPZ and safetensors hold the numbers under their names; a torch file holds them as tensors. ONNX
holds the whole computation from encoded records: the centre and the lengths of records (as the
method takes them), the network, and the scores.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tacit import tree
from tacit.atomic_write import write_atomically
from tacit.errors import TacitError
from tacit.model.model import Model
from tacit.precision import precision
from tacit.record_maps import centred_rows

Format = Literal["onnx", "torch", "safetensors", "npz"]
SUFFIXES = {"onnx": ".onnx", "torch": ".pt", "safetensors": ".safetensors", "npz": ".npz"}


def export(model: Model, to: str, path: str | Path) -> Path:
    """Write the model in another format."""
    kinds: dict[str, Callable[[Model], bytes]] = {
        "onnx": _onnx,
        "torch": _torch,
        "safetensors": _safetensors,
        "npz": _npz,
    }
    if to not in kinds:
        raise TacitError(f"there is no format {to!r}: choose one of {', '.join(kinds)}.")
    found = Path(path)
    write_atomically(found, kinds[to](model))
    return found


def plain_names(model: Model) -> dict[str, np.ndarray[Any, Any]]:
    """The numbers under names like ``layer.w``: the path in the parameters, joined by dots."""
    named = tree.to_named(model.params)
    return {_dotted(name): np.asarray(value, order="C") for name, value in named.items()}


def _dotted(name: str) -> str:
    parts = name.replace("[", ".").replace("]", "").replace("'", "").split(".")
    return ".".join(part for part in parts if part) or "params"


def _npz(model: Model) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **plain_names(model))  # type: ignore[arg-type]
    return buffer.getvalue()


def _safetensors(model: Model) -> bytes:
    from safetensors.numpy import save

    return save(plain_names(model))


def _torch(model: Model) -> bytes:
    try:
        import torch
    except ImportError:
        raise TacitError(
            "a PyTorch file needs torch: `pip install 'tacit-fl[torch]'`, or export safetensors,"
            " which torch reads as well."
        ) from None
    buffer = io.BytesIO()
    torch.save({k: torch.from_numpy(v.copy()) for k, v in plain_names(model).items()}, buffer)
    return buffer.getvalue()


def _onnx(model: Model) -> bytes:
    try:
        from jax2onnx import to_onnx
    except ImportError:
        raise TacitError("ONNX needs jax2onnx: `pip install 'tacit-fl[onnx]'`.") from None
    import jax
    import jax.numpy as jnp

    # From one program to another there is no way for numpy: the method's step is traced here.
    step = _traced_step(model)
    params = jax.tree.map(jnp.asarray, model.params)

    def outputs(x: Any) -> Any:
        return model.task.outputs(params, {"x": step(x)})

    with precision("float32"):
        made = to_onnx(
            outputs,
            inputs=[("records", *model.inputs.shape)],
            model_name="tacit",
            input_names=["x"],
            output_names=["scores"],
        )
    return made.SerializeToString()


def _traced_step(model: Model) -> Callable[[Any], Any]:
    """The method's step on encoded records, for JAX: nothing, unit norm, or a centre between."""
    import jax.numpy as jnp

    def unit(x: Any) -> Any:
        flat = x.reshape(x.shape[0], -1)
        largest = jnp.max(jnp.abs(flat), axis=1, keepdims=True)
        flat = flat / jnp.where(largest > 0, largest, 1)
        norms = jnp.sqrt(jnp.sum(flat * flat, axis=1, keepdims=True))
        return (flat / jnp.where(norms > 0, norms, 1)).reshape(x.shape)

    released, inputs = model.inputs.released, model.inputs
    steps: list[Callable[[Any], Any]] = [lambda x: x, unit]
    if "centre" in released:
        centre = jnp.asarray(released["centre"], jnp.float32).reshape(inputs.shape)
        steps = [lambda x: unit(unit(x) - centre)]
    tried = np.random.default_rng(0).standard_normal((5, *inputs.shape)).astype(np.float32)
    raw = {"x": tried}
    if "centre" in released:
        raw = {"x": centred_rows(tried, np.asarray(released["centre"], np.float64))}
    wanted = model.algorithm.prepared(raw)["x"]
    for step in steps:
        if np.allclose(step(tried), wanted, rtol=1e-4, atol=1e-5):
            return step
    raise TacitError(
        f"what {type(model.algorithm).__name__} does to records has no ONNX form: export npz."
    )
