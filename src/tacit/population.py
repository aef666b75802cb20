"""What is public about the clients of a federation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Population:
    """What is public about the clients: how many there are and how many records each holds."""

    sizes: tuple[int, ...]

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.sizes)

    @property
    def records(self) -> int:
        """How many records there are, over all clients."""
        return sum(self.sizes)

    @property
    def sums_to_mean(self) -> float:
        """Factor that converts a mean of per-client sums into a mean over all records."""
        return self.clients / self.records

    @property
    def smallest(self) -> int:
        """The records of the smallest client: the one that sampling hides least."""
        return min(self.sizes)
