"""The server waits for its sites and announces the run to them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from tacit.deployment.server.status import refusal_in
from tacit.deployment.setup.settings import Public
from tacit.deployment.site.site import JOIN
from tacit.deployment.transport.base import Transport
from tacit.errors import TacitError
from tacit.wire.codec import encode

log = logging.getLogger("tacit.server")


class Gathering:
    """The sites of a federation as the server sees them; ``wait`` is its patience in seconds."""

    def __init__(
        self,
        public: Public,
        transport: Transport,
        wait: float,
        pause: float,
        tell: Callable[[str, str], None],
    ) -> None:
        self._public, self._transport = public, transport
        self._wait, self._pause, self._tell = wait, pause, tell

    def gather(self, *, minimum_only: bool = False) -> None:
        """Wait until all sites are connected, or the minimum number after the time limit."""
        least, everyone = self._public.minimum, len(self._public.names)
        wanted = least if minimum_only else everyone
        until = time.monotonic() + self._wait
        while len(online := self._transport.online()) < wanted:
            if time.monotonic() > until:
                if len(online) >= least:
                    return
                missing = [n for i, n in enumerate(self._public.names) if i not in online]
                raise TacitError(
                    f"after {self._wait:g} s only {len(online)} of the {least} sites that"
                    f" a round needs are connected; missing: {', '.join(missing)}. Start them with"
                    " `tacit deploy site`, then start the server again."
                )
            self._tell("waiting", f"{len(online)} of {wanted} sites are connected")
            time.sleep(self._pause)

    def announce(self, labels: Mapping[str, str]) -> None:
        """Announce the run to every site; a site that refuses does so before anything is spent."""
        request = encode(JOIN, {}, labels)
        online = sorted(self._transport.online())
        replies = self._transport.ask(dict.fromkeys(online, request))
        refused = {i: said for i in online if (said := refusal_in(replies.get(i)))}
        for site, said in refused.items():
            log.warning("%s does not join: %s", self.name(site), said)
        joined = len(online) - len(refused)
        if joined < self._public.minimum:
            told = "; ".join(f"{self.name(i)} {said}" for i, said in refused.items())
            raise TacitError(
                f"{joined} sites join, but a round needs {self._public.minimum}:"
                f" {told}. The log of each site says why."
            )

    def name(self, site: int) -> str:
        """The public name of a site."""
        return self._public.names[site]
