"""The interface of a transport between the server and its sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Transport(Protocol):
    """Sends requests to the sites, which are numbered as in federation.toml."""

    def online(self) -> set[int]:
        """The sites that are connected now."""
        ...

    def ask(self, requests: Mapping[int, bytes]) -> Mapping[int, bytes | None]:
        """The replies that arrived in time; a late reply is never delivered."""
        ...
