"""The thin layer on Flower: keys decide who a node is, ids decide which reply is whose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

flwr = pytest.importorskip("flwr", reason="needs the extra deploy: pip install 'tacit-fl[deploy]'")

from flwr.app import ConfigRecord, Error, Message, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402
from folders import SIZES, make, site_folders  # noqa: E402

from tacit.deployment.server.coordinator import Coordinator  # noqa: E402
from tacit.deployment.site.node import FIELD, RECORD, request_of  # noqa: E402
from tacit.deployment.site.site import Site  # noqa: E402
from tacit.deployment.transport.flower_grid import FlowerTransport, _key_of  # noqa: E402
from tacit.deployment.transport.superlink import Guard, allowed  # noqa: E402


class Grid:
    """A grid in memory: messages go to real sites, replies wait to be pulled."""

    def __init__(self, folder: Path, public: Any) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        folders = site_folders(folder, public)
        self.sites = {100 + i: Site(path) for i, path in folders.items()}
        self.keys = {100 + i: _key_of(path / "key.pub") for i, path in folders.items()}
        self.replies: dict[str, Message] = {}
        self.strangers: list[Any] = []
        self.broken: set[int] = set()

    def get_nodes(self) -> list[Any]:
        known = [SimpleNamespace(node_id=n, public_key=key) for n, key in self.keys.items()]
        return known + self.strangers

    def push_messages(self, messages: list[Message]) -> list[str]:
        names = []
        for message in messages:
            name, node = f"m{len(self.replies)}", message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = name
            if node in self.broken:  # a node that dies is reported by the SuperLink, not by itself
                reply = Message(Error(code=5), reply_to=message)
            else:
                said = self.sites[node].answer(request_of(message))
                reply = Message(RecordDict({RECORD: ConfigRecord({FIELD: said})}), reply_to=message)
            self.replies[name] = reply
            names.append(name)
        return names

    def pull_messages(self, names: list[str]) -> list[Message]:
        # Replies come in any order, and sometimes with one that nobody waits for.
        return [self.replies[name] for name in reversed(names)]


@pytest.fixture
def grid(tmp_path: Path) -> Any:
    public = make(tmp_path / "f", minimum=2)
    made = Grid(tmp_path / "f", public)
    made.transport = FlowerTransport(made, tmp_path / "f" / "server", public)
    made.server = tmp_path / "f" / "server"
    yield made
    for site in made.sites.values():
        site.close()


@pytest.mark.usefixtures("quick_compilation")
def test_a_run_over_flowers_messages(grid: Any) -> None:
    outcome = Coordinator(grid.server, grid.transport).run()
    assert outcome.rounds == 3
    assert outcome.metrics["server/replies"] == 3


@pytest.mark.usefixtures("quick_compilation")
def test_a_node_that_dies_is_a_missing_reply(grid: Any) -> None:
    grid.broken = {101}
    said = []
    Coordinator(grid.server, grid.transport, on_status=said.append).run()
    assert all("east: no reply." in status.said for status in said if status.stage == "training")


def test_a_key_that_is_not_in_the_folder_is_nobody(grid: Any) -> None:
    grid.strangers.append(SimpleNamespace(node_id=999, public_key=b"another key"))
    grid.strangers.append(SimpleNamespace(node_id=998, public_key=b""))
    assert grid.transport.online() == set(range(len(SIZES)))
    del grid.keys[102]
    assert grid.transport.online() == {0, 1}
    assert grid.transport.ask({2: b"x"}) == {2: None}


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({RECORD: ConfigRecord({})}),
        RecordDict({RECORD: ConfigRecord({FIELD: "text"})}),
        RecordDict({RECORD: ConfigRecord({FIELD: 3})}),
    ],
)
def test_what_is_not_ours_in_a_message_is_no_request(content: RecordDict) -> None:
    assert request_of(SimpleNamespace(content=content)) == b""
    assert request_of(SimpleNamespace()) == b""


def scope(path: str, host: str | None) -> dict[str, Any]:
    client = None if host is None else (host, 1)
    return {"type": "http", "path": path, "client": client}


@pytest.mark.parametrize("host", ["10.1.2.3", "2001:db8::1", None, "unix", "127.0.0.1.evil"])
def test_strangers_reach_the_fleet_interface_and_nothing_else(host: str | None) -> None:
    assert allowed(scope("/v1/fleet/pull-messages", host))
    for path in ("/v1/control/start-run", "/v1/runtime/x", "/", "/docs", "/v1/fleet"):
        assert not allowed(scope(path, host)), path


def test_the_servers_own_machine_reaches_everything() -> None:
    assert allowed(scope("/v1/control/start-run", "127.0.0.1"))
    assert allowed(scope("/v1/control/start-run", "::1"))


def test_the_guard_answers_403_and_calls_nothing() -> None:
    said: list[Any] = []
    called: list[Any] = []

    async def inside(*given: Any) -> None:
        called.append(given)

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {}

    asyncio.run(Guard(inside)(scope("/v1/control/start-run", "10.0.0.9"), receive, send))
    assert said[0]["status"] == 403
    assert not called
    asyncio.run(Guard(inside)({"type": "lifespan"}, receive, send))
    assert len(called) == 1


def test_a_node_fetches_and_runs_no_app() -> None:
    """The site's code names neither of Flower's calls that bring an app from the server."""
    import tacit.deployment.site.node as node

    source = Path(node.__file__).read_text()
    assert "GetFab" not in source and "get_fab" not in source
    assert not any(
        "superexec" in line or "clientapp" in line.lower().split("_runtime")[0]
        for line in source.splitlines()
        if line.startswith(("import", "from"))
    )


def test_a_reply_that_flower_cannot_read_is_missing(
    grid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site's bytes made Flower's parsers raise, and ended the whole run."""
    sound = grid.pull_messages

    def pull(names: list[str]) -> Any:
        replies = sound(names)
        if any(reply.metadata.src_node_id == 101 for reply in replies):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "not text")
        return replies

    monkeypatch.setattr(grid, "pull_messages", pull)
    found = grid.transport.ask(dict.fromkeys(range(3), b"request"))
    assert [found[i] is None for i in range(3)] == [False, True, False]
