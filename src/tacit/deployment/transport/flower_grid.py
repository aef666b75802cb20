"""The server's side of Flower: it sends requests and receives replies, by the sites' public keys.

A node is identified as a site only by the site's key. A reply is matched to its request by the id
of the request. A reply that does not arrive within the time limit counts as missing and is never
read later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.control_pb2 import RegisterNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from tacit.deployment.setup.keys import CA
from tacit.deployment.setup.settings import Public
from tacit.deployment.site.node import FIELD, RECORD, request_of

_POLL = 0.1
_GRACE = 30.0  # Flower keeps a message this many seconds longer than we wait for its reply

log = logging.getLogger("tacit.server")


class FlowerTransport:
    """Sends requests to the nodes of a Flower grid."""

    def __init__(self, grid: Any, folder: Path, public: Public) -> None:
        self._grid, self._timeout = grid, public.about.exchange.timeout
        self._sites = {
            _key_of(folder / "sites" / f"{name}.pub"): index
            for index, name in enumerate(public.names)
        }

    def online(self) -> set[int]:
        """The sites that are connected."""
        return set(self._nodes())

    def ask(self, requests: Mapping[int, bytes]) -> dict[int, bytes | None]:
        """Send to the connected sites, and wait for their replies until the time limit."""
        replies: dict[int, bytes | None] = dict.fromkeys(requests)
        nodes = self._nodes()
        asked = [site for site in requests if site in nodes]
        if not asked:
            return replies
        messages = [
            Message(
                RecordDict({RECORD: ConfigRecord({FIELD: requests[site]})}),
                dst_node_id=nodes[site],
                message_type="query.tacit",
                ttl=self._timeout + _GRACE,
            )
            for site in asked
        ]
        names = list(self._grid.push_messages(messages))
        waiting = {name: site for name, site in zip(names, asked, strict=True) if name}
        until = time.monotonic() + self._timeout
        while waiting and time.monotonic() < until:
            for message in self._arrived(waiting):
                site = waiting.pop(message.metadata.reply_to_message_id, None)
                if site is not None:
                    replies[site] = None if message.has_error() else request_of(message)
            if waiting:
                time.sleep(_POLL)
        return replies

    def _arrived(self, waiting: dict[Any, int]) -> list[Any]:
        """The replies that are there; one that Flower cannot read counts as missing."""
        try:
            return list(self._grid.pull_messages(list(waiting)))
        except Exception as error:  # any site can send bytes that Flower's parsers fail on
            log.warning("a reply cannot be read (%s)", type(error).__name__)
        found: list[Any] = []
        for name in list(waiting):
            try:
                found += self._grid.pull_messages([name])
            except Exception:
                log.warning("the reply of site %d is dropped", waiting.pop(name))
        return found

    def _nodes(self) -> dict[int, int]:
        """Site -> node, for the connected nodes that have the key of a site."""
        found: dict[int, int] = {}
        for node in self._grid.get_nodes():
            site = self._sites.get(bytes(node.public_key))
            if site is not None:
                found[site] = int(node.node_id)
        return found


def register(folder: Path, public: Public, address: str) -> None:
    """Register the sites' public keys at a new SuperLink; it refuses nodes with other keys."""
    with ControlHttpClient.from_server_address(
        address,
        public.about.insecure,
        (folder / CA).read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr")],
    ) as control:
        for name in public.names:
            key = _key_of(folder / "sites" / f"{name}.pub")
            control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))


def _key_of(path: Path) -> bytes:
    key: Any = load_ssh_public_key(path.read_bytes())
    return public_key_to_bytes(key)
