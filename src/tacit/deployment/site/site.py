"""A site: it decides by itself which requests it answers.

    request   -> which run? the same federation.toml? a method, unit, relation and noise that the
                 policy allows? does the budget cover the WHOLE run?   otherwise: refuse with a code
              -> charge the ledger (on disk), compute, noise from the operating system
              -> state and head on disk -> reply

A site trusts nothing in a message except the model and the ids of run, round and exchange. Bounds,
noise, rounds and costs come from its own copy of federation.toml.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from pathlib import Path

from tacit.accounting import Guarantee, Ledger
from tacit.data.federation import Records
from tacit.deployment.records import after_prelude, site_records
from tacit.deployment.setup.keys import public_of, read_signing
from tacit.deployment.setup.private_files import private_folder, write_private
from tacit.deployment.setup.settings import Public
from tacit.deployment.setup.site_settings import Policy, load_site
from tacit.deployment.site.policy import RUN, UNPREPARED, RefusalError, check_policy
from tacit.deployment.site.spending import Spending
from tacit.deployment.site.state import DiskMemory, Head
from tacit.errors import TacitError
from tacit.planning import Plan
from tacit.preludes.base import Prelude, Released
from tacit.secure_aggregation.party import Identity
from tacit.streams import Stream
from tacit.wire.client import FAILED, REFUSED, WireClient
from tacit.wire.codec import Message, WireError, decode, encode
from tacit.wire.holdings import Holdings
from tacit.wire.secure_sum import phase_of

JOIN, JOINED = "join", "joined"
PREPARE, PREPARED = "prepare", "prepared"
LEDGER = "ledger.jsonl"
_RUN_NAME = re.compile(r"[0-9a-f]{1,64}")
STOPPED = "stopped.txt"

log = logging.getLogger("tacit.site")


class Site:
    """A site in its folder; ``stream`` and ``exact=False`` are for tests only."""

    def __init__(
        self, folder: str | Path, *, stream: Stream | None = None, exact: bool = True
    ) -> None:
        self.folder = Path(folder)
        self.public, self.settings = Public.load(self.folder), load_site(self.folder)
        self.name, self.policy = self.settings.name, self.settings.policy
        if self.name not in self.public.names:
            raise TacitError(
                f"federation.toml lists {', '.join(self.public.names)}, but not this site,"
                f" {self.name!r}: ask for a new federation.toml."
            )
        self.index = self.public.names.index(self.name)
        self._stopped = False
        self._stop_file = private_folder(self.folder / "state") / STOPPED
        if self._stop_file.exists():
            raise TacitError(
                f"this site stopped itself: {self._stop_file.read_text().strip()} Fix the cause,"
                f" then remove {self._stop_file} and start it again."
            )
        self._stream, self._exact = stream, exact
        self._identity = self._own_identity()
        self._records = site_records(self.public, self.settings.data, self.name, base=self.folder)
        self.ledger = open_ledger(self.folder, self.policy, self.public)
        self._head = Head(self.folder / "state")
        try:
            self._head.check(self.ledger)
        except TacitError:
            self.ledger.close()
            raise
        self._spending = Spending(self.public, self.index, self.policy, self.ledger)
        self._run: str | None = None
        self._clients: dict[str, WireClient] = {}  # by phase
        self._memory: DiskMemory | None = None
        self._holdings = Holdings()

    def _own_identity(self) -> Identity | None:
        """The site's signing key with those of all sites, if the run has secure sums."""
        if self.public.secure_sum is None:
            return None
        key = read_signing(self.folder)
        if public_of(key) != self.public.about.keys.get(self.name):
            raise TacitError(
                f"the signing key of {self.folder} is not the one that federation.toml names for"
                f" {self.name}: send its public half to the coordinator and ask for a new file."
            )
        return Identity(self.public.digest, key, self.public.signers)

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def answer(self, request: bytes) -> bytes:
        """The reply to a request; after an error it contains only a code."""
        try:
            if self.stopped:
                raise TacitError("this site has stopped itself and does not answer any more.")
            asked = decode(request)
            self._admit(asked)
        except RefusalError as refusal:
            log.warning("refused: %s", refusal)
            return encode(REFUSED, {}, {"round": -1, "reason": refusal.code})
        except Exception as error:
            log.error("a request could not be read: %s", error)
            return encode(FAILED, {}, {"round": -1})
        if asked.kind == JOIN:
            return encode(JOINED, {}, {"round": -1})
        if asked.kind == PREPARE:
            return self._prepare(asked)
        client = self._clients.get(phase_of(asked))
        if client is None and self.public.prelude is not None:
            log.warning("a request arrived before the result of the prelude.")
            return encode(REFUSED, {}, {"round": -1, "reason": UNPREPARED})
        if client is None:
            log.error("a request names the phase %r, but the run has no such phase.", asked.kind)
            return encode(FAILED, {}, {"round": -1})
        return self._reply(client, request, asked)

    def guarantee(self) -> Guarantee:
        """The guarantee for everything that this site has spent, over all runs."""
        return self.ledger.guarantee(self.policy.delta)

    def cost_of_new_run(self) -> float:
        """The epsilon after a whole new run; refuses if that exceeds the budget."""
        return self._spending.cost_of_new_run()

    def _reply(self, client: WireClient, request: bytes, asked: Message) -> bytes:
        reply = client.answer(request)
        if client.stopped:
            self._stop(f"an error after a charge: {client.last_error}")
        elif client.last_error is not None:
            log.error("round %s: %s", asked.meta.get("round"), client.last_error)
        else:
            level = logging.INFO if asked.kind in self._clients else logging.DEBUG
            sent = (asked.meta["round"], asked.kind, len(reply))
            log.log(level, "round %s: %s sent, %d bytes", *sent)
        try:
            self._head.write(self.ledger)
        except TacitError as error:
            self._stop(f"the head of its ledger cannot be stored: {error}")
            return encode(FAILED, {}, {"round": -1})
        return reply

    @property
    def stopped(self) -> bool:
        """Whether an internal error stopped this site: another request would be charged again."""
        return self._stopped or self._stop_file.exists()

    def _stop(self, why: str) -> None:
        log.error("the site stops: %s", why)
        self._stopped = True  # even if the file cannot be written
        with contextlib.suppress(TacitError):
            write_private(self._stop_file, f"{why.rstrip('.')}.\n".encode())

    def _admit(self, asked: Message) -> None:
        run, digest = asked.meta.get("run"), asked.meta.get("digest")
        if not isinstance(run, str) or not _RUN_NAME.fullmatch(run):
            raise WireError("a request must state its run.")
        if digest != self.public.digest:
            raise RefusalError(
                RUN, "the server has a different federation.toml: compare the two files."
            )
        if run == self._run:
            return
        check_policy(self.policy, self.public)
        clients = self._opened(run)
        self._run, self._clients = run, clients
        log.info("run %s: admitted", run)

    def _opened(self, run: str) -> dict[str, WireClient]:
        """The clients for the phases of a run, if the budget covers it."""
        self._holdings = self._spending.admit(run)
        memory = DiskMemory(self.folder / "state", run)
        memory.forget_others()
        self._memory = memory
        prelude, outcome = self.public.prelude, self._outcome(memory)
        if prelude is None:
            return self._trained(run, None)
        clients = self._clients_of(prelude, run, self._records)
        return clients if outcome is None else clients | self._trained(run, outcome)

    def _trained(self, run: str, outcome: Released | None) -> dict[str, WireClient]:
        """The clients for training and for the releases after it, on the prepared records."""
        records = after_prelude(self.public, self._records, outcome)
        clients = self._clients_of(self.public.plan, run, records)
        if self.public.evaluation is not None:
            clients |= self._clients_of(self.public.evaluation, run, records)
        return clients

    def _clients_of(self, plan: Plan, run: str, records: Records) -> dict[str, WireClient]:
        client = WireClient(
            plan.algorithm,
            plan.task,
            plan.population,
            records,
            index=self.index,
            stream=self._stream,
            dtype=self.public.dtype,
            holdings=self._holdings,
            run=run,
            memory=self._memory if plan is self.public.plan else None,
            exact=self._exact,
            identity=self._identity,
        )
        phases = plan.algorithm.phases(plan.task, plan.population)
        return {phase.name: client for phase in phases}

    def _outcome(self, memory: DiskMemory) -> Released | None:
        """The result of this run's prelude, if this site received it before."""
        try:
            return self._checked(memory.prelude.read_text())
        except (OSError, ValueError, TacitError):
            return None

    def _checked(self, text: str) -> Released:
        before = self.public.prelude.algorithm if self.public.prelude is not None else None
        if not isinstance(before, Prelude):
            raise TacitError("nothing is released before the first round of this run.")
        return before.checked(json.loads(text))

    def _prepare(self, asked: Message) -> bytes:
        """Prepare the records with the result of the prelude, and store it for a restart.

        The answer depends only on this result; it is decided before any record is used.
        """
        assert self._run is not None and self._memory is not None
        try:
            outcome = self._checked(str(asked.meta["released"]))
            write_private(self._memory.prelude, json.dumps(outcome).encode())
        except Exception as error:
            log.error("the result of the prelude could not be used: %s", error)
            return encode(FAILED, {}, {"round": -1})
        try:
            self._clients |= self._trained(self._run, outcome)
        except Exception as error:
            self._stop(f"the records could not be prepared for training: {error}")
        return encode(PREPARED, {}, {"round": -1})


def open_ledger(folder: Path, policy: Policy, public: Public) -> Ledger:
    """The ledger of the site, one for all runs; it is created at the first start."""
    path = folder / LEDGER
    against = policy.observer(public)
    if not path.exists():
        return Ledger.create(
            path,
            unit=policy.unit,
            relation=policy.relation,
            observer=against,
            about={"noise_from": "system"},
        )
    ledger = Ledger.open(path)
    relation = "zero-out" if ledger.relation == "add-remove" else ledger.relation  # its old name
    if (ledger.unit, relation, ledger.observer) != (policy.unit, policy.relation, against):
        ledger.close()
        raise TacitError(
            f"{path} counts a {ledger.unit} under {ledger.relation} against {ledger.observer}, but"
            " the policy now differs: restore the policy, or start a new ledger and count the old"
            " one as spent."
        )
    return ledger
