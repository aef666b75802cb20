"""The ledger: what has been spent, on disk before anything is released.

    charge   the line is on disk (fsync) when ``charge`` returns; only then may the value leave
    done     the release happened and what it was for is finished

Charge first: what is charged and not done stays spent, because nobody can know whether the value
had left before the crash. A retry is a new charge. So ``spent`` never shrinks, and a crash costs
budget but never privacy.

The file is append-only JSON lines in a hash chain (see ``ledger_file``). The first line says whose
privacy it counts and against whom; then come the charges, numbered from 0, and the lines that mark
them as done. An unfinished last line is the trace of a crash: it is cut off and reported in
``cut``. Any other damage is refused with its line number.

The chain cannot show that whole lines are missing from the END: a shorter ledger is a valid one.
Whoever depends on the ledger (a checkpoint does) therefore keeps its ``head`` and asks
``contains(head)`` on the way back: False means that charges were lost.
"""

from __future__ import annotations

import json
import math
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from dp_accounting import dp_event

from tacit.accounting.event_json import decode_event, encode_event
from tacit.accounting.events import compose, repeated
from tacit.accounting.guarantee import Relation, Unit, check_relation, check_unit
from tacit.accounting.ledger_file import (
    GENESIS,
    LedgerFile,
    create_file,
    damaged,
    read_file,
    seal,
    unsealed,
)
from tacit.errors import LedgerError

if TYPE_CHECKING:
    from tacit.accounting.guarantee import Budget, Guarantee

Scalar = str | int | float | bool | None
Label = Mapping[str, Scalar]

VERSION: Final = 1
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_HEADER: Final = ("kind", "version", "id", "created", "unit", "relation", "observer", "about")
_ENTRY: Final = re.compile(
    r'\{"kind":(?:"charge","id":(\d+),"event":(\{.+?\}),"label":(\{.*\})|"done","id":(\d+))\}'
)
_text: Final[Callable[[Any], str]] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Charge:
    """One line of spending: the event, what it was for, and whether that is finished."""

    id: int
    event: dp_event.DpEvent
    label: Label
    done: bool


class Ledger:
    """An open ledger; make one with ``create``, ``open`` or ``read``.

    ``cut`` is the number of bytes of a torn last line that opening took off, None if there was
    none. One ledger may be used from several threads, but not from a forked process.
    """

    def __init__(self, path: Path, data: bytes, file: LedgerFile | None) -> None:
        self.path = path
        self.cut: int | None = None
        self._file = file
        self._lock = threading.Lock()
        self._head = GENESIS
        self._hashes: set[str] = set()
        self._events: dict[str, _Event] = {}
        self._counts: dict[str, tuple[dp_event.DpEvent, int]] = {}
        self._charged: list[tuple[_Event, Label]] = []
        self._done = bytearray()
        self._indexes: dict[tuple[str, ...], _Index] = {}
        self._replay(data)

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        unit: str,
        relation: str,
        observer: str,
        about: Label | None = None,
    ) -> Self:
        """Start a new ledger and open it for writing."""
        header = {
            "kind": "ledger",
            "version": VERSION,
            "id": uuid.uuid4().hex,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "unit": check_unit(unit),
            "relation": check_relation(relation),
            "observer": _checked_observer(observer),
            "about": _checked_label(about or {}, "about"),
        }
        create_file(Path(path), seal(_text(header), GENESIS)[0])
        return cls.open(path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Open a ledger as its one writer, and cut off a torn last line."""
        file = LedgerFile(Path(path))
        try:
            ledger = cls(Path(path), file.read(), file)
            ledger.cut = file.cut()
        except BaseException:
            file.close()
            raise
        return ledger

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """The ledger as it is now, without a lock, while another process may be writing it."""
        return cls(Path(path), read_file(Path(path)), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another writer in; what has been read stays readable."""
        if self._file is not None:
            self._file.close()

    def charge(self, event: dp_event.DpEvent, /, **label: Scalar) -> int:
        """Spend ``event``: it is on disk when this returns the charge's number."""
        return self.charge_all([(event, label)])[0]

    def charge_all(self, charges: Iterable[tuple[dp_event.DpEvent, Label]]) -> list[int]:
        """Spend several events with one wait for the disk; their numbers."""
        wanted = [
            (_text(encode_event(event)), _checked_label(label, "label")) for event, label in charges
        ]
        with self._lock:
            first = len(self._charged)
            self._append(
                f'{{"kind":"charge","id":{number},"event":{event},"label":{_text(label)}}}'
                for number, (event, label) in enumerate(wanted, first)
            )
            return list(range(first, first + len(wanted)))

    def done(self, charge: int) -> None:
        """Mark a charge as finished; it stays spent."""
        self.done_all([charge])

    def done_all(self, charges: Iterable[int]) -> None:
        """Mark several charges as finished with one wait for the disk; a second time is no harm."""
        with self._lock:
            numbers = dict.fromkeys(charges)
            for number in numbers:
                self._check_number(number)
            self._append(f'{{"kind":"done","id":{n}}}' for n in numbers if not self._done[n])

    def get(self, charge: int) -> Charge:
        """One charge by its number."""
        self._check_number(charge)
        event, label = self._charged[charge]
        return Charge(charge, event.event, dict(label), bool(self._done[charge]))

    @property
    def charges(self) -> Iterator[Charge]:
        """All charges in the order they were made."""
        return (self.get(number) for number in range(len(self._charged)))

    def find(self, **label: Scalar) -> list[int]:
        """The numbers of the charges whose label holds all of these values."""
        wanted = dict(sorted(_checked_label(label, "label").items()))
        with self._lock:
            index = self._indexes.setdefault(tuple(wanted), _Index(tuple(wanted)))
            return index.find(wanted, self._charged)

    def spent(self) -> dp_event.DpEvent:
        """All charges as one event, done or not: equal mechanisms are counted together."""
        return compose(*(repeated(leaf, count) for leaf, count in self._counts.values()))

    def guarantee(self, delta: float) -> Guarantee:
        """What has been spent, as a whole sentence."""
        return self._bounded(self.spent(), delta)

    def would_exceed(self, event: dp_event.DpEvent, budget: Budget) -> bool:
        """Whether charging ``event`` now would spend more than ``budget`` in total."""
        encode_event(event)  # what cannot be charged is refused here already
        after = compose(self.spent(), event)
        return not self._bounded(after, budget.delta).epsilon <= budget.epsilon

    @property
    def head(self) -> str:
        """The hash of the last line, which stands for the whole ledger up to here."""
        return self._head

    def contains(self, head: str) -> bool:
        """Whether the ledger once ended with this hash: False means that lines were lost."""
        return head in self._hashes

    def _bounded(self, event: dp_event.DpEvent, delta: float) -> Guarantee:
        from tacit.accounting.accountants import guarantee

        return guarantee(
            event,
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            observer=self.observer,
        )

    def _check_number(self, number: int) -> None:
        if type(number) is not int or not 0 <= number < len(self._charged):
            raise LedgerError(
                f"the ledger {self.path} has no charge {number!r}: its {len(self._charged)} charges"
                " are numbered from 0."
            )

    def _append(self, bodies: Iterable[str]) -> None:
        """Write lines, wait for the disk, and only then believe them."""
        if self._file is None:
            raise LedgerError(f"the ledger {self.path} was opened for reading only: use open.")
        with self._file.writing():
            head = self._head
            sealed: list[tuple[str, bytes, str]] = []
            for body in bodies:
                line, head = seal(body, head)
                sealed.append((body, line, head))
            if not sealed:
                return
            self._file.append(b"".join(line for _, line, _ in sealed))
            for body, _, digest in sealed:
                self._absorb(body, digest)

    def _replay(self, data: bytes) -> None:
        """Read the whole file through the same door that new lines go through."""
        for number, body, digest in unsealed(data, self.path):
            try:
                if number == 1:
                    self._begin(body.decode(), digest)
                else:
                    self._absorb(body.decode(), digest)
            except (ValueError, RecursionError) as error:
                raise damaged(self.path, number, str(error).rstrip(".")) from error
        if self._head == GENESIS:
            raise LedgerError(f"the file {self.path} is not a ledger: it has no first line.")

    def _begin(self, body: str, digest: str) -> None:
        header = json.loads(body)
        if not isinstance(header, dict) or header.get("kind") != "ledger":
            raise LedgerError("it is not the first line of a ledger")
        if header.get("version") != VERSION:
            raise LedgerError(
                f"it has the version {header.get('version')!r} where this Tacit reads {VERSION}"
            )
        if tuple(header) != _HEADER or _text(header) != body:
            raise LedgerError(f"its fields must be {', '.join(_HEADER)}")
        self.id, self.created = str(header["id"]), str(header["created"])
        self.unit: Unit = check_unit(header["unit"])
        self.relation: Relation = check_relation(header["relation"])
        self.observer = _checked_observer(header["observer"])
        self.about = _checked_label(header["about"], "about")
        self._head = digest
        self._hashes.add(digest)

    def _absorb(self, body: str, digest: str) -> None:
        """Take one line into account; a line that no ledger writes is a LedgerError."""
        entry = _ENTRY.fullmatch(body)
        if entry is None:
            raise LedgerError("it is not a line that a ledger writes")
        number, event, label, done = entry.groups()
        if done is None:
            self._absorb_charge(number, event, label)
        else:
            which = int(done) if len(done) < 18 else -1
            if not 0 <= which < len(self._done) or self._done[which]:
                raise LedgerError(f"charge {done} is not there to be done, or is done twice")
            self._done[which] = 1
        self._head = digest
        self._hashes.add(digest)

    def _absorb_charge(self, number: str, event_text: str, label_text: str) -> None:
        if number != str(len(self._charged)):
            raise LedgerError(f"charge {number} stands where {len(self._charged)} is due")
        event = self._events.get(event_text)
        if event is None:
            event = self._events[event_text] = _Event(event_text)
        label = _checked_label(json.loads(label_text), "label")
        if _text(label) != label_text:
            raise LedgerError("its label is not written as a ledger writes it")
        for text, leaf, times in event.leaves:
            _, before = self._counts.get(text, (leaf, 0))
            self._counts[text] = (leaf, before + times)
        self._charged.append((event, label))
        self._done.append(0)


class _Event:
    """An event that charges share, read once for its text."""

    __slots__ = ("event", "leaves")

    def __init__(self, text: str) -> None:
        self.event = decode_event(json.loads(text))
        if _text(encode_event(self.event)) != text:
            raise LedgerError("its event is not written as a ledger writes it")
        self.leaves = [
            (_text(encode_event(leaf)), leaf, times) for leaf, times in _leaves(self.event, 1)
        ]


class _Index:
    """The charges by the values that they have under some keys, brought up to date when asked."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._seen = 0
        self._found: dict[tuple[tuple[type, Scalar], ...], list[int]] = {}

    def find(self, wanted: Label, charged: list[tuple[_Event, Label]]) -> list[int]:
        for number in range(self._seen, len(charged)):
            label = charged[number][1]
            if all(key in label for key in self._keys):
                self._found.setdefault(self._key(label), []).append(number)
        self._seen = len(charged)
        return list(self._found.get(self._key(wanted), []))

    def _key(self, label: Label) -> tuple[tuple[type, Scalar], ...]:
        # 1, 1.0 and True are equal in Python but not in a ledger.
        return tuple((type(label[key]), label[key]) for key in self._keys)


def _leaves(event: dp_event.DpEvent, times: int) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """The mechanisms that are composed in ``event``, with how often each takes place."""
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


def _checked_label(label: Any, what: str) -> dict[str, Scalar]:
    if not isinstance(label, Mapping):
        raise LedgerError(f"the {what} must map names to values, not be a {type(label).__name__}.")
    for key, value in label.items():
        kind = type(value)
        if type(key) is not str:
            raise LedgerError(f"the {what} has the key {key!r}: keys are strings.")
        if kind is float and not math.isfinite(value):
            raise LedgerError(f"the {what} {key!r} is {value}: numbers must be finite.")
        if kind not in _SCALARS:
            raise LedgerError(
                f"the {what} {key!r} is a {kind.__name__}: give a string, int, float, bool or None."
            )
    return dict(label)


def _checked_observer(observer: Any) -> str:
    if not (isinstance(observer, str) and observer.isprintable() and 0 < len(observer) <= 200):
        raise LedgerError(
            f"the observer is {observer!r}: say in one short line who sees what is released, for"
            " instance 'the server'."
        )
    return observer
