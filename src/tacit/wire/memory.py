"""The persistent state of a client, and the pending state after its last reply."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tacit.tree import Tree


class Pending(NamedTuple):
    """The exchange of the last reply, and the state after it."""

    exchange: int
    state: Tree


class Kept(NamedTuple):
    """The state of a client, and the state that replaces it if the last reply was counted."""

    state: Tree
    pending: Pending | None


class Memory(Protocol):
    """Stores the state of a client between requests (on disk: also across restarts)."""

    def read(self, like: Tree) -> Kept | None:
        """The stored state in the structure of ``like``; None if there is none yet."""
        ...

    def write(self, kept: Kept) -> None:
        """Store the state; after this returns, a crash does not lose it."""
        ...
