"""The server of a federation: it waits for the sites, announces the run and runs the rounds.

After every round the whole state is on disk (with the ledger's head), so a killed server continues
from its last round. A round that was started but not finished is repeated: the sites charge it
again and draw new noise. The code is independent of the transport; see ``Transport``.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.accounting import Budget, DpEvent, Ledger
from tacit.algorithm import first_state
from tacit.deployment.allowance import Allowance, planned_events
from tacit.deployment.records import test_records
from tacit.deployment.server.gathering import Gathering
from tacit.deployment.server.public_test import PublicTest
from tacit.deployment.server.status import Status, says
from tacit.deployment.setup.settings import Public, load_server
from tacit.deployment.site.site import PREPARE, PREPARED
from tacit.deployment.transport.base import Transport
from tacit.errors import BudgetError, TacitError
from tacit.measurements import Row
from tacit.planning import Plan
from tacit.precision import precision
from tacit.preludes.base import Prelude, Released
from tacit.run.config import as_toml
from tacit.run.folder import Checkpoint, RunFolder
from tacit.run.result import Result
from tacit.run_status import RunStatus
from tacit.streams import Stream
from tacit.wire.codec import encode
from tacit.wire.holdings import Covered
from tacit.wire.server import Excluded, RepliesError, WireServer

log = logging.getLogger("tacit.server")


class Coordinator:
    """One run of a server's folder; ``stream`` and ``exact=False`` are for tests only."""

    def __init__(
        self,
        folder: str | Path,
        transport: Transport,
        *,
        stream: Stream | None = None,
        exact: bool = True,
        pause: float = 1.0,
        on_status: Callable[[Status], None] = lambda _: None,
    ) -> None:
        self.folder = Path(folder)
        self.public, self.settings = Public.load(self.folder), load_server(self.folder)
        self.plan, self.transport = self.public.plan, transport
        self.run_folder = RunFolder(self.folder / "run")
        self._stream, self._exact, self._tell = stream, exact, on_status
        self.round, self.rows, self._seconds = 0, list[Row](), 0.0
        self._test = self._public_test()
        self._outcome: bytes | None = None  # what the prelude said, as a message
        self._released: Released | None = None
        self._ready: set[int] = set()  # the sites that have confirmed it
        self._shown = RunStatus(self.run_folder.path, "deployed")
        self._sites = Gathering(self.public, transport, self.settings.wait, pause, self._status)

    def run(self) -> Result:
        """Run everything that remains of the run."""
        plan = self.plan
        if not self.run_folder.started:
            self.run_folder.write_text("config.toml", as_toml(self.public.run.as_dict()))
        with (
            self._shown,
            self.run_folder.open_ledger(
                unit=plan.unit,
                relation=plan.relation,
                observer=self.public.observer,
                about={
                    "digest": self.public.digest,
                    "noise_from": "system" if self._exact else "seed",
                },
            ) as ledger,
        ):
            server = self._server(ledger)
            self._continue(server, ledger)
            epsilon = getattr(self.public.run.privacy, "epsilon", None)  # or it is "none"
            self._shown.begin(plan.rounds, delta=self._delta, epsilon=epsilon, round_=self.round)
            stopped = None
            if self.round < plan.rounds:
                self._sites.gather()
                self._sites.announce(self._labels(ledger))
                self._open(ledger)
                stopped = self._train(server, ledger)
            self._release_accuracy(server, ledger)
            return self._finish(server, ledger, stopped)

    def _train(self, server: WireServer, ledger: Ledger) -> str | None:
        """Run the remaining rounds; returns the reason if training ended early."""
        while self.round < self.plan.rounds:
            begun = time.monotonic()
            try:
                excluded = self._one_round(server)
            except BudgetError:
                return f"the budget covers {self.round} of the {self.plan.rounds} rounds"
            self.round += 1
            self.rows.append(Row(self.round, "server/replies", float(self._sound(excluded))))
            self._measure(server)
            self._seconds += time.monotonic() - begun
            self._save(server, ledger)
            said = "; ".join(f"{self._sites.name(e.client)}: {e.reason}" for e in excluded)
            log.info(
                "round %d of %d in %.2f s%s",
                self.round,
                self.plan.rounds,
                time.monotonic() - begun,
                f" ({said})" if said else "",
            )
            self._status("training", said)
        return None

    def _one_round(self, server: WireServer) -> tuple[Excluded, ...]:
        tries = self.public.about.exchange.tries
        for attempt in range(1, tries + 1):
            self._sites.gather(minimum_only=True)
            self._prepare()
            try:
                excluded = server.round(self.round, self.transport.ask).excluded
                self._ready -= {e.client for e in excluded}
                return excluded
            except RepliesError as error:
                self._ready -= {e.client for e in error.excluded}
                reasons = "; ".join(
                    f"{self._sites.name(e.client)}: {e.reason}" for e in error.excluded
                )
                log.warning("%s (%s)", error, reasons)
                self._status("training", f"{error} {reasons}")
                if attempt == tries:
                    raise TacitError(f"{error} It was tried {tries} times: {reasons}") from None
        raise AssertionError("a round is tried at least once")

    def _open(self, ledger: Ledger) -> None:
        """Run the prelude (the release before round 0), or load the result of an earlier start."""
        plan = self.public.prelude
        if plan is None or self._outcome is not None:
            return
        before = plan.algorithm
        assert isinstance(before, Prelude)
        path = self.run_folder.path / before.file
        if not path.exists():
            opening = self._server(ledger, plan)
            opening.round(self.public.first_round(plan), self.transport.ask)
            outcome = before.released(opening.state)
            self.run_folder.write_text(before.file, json.dumps(outcome) + "\n")
        text = path.read_text(encoding="utf-8").strip()
        self._outcome = encode(PREPARE, {}, {**self._labels(ledger), "released": text})
        self._released = json.loads(text)
        if self._test is not None:
            self._test.prepare(json.loads(text))

    def _prepare(self) -> None:
        """Send the result of the prelude to the sites that have not confirmed it."""
        if self._outcome is None:
            return
        missing = sorted(self.transport.online() - self._ready)
        replies = self.transport.ask(dict.fromkeys(missing, self._outcome)) if missing else {}
        self._ready |= {i for i in missing if says(replies.get(i), PREPARED)}

    def _labels(self, ledger: Ledger) -> dict[str, str]:
        return {"run": ledger.id, "digest": self.public.digest}

    def _server(self, ledger: Ledger, plan: Plan | None = None) -> WireServer:
        chosen = plan or self.plan
        privacy = self.public.run.privacy
        covered: Covered | None = None
        if plan is None and privacy != "none" and privacy.budget is not None:
            covered = self._allowance(ledger, privacy.budget)
        return WireServer(
            chosen.algorithm,
            chosen.task,
            chosen.population,
            self.public.shapes,
            stream=self._stream,
            dtype=self.public.dtype,
            ledger=ledger,
            run=ledger.id,
            labels=self._labels(ledger),
            minimum=self.public.minimum,
            covered=covered,
            exact=self._exact,
            # Numbers of exchanges must differ from those of an earlier start.
            first_exchange=secrets.randbits(30) << 31,
            signers=self.public.signers if self.public.secure_sum is not None else (),
        )

    def _allowance(self, ledger: Ledger, budget: Budget) -> Covered:
        """The allowance for the rounds, from the ledger before the first of them."""
        found: list[Allowance] = []

        def covered(event: DpEvent, round_: int, phase: str) -> bool:
            if not found:
                found.append(Allowance(ledger, budget, planned_events(self.plan, ledger)))
            return found[0](event, round_, phase)

        return covered

    def _continue(self, server: WireServer, ledger: Ledger) -> None:
        found = self.run_folder.read_checkpoint(self._state(server))
        if found is None:
            return
        if not ledger.contains(found.head):
            raise TacitError(
                f"the ledger of {self.run_folder.path} is older than its checkpoint: charges are"
                " missing, so the run cannot continue."
            )
        self.round = found.round
        with precision(self.public.dtype):
            server.state = jax.tree.map(jnp.asarray, found.state["server"])
        server.counted = {i: int(n) for i, n in enumerate(found.state["counted"]) if n >= 0}
        self.rows, self._seconds = self.run_folder.read_metrics(found.round), found.seconds
        log.info("the run continues after round %d", self.round)

    def _state(self, server: WireServer) -> dict[str, Any]:
        counted = np.full(len(self.public.names), -1, np.int64)
        for site, exchange in server.counted.items():
            counted[site] = exchange
        return {"server": jax.tree.map(np.asarray, server.state), "counted": counted}

    def _save(self, server: WireServer, ledger: Ledger) -> None:
        self.run_folder.write_metrics(self.rows)
        now = Checkpoint(self.round, self._state(server), ledger.head, self._seconds)
        self.run_folder.write_checkpoint(now)

    def _release_accuracy(self, server: WireServer, ledger: Ledger) -> None:
        plan = self.public.evaluation
        if plan is None or any(row.metric == "released/accuracy" for row in self.rows):
            return
        self._sites.gather(minimum_only=True)
        self._open(ledger)
        self._prepare()
        last = self._server(ledger, plan)
        with precision(self.public.dtype):
            last.state = first_state(plan.algorithm, server.params)
        last.round(self.public.first_round(plan), self.transport.ask)
        self.rows.append(Row(self.round, "released/accuracy", float(last.state.extra)))
        self._save(server, ledger)

    def _finish(self, server: WireServer, ledger: Ledger, stopped: str | None) -> Result:
        result = Result(
            params=server.params,
            rounds=self.round,
            rows=self.rows,
            guarantee=ledger.guarantee(self._delta),
            stopped=stopped,
            seconds=self._seconds,
            released=self._released or {},
        )
        self.run_folder.write_model(result.params, result.model)
        self.run_folder.write_summary(
            result.summary(self.plan, seed=None, digest=self.public.digest)
        )
        self._status("done", stopped or "")
        return result

    def _public_test(self) -> PublicTest | None:
        test = self.settings.test
        if test is None:
            return None
        return PublicTest(self.public, test_records(self.public, test, base=self.folder))

    def _measure(self, server: WireServer) -> None:
        last = self.round == self.plan.rounds
        if self._test is None or not (last or self.round % self.settings.eval_every == 0):
            return
        measured = self._test.measured(server.params)
        self.rows += [Row(self.round, f"test/{name}", value) for name, value in measured.items()]

    def _status(self, stage: str, said: str = "") -> None:
        online = tuple(self._sites.name(i) for i in sorted(self.transport.online()))
        metrics = {row.metric: row.value for row in self.rows}
        self._shown.at(self.round, said)
        self._tell(Status(stage, self.round, self.plan.rounds, online, said, metrics))

    @property
    def _delta(self) -> float:
        privacy = self.public.run.privacy
        return 0.0 if privacy == "none" else float(privacy.delta or 0.0)

    def _sound(self, excluded: tuple[Excluded, ...]) -> int:
        return len(self.public.names) - len({e.client for e in excluded})
