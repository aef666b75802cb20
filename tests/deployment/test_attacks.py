"""Attacks that once worked, each against the real code of sites and server: see ``adversary``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from adversary import DishonestServer, filled, flat, lying
from folders import FEATURES, SIZES, config, make, make_records, site_folders

from tacit import tree
from tacit.accounting import Ledger
from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.setup.settings import Public
from tacit.deployment.site import process as working
from tacit.deployment.site.site import Site
from tacit.deployment.transport.in_memory import InMemory, Tap
from tacit.errors import TacitError
from tacit.release import Release
from tacit.run.config import RunConfig
from tacit.wire import client as wire_client
from tacit.wire.codec import decode

pytestmark = pytest.mark.usefixtures("quick_compilation")

CENTRAL = {"name": "dp-fedavg", "clip": 0.3, "local_steps": 2, "local_lr": 1.0}
LOCAL = {"name": "dp-fedavg-record", "batches": "full", "local_steps": 1, "clip": 0.5}


def ran(folder: Path, run: RunConfig, tap: Tap | None = None, **options: Any) -> tuple[Any, Public]:
    """A whole run with noise from the operating system."""
    public = make(folder, run, minimum=1, **options)
    sites = InMemory(site_folders(folder, public), tap=tap)
    try:
        return Coordinator(folder / "server", sites, pause=0.01).run(), public
    finally:
        sites.close()


# 3. Sites that lie.


@pytest.mark.parametrize("lie", [1e6, -1e300, 0.31])
def test_a_reply_above_its_bound_is_left_out(lie: float, tmp_path: Path) -> None:
    """A site that sent 1e6 at a clip of 0.3 gave a model of norm 2e6."""
    outcome, _ = ran(tmp_path / "f", config(CENTRAL), lying(filled(lie), 2))
    assert np.linalg.norm(flat(outcome.params)) < 100
    assert outcome.metrics["server/replies"] == len(SIZES) - 1


def test_a_message_beyond_the_reach_of_its_noise_is_left_out(tmp_path: Path) -> None:
    local = {**CENTRAL, "noise_at": "message"}
    outcome, _ = ran(tmp_path / "f", config(local), lying(filled(1e4), 0))
    assert outcome.metrics["server/replies"] == len(SIZES) - 1
    honest, _ = ran(tmp_path / "g", config(local))
    assert honest.metrics["server/replies"] == len(SIZES)


def test_colluders_cannot_round_the_noise_off_the_third(tmp_path: Path) -> None:
    """Two of three sent 2^k and -2^k, and read every sign of the third's update, 20 times of 20.

    Now such replies are left out, and the largest that are let in change nothing of the others'
    share: over 12 runs the signs are guessed about as often as by a coin.
    """
    run = config(
        CENTRAL,
        privacy={"noise": 20.0, "delta": 1e-3},
        train={"rounds": 1, "dtype": "float32"},
        task={"name": "logistic", "l2": 0.0},
    )
    clip = float(CENTRAL["clip"])

    def collude(fields: dict[str, Any]) -> dict[str, Any]:
        size = np.sqrt(sum(v.size for v in fields.values()))
        return filled(0.999 * clip / size)(fields)

    guessed = []
    for number in range(12):
        outcome, public = ran(tmp_path / f"f{number}", run, lying(collude, 1, 2))
        assert outcome.metrics["server/replies"] == len(SIZES)
        count = FEATURES + 1
        known = 2 * 0.999 * clip / np.sqrt(count) / len(SIZES)
        seen = flat(outcome.params) - known
        with jax.enable_x64(True):
            truth = flat(_update(public, make_records(0)["north"]))
        guessed.append(np.mean(np.sign(seen) == np.sign(truth)))
    assert np.mean(guessed) < 0.85  # 48 signs; all of them were read before


def test_a_huge_reply_does_not_round_the_others_share(tmp_path: Path) -> None:
    """One colluder sends H and one half of H's last place: the sum rounds by the third's sign."""
    last = 2.0**11  # of H = 2^34 in float32, far above the noise
    values = {1: last / 2, 2: 2.0**34}
    run = config(
        CENTRAL,
        privacy={"noise": 20.0, "delta": 1e-3},
        train={"rounds": 1, "dtype": "float32"},
        task={"name": "logistic", "l2": 0.0},
    )

    def collude(index: int, reply: bytes) -> bytes | None:
        return lying(filled(values[index]), index)(index, reply) if index in values else reply

    read = []
    for number in range(3):
        outcome, public = ran(tmp_path / f"f{number}", run, collude)
        with jax.enable_x64(True):
            truth = flat(_update(public, make_records(0)["north"])) > 0
        assert 0 < truth.sum() < len(truth)
        seen = flat(outcome.params).astype(float) * len(SIZES) - values[2] > last / 2
        read.append(bool((seen == truth).all()))
        assert outcome.metrics["server/replies"] == 1
    assert not any(read), "all signs of the third site's update, in every run"


def _update(public: Public, records: Any) -> Any:
    plan = public.plan
    from tacit import local
    from tacit.algorithm import ClientData
    from tacit.sampling import FullBatch

    data = ClientData(
        {k: jax.numpy.asarray(v) for k, v in records.items()},
        jax.numpy.asarray(len(records["y"]), jax.numpy.int32),
    )
    start = plan.task.init(jax.random.key(0))
    end = local.gradient_steps(
        plan.task, FullBatch(), jax.random.key(0), start, data, steps=2, step_size=1.0
    )
    return tree.subtract(end, start)


def test_a_site_cannot_lie_about_what_follows_from_its_update(tmp_path: Path) -> None:
    """The squared norm that sets FedEXP's step is computed from the update that came with it."""

    def lie(fields: dict[str, Any]) -> dict[str, Any]:
        return {
            k: np.full_like(v, 0.99) if k.endswith("['sq_norm']") else v * 0
            for k, v in fields.items()
        }

    fedexp = {"name": "dp-fedexp", "local_steps": 2, "clip": 1.0}
    quiet = {"noise": 1e-3, "delta": 1e-3}
    open_ = {"policy": {"unprotected": True}}
    outcome, _ = ran(tmp_path / "f", config(fedexp, privacy=quiet), lying(lie, 0, 1, 2), **open_)
    assert np.linalg.norm(flat(outcome.params)) < 0.1


# 4. A model that the server chooses so that norms underflow.


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_model_makes_a_record_contribute_more_than_the_clip(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """26 to 37 times the clip came through before, from one record, and told its label."""
    monkeypatch.setattr(
        Release, "noised", lambda self, key, value, round_, radius=None, terms=1: value
    )
    wire_client._worker.cache_clear()
    run = config(
        {**LOCAL, "local_lr": 1.0},
        task={"name": "mlp", "hidden": [4, 4], "activation": "relu"},
        train={"rounds": 1, "dtype": dtype},
    )
    public = make(tmp_path / "f", run, sizes={"north": 1})
    sites = InMemory(site_folders(tmp_path / "f", public), exact=False)
    server = DishonestServer(public, sites)
    plan, phase = next(server.phases())
    least = {"float32": (-38, -30, -25, -12), "float64": (-308, -200, -162, -100)}[dtype]
    worst = 0.0
    for first in (1e-9, 1.0, 1e9, 1e12):
        for last in least:
            fields = server.model(plan, phase, 0.0)
            for name in fields:
                if "layer2" in name or "layer1" in name:
                    fields[name] = np.full_like(fields[name], 10.0**last if "2" in name else first)
                elif "'w'" in name:
                    fields[name] = np.full_like(fields[name], first)
                else:
                    fields[name] = np.full_like(fields[name], first)
            reply = decode(server.ask(0, server.request(phase.name, fields)))
            if reply.kind == "train":
                sent = np.concatenate([np.ravel(v).astype(float) for v in reply.fields.values()])
                worst = max(worst, float(np.linalg.norm(sent)) / float(LOCAL["clip"]))
    sites.close()
    wire_client._worker.cache_clear()
    assert 0 < worst <= 1 + 1e-6


def test_a_model_out_of_range_is_refused_uncharged(tmp_path: Path) -> None:
    public = make(tmp_path / "f", config(LOCAL))
    sites = InMemory(site_folders(tmp_path / "f", public))
    server = DishonestServer(public, sites)
    plan, phase = next(server.phases())
    for value in (np.nan, np.inf, 2.0**41):
        assert server.said(0, phase.name, server.model(plan, phase, value)) == ("failed", None)
    assert list(sites.sites[0].ledger.charges) == []
    assert server.said(0, phase.name, server.model(plan, phase, 2.0**40))[0] == phase.name
    sites.close()


# 5. Precision, and faults of a site's own.


def test_a_fault_of_its_own_is_charged_once_and_stops_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An MLP burnt epsilon 1.9 at every site without finishing round 0."""
    public = make(tmp_path / "f", config(LOCAL))
    folder = tmp_path / "f" / "sites" / "north"
    sites = InMemory({0: folder})
    server = DishonestServer(public, sites)
    plan, phase = next(server.phases())

    def broken(*args: Any) -> Any:
        raise RuntimeError("Incorrect output dtype")

    monkeypatch.setattr(wire_client, "_worker", lambda *args: broken)
    fields = server.model(plan, phase)
    for _ in range(4):
        assert server.said(0, phase.name, fields) == ("failed", None)
    assert len(list(sites.sites[0].ledger.charges)) == 1
    assert sites.sites[0].stopped
    sites.close()
    with pytest.raises(TacitError, match=r"stopped itself.*Incorrect output dtype.*remove"):
        Site(folder)
    (folder / "state" / "stopped.txt").unlink()
    Site(folder).close()


def test_the_process_of_a_stopped_site_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr")
    import tacit.deployment.site.node as node

    make(tmp_path / "f", config(LOCAL))
    folder = tmp_path / "f" / "sites" / "north"

    class Node:
        def __init__(self, folder: Path, public: Public, answer: Any) -> None:
            self.answer = answer

        def run(self, stop: Any) -> None:
            (folder / "state" / "stopped.txt").write_text("a fault after a charge: x\n")
            self.answer(b"anything")
            assert stop.is_set()

    monkeypatch.setattr(node, "FleetNode", Node)
    with pytest.raises(TacitError, match="stopped itself after an error"):
        working.work(folder)


# 9. The sentence of a deployed run.


@pytest.mark.parametrize("method", [LOCAL, CENTRAL], ids=["local", "central"])
def test_the_final_sentence_counts_what_the_sites_have_paid(
    method: dict[str, Any], tmp_path: Path
) -> None:
    """2.0000 stood in the summary where the sites' ledgers said 8.07 and 3.93."""
    lost = {"left": 2}

    def lose(index: int, reply: bytes) -> bytes | None:
        if index == 0 and decode(reply).kind == "train" and lost["left"]:
            lost["left"] -= 1
            return None  # all sites have answered and paid, and the round is done again
        return reply

    public = make(tmp_path / "f", config(method), minimum=3, evaluation=0.2)
    sites = InMemory(site_folders(tmp_path / "f", public), tap=lose)
    outcome = Coordinator(tmp_path / "f" / "server", sites, pause=0.01).run()
    delta = public.run.privacy.delta
    paid = [site.ledger.guarantee(delta).epsilon for site in sites.sites.values()]
    sites.close()
    assert lost["left"] == 0
    assert outcome.guarantee.epsilon == pytest.approx(max(paid), rel=1e-9)
    assert outcome.guarantee.epsilon > public.plan.guarantee(delta).epsilon
    summary = json.loads((tmp_path / "f" / "server" / "run" / "summary.json").read_text())
    assert summary["guarantee"]["epsilon"] == outcome.guarantee.epsilon
    kept = Ledger.read(tmp_path / "f" / "server" / "run" / "ledger.jsonl").guarantee(delta)
    assert kept.sentence() == outcome.guarantee.sentence() == summary["guarantee"]["sentence"]
    assert "Noise: from the operating system." in kept.sentence()


# What an independent attack found after these.


def test_replies_do_not_decide_about_a_round_with_a_secret_cohort(tmp_path: Path) -> None:
    """Colluders who stayed silent had a round drawn again until the last site was in it."""
    sizes = {f"site-{i}": 4 for i in range(8)}
    run = config({**CENTRAL, "cohort_rate": 0.3}, train={"rounds": 12, "dtype": "float64"})
    public = make(tmp_path / "f", run, sizes=sizes, minimum=1)
    asked: list[set[int]] = []

    class Silent(InMemory):
        def ask(self, requests: Any) -> Any:
            if any(decode(request).kind == "train" for request in requests.values()):
                asked.append(set(requests))
                mine = {i: r for i, r in requests.items() if i == 0}
                return {**dict.fromkeys(requests), **InMemory.ask(self, mine)}
            return super().ask(requests)

    sites = Silent(site_folders(tmp_path / "f", public))
    outcome = Coordinator(tmp_path / "f" / "server", sites, pause=0.01).run()
    sites.close()
    assert outcome.rounds == 12
    assert len(asked) <= 12, "every round is asked once; one with an empty cohort asks nobody"
    delta = public.run.privacy.delta
    assert outcome.guarantee.epsilon == pytest.approx(public.plan.guarantee(delta).epsilon)


@pytest.mark.parametrize("broken", ["head", "stop file"])
def test_a_disk_that_takes_nothing_stops_the_site(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = make(tmp_path / "f", config(LOCAL))
    folder = tmp_path / "f" / "sites" / "north"
    sites = InMemory({0: folder})
    server = DishonestServer(public, sites)
    plan, phase = next(server.phases())

    def full(*args: Any) -> Any:
        raise TacitError("no space left")

    if broken == "head":
        monkeypatch.setattr("tacit.deployment.site.state.Head.write", full)
    else:
        monkeypatch.setattr("tacit.deployment.site.site.write_private", full)
        monkeypatch.setattr(wire_client, "_worker", lambda *args: full)
    fields = server.model(plan, phase)
    for number in range(3):
        server.run = f"ab{number}"
        assert server.said(0, phase.name, fields) == ("failed", None)
    assert len(list(sites.sites[0].ledger.charges)) == 1
    assert sites.sites[0].stopped
    sites.close()


def test_an_accuracy_above_all_records_is_left_out(tmp_path: Path) -> None:
    """A site of 4,000 records sent 4,000 for a share in [0, 1], and nobody was left out."""
    records = {"name": "auto", "protects": "record", "noise_at": "aggregate", "centre": "public"}
    quiet = {"privacy": {"noise": 2.0, "delta": 1e-3}}

    def lie(fields: dict[str, Any]) -> dict[str, Any]:
        return {k: v * 0 + 1e4 if "accuracy" in k else v for k, v in fields.items()}

    outcome, _ = ran(tmp_path / "f", config(records, **quiet), lying(lie, 2), evaluation=0.05)
    assert -0.5 < outcome.metrics["released/accuracy"] < 1.5
