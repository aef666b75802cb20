import json
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit.errors import TacitError
from tacit.wire.codec import MAX_HEADER, Message, WireError, decode, encode

DTYPES = (
    *("float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    "bool",
)
names = st.text(min_size=1, max_size=20).filter(str.isprintable)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: npst.arrays(
        dtype, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    )
)
metas = st.dictionaries(
    names,
    st.one_of(
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=30),
    ),
    max_size=5,
)


def sample():
    return encode(
        "train",
        {
            "delta": np.arange(6, dtype=np.float32).reshape(2, 3),
            "mask": np.array([True, False, True]),
            "count": np.int64(7),
        },
        {"round": 3, "rate": 0.5, "run": "é", "last": False},
    )


def with_header(header, buffers=b"", version=1):
    """A message with a right checksum around any header."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":"))
    text = text if isinstance(text, bytes) else text.encode()
    body = struct.pack("<4sBI", b"TCIT", version, len(text)) + text + buffers
    return body + struct.pack("<I", zlib.crc32(body))


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(names, st.dictionaries(names, arrays, max_size=4), metas)
def test_a_message_comes_back_bit_for_bit(kind, fields, meta):
    data = encode(kind, fields, meta)
    message = decode(data)
    assert (message.kind, message.meta) == (kind, meta)
    assert [type(value) for value in message.meta.values()] == [type(v) for v in meta.values()]
    assert list(message.fields) == list(fields)
    assert all(same(message.fields[name], array) for name, array in fields.items())
    assert encode(message.kind, message.fields, message.meta) == data


def test_the_bytes_of_version_1_never_change():
    data = encode("hi", {"x": np.array([1, 258], np.uint16)}, {"n": 1})
    head = b'{"kind":"hi","fields":[["x","uint16",[2]]],"meta":{"n":1}}'
    body = b"TCIT\x01" + struct.pack("<I", len(head)) + head + b"\x01\x00\x02\x01"
    assert data == body + struct.pack("<I", zlib.crc32(body))


def test_layout_and_byte_order_do_not_matter():
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    data = encode("a", {"x": array}, {})
    assert encode("a", {"x": array.astype(">f8")}, {}) == data
    assert encode("a", {"x": np.asfortranarray(array)}, {}) == data
    assert encode("a", {"x": np.repeat(array, 2, axis=0)[::2]}, {}) == data
    assert same(decode(data).fields["x"], array)


def test_numbers_are_arrays_without_dimensions():
    message = decode(encode("a", {"f": 1.5, "i": 3, "b": True, "n": np.float32(2)}, {}))
    assert {name: (str(v.dtype), v.shape, v.item()) for name, v in message.fields.items()} == {
        "f": ("float64", (), 1.5),
        "i": ("int64", (), 3),
        "b": ("bool", (), True),
        "n": ("float32", (), 2.0),
    }


def test_received_arrays_are_read_only():
    fields = decode(encode("a", {"x": np.ones(3), "empty": np.ones((0, 2))}, {})).fields
    for array in fields.values():
        assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        fields["x"][0] = 2


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1j]),
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, "datetime64[s]"),
        np.zeros(2, "V4"),
        np.zeros((1,) * 17),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        [1.0, 2.0],
        "text",
        b"bytes",
        None,
        2**70,
        {"a": 1},
    ],
)
def test_other_values_are_refused(value):
    with pytest.raises(WireError, match="'x'"):
        encode("a", {"x": value}, {})


@pytest.mark.parametrize(
    "meta",
    [
        {"x": None},
        {"x": [1]},
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": 2**64},
        {"x": -(2**63) - 1},
        {"x": np.float64(1)},
        {"": 1},
        {3: 1},
        {"a\nb": 1},
        {"x": "y" * MAX_HEADER},
        None,
        3,
    ],
)
def test_other_meta_is_refused(meta):
    with pytest.raises(WireError):
        encode("a", {}, meta)


@pytest.mark.parametrize("name", ["", "a\n", "\ud800", "x" * 201, None, 3])
def test_other_names_are_refused(name):
    with pytest.raises(WireError):
        encode(name, {}, {})
    with pytest.raises(WireError):
        encode("a", {name: np.ones(1)}, {})


# Bytes that nobody should trust


@settings(max_examples=300)
@given(st.binary(max_size=200))
@example(b"")
@example(b"TCIT\x01\x00\x00\x00\x00")
def test_random_bytes_are_refused(data):
    for candidate in (data, b"TCIT\x01" + data):
        with pytest.raises(WireError):
            decode(candidate)


def test_every_truncation_and_every_extension_is_refused():
    data = sample()
    for end in range(len(data)):
        with pytest.raises(WireError):
            decode(data[:end])
    for more in (b"\x00", b"\x00" * 4, data):
        with pytest.raises(WireError):
            decode(data + more)


def test_every_single_changed_byte_is_refused():
    data = sample()
    for at in range(len(data)):
        for flip in (0x01, 0x10, 0x80, 0xFF):
            hurt = bytearray(data)
            hurt[at] ^= flip
            with pytest.raises(WireError):
                decode(bytes(hurt))


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 2**66),
        st.floats(),
        st.sampled_from(["kind", "fields", "meta", "float32", "bool", "O", "x", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["kind", "fields", "meta", "x"]), inner, max_size=4),
    ),
    max_leaves=12,
)
almost_headers = st.fixed_dictionaries(
    {
        "kind": st.one_of(st.just("a"), json_values),
        "fields": st.one_of(
            st.lists(
                st.tuples(
                    st.sampled_from(["x", "y"]),
                    st.sampled_from([*DTYPES, "object", "V8", "<f4", "float128"]),
                    st.lists(st.integers(-1, 3) | st.integers(0, 2**65), max_size=3),
                ),
                max_size=3,
            ),
            json_values,
        ),
        "meta": st.one_of(metas, json_values),
    }
)


@settings(max_examples=400)
@given(st.one_of(almost_headers, json_values), st.binary(max_size=64))
def test_a_hostile_header_is_refused_or_means_exactly_what_it_says(header, buffers):
    data = with_header(header, buffers)
    try:
        message = decode(data)
    except WireError:
        return
    assert encode(message.kind, message.fields, message.meta) == data


@settings(max_examples=200)
@given(st.binary(max_size=80), st.binary(max_size=16))
def test_a_header_of_random_bytes_is_refused(header, buffers):
    with pytest.raises(WireError):
        decode(with_header(header, buffers))


@pytest.mark.parametrize(
    ("header", "buffers"),
    [
        (b'{"kind":"a","fields":[],"meta":{} }', b""),
        (b'{"kind":"a","meta":{},"fields":[]}', b""),
        (b'{"kind":"a","kind":"a","fields":[],"meta":{}}', b""),
        (b'{"kind":"a","fields":[],"meta":{"x":1,"x":2}}', b""),
        (b'{"kind":"a","fields":[],"meta":{"x":1e999}}', b""),
        (b'{"kind":"a","fields":[],"meta":{"x":NaN}}', b""),
        (b'{"kind":"a","fields":[],"meta":{"x":1.50}}', b""),
        (b'{"kind":"a","fields":[],"meta":{"x":' + b"9" * 5000 + b"}}", b""),
        (b'{"kind":"a","fields":[["x","bool",[1]]],"meta":{}}', b"\x02"),
        (b'{"kind":"a","fields":[["x","int8",[1]],["x","int8",[1]]],"meta":{}}', b"ab"),
        (b'{"kind":"a","fields":[["x","int8",[true]]],"meta":{}}', b"a"),
        (b'{"kind":"a","fields":[["x","int8",[-1]]],"meta":{}}', b""),
        (b'{"kind":"a","fields":[["x","int8",[1]]],"meta":{}}', b"ab"),
        (b'{"kind":"a","fields":[["x","int8",[4294967295,4294967295,0]]],"meta":{}}', b""),
        (b"[" * 100_000, b""),
        (b'{"a":' * 100_000, b""),
        ("{}".encode("utf-16"), b""),
        (b"", b""),
    ],
)
def test_headers_that_encode_never_writes_are_refused(header, buffers):
    with pytest.raises(WireError):
        decode(with_header(header, buffers))


def test_a_short_message_cannot_claim_a_large_array():
    header = {"kind": "a", "fields": [["x", "float64", [2**31, 2**10]]], "meta": {}}
    data = with_header(header, b"\x00" * 64)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="ends before"):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_large_array_is_not_copied():
    data = encode("a", {"x": np.zeros(2**20)}, {})
    tracemalloc.start()
    try:
        message = decode(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert message.fields["x"].nbytes == 2**23


def test_limits_and_versions_are_said_in_words():
    data = sample()
    assert isinstance(decode(data, max_bytes=len(data)), Message)
    with pytest.raises(WireError, match="above the limit"):
        decode(data, max_bytes=len(data) - 1)
    header = {"kind": "a", "fields": [], "meta": {}}
    with pytest.raises(WireError, match="version 2"):
        decode(with_header(header, version=2))
    with pytest.raises(WireError, match="not a message"):
        decode(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(WireError, match="header of"):
        decode(with_header(b" " * (MAX_HEADER + 1)))
    with pytest.raises(WireError, match="bytes, not"):
        decode(bytearray(data))
    assert issubclass(WireError, TacitError)
