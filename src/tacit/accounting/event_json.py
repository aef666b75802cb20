"""Convert privacy events to plain JSON objects and back.

Each event has a short name and its own fields, nothing else:

    {"name": "poisson-sampled", "sampling_probability": 0.1,
     "event": {"name": "gaussian", "noise_multiplier": 1.5}}

The names are looked up in the table below. The data can never name a module or class to import. An
unknown name is an error. Impossible numbers (NaN, infinite, negative, a probability above one) are
refused when writing and when reading. Floats survive bit for bit: JSON holds the shortest text that
is read as the same double.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final

from tacit.accounting.dp_events import dp_event
from tacit.accounting.events import GroupDpEvent, PureDpEvent
from tacit.errors import LedgerError

MAX_DEPTH: Final = 16
"""Limit on nesting (sampling inside composition and so on); real events need fewer than five."""

MAX_INT: Final = 2**53
"""Every JSON reader represents integers up to this value exactly."""

Field = Callable[[Any, str], float | int]


def _real(value: Any, where: str) -> float:
    # isinstance with an abstract class is slow, and nearly all values are plain floats.
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise LedgerError(f"{where} must be a number, not {_shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0.0:
        raise LedgerError(f"{where} must be finite and not negative, not {_shown(value)}.")
    return abs(number)  # -0.0 becomes 0.0: they are the same event


def _probability(value: Any, where: str) -> float:
    number = _real(value, where)
    if number > 1.0:
        raise LedgerError(f"{where} must be a probability between 0 and 1, not {_shown(value)}.")
    return number


def _count(value: Any, where: str) -> int:
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise LedgerError(f"{where} must be a whole number, not {_shown(value)}.")
    number = int(value)
    if not 0 <= number <= MAX_INT:
        raise LedgerError(f"{where} must be between 0 and 2**53, not {_shown(value)}.")
    return number


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python prints
        text = "a number of thousands of digits"
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


_ONE: Final = "event"
_MANY: Final = "events"

_FORMS: Final[Mapping[str, tuple[type[dp_event.DpEvent], Mapping[str, Field | str]]]] = {
    "no-op": (dp_event.NoOpDpEvent, {}),
    "non-private": (dp_event.NonPrivateDpEvent, {}),
    "gaussian": (dp_event.GaussianDpEvent, {"noise_multiplier": _real}),
    "laplace": (dp_event.LaplaceDpEvent, {"noise_multiplier": _real}),
    "pure-dp": (PureDpEvent, {"epsilon": _real}),
    "poisson-sampled": (
        dp_event.PoissonSampledDpEvent,
        {"sampling_probability": _probability, "event": _ONE},
    ),
    "sampled-without-replacement": (
        dp_event.SampledWithoutReplacementDpEvent,
        {"source_dataset_size": _count, "sample_size": _count, "event": _ONE},
    ),
    "group": (
        GroupDpEvent,
        {"group": _count, "groups": _count, "seed": _count, "event": _ONE},
    ),
    "self-composed": (dp_event.SelfComposedDpEvent, {"count": _count, "event": _ONE}),
    "composed": (dp_event.ComposedDpEvent, {"events": _MANY}),
}
_NAMES: Final = {form[0]: name for name, form in _FORMS.items()}


def encode_event(event: dp_event.DpEvent) -> dict[str, Any]:
    """The JSON object for ``event``, with its fields in a fixed order."""
    return _encode(event, 1)


def decode_event(obj: object) -> dp_event.DpEvent:
    """The event that the parsed JSON object ``obj`` describes."""
    return _decode(obj, 1)


def _encode(event: Any, depth: int) -> dict[str, Any]:
    _check_depth(depth)
    name = _NAMES.get(type(event))
    if name is None:
        raise LedgerError(
            f"a ledger cannot hold the event {_shown(event)}; it holds {', '.join(_FORMS)}."
        )
    obj: dict[str, Any] = {"name": name}
    for field, form in _FORMS[name][1].items():
        value = getattr(event, field)
        if form is _ONE:
            obj[field] = _encode(value, depth + 1)
        elif form is _MANY:
            obj[field] = [_encode(one, depth + 1) for one in _sequence(value, name)]
        else:
            obj[field] = _scalar(form, value, name, field)
    _check_sizes(name, obj)
    return obj


def _decode(obj: object, depth: int) -> dp_event.DpEvent:
    _check_depth(depth)
    if not isinstance(obj, dict):
        raise LedgerError(f"an event must be a JSON object, not {_shown(obj)}.")
    name = obj.get("name")
    if not isinstance(name, str) or name not in _FORMS:
        raise LedgerError(
            f"the event name {_shown(name)} is not known; it is one of {', '.join(_FORMS)}."
        )
    kind, fields = _FORMS[name]
    if len(obj) != len(fields) + 1 or not all(field in obj for field in fields):
        raise LedgerError(
            f"the event {name!r} has exactly the fields {['name', *fields]}, "
            f"not {_shown(list(obj))}."
        )
    values: dict[str, Any] = {}
    for field, form in fields.items():
        value = obj[field]
        if form is _ONE:
            values[field] = _decode(value, depth + 1)
        elif form is _MANY:
            values[field] = [_decode(one, depth + 1) for one in _sequence(value, name)]
        else:
            values[field] = _scalar(form, value, name, field)
    _check_sizes(name, values)
    return kind(**values)


def _scalar(form: Field | str, value: Any, name: str, field: str) -> float | int:
    assert callable(form)
    return form(value, f"the {field} of the event {name!r}")


def _sequence(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise LedgerError(f"the events of the event {name!r} must be a list, not {_shown(value)}.")
    return value


def _check_sizes(name: str, values: Mapping[str, Any]) -> None:
    if name == "sampled-without-replacement":
        sample, source = values["sample_size"], values["source_dataset_size"]
        if not 1 <= sample <= source:
            raise LedgerError(
                f"a sample of {sample} from {source} without replacement is not possible: give a"
                f" sample size from 1 to {source}."
            )
    if name == "group" and not values["group"] < values["groups"]:
        raise LedgerError(
            f"group {values['group']} of {values['groups']} groups does not exist: they are"
            " numbered from 0."
        )


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise LedgerError(f"an event must not be nested deeper than {MAX_DEPTH} levels.")
