"""The contents of a ledger: the charges, which of them are done, and their total.

Any line that a ledger would not write is refused with a reason. Thousands of charges share a few
events, so each distinct event text is parsed once. A label is checked by a regular expression and
parsed only when it is needed.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tacit.accounting.dp_events import dp_event
from tacit.accounting.event_json import decode_event, encode_event
from tacit.accounting.events import compose, repeated
from tacit.errors import LedgerError

Scalar = str | int | float | bool | None
Label = Mapping[str, Scalar]

as_json: Final[Callable[[Any], str]] = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False
).encode

_PLAIN: Final = rb"[ !#-\[\]-~]*+"
_TEXT: Final = rb'"%b(?:\\(?:["\\bfnrt]|u[0-9a-f]{4})%b)*+"' % (_PLAIN, _PLAIN)
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]{0,20})(?:\.[0-9]{1,25})?(?:e[+-][0-9]{2,3})?"
_ITEM: Final = rb"%b:(?:%b|%b|true|false|null)" % (_TEXT, _TEXT, _NUMBER)
_CHARGE: Final = re.compile(
    rb'\{"kind":"charge","id":([0-9]+),"event":(\{.+?\}),"label":(\{(?:%b(?:,%b)*+)?+\})\}'
    % (_ITEM, _ITEM)
)
_DONE: Final = re.compile(rb'\{"kind":"done","id":([0-9]{1,18})\}')
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def from_json(text: bytes) -> object:
    """Parse JSON, or raise a LedgerError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LedgerError("it is not valid JSON.") from error


def charge_line(number: int, event: dp_event.DpEvent, label: Label) -> str:
    """The body of the line that charges ``event``."""
    text = as_json(encode_event(event))
    return f'{{"kind":"charge","id":{number},"event":{text},"label":{as_json(label)}}}'


def done_line(number: int) -> str:
    """The body of the line that marks a charge as done."""
    return f'{{"kind":"done","id":{number}}}'


class SharedEvent:
    """An event and the number of its charges."""

    __slots__ = ("count", "event", "text")

    def __init__(self, text: bytes) -> None:
        self.event = decode_event(from_json(text))
        self.text = as_json(encode_event(self.event))
        if self.text.encode() != text:
            raise LedgerError("its event is not in the form that a ledger writes.")
        self.count = 0

    def leaves(self) -> Iterator[tuple[str, dp_event.DpEvent, int]]:
        """The mechanisms of one charge: text, event and count."""
        for leaf, times in _leaves(self.event, 1):
            whole = leaf is self.event
            yield self.text if whole else as_json(encode_event(leaf)), leaf, times


class Book:
    """The state of a ledger after the lines that were read so far."""

    def __init__(self) -> None:
        self.done = bytearray()
        self._events: dict[bytes, SharedEvent] = {}
        self._charged: list[tuple[SharedEvent, bytes]] = []
        self._indexes: dict[tuple[str, ...], _Index] = {}

    def __len__(self) -> int:
        return len(self._charged)

    def absorb(self, body: bytes) -> None:
        """Update the state by one line."""
        if charge := _CHARGE.fullmatch(body):
            number, text, label = charge.groups()
            if number != b"%d" % len(self._charged):
                raise LedgerError(
                    f"it is charge {number.decode()}, but charge {len(self._charged)} must follow."
                )
            event = self._events.get(text)
            if event is None:
                event = self._events[text] = SharedEvent(text)
            event.count += 1
            self.done.append(0)
            self._charged.append((event, label))
        elif done := _DONE.fullmatch(body):
            which = int(done[1])
            if which >= len(self.done) or self.done[which]:
                raise LedgerError(f"charge {which} does not exist or is already done.")
            self.done[which] = 1
        else:
            raise LedgerError("it is neither a charge nor a done line.")

    def event(self, number: int) -> dp_event.DpEvent:
        """The event of a charge."""
        return self._charged[number][0].event

    def label(self, number: int) -> dict[str, Scalar]:
        """The label of a charge."""
        label: dict[str, Scalar] = json.loads(self._charged[number][1])
        return label

    def find(self, wanted: Label) -> list[int]:
        """The charges whose label has all of these values."""
        keys = tuple(sorted(wanted))
        return self._indexes.setdefault(keys, _Index(keys)).find(wanted, self)

    def spent(self) -> dp_event.DpEvent:
        """All charges as one event: each mechanism once with its count, in order of appearance."""
        counts: dict[str, tuple[dp_event.DpEvent, int]] = {}
        for shared in self._events.values():
            for text, leaf, times in shared.leaves():
                _, before = counts.get(text, (leaf, 0))
                counts[text] = (leaf, before + times * shared.count)
        return compose(*(repeated(leaf, count) for leaf, count in counts.values()))


class _Index:
    """An index of the charges by the values of some label keys, updated on each search."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._seen = 0
        self._found: dict[tuple[tuple[type, Scalar], ...], list[int]] = {}

    def find(self, wanted: Label, book: Book) -> list[int]:
        for number in range(self._seen, len(book)):
            label = book.label(number)
            if all(key in label for key in self._keys):
                self._found.setdefault(self._values(label), []).append(number)
        self._seen = len(book)
        return list(self._found.get(self._values(wanted), []))

    def _values(self, label: Label) -> tuple[tuple[type, Scalar], ...]:
        # 1, 1.0 and True are equal in Python but different in a ledger.
        return tuple((type(label[key]), label[key]) for key in self._keys)


def _leaves(event: dp_event.DpEvent, times: int) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """The mechanisms composed in ``event``, each with its count."""
    match event:
        case dp_event.NoOpDpEvent():
            return
        case dp_event.SelfComposedDpEvent():
            yield from _leaves(event.event, times * event.count)
        case dp_event.ComposedDpEvent():
            for part in event.events:
                yield from _leaves(part, times)
        case _:
            yield event, times


def checked_label(label: Any, what: str = "label") -> dict[str, Scalar]:
    """Return a copy of a valid label, or raise an error that says what a label may hold."""
    if not isinstance(label, Mapping):
        raise LedgerError(f"the {what} must map names to values, not be a {type(label).__name__}.")
    for key, value in label.items():
        kind = type(value)
        if type(key) is not str:
            raise LedgerError(f"the {what} has the key {key!r}: keys are strings.")
        if kind not in _SCALARS:
            raise LedgerError(
                f"the {what} {key!r} is a {kind.__name__}: give a string, int, float, bool or None."
            )
        if (kind is float and not math.isfinite(value)) or (kind is int and abs(value) >= 2**64):
            raise LedgerError(f"the {what} {key!r} must be finite; an integer must be below 2**64.")
    return dict(label)
