"""The live view over HTTP: the page, the runs, their curves, a stream of changes, stop and report.

A run is named by its path below the served folder. A name from a request is only looked up among
the folders that were found there, and never made into a path.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from tacit.errors import TacitError
from tacit.live import digests
from tacit.live.files import BrokenError, read
from tacit.live.runs import REPORT, Run
from tacit.live.stop import stop
from tacit.live.watch import Watcher

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_LARGEST_PAGE = 50_000_000
# A report may come from anywhere: it is shown as a page without scripts, apart from this one.
_SANDBOX = {
    "content-security-policy": (
        "sandbox allow-downloads allow-popups; default-src 'none'; style-src 'unsafe-inline';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}


def make_app(watcher: Watcher) -> Starlette:
    """The application, without its guard."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with watcher.working():
            yield

    view = View(watcher)
    routes = [
        Route("/", view.page),
        Route("/static/{name}", view.static),
        Route("/events", view.events),
        Route("/api/runs", view.runs),
        Route("/api/run", view.run),
        Route("/api/curves", view.curves),
        Route("/api/stop", view.stop, methods=["POST"]),
        Route("/api/report", view.make_report, methods=["POST"]),
        Route("/report", view.report),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class View:
    """What each address answers."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        folder = resources.files("tacit.live") / "page"
        self._files = {f.name: f.read_bytes() for f in folder.iterdir() if "." in f.name}
        self._making = asyncio.Lock()

    async def page(self, request: Request) -> Response:
        """The page; only it learns the secret that requests with effects must carry."""
        text = self._files["index.html"].decode().replace("{{csrf}}", request.state.csrf)
        return HTMLResponse(text)

    async def static(self, request: Request) -> Response:
        """Scripts and styles."""
        name = request.path_params["name"]
        kind = _KINDS.get(name.rpartition(".")[2])
        if kind is None or name not in self._files:
            return _sentence(404, "there is no such file.")
        return Response(self._files[name], media_type=kind)

    async def events(self, request: Request) -> Response:
        """The stream of changes."""
        del request
        return StreamingResponse(self._watcher.stream(), media_type="text/event-stream")

    async def runs(self, request: Request) -> Response:
        """All runs."""
        del request
        await self._watcher.fresh()
        return _json(self._watcher.rows())

    async def run(self, request: Request) -> Response:
        """One run with its whole guarantee, its configuration and its sites."""
        run = await self._named(request)
        return _unknown() if run is None else _json(await asyncio.to_thread(self._details, run))

    async def curves(self, request: Request) -> Response:
        """The curves of some runs, as far as they are known; the stream says when there is more."""
        await self._watcher.fresh()
        found = {}
        for name in request.query_params.getlist("id")[:20]:
            run = self._watcher.ask(name)
            if run is not None:
                spent = [(r, e) for _, r, e in run.ledger.get("points", ())]
                known = bool(run.curves) or run.marks.get("metrics.csv") is None
                metrics = run.curves.get("curves", {})
                found[name] = {"metrics": metrics, "epsilon": spent, "complete": known}
        return _json(found)

    async def stop(self, request: Request) -> Response:
        """Ask a run to stop and save."""
        run = await self._named(request)
        if run is None:
            return _unknown()
        try:
            await asyncio.to_thread(stop, run)
        except TacitError as error:
            return _sentence(409, str(error))
        await self._watcher.look()  # everyone sees at once that it stops
        return _json({"stopping": run.name})

    async def report(self, request: Request) -> Response:
        """The report of a run or of a comparison, shown without scripts."""
        run = await self._named(request)
        path = run.report() if run is not None else None
        other = self._watcher.found.comparisons.get(request.query_params.get("id", ""))
        if path is None and other is not None:
            path = other / REPORT
        if path is None:
            return _sentence(404, "this run has no report yet.")
        try:
            data = await asyncio.to_thread(read, path, _LARGEST_PAGE, self._watcher.root)
        except BrokenError as error:
            return _sentence(409, str(error))
        return HTMLResponse(data, headers=_SANDBOX)

    async def make_report(self, request: Request) -> Response:
        """Write the report of a finished run, as ``tacit report`` does."""
        run = await self._named(request)
        if run is None:
            return _unknown()
        if not run.row["reportable"]:
            return _sentence(409, "only a finished run has a report.")
        async with self._making:
            done = await asyncio.to_thread(_write_report, run.path)
        said = done.stderr.strip().splitlines()
        if done.returncode != 0:
            return _sentence(409, said[-1] if said else "the report cannot be made.")
        return _json({"report": run.name})

    async def _named(self, request: Request) -> Run | None:
        await self._watcher.fresh()
        return self._watcher.runs.get(request.query_params.get("id", ""))

    def _details(self, run: Run) -> dict[str, Any]:
        root, found = self._watcher.root, run.guarantee()
        try:
            config = read(run.path / "config.toml", 200_000, root).decode(errors="replace")
        except BrokenError as error:
            config = str(error)
        sites = []
        if run.row["kind"] == "deployed":
            here = [s for s in self._watcher.sites.values() if s["federation"] == run.name]
            known = {str(site["name"]): site for site in here}
            if run.path != root:  # federation.toml is beside the run's folder
                names = digests.site_names(run.path.parent / "federation.toml", root)
                sites = [known.get(name, {"name": name}) for name in names]
        return {
            "row": run.row,
            "sentence": found.get("sentence", ""),
            "meaning": found.get("meaning", ""),
            "config": config,
            "sites": sites,
            "folder": str(run.path),
        }


def _write_report(path: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: it draws for seconds, and trainings go first."""
    return subprocess.run(
        [sys.executable, "-m", "tacit", "report", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def _json(value: Any) -> Response:
    return Response(digests.as_json(value), media_type="application/json")


def _sentence(code: int, sentence: str) -> Response:
    return Response(
        json.dumps({"error": sentence}), status_code=code, media_type="application/json"
    )


def _unknown() -> Response:
    return _sentence(404, "there is no such run in this folder.")
