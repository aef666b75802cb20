"""A site on Flower's network: it fetches messages from the server and answers them itself.

Flower's own SuperNode fetches an app from the server and runs it. With it, the server could run any
program next to the records of a site, and all guarantees would depend on an honest server. So this
node speaks the same protocol with Flower's own client library and authenticates with the same key,
but never fetches or runs an app. It answers in the process that holds the compiled programs, so a
round needs no start-up time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from tacit.deployment.setup.keys import CA, KEY
from tacit.deployment.setup.settings import Public
from tacit.errors import TacitError

RECORD, FIELD = "tacit", "message"
_HEARTBEAT = 10.0  # seconds; Flower considers a node lost after twice this time
_POLL = 0.2
_AGAIN = 2.0

log = logging.getLogger("tacit.site")

Answer = Callable[[bytes], bytes]


class FleetNode:
    """Passes requests from the server to ``answer``, and reconnects after every interruption."""

    def __init__(self, folder: Path, public: Public, answer: Answer) -> None:
        key = load_ssh_private_key((folder / KEY).read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TacitError(f"{folder / KEY} is not an elliptic curve key: make a new federation.")
        self._public, self._answer = public, answer
        self._public_key = public_key_to_bytes(key.public_key())
        self._interceptors: list[ProtobufClientInterceptor] = [
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(key, key.public_key()),
        ]
        self._certificate = None if public.about.insecure else (folder / CA).read_bytes()

    def run(self, stop: threading.Event) -> None:
        """Answer until told to stop."""
        said = ""
        while not stop.is_set():
            try:
                self._session(stop)
            except (Exception, SystemExit) as error:  # whatever the server sends, stay there
                if (now := _reason(error)) != said:
                    log.warning("no connection: %s", now)
                said = now
                stop.wait(_AGAIN)

    def _session(self, stop: threading.Event) -> None:
        """One connection to the server, from activation until something fails."""
        with FleetHttpClient.from_server_address(
            self._public.about.address,
            self._public.about.insecure,
            self._certificate,
            interceptors=self._interceptors,
        ) as client:
            if self._public.about.insecure:  # without authentication a node registers itself
                _ignore_known(
                    lambda: client.RegisterNode(
                        RegisterNodeFleetRequest(public_key=self._public_key)
                    )
                )
            activated = client.ActivateNode(
                ActivateNodeRequest(public_key=self._public_key, heartbeat_interval=_HEARTBEAT)
            )
            node = Node(node_id=activated.node_id)
            log.info("connected to the server")
            try:
                self._serve(client, node, stop)
            finally:
                _ignore_known(
                    lambda: client.DeactivateNode(DeactivateNodeRequest(node_id=node.node_id))
                )

    def _serve(self, client: FleetHttpClient, node: Node, stop: threading.Event) -> None:
        lost = threading.Event()
        beat = threading.Thread(target=_heartbeat, args=(client, node, stop, lost), daemon=True)
        beat.start()
        while not stop.is_set():
            if lost.is_set():
                raise RuntimeError("the server does not recognise this site any more")
            if not self._next(client, node):
                stop.wait(_POLL)

    def _next(self, client: FleetHttpClient, node: Node) -> bool:
        """Answer the next message, if there is one."""
        pulled = client.PullMessages(PullMessagesRequest(node=node))
        if not pulled.messages_list:
            return False
        begun = time.monotonic()
        message = message_from_proto(pulled.messages_list[0])
        run = message.metadata.run_id
        contents = pull_objects(
            [tree.object_id for tree in iterate_object_tree(pulled.message_object_trees[0])],
            pull_object_fn=make_pull_object_fn_protobuf(client.PullObject, node, run),
        )
        name = message.metadata.message_id
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=name)
        )
        whole: Any = inflate_object_from_contents(name, contents)
        whole.metadata.__dict__["_message_id"] = name
        reply = self._replied(whole, node)
        _push(client, node, reply, time.monotonic() - begun)
        return True

    def _replied(self, asked: Any, node: Node) -> Message:
        TaskIdentity.run_id, TaskIdentity.node_id = asked.metadata.run_id, node.node_id
        TaskIdentity.task_id = 0
        said = self._answer(request_of(asked))
        return Message(RecordDict({RECORD: ConfigRecord({FIELD: said})}), reply_to=asked)


def request_of(message: Any) -> bytes:
    """Our bytes in a Flower message; empty if there are none, which the site cannot read."""
    try:
        content = message.content[RECORD][FIELD]
    except (KeyError, ValueError, TypeError, AttributeError):
        return b""
    return content if isinstance(content, bytes) else b""


def _push(client: FleetHttpClient, node: Node, reply: Message, seconds: float) -> None:
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
        pushed = client.PushMessages(
            PushMessagesRequest(
                node=node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[tree],
                clientapp_runtime_list=[seconds],
            )
        )
        push_objects(
            objects,
            push_object_fn=make_push_object_fn_protobuf(
                client.PushObject, node, reply.metadata.run_id, pushed.session_id
            ),
            object_ids_to_push=set(pushed.objects_to_push),
        )


def _heartbeat(
    client: FleetHttpClient, node: Node, stop: threading.Event, lost: threading.Event
) -> None:
    """Tell the server that this site is online; if the server has forgotten it, disconnect."""
    request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=_HEARTBEAT)
    while not stop.is_set() and not lost.is_set():
        try:
            if not client.SendNodeHeartbeat(request).success:
                lost.set()
        except (httpx.HTTPError, RuntimeError):
            lost.set()
        stop.wait(_HEARTBEAT / 2)


def _ignore_known(call: Callable[[], object]) -> None:
    try:
        call()
    except (httpx.HTTPError, RuntimeError):
        log.debug("nothing to change at the server")


def _reason(error: BaseException) -> str:
    """The server's answer as one line for the site's log."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server answers {error.response.status_code} {error.response.text[:200]}"
    return str(error) or type(error).__name__
