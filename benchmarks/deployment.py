"""The deployment under load: cost of a round, effect of crashes, growth over many rounds.

    python -m benchmarks.deployment overhead   a 100,000-parameter model, in memory and on Flower
    python -m benchmarks.deployment kills      SIGKILL of random sites and of the server
    python -m benchmarks.deployment secure     50 SIGKILLs during secure sums
    python -m benchmarks.deployment soak       hundreds of rounds in memory: growth
    python -m benchmarks.deployment endurance  hundreds of rounds between processes: growth

Every command writes results/deployment/<name>.json.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.deployed import (
    growth_of,
    kill_server,
    large_federation,
    new_folder,
    running,
    sizes_of,
    small_federation,
    start_server,
)
from tacit.accounting import Ledger
from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.server.processes import FOLDER, progress_of
from tacit.deployment.setup.demo import start_site
from tacit.deployment.setup.folders import make_federation
from tacit.deployment.setup.from_config import demo_federation
from tacit.deployment.setup.overview import budget_of
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.in_memory import InMemory
from tacit.deployment.transport.process_groups import free_port, marked, stop
from tacit.run.config import RunConfig

RESULTS = Path("results")
BY_RECORD = {
    "name": "dp-fedavg-record",
    "batches": "full",
    "local_steps": 2,
    "local_lr": 1.0,
    "clip": 1.0,
}
SECURE = {"name": "dp-fedavg", "noise_at": "shares", "honest": 3, "dropouts": 1, "clip": 0.5}


def overhead(rounds: int = 12, features: int = 9_999, classes: int = 10) -> dict[str, Any]:
    """Seconds per round of three sites with a model of 100,000 parameters."""
    with new_folder() as folder:
        public = large_federation(folder, features, classes, rounds)
        in_memory = _in_memory_rounds(folder, public)
    with new_folder() as folder:
        large_federation(folder, features, classes, rounds, address=f"127.0.0.1:{free_port()}")
        on_flower = _flower_rounds(folder)
    return {
        "parameters": (features + 1) * classes,
        "sites": 3,
        "in_memory": in_memory,
        "flower": on_flower,
    }


def _in_memory_rounds(folder: Path, public: Public) -> dict[str, Any]:
    sites = InMemory({i: folder / "sites" / n for i, n in enumerate(public.names)})
    answering: list[float] = []
    lasting: list[float] = []
    originals = {i: site.answer for i, site in sites.sites.items()}

    def timed(index: int) -> Callable[[bytes], bytes]:
        def answer(request: bytes) -> bytes:
            begun = time.perf_counter()
            reply = originals[index](request)
            answering.append(time.perf_counter() - begun)
            return reply

        return answer

    for index, site in sites.sites.items():
        site.answer = timed(index)  # type: ignore[method-assign, assignment]
    last = [time.perf_counter()]

    def tell(status: Any) -> None:
        if status.stage == "training":
            lasting.append(time.perf_counter() - last[0])
        last[0] = time.perf_counter()

    Coordinator(folder / "server", sites, on_status=tell).run()
    sites.close()
    compiled = 3 * 3  # the join and the first two rounds of three sites compile and warm up
    per_site = float(np.median(answering[compiled:]))
    whole = float(np.median(lasting[2:]))
    return {
        "site_seconds": per_site,
        "server_seconds": whole - 3 * per_site,
        "round_seconds": per_site + (whole - 3 * per_site),
        "note": "sites work at the same time in a real federation, one after another here",
    }


def _flower_rounds(folder: Path) -> dict[str, Any]:
    with running(folder):
        begun: list[tuple[int, float]] = []
        while (seen := progress_of(folder / "server")).get("stage") != "done":
            if seen.get("stage") == "stopped":
                raise RuntimeError(seen["said"])
            if seen.get("stage") == "training" and (not begun or begun[-1][0] != seen["round"]):
                begun.append((seen["round"], time.perf_counter()))
            time.sleep(0.02)
    times = np.diff([t for _, t in begun])[1:]
    return {"round_seconds": float(np.median(times)), "rounds": len(times)}


def kills(rounds: int = 20, seed: int = 0) -> dict[str, Any]:
    """A run where random sites are killed every few rounds and the server once, and one without."""
    peaceful = _one_run(rounds, None)
    disturbed = _one_run(rounds, random.Random(seed))
    gap = np.linalg.norm(disturbed["model"] - peaceful["model"])
    for run in (peaceful, disturbed):
        run["model"] = [round(float(v), 6) for v in run["model"]]
    return {
        "rounds": rounds,
        "peaceful": peaceful,
        "disturbed": disturbed,
        "distance_of_models": float(gap),
        "expected_noise_distance": disturbed["expected_noise"] * 2**0.5,
    }


def _one_run(rounds: int, dice: random.Random | None) -> dict[str, Any]:
    with new_folder() as folder:
        asked = demo_federation(
            rounds,
            address=f"127.0.0.1:{free_port()}",
            minimum=2,
            timeout=45.0,
            headroom=2.0,
        )
        by_record = {**asked.config.as_dict(), "algorithm": BY_RECORD}
        public = make_federation(
            folder, dataclasses.replace(asked, config=RunConfig.from_dict(by_record))
        )
        began = time.monotonic()
        killed = _lead(folder, public, rounds, dice)
        summary = json.loads((folder / "server" / "run" / "summary.json").read_text())
        ledgers = {name: _ledger_facts(folder / "sites" / name) for name in public.names}
        server = Ledger.read(folder / "server" / "run" / "ledger.jsonl")
        with np.load(folder / "server" / "run" / "model.npz") as archive:
            model = np.concatenate([np.ravel(archive[k]) for k in sorted(archive.files)])
        left = marked(f"{FOLDER}={(folder / 'server').resolve()}")
        return {
            "seconds": time.monotonic() - began,
            "killed": killed,
            "rounds": summary["rounds"],
            "metrics": summary["metrics"],
            "ledgers": ledgers,
            "server_ledger_head": server.head,
            "processes_left": left,
            "model": model,
            "expected_noise": _noise_of_model(public),
        }


def _noise_of_model(public: Public) -> float:
    """How much the noise alone changes the model in a run (the sum of the noise of all steps)."""
    algorithm: Any = public.plan.algorithm
    size = int(public.shapes["x"].shape[0]) + 1
    each = [algorithm.noise * algorithm.clip / n for n in public.population.sizes]
    step = algorithm.local_lr * float(np.sqrt(np.sum(np.square(each)))) / len(each)
    return float(step * np.sqrt(size * algorithm.local_steps * public.plan.rounds))


def _ledger_facts(folder: Path) -> dict[str, Any]:
    ledger, found = Ledger.read(folder / "ledger.jsonl"), budget_of(folder)
    charges = list(ledger.charges)
    replies = sum(": train sent" in line for line in (folder / "site.log").open())
    return {
        "verifies": True,  # reading it checks every line and the chain
        "charges": len(charges),
        "done": sum(c.done for c in charges),
        "replies_sent": replies,
        "no_spend_lost": len(charges) >= replies,
        "epsilon": found["epsilon"],
        "budget": found["budget"],
        "within_budget": found["epsilon"] <= found["budget"],
    }


def _lead(
    folder: Path, public: Public, rounds: int, dice: random.Random | None
) -> list[dict[str, Any]]:
    """Run to the end like a service manager: every process that dies is restarted."""
    sites = {name: start_site(folder / "sites" / name) for name in public.names}
    server = start_server(folder)
    killed: list[dict[str, Any]] = []
    due = sorted(dice.sample(range(2, rounds - 1), k=max(2, rounds // 4))) if dice else []
    crash_at = rounds // 2
    try:
        while True:
            seen = progress_of(folder / "server")
            if seen.get("stage") == "done":
                return killed
            if seen.get("stage") == "stopped":
                raise RuntimeError(str(seen.get("said")))
            now = int(seen.get("round", 0))
            if dice is not None and due and now >= due[0]:
                due.pop(0)
                name = dice.choice(sorted(sites))
                time.sleep(dice.random() * 2)
                os.killpg(sites[name].pid, signal.SIGKILL)
                killed.append({"what": name, "round": now})
            if dice is not None and crash_at is not None and now >= crash_at:
                kill_server(folder, server)
                killed.append({"what": "server", "round": now})
                crash_at = None  # type: ignore[assignment]
                server = start_server(folder)
            for name, process in sites.items():
                if process.poll() is not None:
                    time.sleep(1)
                    sites[name] = start_site(folder / "sites" / name)
            if server.poll() not in (None, 0):
                raise RuntimeError((folder / "server.log").read_text()[-2000:])
            time.sleep(0.1)
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(60)
        for process in (server, *sites.values()):
            stop(process)


def secure(rounds: int = 100, wanted: int = 50, seed: int = 0) -> dict[str, Any]:
    """Secure sums of three sites while sites and server are killed at random moments."""
    dice = random.Random(seed)
    with new_folder() as folder:
        address = f"127.0.0.1:{free_port()}"
        public = small_federation(folder, SECURE, rounds, address, timeout=30.0, headroom=20.0)
        began = time.monotonic()
        killed = _under_fire(folder, public, dice, wanted)
        summary = json.loads((folder / "server" / "run" / "summary.json").read_text())
        ledgers = {name: _ledger_facts(folder / "sites" / name) for name in public.names}
        sessions = {name: _opened(folder / "sites" / name) for name in public.names}
        return {
            "kills": len(killed),
            "of_the_server": killed.count("server"),
            "seconds": time.monotonic() - began,
            "rounds": summary["rounds"],
            "guarantee": summary["guarantee"]["sentence"],
            "sessions_opened": {name: len(found) for name, found in sessions.items()},
            "opened_twice": sum(len(found) - len(set(found)) for found in sessions.values()),
            "ledgers": ledgers,
        }


def _opened(folder: Path) -> list[str]:
    lines = (folder / "site.log").read_text().splitlines()
    return [line.rpartition(" ")[2] for line in lines if "sum opened, session" in line]


def _under_fire(folder: Path, public: Public, dice: random.Random, wanted: int) -> list[str]:
    """Restart whatever dies, and kill something every few seconds, at any moment."""
    sites = {name: start_site(folder / "sites" / name) for name in public.names}
    server, killed = start_server(folder), list[str]()
    next_kill = time.monotonic() + 25
    try:
        while progress_of(folder / "server").get("stage") != "done":
            if len(killed) < wanted and time.monotonic() > next_kill:
                what = dice.choice([*sites, *sites, "server"])
                if what == "server":
                    kill_server(folder, server)
                    server = start_server(folder)
                else:
                    os.killpg(sites[what].pid, signal.SIGKILL)
                killed.append(what)
                next_kill = time.monotonic() + dice.uniform(10, 35)
            for name, process in sites.items():
                if process.poll() is not None:
                    sites[name] = start_site(folder / "sites" / name)
            if server.poll() is not None and progress_of(folder / "server").get("stage") != "done":
                server = start_server(folder)
            time.sleep(0.1)
        return killed
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(60)
        for process in (server, *sites.values()):
            stop(process)


def soak(rounds: int = 400) -> dict[str, Any]:
    """Many rounds in memory with a stateful method, to find growth."""
    algorithm = {"name": "dp-scaffold", "local_steps": 2, "batch_size": 16, "clip": 0.5}
    with new_folder() as folder:
        public = small_federation(folder, algorithm, rounds)
        sites = InMemory({i: folder / "sites" / n for i, n in enumerate(public.names)})
        seen: list[dict[str, float]] = []

        def tell(status: Any) -> None:
            if status.stage == "training" and status.round % (rounds // 8) == 0:
                seen.append({"round": status.round, **sizes_of(folder)})

        begun = time.monotonic()
        Coordinator(folder / "server", sites, on_status=tell).run()
        seconds = time.monotonic() - begun
        sites.close()
        facts = {n: _soaked(folder / "sites" / n) for n in public.names}
    return {"rounds": rounds, "seconds_per_round": seconds / rounds, "grown": seen, "sites": facts}


def endurance(rounds: int = 200) -> dict[str, Any]:
    """Many rounds between real processes: memory and files of all, including Flower's."""
    algorithm = {"name": "dp-scaffold", "local_steps": 2, "batch_size": 16, "clip": 0.5}
    with new_folder() as folder:
        public = small_federation(folder, algorithm, rounds, f"127.0.0.1:{free_port()}")
        seen: list[dict[str, float]] = []
        begun = time.monotonic()
        with running(folder) as started:
            while (said := progress_of(folder / "server")).get("stage") != "done":
                if said.get("stage") == "stopped":
                    raise RuntimeError(said["said"])
                now = int(said.get("round", 0))
                if now and now % (rounds // 8) == 0 and (not seen or seen[-1]["round"] != now):
                    seen.append({"round": now, **growth_of(folder, started)})
                time.sleep(0.1)
        seconds = time.monotonic() - begun
        facts = {n: _soaked(folder / "sites" / n) for n in public.names}
    return {"rounds": rounds, "seconds_per_round": seconds / rounds, "grown": seen, "sites": facts}


def _soaked(folder: Path) -> dict[str, Any]:
    ledger = Ledger.read(folder / "ledger.jsonl")
    return {"charges": sum(1 for _ in ledger.charges), "epsilon": budget_of(folder)["epsilon"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("overhead", "kills", "secure", "soak", "endurance"))
    parser.add_argument("--rounds", type=int)
    asked = parser.parse_args()
    options = {} if asked.rounds is None else {"rounds": asked.rounds}
    works: dict[str, Callable[..., dict[str, Any]]] = {
        "overhead": overhead,
        "kills": kills,
        "secure": secure,
        "soak": soak,
        "endurance": endurance,
    }
    found = works[asked.what](**options)
    command = " ".join(["python -m benchmarks.deployment", *sys.argv[1:]])
    text = json.dumps({"command": command, "cores": os.cpu_count(), **found}, indent=2)
    (RESULTS / f"deploy-{asked.what}.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
