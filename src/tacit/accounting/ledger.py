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
    """One line of spending: the event, what it was for, and whether that is finished."""

    id: int
    event: dp_event.DpEvent
    label: Label
    done: bool


class Ledger:
    """An open ledger; make one with ``create``, ``open`` or ``read``.

    ``cut`` is the number of bytes of a torn last line that opening took off (or that reading left
    out), None if there was none. One ledger may be used from several threads, but not from a forked
    process.
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
        """Start a new ledger and open it for writing."""
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
        """Open a ledger as its one writer, and cut off a torn last line."""
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
        """The ledger as it is now, without a lock, while another process may be writing it."""
        data = read_file(Path(path))
        ledger = cls(Path(path), data, None)
        ledger.cut = len(data) - (data.rfind(b"\n") + 1) or None
        return ledger

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
        wanted = [(event, checked_label(label)) for event, label in charges]
        with self._lock:
            first = len(self._book)
            self._append(
                charge_line(number, event, label)
                for number, (event, label) in enumerate(wanted, first)
            )
            return list(range(first, len(self._book)))

    def done(self, charge: int) -> None:
        """Mark a charge as finished; it stays spent."""
        self.done_all([charge])

    def done_all(self, charges: Iterable[int]) -> None:
        """Mark several charges as finished with one wait for the disk; a second time is no harm."""
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
        """The numbers of the charges whose label holds all of these values."""
        wanted = checked_label(label)
        with self._lock:
            return self._book.find(wanted)

    def spent(self) -> dp_event.DpEvent:
        """All charges as one event, done or not: equal mechanisms are counted together."""
        with self._lock:
            return self._book.spent()

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
        return self._hashes[-1].decode()

    def contains(self, head: str) -> bool:
        """Whether the ledger once ended with this hash: False means that lines were lost."""
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
        """Where the noise of what is charged comes from, as far as the first line says it."""
        said = self.about.get("noise_from")
        return "system" if said == "system" else "seed" if said == "seed" else "unstated"

    def _check_number(self, number: int) -> None:
        if type(number) is not int or not 0 <= number < len(self._book):
            raise LedgerError(
                f"the ledger {self.path} has no charge {number!r}: its {len(self._book)} charges"
                " are numbered from 0."
            )

    def _append(self, bodies: Iterable[str]) -> None:
        """Write lines, wait for the disk, and only then believe them."""
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
        """Read the whole file through the same door that new lines go through."""
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
            raise LedgerError(f"the file {self.path} is not a ledger: it has no whole first line.")

    def _begin(self, body: bytes) -> None:
        header = from_json(body)
        if not isinstance(header, dict) or header.get("kind") != "ledger":
            raise LedgerError("it is not the first line of a ledger.")
        if header.get("version") != VERSION:
            raise LedgerError(
                f"it has the version {header.get('version')!r} where this Tacit reads {VERSION}."
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
            f"the observer is {observer!r}: say in one short line who sees what is released, for"
            " instance 'the server'."
        )
    return observer
