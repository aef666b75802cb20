"""A federation in one process: the real sites and server, with function calls as network.

For tests and rehearsals. Every byte that a site sends passes through ``tap``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tacit.deployment.site.site import Site
from tacit.streams import Stream

Tap = Callable[[int, bytes], bytes | None]


class InMemory:
    """The sites of the given folders; ``tap`` sees every reply and may change or drop it."""

    def __init__(
        self,
        folders: Mapping[int, Path],
        *,
        stream: Stream | None = None,
        exact: bool = True,
        tap: Tap | None = None,
    ) -> None:
        self._folders, self._stream, self._exact, self._tap = folders, stream, exact, tap
        self.sites = {index: self._open(index) for index in folders}

    def _open(self, index: int) -> Site:
        return Site(self._folders[index], stream=self._stream, exact=self._exact)

    def online(self) -> set[int]:
        """The sites that are open."""
        return set(self.sites)

    def ask(self, requests: Mapping[int, bytes]) -> dict[int, bytes | None]:
        """Deliver the requests and collect the replies."""
        replies: dict[int, bytes | None] = {}
        for index, request in requests.items():
            reply: bytes | None = None
            if index in self.sites:
                reply = self.sites[index].answer(request)
                reply = self._tap(index, reply) if self._tap is not None else reply
            replies[index] = reply
        return replies

    def restart(self, index: int) -> None:
        """Discard everything of a site except its folder, as a crash does."""
        self.sites.pop(index).close()
        self.sites[index] = self._open(index)

    def close(self) -> None:
        """Close all sites."""
        for site in self.sites.values():
            site.close()
        self.sites.clear()
