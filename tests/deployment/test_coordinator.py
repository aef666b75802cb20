"""The server's loop with sites that die, lie, refuse or come back; and the server that dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from folders import SIZES, config, make, site_folders

from tacit import tree
from tacit.accounting import Ledger
from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.server.status import Status
from tacit.deployment.transport.in_memory import InMemory, Tap
from tacit.errors import TacitError
from tacit.run.config import RunConfig, as_toml, read_toml
from tacit.streams import Stream
from tacit.wire.codec import decode, encode

pytestmark = pytest.mark.usefixtures("quick_compilation")

SCAFFOLD = {"name": "dp-scaffold", "local_steps": 2, "batch_size": 3, "option": "I"}
CENTRAL = {"name": "dp-fedavg", "clip": 0.5, "local_steps": 2}


class Federated:
    """A federation in memory whose server can be started again and again."""

    def __init__(
        self, folder: Path, algorithm: Any = SCAFFOLD, *, tap: Tap | None = None, **options: Any
    ) -> None:
        self.folder = folder / "f"
        run = algorithm if isinstance(algorithm, RunConfig) else config(algorithm)
        self.public = make(self.folder, run, **options)
        self.seen: list[Status] = []
        with jax.enable_x64(True):
            self.stream = Stream.seeded(5)
        self.sites = InMemory(
            site_folders(self.folder, self.public), stream=self.stream, exact=False, tap=tap
        )

    def run(self, transport: Any = None) -> Any:
        server = self.folder / "server"
        values = read_toml(server / "server.toml")
        (server / "server.toml").write_text(as_toml({**values, "wait": 0.2}))
        return Coordinator(
            server,
            transport or self.sites,
            stream=self.stream,
            exact=False,
            pause=0.01,
            on_status=self.seen.append,
        ).run()

    def charges(self, site: int) -> list[tuple[Any, Any]]:
        ledger = self.sites.sites[site].ledger
        return [(c.label["round"], c.label["phase"]) for c in ledger.charges]


class DeathError(Exception):
    """The server's process ends here."""


class Mortal:
    """A transport whose server dies at the n-th exchange, before or after the sites answered."""

    def __init__(self, inside: InMemory, at: int, *, answered: bool) -> None:
        self.inside, self.left, self.answered = inside, at, answered

    def online(self) -> set[int]:
        return self.inside.online()

    def ask(self, requests: Any) -> Any:
        self.left -= 1
        if self.left < 0 and not self.answered:
            raise DeathError
        replies = self.inside.ask(requests)
        if self.left < 0:
            raise DeathError
        return replies


def params(outcome: Any) -> np.ndarray:
    return np.concatenate([np.ravel(v) for v in tree.to_named(outcome.params).values()])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    group = Federated(tmp_path_factory.mktemp("whole"))
    found = params(group.run())
    group.sites.close()
    return found


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_server_that_dies_goes_on(at: int, tmp_path: Path, undisturbed: np.ndarray) -> None:
    """At the announcement or in a round, before any site has answered: the same model comes out."""
    group = Federated(tmp_path)
    with pytest.raises(DeathError):
        group.run(Mortal(group.sites, at, answered=False))
    outcome = group.run()
    np.testing.assert_allclose(params(outcome), undisturbed, atol=1e-12)
    assert group.charges(0) == [(0, "train"), (1, "train"), (2, "train")]
    group.sites.close()


def test_a_round_that_was_answered_to_nobody_is_paid_twice(tmp_path: Path) -> None:
    group = Federated(tmp_path)
    with pytest.raises(DeathError):
        group.run(Mortal(group.sites, 2, answered=True))
    outcome = group.run()
    assert outcome.rounds == 3
    assert group.charges(0) == [(0, "train"), (1, "train"), (1, "train"), (2, "train")]
    group.sites.close()


def test_sites_that_restart_every_round_change_nothing(
    tmp_path: Path, undisturbed: np.ndarray
) -> None:
    group = Federated(tmp_path)

    class Restarting:
        def online(self) -> set[int]:
            return group.sites.online()

        def ask(self, requests: Any) -> Any:
            replies = group.sites.ask(requests)
            for index in list(group.sites.sites):
                group.sites.restart(index)
            return replies

    np.testing.assert_allclose(params(group.run(Restarting())), undisturbed, atol=1e-12)
    group.sites.close()


def with_nan(reply: bytes) -> bytes:
    message = decode(reply)
    fields = {name: np.full_like(value, np.nan) for name, value in message.fields.items()}
    return encode(message.kind, fields, message.meta)


def of_round_nine(reply: bytes) -> bytes:
    message = decode(reply)
    return encode(message.kind, message.fields, {**message.meta, "round": 9})


def of_other_shape(reply: bytes) -> bytes:
    message = decode(reply)
    fields = {name: np.zeros((*value.shape, 2)) for name, value in message.fields.items()}
    return encode(message.kind, fields, message.meta)


def of_other_type(reply: bytes) -> bytes:
    message = decode(reply)
    fields = {name: value.astype(np.float32) for name, value in message.fields.items()}
    return encode(message.kind, fields, message.meta)


LIES: dict[str, tuple[Callable[[bytes], bytes | None], str]] = {
    "NaN": (with_nan, "not finite"),
    "stale": (of_round_nine, "another request"),
    "shape": (of_other_shape, "expected"),
    "type": (of_other_type, "expected"),
    "garbage": (lambda reply: b"\x80\x04" * 50, "not a message"),
    "silence": (lambda reply: None, "no reply"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_site_that_lies_is_left_out_with_a_reason(lie: str, tmp_path: Path) -> None:
    change, reason = LIES[lie]

    def tap(index: int, reply: bytes) -> bytes | None:
        return change(reply) if index == 1 and decode(reply).kind == "train" else reply

    group = Federated(tmp_path, CENTRAL, tap=tap, minimum=2)
    outcome = group.run()
    assert outcome.rounds == 3
    assert np.isfinite(params(outcome)).all()
    told = [status.said for status in group.seen if status.stage == "training"]
    assert len(told) == 3
    assert all(f"{list(SIZES)[1]}: " in said and reason in said for said in told)
    assert len(group.charges(1)) == 3, "what was sent is paid, counted or not"
    group.sites.close()


def test_a_missing_reply_changes_neither_noise_nor_divisor(tmp_path: Path) -> None:
    """The model differs from the whole round by exactly a third of the lost update."""
    lost: list[np.ndarray] = []
    models = []
    for silent in (False, True):

        def tap(index: int, reply: bytes, silent: bool = silent) -> bytes | None:
            if index != 2 or decode(reply).kind != "train":
                return reply
            lost.append(np.concatenate([np.ravel(v) for v in decode(reply).fields.values()]))
            return None if silent else reply

        (tmp_path / str(silent)).mkdir()
        one = config(CENTRAL, train={"rounds": 1, "dtype": "float64"})
        group = Federated(tmp_path / str(silent), one, tap=tap, minimum=2)
        models.append(params(group.run()))
        group.sites.close()
    np.testing.assert_array_equal(lost[0], lost[1])
    np.testing.assert_allclose(models[0] - models[1], lost[0] / 3, atol=1e-12)


def test_too_few_replies_stop_the_run_and_it_can_go_on(tmp_path: Path) -> None:
    silent = {"now": True}

    def tap(index: int, reply: bytes) -> bytes | None:
        kind = decode(reply).kind
        return None if silent["now"] and index and kind == "train" else reply

    group = Federated(tmp_path, CENTRAL, tap=tap, minimum=2)
    with pytest.raises(TacitError, match="needs 2 valid replies; 2 clients gave none"):
        group.run()
    assert len(group.charges(0)) == 3, "three tries, three charges"
    silent["now"] = False
    assert group.run().rounds == 3
    group.sites.close()


def test_sites_that_refuse_are_named_before_anything_is_spent(tmp_path: Path) -> None:
    group = Federated(tmp_path, CENTRAL, policy={"trust_server": False})
    with pytest.raises(TacitError, match=r"north refused \(reason: trust\)"):
        group.run()
    assert group.charges(0) == []
    group.sites.close()


def test_missing_sites_are_named(tmp_path: Path) -> None:
    group = Federated(tmp_path, CENTRAL)
    group.sites.sites.pop(1).close()
    with pytest.raises(
        TacitError, match="2 of the 3 sites that a round needs are connected; missing: e"
    ):
        group.run()
    group.sites.close()


def test_the_servers_ledger_pays_for_its_noise_and_keeps_the_budget(tmp_path: Path) -> None:
    """Two attempts of a round are two charges; the last round is then not covered."""
    privacy = {"epsilon": 8.0, "delta": 1e-3}
    folder = tmp_path / "f"
    public = make(folder, config(CENTRAL, privacy=privacy))
    sites = InMemory(site_folders(folder, public))
    server = folder / "server"
    with pytest.raises(DeathError):
        Coordinator(server, Mortal(sites, 2, answered=True)).run()
    outcome = Coordinator(server, sites).run()
    assert outcome.rounds == 2
    assert outcome.stopped == "the budget covers 2 of the 3 rounds"
    ledger = Ledger.read(server / "run" / "ledger.jsonl")
    assert [c.label["round"] for c in ledger.charges] == [0, 1, 1]
    assert ledger.guarantee(1e-3).epsilon <= 8.0
    sites.close()


def test_what_a_finished_run_leaves(tmp_path: Path) -> None:
    group = Federated(tmp_path, CENTRAL, evaluation=0.5)
    outcome = group.run()
    folder = group.folder / "server" / "run"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["rounds"] == 3
    assert "every client" in summary["guarantee"]["sentence"]
    assert "released/accuracy" in outcome.metrics
    assert (folder / "model.npz").exists()
    assert group.charges(0)[-1] == (3, "accuracy")
    again = group.run()
    np.testing.assert_array_equal(params(again), params(outcome))
    assert group.charges(0)[-1] == (3, "accuracy") and len(group.charges(0)) == 4
    group.sites.close()
