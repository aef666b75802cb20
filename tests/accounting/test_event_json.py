import json
import math
import struct

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.event_json import MAX_DEPTH, MAX_INT, decode_event, encode_event
from tacit.accounting.events import PureDpEvent
from tacit.errors import LedgerError

GAUSSIAN = {"name": "gaussian", "noise_multiplier": 1.5}

noises = st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(abs)
counts = st.integers(0, MAX_INT)
single_events = st.one_of(
    st.just(dp_event.NoOpDpEvent()),
    st.just(dp_event.NonPrivateDpEvent()),
    noises.map(dp_event.GaussianDpEvent),
    noises.map(dp_event.LaplaceDpEvent),
    noises.map(PureDpEvent),
)


def _wrapped(inner: st.SearchStrategy[dp_event.DpEvent]) -> st.SearchStrategy[dp_event.DpEvent]:
    sizes = st.tuples(st.integers(1, MAX_INT), st.integers(1, MAX_INT))
    return st.one_of(
        st.builds(dp_event.PoissonSampledDpEvent, st.floats(0, 1).map(abs), inner),
        st.builds(
            lambda pair, event: dp_event.SampledWithoutReplacementDpEvent(
                max(pair), min(pair), event
            ),
            sizes,
            inner,
        ),
        st.builds(dp_event.SelfComposedDpEvent, inner, counts),
        st.builds(dp_event.ComposedDpEvent, st.lists(inner, max_size=4)),
    )


events = st.recursive(single_events, _wrapped, max_leaves=12)


@given(events)
def test_an_event_comes_back_through_json(event):
    text = json.dumps(encode_event(event), allow_nan=False)
    back = decode_event(json.loads(text))
    assert back == event
    assert json.dumps(encode_event(back)) == text


@given(noises)
def test_floats_come_back_bit_for_bit(noise):
    back = decode_event(json.loads(json.dumps(encode_event(dp_event.GaussianDpEvent(noise)))))
    assert struct.pack("<d", back.noise_multiplier) == struct.pack("<d", noise)


def test_the_names_in_the_file_never_change():
    event = dp_event.ComposedDpEvent(
        [
            dp_event.NoOpDpEvent(),
            dp_event.NonPrivateDpEvent(),
            dp_event.SelfComposedDpEvent(
                dp_event.PoissonSampledDpEvent(0.25, dp_event.GaussianDpEvent(1.5)), 3
            ),
            dp_event.SampledWithoutReplacementDpEvent(100, 10, dp_event.LaplaceDpEvent(2.0)),
            PureDpEvent(0.5),
        ]
    )
    assert encode_event(event) == {
        "name": "composed",
        "events": [
            {"name": "no-op"},
            {"name": "non-private"},
            {
                "name": "self-composed",
                "count": 3,
                "event": {
                    "name": "poisson-sampled",
                    "sampling_probability": 0.25,
                    "event": GAUSSIAN,
                },
            },
            {
                "name": "sampled-without-replacement",
                "source_dataset_size": 100,
                "sample_size": 10,
                "event": {"name": "laplace", "noise_multiplier": 2.0},
            },
            {"name": "pure-dp", "epsilon": 0.5},
        ],
    }


@pytest.mark.parametrize(
    "obj",
    [
        None,
        [],
        "gaussian",
        3,
        {},
        {"name": None},
        {"name": ["gaussian"]},
        {"name": "Gaussian", "noise_multiplier": 1.0},
        {"name": "os.system"},
        {"module_name": "os", "class_name": "system"},
        {"name": "gaussian"},
        {**GAUSSIAN, "also": 1},
        {"name": "gaussian", "noise": 1.0},
        {"name": "gaussian", "noise_multiplier": "1.0"},
        {"name": "gaussian", "noise_multiplier": True},
        {"name": "gaussian", "noise_multiplier": None},
        {"name": "gaussian", "noise_multiplier": math.nan},
        {"name": "gaussian", "noise_multiplier": math.inf},
        {"name": "gaussian", "noise_multiplier": -1.0},
        {"name": "gaussian", "noise_multiplier": 10**400},
        {"name": "laplace", "noise_multiplier": -1e-300},
        {"name": "pure-dp", "epsilon": -0.5},
        {"name": "poisson-sampled", "sampling_probability": 1.5, "event": GAUSSIAN},
        {"name": "poisson-sampled", "sampling_probability": 0.5, "event": 7},
        {"name": "self-composed", "count": -1, "event": GAUSSIAN},
        {"name": "self-composed", "count": 2.0, "event": GAUSSIAN},
        {"name": "self-composed", "count": True, "event": GAUSSIAN},
        {"name": "self-composed", "count": MAX_INT + 1, "event": GAUSSIAN},
        {"name": "self-composed", "count": 10**5000, "event": GAUSSIAN},
        {"name": "composed", "events": GAUSSIAN},
        {"name": "composed", "events": "ab"},
        {"name": "composed", "events": [GAUSSIAN, {"name": "gauss"}]},
        {
            "name": "sampled-without-replacement",
            "source_dataset_size": 10,
            "sample_size": 11,
            "event": GAUSSIAN,
        },
        {
            "name": "sampled-without-replacement",
            "source_dataset_size": 0,
            "sample_size": 0,
            "event": GAUSSIAN,
        },
    ],
)
def test_what_is_not_an_event_is_refused(obj):
    with pytest.raises(LedgerError, match=r"\.$"):
        decode_event(obj)


@pytest.mark.parametrize(
    "event",
    [
        None,
        GAUSSIAN,
        dp_event.UnsupportedDpEvent(),
        dp_event.ZCDpEvent(0.5),
        dp_event.GaussianDpEvent(math.nan),
        dp_event.GaussianDpEvent(math.inf),
        dp_event.GaussianDpEvent(-1.0),
        dp_event.GaussianDpEvent(True),
        dp_event.GaussianDpEvent("1"),
        dp_event.SelfComposedDpEvent(dp_event.NoOpDpEvent(), -2),
        dp_event.SelfComposedDpEvent(dp_event.NoOpDpEvent(), 2.5),
        dp_event.SelfComposedDpEvent(None, 2),
        dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), dp_event.UnsupportedDpEvent()]),
        dp_event.PoissonSampledDpEvent(1.01, dp_event.NoOpDpEvent()),
    ],
)
def test_an_event_that_could_not_be_read_back_is_not_written(event):
    with pytest.raises(LedgerError, match=r"\.$"):
        encode_event(event)


def test_a_subclass_is_another_event():
    class Stronger(dp_event.GaussianDpEvent):
        pass

    with pytest.raises(LedgerError, match="cannot hold"):
        encode_event(Stronger(1.0))


def test_numbers_of_numpy_are_written_as_plain_numbers():
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(np.float32(0.1)), np.int64(4))
    obj = encode_event(event)
    assert type(obj["count"]) is int
    assert type(obj["event"]["noise_multiplier"]) is float
    assert obj["event"]["noise_multiplier"] == float(np.float32(0.1))


def test_nesting_has_a_limit():
    event: dp_event.DpEvent = dp_event.GaussianDpEvent(1.0)
    for _ in range(MAX_DEPTH - 1):
        event = dp_event.SelfComposedDpEvent(event, 1)
    obj = encode_event(event)
    assert decode_event(obj) == event
    with pytest.raises(LedgerError, match="deeper"):
        encode_event(dp_event.SelfComposedDpEvent(event, 1))
    with pytest.raises(LedgerError, match="deeper"):
        decode_event({"name": "composed", "events": [obj]})
