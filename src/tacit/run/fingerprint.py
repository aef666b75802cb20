"""The fingerprint of a run: of its plan, its records and its settings.

It is made from what is about to be computed, never from what a caller says about it. A folder that
holds a run with another fingerprint is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.data.federation import Federation, Records
from tacit.planning import Plan

_DEEPEST = 40
_LIBRARIES = {"tacit", "builtins", "abc", "typing", "jax", "flax", "equinox", "numpy", "optax"}


def fingerprint(plan: Plan, federation: Federation, settings: Mapping[str, Any]) -> str:
    """A digest of everything that decides the rounds of a run, apart from how many there are.

    A run may be continued with more rounds where its noise does not depend on their number.
    """
    content = {
        "algorithm": described(plan.algorithm),
        "prelude": None if plan.prelude is None else described(plan.prelude.algorithm),
        "task": described(plan.task),
        "sizes": _hashed(np.asarray(federation.sizes)),
        "records": _columns(federation.records),
        "test": None if federation.test is None else _columns(federation.test),
        "settings": described(dict(settings)),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def described(value: Any) -> Any:
    """A value as plain JSON that is equal for equal values, in this process and in the next."""
    return _described(value, frozenset())


def _described(value: Any, above: frozenset[int]) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value.hex()
    if id(value) in above or len(above) > _DEEPEST:
        return type(value).__qualname__
    inside = above | {id(value)}
    if isinstance(value, Mapping):
        return {str(k): _described(v, inside) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_described(v, inside) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_described(v, inside)) for v in value)
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return _name(value)
    if isinstance(value, types.FunctionType):
        return _function(value, inside)
    if isinstance(value, types.MethodType):
        return [_function(value.__func__, inside), _described(value.__self__, inside)]
    if isinstance(value, functools.partial):
        return [_described(part, inside) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, types.CodeType):
        return _code(value, inside)
    if hasattr(value, "__array__"):
        return _hashed(np.asarray(value))
    return [_name(type(value)), _parts(value, inside), _methods(type(value), inside)]


def _parts(value: Any, inside: frozenset[int]) -> Any:
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        return {name: _described(getattr(value, name), inside) for name in fields}
    if hasattr(value, "__dict__"):
        return {str(k): _described(v, inside) for k, v in vars(value).items()}
    text = repr(value)
    return None if " at 0x" in text else text


def _methods(kind: type, inside: frozenset[int]) -> Any:
    """The programs of a class that is not part of an installed library: the user may edit it."""
    own = [c for c in kind.__mro__ if c.__module__.partition(".")[0] not in _LIBRARIES]
    found = {}
    for cls in own:
        for name, value in vars(cls).items():
            made = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if isinstance(made, types.FunctionType):
                found[f"{_name(cls)}.{name}"] = _code(made.__code__, inside)
    return found


def _function(function: Any, inside: frozenset[int]) -> list[Any]:
    """A function by its name, its program and what it has closed over."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    kept = [cells, function.__defaults__, function.__kwdefaults__]
    return [_name(function), _code(function.__code__, inside), _described(kept, inside)]


def _code(code: types.CodeType, inside: frozenset[int]) -> list[Any]:
    program = hashlib.sha256(code.co_code).hexdigest()
    return [program, list(code.co_names), _described(code.co_consts, inside)]


def _name(value: Any) -> str:
    module = getattr(value, "__module__", None)
    return f"{module}.{getattr(value, '__qualname__', getattr(value, '__name__', value))}"


def _columns(records: Records) -> dict[str, Any]:
    return {name: _hashed(np.asarray(column)) for name, column in records.items()}


def _hashed(array: np.ndarray[Any, Any]) -> list[Any]:
    if array.dtype == object or array.dtype.kind not in "biufcSU":
        return [str(array.dtype), list(array.shape), repr(array.tolist())]
    data = np.ascontiguousarray(array).tobytes()
    return [str(array.dtype), list(array.shape), hashlib.sha256(data).hexdigest()]
