"""What the table says of folders that are whole, half-written, forged or somewhere else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from live.conftest import EVENT, change_status, csrf, make_run, opened, rows
from tacit.accounting import Ledger
from tacit.live import digests
from tacit.live.discovery import look


def wait_for(found: Callable[[], object], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_runs_are_found_by_their_files_and_links_are_not_followed(root: Path) -> None:
    make_run(root / "a")
    make_run(root / "deep" / "b" / "seed-0")
    outside = make_run(root.parent / "outside")
    (root / "link").symlink_to(outside)
    (root / ".hidden").mkdir()
    make_run(root / ".hidden" / "c")
    (root / "site").mkdir()
    (root / "site" / "site.toml").touch()
    (root / "site" / "ledger.jsonl").touch()
    (root / "both").mkdir()
    (root / "both" / "compare.json").touch()
    found = look(root)
    assert set(found.runs) == {"a", "deep/b/seed-0"}
    assert set(found.sites) == {"site"}
    assert set(found.comparisons) == {"both"}
    assert set(look(root / "a").runs) == {"."}


def test_the_states_of_runs(root: Path, client: httpx.Client) -> None:
    make_run(root / "finished")
    make_run(root / "running", done=2)
    change_status(make_run(root / "killed", done=2), process={"pid": 1, "began": "x", "host": "y"})
    gone = json.loads((root / "running" / "status.json").read_text())["process"]
    change_status(root / "killed", process={**gone, "began": "before"})
    make_run(root / "stopped", done=2, state="stopped")
    make_run(root / "failed", done=2, state="failed")
    change_status(make_run(root / "far", done=2), process={"pid": 5, "began": "x", "host": "y"})
    change_status(make_run(root / "lost", done=2), process={"pid": 5, "began": "x", "host": "y"})
    os.utime(root / "lost" / "status.json", (0, 0))
    (make_run(root / "old") / "status.json").unlink()
    found = rows(client)
    assert {name: row["state"] for name, row in found.items()} == {
        "finished": "finished",
        "running": "running",
        "killed": "dead",
        "stopped": "stopped",
        "failed": "failed",
        "far": "running",
        "lost": "dead",
        "old": "finished",
    }
    assert f"tacit run --resume {root / 'killed'}" in found["killed"]["note"]
    assert not found["far"]["stoppable"]
    assert (found["running"]["round"], found["running"]["rounds"]) == (2, 4)
    assert found["finished"]["quality"] == {
        "metric": "test/accuracy",
        "value": 0.3,
        "oracle": False,
    }
    assert found["finished"]["oracle"]


def test_epsilon_is_what_the_ledger_says(root: Path, client: httpx.Client) -> None:
    path = make_run(root / "a", rounds=40, done=25)
    wait_for(lambda: rows(client)["a"]["known"])
    with Ledger.open(path / "ledger.jsonl") as ledger:
        now = ledger.guarantee(1e-5)
        assert rows(client)["a"]["epsilon"] == now.epsilon
        assert client.get("/api/run?id=a").json()["sentence"] == now.sentence()
        assert rows(client)["a"]["promise"].startswith("client, zero-out, delta 1e-05, against all")
        events = [(charge.event, charge.label) for charge in ledger.charges]
        ledger.charge_all(events[:5])
        more = ledger.guarantee(1e-5).epsilon
    wait_for(lambda: rows(client)["a"]["epsilon"] == more)


def test_the_curve_is_that_of_the_report(root: Path) -> None:
    from tacit.run.shown import stored

    path = make_run(root / "a", rounds=6)
    found = digests.ledger(path / "ledger.jsonl", root, 1e-5, 6, {}, 50)
    points = {(round_, epsilon) for _, round_, epsilon in found["points"]}
    assert points - {(0, 0.0)} == set(stored(path).spent)
    assert not found["more"]
    again = digests.ledger(path / "ledger.jsonl", root, 1e-5, 6, found, 0)
    assert again["points"] == found["points"]


def test_the_curve_grows_while_somebody_looks(root: Path, client: httpx.Client) -> None:
    make_run(root / "a", rounds=30)

    def curves() -> dict[str, list[object]]:
        found: dict[str, list[object]] = client.get("/api/curves?id=a&id=../b").json()["a"]
        return found

    wait_for(lambda: len(curves()["epsilon"]) == 31 and curves()["complete"])
    assert curves()["metrics"]["test/accuracy"][-1] == [29, 2.9]  # type: ignore[call-overload]


GARBAGE = {
    "status.json": [b"{", b"[]", b'{"state": "running"}', b"\xff\xfe", b'{"state": NaN}'],
    "summary.json": [b'{"rounds": 3', b'"x"', b'{"guarantee": 3}', b"[" * 100_000],
    "config.toml": [b"[data", b"\xff"],
    "metrics.csv": [
        b"round,metric,value\n1,test/x\n",
        b"round,metric,value\n1,a,b\n",
        b"\xff\xff\n",
    ],
    "ledger.jsonl": [b"", b"{}\n", b"\x00" * 100],
}


@pytest.mark.parametrize(("name", "data"), [(n, d) for n, all_ in GARBAGE.items() for d in all_])
def test_a_broken_folder_says_so_and_the_others_are_shown(
    root: Path, client: httpx.Client, name: str, data: bytes
) -> None:
    make_run(root / "good")
    (make_run(root / "bad") / name).write_bytes(data)
    wait_for(lambda: rows(client)["bad"]["state"] == "broken")
    bad = rows(client)["bad"]
    assert name.split(".")[0] in bad["note"]
    assert rows(client)["good"]["state"] == "finished"
    assert client.get("/api/run?id=bad").status_code == 200
    assert client.get("/api/curves?id=bad").status_code == 200


def test_a_forged_ledger_or_summary_is_not_believed(root: Path, client: httpx.Client) -> None:
    ledger = make_run(root / "ledger") / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("5.0", "9.0"))
    summary = make_run(root / "summary") / "summary.json"
    found = json.loads(summary.read_text())
    found["guarantee"]["epsilon"] /= 2
    summary.write_text(json.dumps(found))
    wait_for(lambda: {row["state"] for row in rows(client).values()} == {"broken"})
    assert not rows(client)["ledger"]["known"]
    assert "smaller epsilon" in rows(client)["summary"]["note"]


def test_links_and_pipes_inside_a_run_are_not_read(root: Path, client: httpx.Client) -> None:
    secret = root.parent / "secret.toml"
    secret.write_text('[algorithm]\nname = "secret"\n')
    config = make_run(root / "link") / "config.toml"
    config.unlink()
    config.symlink_to(secret)
    pipe = make_run(root / "pipe") / "metrics.csv"
    pipe.unlink()
    os.mkfifo(pipe)
    report = make_run(root / "page") / "report.html"
    report.symlink_to(secret)
    assert rows(client)["link"]["state"] == rows(client)["pipe"]["state"] == "broken"
    assert "secret" not in client.get("/api/run?id=link").text
    answer = client.get("/report?id=page")
    assert answer.status_code == 409
    assert "secret" not in answer.text


def test_metrics_that_are_not_numbers_are_gaps(root: Path, client: httpx.Client) -> None:
    path = make_run(root / "a")
    (path / "metrics.csv").write_text("round,metric,value\n1,test/accuracy,nan\n2,test/loss,inf\n")
    assert rows(client)["a"]["quality"]["value"] is None


def test_reports(root: Path, client: httpx.Client) -> None:
    (make_run(root / "a") / "report.html").write_text("<h1>A</h1><script>x</script>")
    make_run(root / "many" / "seed-0")
    (root / "many" / "report.html").write_text("<h1>seeds</h1>")
    make_run(root / "none", done=2)
    answer = client.get("/report?id=a")
    assert answer.text.startswith("<h1>A")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert "script" not in answer.headers["content-security-policy"]
    assert "seeds" in client.get("/report?id=many/seed-0").text
    assert client.get("/report?id=none").status_code == 404
    assert client.post("/api/report?id=none", headers=csrf(client)).status_code == 409


def test_a_deployed_run_shows_its_sites_where_they_are_here(
    root: Path, client: httpx.Client
) -> None:
    server = root / "fed" / "server"
    change_status(make_run(server / "run", done=2), kind="deployed", stoppable=False)
    (server / "federation.toml").write_text("[sites]\nnorth = 10\nsouth = 20\n")
    site = root / "fed" / "sites" / "north"
    site.mkdir(parents=True)
    (site / "site.toml").write_text(
        'name = "north"\n[data]\n[policy]\nmethods = ["dp-fedavg"]\nunit = "client"\n'
        'relation = "zero-out"\nepsilon = 3.0\ndelta = 1e-5\n'
    )
    with Ledger.create(
        site / "ledger.jsonl", unit="client", relation="zero-out", observer="s"
    ) as own:
        own.charge(EVENT, round=0)
        spent = own.guarantee(1e-5)
    wait_for(lambda: client.get("/api/runs").json()["sites"], 30)
    known = client.get("/api/run?id=fed/server/run").json()
    north, south = known["sites"]
    assert (north["spent"], north["budget"]) == (spent.epsilon, 3.0)
    assert north["sentence"] == spent.sentence()
    assert south == {"name": "south"}
    refused = client.post("/api/stop?id=fed/server/run", headers=csrf(client))
    assert "tacit deploy stop" in refused.json()["error"]


def test_the_folder_itself_may_be_a_run(tmp_path: Path) -> None:
    for client in opened(make_run(tmp_path / "alone")):
        assert rows(client)["."]["name"] == "alone"
