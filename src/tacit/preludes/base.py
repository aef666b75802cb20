"""What is released once before round 0, to prepare the records for the training that follows.

A prelude is an algorithm of one round. It protects whom the training protects, in the same sense
and against the same observer, and spends from the same budget.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from tacit.accounting.guarantee import Unit
from tacit.algorithm import Algorithm, releases, trusts_server, unit_of
from tacit.population import Population
from tacit.release import At
from tacit.secure_sum import SecureSum
from tacit.tasks.base import HostRecords, Task

Released = Mapping[str, Any]  # plain numbers and lists, as they are kept in the run's folder


class Prelude(Algorithm):
    """One round whose outcome is applied to every record."""

    file: ClassVar[str]  # the name of the run folder's file that keeps the outcome

    @abstractmethod
    def released(self, state: Any) -> Released:
        """The outcome, from the server's state after the round."""

    @abstractmethod
    def checked(self, outcome: Any) -> Released:
        """An outcome that a site is told: within the public ranges, or refused in one sentence.

        A site checks it before it touches a record: extreme numbers could make what follows fail
        for some records and not for others, and a failure is heard.
        """

    @abstractmethod
    def applied(self, records: HostRecords, released: Released) -> HostRecords:
        """The records with the outcome applied to them; KeyError if it does not fit."""


def is_number(value: Any) -> bool:
    """Whether a value from JSON is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class Protection(NamedTuple):
    """Whom a release protects, and where it draws its noise."""

    unit: Unit
    at: At
    trust: SecureSum = SecureSum()


def protection_of(training: Algorithm, task: Task, population: Population) -> Protection:
    """The protection of one more release that is no weaker than that of a training."""
    found = releases(training, task, population)
    unit = unit_of(found)
    if trusts_server(found):
        return Protection(unit, "aggregate")
    for release in found.values():
        if release.at == "shares":
            return Protection(unit, "shares", release.trust)
    return Protection(unit, "step" if unit == "record" else "message")
