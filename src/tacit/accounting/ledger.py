"""The ledger: a record of the privacy spent, written to disk before anything is released.

    charge   the line is on disk (fsync) when ``charge`` returns; only then may a value be released
    done     the release happened, and the work that needed it is finished

The charge comes first. After a crash, a charge that is not done stays spent, because nobody can
know whether the value was released. A retry is a new charge. So ``spent`` never decreases: a crash
costs budget, never privacy.

The file is append-only: JSON lines in a hash chain (see ``ledger_file``). The first line states the
protected unit, the relation and the observer. The charges follow, numbered from 0, and the lines
that mark them as done. An incomplete last line is left by a crash: it is cut off, and ``cut``
reports it. Any other damage is an error with the line number.

The hash chain cannot detect that whole lines are missing at the END: a shorter ledger is valid too.
Code that depends on the ledger (such as a checkpoint) therefore stores its ``head`` and calls
``contains(head)`` when it resumes. False means that charges were lost.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tacit.accounting.dp_events import dp_event
from tacit.accounting.event_json import encode_event
from tacit.accounting.events import compose
from tacit.accounting.guarantee import NoiseFrom, Relation, Unit, check_relation, check_unit
from tacit.accounting.ledger_book import (
    Book,
    Label,
    Scalar,
    as_json,
    charge_line,
    checked_label,
    done_line,
    from_json,
)
from tacit.accounting.ledger_file import (
    GENESIS,
    LedgerFile,
    create_file,
    damaged,
    read_file,
    seal,
    unsealed,
)
from tacit.errors import LedgerError, TacitError

if TYPE_CHECKING:
    from tacit.accounting.guarantee import Budget, Guarantee

VERSION: Final = 1
_HEADER: Final = ("kind", "version", "id", "created", "unit", "relation", "observer", "about")


@dataclass(frozen=True)
class Charge:
    """One charge: the event, a label that says what it was for, and whether it is done."""

    id: int
    event: dp_event.DpEvent
    label: Label
    done: bool


class Ledger:
    """An open ledger; get one with ``create``, ``open`` or ``read``.

    ``cut`` is the number of bytes of an incomplete last line that ``open`` removed (or ``read``
    ignored); None if there was none. Several threads may share a ledger; a forked process must not
    use it.
    """

    def __init__(self, path: Path, data: bytes, file: LedgerFile | None) -> None:
        self.path = path
        self.cut: int | None = None
        self._file = file
        self._lock = threading.Lock()
        self._hashes: list[bytes] = []
        self._book = Book()
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
        """Create a new ledger and open it for writing."""
        header = {
            "kind": "ledger",
            "version": VERSION,
            "id": uuid.uuid4().hex,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "unit": check_unit(unit),
            "relation": check_relation(relation),
            "observer": _checked_observer(observer),
            "about": checked_label(about or {}, "about"),
        }
        create_file(Path(path), seal(as_json(header).encode(), GENESIS)[0])
        return cls.open(path)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Open a ledger as its only writer, and cut off an incomplete last line."""
        file = LedgerFile(Path(path))
        try:
            ledger = cls(Path(path), file.read(), file)
            ledger.cut = file.settle()
        except BaseException:
            file.close()
            raise
        return ledger

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Self:
        """Read the ledger in its present state, without a lock; another process may be writing."""
        data = read_file(Path(path))
        ledger = cls(Path(path), data, None)
        ledger.cut = len(data) - (data.rfind(b"\n") + 1) or None
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file for another writer; the charges stay readable."""
        if self._file is not None:
            self._file.close()

    def charge(self, event: dp_event.DpEvent, /, **label: Scalar) -> int:
        """Charge ``event`` and return its number; the charge is on disk when this returns."""
        return self.charge_all([(event, label)])[0]

    def charge_all(self, charges: Iterable[tuple[dp_event.DpEvent, Label]]) -> list[int]:
        """Charge several events with a single disk sync, and return their numbers."""
        wanted = [(event, checked_label(label)) for event, label in charges]
        with self._lock:
            first = len(self._book)
            self._append(
                charge_line(number, event, label)
                for number, (event, label) in enumerate(wanted, first)
            )
            return list(range(first, len(self._book)))

    def done(self, charge: int) -> None:
        """Mark a charge as done; it stays spent."""
        self.done_all([charge])

    def done_all(self, charges: Iterable[int]) -> None:
        """Mark several charges as done with a single disk sync; repeating it has no effect."""
        numbers = dict.fromkeys(charges)
        with self._lock:
            for number in numbers:
                self._check_number(number)
            self._append(done_line(number) for number in numbers if not self._book.done[number])

    def get(self, charge: int) -> Charge:
        """One charge by its number."""
        self._check_number(charge)
        book = self._book
        return Charge(charge, book.event(charge), book.label(charge), bool(book.done[charge]))

    @property
    def charges(self) -> Iterator[Charge]:
        """All charges in the order they were made."""
        return (self.get(number) for number in range(len(self._book)))

    def find(self, **label: Scalar) -> list[int]:
        """The numbers of the charges whose label has all of these values."""
        wanted = checked_label(label)
        with self._lock:
            return self._book.find(wanted)

    def spent(self) -> dp_event.DpEvent:
        """All charges, done or not, as one event; equal mechanisms are merged with a count."""
        with self._lock:
            return self._book.spent()

    def guarantee(self, delta: float) -> Guarantee:
        """The guarantee for everything that has been spent."""
        return self._bounded(self.spent(), delta)

    def would_exceed(self, event: dp_event.DpEvent, budget: Budget) -> bool:
        """Whether charging ``event`` now would spend more than ``budget`` in total."""
        encode_event(event)  # refuses an event that cannot be charged
        after = compose(self.spent(), event)
        return not self._bounded(after, budget.delta).epsilon <= budget.epsilon

    @property
    def head(self) -> str:
        """The hash of the last line; it identifies the whole ledger up to this line."""
        return self._hashes[-1].decode()

    def contains(self, head: str) -> bool:
        """Whether a line of the ledger has this hash; False means that lines were lost."""
        return head.encode() in self._hashes

    def _bounded(self, event: dp_event.DpEvent, delta: float) -> Guarantee:
        from tacit.accounting.accountants import guarantee

        return guarantee(
            event,
            delta=delta,
            unit=self.unit,
            relation=self.relation,
            observer=self.observer,
            public_sizes=self.noise_from != "unstated",  # then it is the ledger of a run
            noise_from=self.noise_from,
        )

    @property
    def noise_from(self) -> NoiseFrom:
        """Where the noise of the charged releases comes from, if the first line says it."""
        said = self.about.get("noise_from")
        return "system" if said == "system" else "seed" if said == "seed" else "unstated"

    def _check_number(self, number: int) -> None:
        if type(number) is not int or not 0 <= number < len(self._book):
            raise LedgerError(
                f"the ledger {self.path} has no charge {number!r}: its {len(self._book)} charges"
                " are numbered from 0."
            )

    def _append(self, bodies: Iterable[str]) -> None:
        """Write lines, wait for the disk, and only then update the state in memory."""
        if self._file is None:
            raise LedgerError(f"the ledger {self.path} was opened for reading only: use open.")
        texts = [body.encode() for body in bodies]
        if not texts:
            return
        head = self._hashes[-1]
        lines: list[bytes] = []
        hashes: list[bytes] = []
        for text in texts:
            line, head = seal(text, head)
            lines.append(line)
            hashes.append(head)
        with self._file.writing():
            self._file.append(b"".join(lines))
            for text in texts:
                self._book.absorb(text)
            self._hashes += hashes

    def _replay(self, data: bytes) -> None:
        """Read the whole file with the same checks as for new lines."""
        absorb, keep = self._book.absorb, self._hashes.append
        for number, body, digest in unsealed(data, self.path):
            try:
                if number > 1:
                    absorb(body)
                else:
                    self._begin(body)
            except TacitError as error:
                raise damaged(self.path, number, str(error).rstrip(".")) from error
            keep(digest)
        if not self._hashes:
            raise LedgerError(
                f"the file {self.path} is not a ledger: its first line is incomplete."
            )

    def _begin(self, body: bytes) -> None:
        header = from_json(body)
        if not isinstance(header, dict) or header.get("kind") != "ledger":
            raise LedgerError("it is not the first line of a ledger.")
        if header.get("version") != VERSION:
            raise LedgerError(
                f"it has version {header.get('version')!r}, but this Tacit reads version {VERSION}."
            )
        if tuple(header) != _HEADER or as_json(header).encode() != body:
            raise LedgerError(f"its fields must be {', '.join(_HEADER)}.")
        self.id, self.created = str(header["id"]), str(header["created"])
        self.unit: Unit = check_unit(header["unit"])
        self.relation: Relation = check_relation(header["relation"])
        self.observer = _checked_observer(header["observer"])
        self.about = checked_label(header["about"], "about")


def _checked_observer(observer: Any) -> str:
    if not (isinstance(observer, str) and observer.isprintable() and 0 < len(observer) <= 200):
        raise LedgerError(
            f"the observer is {observer!r}: say in one short line who sees the released values,"
            " for instance 'the server'."
        )
    return observer
