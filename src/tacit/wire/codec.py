"""The byte format of a message: named arrays and a few scalars, safe to read from any sender.

    magic     4 bytes   b"TCIT"
    version   1 byte
    length    4 bytes   of the header, little endian
    header              JSON: {"kind": ..., "fields": [[name, dtype, shape], ...], "meta": {...}}
    buffers             the arrays in the order of the header: C order, little endian, no padding
    checksum  4 bytes   CRC-32 of everything before it

Reading executes and imports nothing. An array is a read-only view of the received bytes, so a short
message cannot claim a large array. A message has exactly one encoding: a header that this module
would have written differently is refused. The checksum detects accidents, not attacks; the
transport must prove who sent a message.
"""

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError

Array = npt.NDArray[Any]
Scalar = int | float | str | bool

MAGIC: Final = b"TCIT"
VERSION: Final = 1
MAX_BYTES: Final = 2**30
MAX_HEADER: Final = 2**20
MAX_DIMENSIONS: Final = 16

_START: Final = struct.Struct("<4sBI")
_CHECKSUM: Final = struct.Struct("<I")
_DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("float16", "float32", "float64"),
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
        "bool",
    )
}
_as_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class WireError(TacitError):
    """Bytes that are not a valid message, or values that a message cannot contain."""


@dataclass(frozen=True, eq=False)
class Message:
    """A message: its kind, its arrays by name, and scalar metadata."""

    kind: str
    fields: Mapping[str, Array]
    meta: Mapping[str, Scalar]


def encode(kind: str, fields: Mapping[str, Any], meta: Mapping[str, Scalar]) -> bytes:
    """The bytes of a message; the values of ``fields`` are arrays or plain numbers."""
    arrays = {_checked_name(name): _as_array(name, value) for name, value in fields.items()}
    header = _header(kind, arrays, meta)
    parts = [_START.pack(MAGIC, VERSION, len(header)), header]
    parts += [array.tobytes() for array in arrays.values()]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([*parts, _CHECKSUM.pack(checksum)])


def decode(data: bytes, *, max_bytes: int = MAX_BYTES) -> Message:
    """The message in ``data``; any defect raises a WireError."""
    end = _checked_end(data, max_bytes)
    _, _, length = _START.unpack_from(data)
    start = _START.size + length
    header = data[_START.size : start]
    kind, described, meta = _parsed(header)
    fields: dict[str, Array] = {}
    for name, dtype, shape in described:
        size = math.prod(shape)
        stop = start + size * dtype.itemsize
        if stop > end:
            raise WireError(f"the message ends before its field {name!r} does.")
        array = np.frombuffer(data, dtype, size, start) if size else np.empty(0, dtype)
        if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise WireError(f"the field {name!r} has bytes that are neither true nor false.")
        fields[name] = array.reshape(shape)
        fields[name].flags.writeable = False
        start = stop
    if start != end:
        raise WireError(f"the message has {end - start} bytes that belong to no field.")
    if _header(kind, fields, meta) != header:
        raise WireError("the header of the message is not in its standard form.")
    return Message(kind, fields, meta)


def _checked_end(data: bytes, max_bytes: int) -> int:
    """The end of the buffers, after checks of length, magic, version and checksum."""
    if not isinstance(data, bytes):
        raise WireError(f"a message must be bytes, not {type(data).__name__}.")
    if len(data) > max_bytes:
        raise WireError(f"a message of {len(data)} bytes is above the limit of {max_bytes}.")
    if len(data) < _START.size + _CHECKSUM.size:
        raise WireError(f"{len(data)} bytes are too few for a message.")
    magic, version, length = _START.unpack_from(data)
    end = len(data) - _CHECKSUM.size
    if magic != MAGIC:
        raise WireError("these bytes are not a message from Tacit.")
    if version != VERSION:
        raise WireError(
            f"the message has version {version}, but this Tacit reads version {VERSION}: install"
            " the same Tacit version on both sides."
        )
    if length > MAX_HEADER or _START.size + length > end:
        raise WireError(f"the message claims a header of {length} bytes, which is not possible.")
    if zlib.crc32(memoryview(data)[:end]) != _CHECKSUM.unpack_from(data, end)[0]:
        raise WireError("the message was damaged in transit: its checksum is wrong.")
    return end


def _parsed(
    header: bytes,
) -> tuple[str, list[tuple[str, np.dtype[Any], tuple[int, ...]]], dict[str, Scalar]]:
    try:
        content = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise WireError("the header of the message is not JSON.") from error
    if not isinstance(content, dict) or list(content) != ["kind", "fields", "meta"]:
        raise WireError("the header of a message must have a kind, fields and meta.")
    if not isinstance(content["fields"], list):
        raise WireError("the fields in the header must be a list.")
    described = [_described(field) for field in content["fields"]]
    return _checked_name(content["kind"]), described, _checked_meta(content["meta"])


def _described(field: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    if not isinstance(field, list) or len(field) != 3:
        raise WireError("a field in the header must have a name, a dtype and a shape.")
    name, dtype, shape = field
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise WireError(f"a field in the header has a dtype that is not in {', '.join(_DTYPES)}.")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**32 for n in shape):
        raise WireError("a field in the header has an invalid shape.")
    _check_shape(_checked_name(name), shape)
    return name, _DTYPES[dtype], tuple(shape)


def _header(kind: str, arrays: Mapping[str, Array], meta: Mapping[str, Scalar]) -> bytes:
    fields = [[name, array.dtype.name, array.shape] for name, array in arrays.items()]
    content = {"kind": _checked_name(kind), "fields": fields, "meta": _checked_meta(meta)}
    header = _as_json(content).encode()
    if len(header) > MAX_HEADER:
        raise WireError(f"the names and scalars of a message must stay below {MAX_HEADER} bytes.")
    return header


def _as_array(name: str, value: Any) -> Array:
    # Converting a masked array would send the masked values.
    if isinstance(value, np.ma.MaskedArray) or not (
        isinstance(value, bool | int | float) or hasattr(value, "__array__")
    ):
        raise WireError(f"the field {name!r} is a {type(value).__name__}: give a plain array.")
    array = np.asarray(value)
    dtype = _DTYPES.get(array.dtype.name)
    if dtype is None:
        raise WireError(
            f"the field {name!r} has dtype {array.dtype}: a message holds {', '.join(_DTYPES)}."
        )
    _check_shape(name, array.shape)
    return array.astype(dtype, order="C", copy=False)


def _check_shape(name: str, shape: Any) -> None:
    # numpy refuses a shape whose product overflows, even if one of its sizes is 0.
    if len(shape) > MAX_DIMENSIONS or math.prod(max(n, 1) for n in shape) >= 2**48:
        raise WireError(f"the field {name!r} has a shape that is too large.")


def _checked_name(name: Any) -> str:
    if not (isinstance(name, str) and name.isprintable() and 0 < len(name) <= 200):
        raise WireError("a name in a message must be 1 to 200 printable characters.")
    return name


def _checked_meta(meta: Any) -> dict[str, Scalar]:
    if not isinstance(meta, Mapping):
        raise WireError(f"the meta of a message must be a mapping, not a {type(meta).__name__}.")
    for key, value in meta.items():
        kind = type(value)
        if kind not in (int, float, str, bool):
            raise WireError(f"the meta {_checked_name(key)!r} is a {kind.__name__}, not a scalar.")
        if kind is int and not -(2**63) <= value < 2**64:
            raise WireError(f"the meta {_checked_name(key)!r} needs more than 64 bits.")
        if kind is float and not math.isfinite(value):
            raise WireError(f"the meta {_checked_name(key)!r} is not finite.")
        _checked_name(key)
    return dict(meta)
