"""Who has to be trusted with a secure sum: nobody alone, only enough clients together.

Each of n clients adds its share of the noise and masks its message. Only the sum over those who are
present can be opened. Two public numbers say what is assumed:

    honest     t: at least so many of the n clients follow the protocol
    dropouts   D: a sum is opened although up to so many clients are missing

The server sees who is missing, and may decide it: it can lose the messages of D honest clients and
keep those of the n - t who work with it. So only t - D shares of the noise are certain, and each
has the variance sigma^2 / (t - D). With all n present the sum has n / (t - D) of the variance that
is charged.

No two sums of one round may be opened, because their difference would have little noise. A sum is
opened if n - D clients agree on who is in it. An honest client agrees once, a dishonest one as
often as it likes. Two sums need 2 (n - D) agreements, and there are at most n + (n - t): so t > 2 D
is required.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.errors import TacitError


@dataclass(frozen=True)
class SecureSum:
    """How many clients are honest (two thirds, if not given), and how many may be missing."""

    honest: int | None = None
    dropouts: int = 0

    def honest_of(self, clients: int) -> int:
        """t: the clients that have to follow the protocol."""
        return clients - clients // 3 if self.honest is None else self.honest

    def present(self, clients: int) -> int:
        """The fewest clients whose sum is opened."""
        return clients - self.dropouts

    def carriers(self, clients: int) -> int:
        """t - D: the honest clients that are in every sum; together they carry the noise."""
        return self.honest_of(clients) - self.dropouts

    def excess(self, clients: int) -> float:
        """The standard deviation of the noise with all clients present, over the charged one."""
        self.check(clients)
        return math.sqrt(clients / self.carriers(clients))

    def check(self, clients: int) -> None:
        """Refuse numbers with which a dishonest server could open two sums."""
        honest = self.honest_of(clients)
        if clients < 2:
            raise TacitError("a secure sum needs at least two clients: one alone is its own sum.")
        if not 1 <= honest <= clients:
            raise TacitError(f"honest is {honest}, but there are {clients} clients.")
        if self.dropouts < 0 or honest <= 2 * self.dropouts:
            most = (honest - 1) // 2
            raise TacitError(
                f"with {honest} honest clients a secure sum can do without {most} at most, but"
                f" dropouts is {self.dropouts}: a dishonest server could open two sums of a round."
            )
