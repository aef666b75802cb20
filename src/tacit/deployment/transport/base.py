"""What carries bytes between the server and its sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Transport(Protocol):
    """What carries requests to sites, which are numbered as in federation.toml."""

    def online(self) -> set[int]:
        """The sites that can be asked now."""
        ...

    def ask(self, requests: Mapping[int, bytes]) -> Mapping[int, bytes | None]:
        """The replies that came in time; a late one never comes later."""
        ...
