"""Attacks on the live view: other names, no token, foreign pages, names that lead outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from live.conftest import change_status, csrf, make_run, opened, rows
from tacit.run_status import began

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def shared(root: Path) -> Iterator[httpx.Client]:
    """A view on an address that other machines reach."""
    yield from opened(root, host="0.0.0.0", token=TOKEN)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "", "a b"])
def test_a_name_that_was_bent_to_this_machine_is_refused(client: httpx.Client, host: str) -> None:
    name = host.format(port=client.base_url.port)
    for path in ("/", "/api/runs", "/events", "/static/view.js"):
        assert client.get(path, headers={"host": name}).status_code in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_loopback_names_are_served(client: httpx.Client, host: str) -> None:
    named = {"host": f"{host}:{client.base_url.port}"}
    assert client.get("/api/runs", headers=named).status_code == 200


def test_without_the_token_nothing_is_served(shared: httpx.Client) -> None:
    for path in (
        "/",
        "/api/runs",
        "/events",
        "/static/view.js",
        "/report?id=a",
        "/?token=",
        "/none",
    ):
        assert shared.get(path).status_code == 401, path
    assert shared.get(f"/?token={TOKEN}x").status_code == 401
    assert shared.get("/api/runs", params={"token": TOKEN}).status_code == 401  # the page alone
    assert shared.post("/api/stop?id=a").status_code == 401
    for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", TOKEN, "Bearer \u00e9"):
        sent = {"authorization": wrong.encode()}
        assert shared.get("/api/runs", headers=sent).status_code == 401
    assert shared.get("/api/runs", headers={"cookie": "x; ;=,"}).status_code == 401


def test_the_token_opens_it_in_a_header_and_in_the_address(shared: httpx.Client) -> None:
    right = {"authorization": f"Bearer {TOKEN}"}
    assert shared.get("/api/runs", headers=right).status_code == 200
    page = shared.get(f"/?token={TOKEN}")
    cookie = page.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert shared.get("/api/runs").status_code == 200  # with the cookie


def test_a_foreign_page_changes_nothing(root: Path, client: httpx.Client) -> None:
    make_run(root / "a", done=2)
    own, port = csrf(client), client.base_url.port
    for headers in (
        {},
        {"x-tacit-page": "wrong"},
        {**own, "origin": "http://evil.example"},
        {**own, "origin": "null"},
        {**own, "origin": f"https://127.0.0.1:{port}"},
        {**own, "sec-fetch-site": "cross-site"},
        {**own, "sec-fetch-site": "same-site"},
        {**own, "sec-fetch-site": "none"},
    ):
        assert client.post("/api/stop?id=a", headers=headers).status_code == 403
        assert client.post("/api/report?id=a", headers=headers).status_code == 403
    assert client.get("/api/stop?id=a").status_code == 405
    sent = {**own, "origin": f"http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}
    assert client.post("/api/stop?id=none", headers=sent).status_code == 404


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "..",
        "/etc",
        "a/../../outside",
        "%2e%2e/outside",
        "a\x00",
        "link",
        "C:\\",
        "a/.",
    ],
)
def test_a_name_never_leads_outside(root: Path, client: httpx.Client, name: str) -> None:
    outside = make_run(root.parent / "outside")
    (outside / "report.html").write_text("secret")
    make_run(root / "a")
    (root / "link").symlink_to(outside)
    for path in ("/api/run", "/report"):
        answer = client.get(path, params={"id": name})
        assert answer.status_code == 404
        assert "secret" not in answer.text
    assert client.get("/api/curves", params={"id": name}).json() == {}
    assert client.post("/api/stop", params={"id": name}, headers=csrf(client)).status_code == 404


def test_a_folder_that_becomes_a_link_is_not_read(root: Path, client: httpx.Client) -> None:
    outside = make_run(root.parent / "outside")
    (outside / "report.html").write_text("secret")
    (make_run(root / "a") / "report.html").write_text("own")
    assert client.get("/report?id=a").text == "own"
    (root / "a").rename(root.parent / "moved")
    (root / "a").symlink_to(outside)
    assert "secret" not in client.get("/report?id=a").text


@pytest.mark.parametrize(
    "name", ["%2e%2e%2fapp.py", "..%2fapp.py", "index.html", "%00", "view.js/"]
)
def test_only_the_files_of_the_page_are_static(client: httpx.Client, name: str) -> None:
    assert client.get(f"/static/{name}", follow_redirects=False).status_code in (307, 404)


def test_every_answer_forbids_scripts_of_others(client: httpx.Client) -> None:
    for path in ("/", "/api/runs", "/none", "/static/view.js"):
        told = client.get(path).headers
        assert "script-src 'self'" in told["content-security-policy"]
        assert "unsafe" not in told["content-security-policy"]
        assert told["x-content-type-options"] == "nosniff"
        assert told["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in told


def test_the_page_holds_no_script_and_loads_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/").text
    scripts = [client.get(f"/static/{name}.js").text for name in _SCRIPTS]
    assert "<script>" not in page
    assert " style=" not in page
    assert " on" + "click" not in page
    for text in (page, *scripts, client.get("/static/style.css").text):
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
    for text in scripts:  # names of folders are text, never markup
        assert "insertAdjacentHTML" not in text
        assert ".innerHTML =" not in text
        assert "eval(" not in text


_SCRIPTS = ("view", "table", "charts", "overlay", "words")


_SLEEPER = """import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
print(1, flush=True)
time.sleep(60)
"""


def sleeper() -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", _SLEEPER], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_stop_interrupts_the_process_of_the_run_once(root: Path, client: httpx.Client) -> None:
    child = sleeper()
    process = json.loads((make_run(root / "a", done=2) / "status.json").read_text())["process"]
    mine = {**process, "pid": child.pid, "began": began(child.pid)}
    change_status(root / "a", process=mine, stoppable=True)
    assert client.post("/api/stop?id=a", headers=csrf(client)).json() == {"stopping": "a"}
    assert child.wait(10) == 7
    child.communicate()
    again = client.post("/api/stop?id=a", headers=csrf(client))
    assert again.status_code == 409
    assert rows(client)["a"]["state"] == "dead"


def test_a_number_that_another_process_has_now_is_not_signalled(
    root: Path, client: httpx.Client
) -> None:
    child = sleeper()
    try:
        process = json.loads((make_run(root / "a", done=2) / "status.json").read_text())["process"]
        for lie in (
            {**process, "pid": child.pid},  # the start time is that of another process
            {**process, "pid": child.pid, "began": None},
            {**process, "pid": child.pid, "began": began(child.pid), "host": "elsewhere"},
            {**process, "pid": 1},
            {**process, "pid": 0, "began": None},
            {**process, "pid": -1},
        ):
            change_status(root / "a", process=lie, stoppable=True)
            assert client.post("/api/stop?id=a", headers=csrf(client)).status_code == 409
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()


def test_a_second_request_is_not_passed_on(root: Path, client: httpx.Client) -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        change_status(make_run(root / "a", done=2), stoppable=True)  # this very process
        assert client.post("/api/stop?id=a", headers=csrf(client)).status_code == 200
        assert rows(client)["a"]["stopping"]
        second = client.post("/api/stop?id=a", headers=csrf(client))
        assert "stopping already" in second.json()["error"]
        os.getpid()  # a moment for the signal to arrive
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]
