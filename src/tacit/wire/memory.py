"""What a client must not forget: its state, and the state after a reply that may have counted."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tacit.tree import Tree


class Pending(NamedTuple):
    """The exchange that a reply belonged to, and the state after it."""

    exchange: int
    state: Tree


class Kept(NamedTuple):
    """A client's state, and the one that replaces it if the server counted the last reply."""

    state: Tree
    pending: Pending | None


class Memory(Protocol):
    """Where a client keeps its state between requests, over restarts if it is on disk."""

    def read(self, like: Tree) -> Kept | None:
        """What was kept, in the shape of ``like``; None before the first time."""
        ...

    def write(self, kept: Kept) -> None:
        """Keep this; when it returns, a crash does not lose it."""
        ...
