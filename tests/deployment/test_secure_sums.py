"""Secure sums between real sites: the right sums, whoever drops out, and nothing else to see."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import folders
import numpy as np
import pytest
from adversary import DishonestServer, filled, flat, lying
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from folders import SIZES, config, make, make_records, site_folders

from tacit.deployment.server.coordinator import Coordinator
from tacit.deployment.setup.settings import Public
from tacit.deployment.site.site import Site
from tacit.deployment.transport.in_memory import InMemory, Tap
from tacit.errors import ConfigError, TacitError
from tacit.release import Release
from tacit.run.config import as_toml, read_toml
from tacit.run.result import Result
from tacit.secure_aggregation import party as parties
from tacit.secure_aggregation.party import Party
from tacit.wire.codec import decode
from tacit.wire.secure_sum import AGREE, KEYS, OPEN, SHARES

pytestmark = pytest.mark.usefixtures("quick_compilation")

FEDAVG = {"name": "dp-fedavg", "noise_at": "shares", "local_steps": 2, "clip": 0.5}
METHODS: dict[str, dict[str, Any]] = {
    "dp-fedavg": FEDAVG,
    "dp-norm-fedavg": {"name": "dp-norm-fedavg", "noise_at": "shares", "local_steps": 2},
    "dp-fedexp": {"name": "dp-fedexp", "trust": "shares", "local_steps": 2, "clip": 0.5},
    "dp-scaffold": {"name": "dp-scaffold", "protects": "client", "noise_at": "shares"},
    "auto, clients": {"name": "auto", "noise_at": "shares"},
    "auto, records": {"name": "auto", "protects": "record", "noise_at": "shares"},
}
SITE_POLICY = {"trust_server": False, "inexact_noise": False, "epsilon": 1e30}


def trained(
    folder: Path, algorithm: dict[str, Any], tap: Tap | None = None, **options: Any
) -> tuple[Result, Public, InMemory]:
    privacy = options.pop("privacy", {"noise": 1.0, "delta": 1e-3})
    public = make(folder, config(algorithm, privacy=privacy), policy=SITE_POLICY, **options)
    sites = InMemory(site_folders(folder, public), tap=tap)
    try:
        return Coordinator(folder / "server", sites, pause=0.01).run(), public, sites
    finally:
        sites.close()


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_sums_are_those_of_a_trusted_server(method: str, tmp_path: Path) -> None:
    """With next to no noise the model is the one that a trusted server computes."""
    quiet = {"privacy": {"noise": 1e-5, "delta": 1e-3}}
    secure, _, _ = trained(tmp_path / "s", {**METHODS[method], "honest": 3}, **quiet)
    other = {key: "aggregate" if v == "shares" else v for key, v in METHODS[method].items()}
    if other.get("trust") == "aggregate":
        other["trust"] = "central"
    run = config(other, **quiet)
    public = make(tmp_path / "c", run, policy={"trust_server": True, "epsilon": 1e30})
    sites = InMemory(site_folders(tmp_path / "c", public))
    central = Coordinator(tmp_path / "c" / "server", sites, pause=0.01).run()
    sites.close()
    assert secure.rounds == central.rounds == 3
    one, other = flat(secure.params), flat(central.params)
    assert np.linalg.norm(one - other) < 5e-3 * np.linalg.norm(other)
    assert np.linalg.norm(other) > 0.02


def test_the_sentence_names_who_has_to_be_honest(tmp_path: Path) -> None:
    outcome, public, _ = trained(
        tmp_path / "f",
        METHODS["auto, records"],
        evaluation=0.1,
        privacy={"epsilon": 2.0, "delta": 1e-3},
    )
    said = "against everyone, the server included, as long as at least 2 of the 3 sites follow"
    assert said in outcome.guarantee.sentence()
    assert outcome.guarantee.epsilon == pytest.approx(public.guarantee(1e-3).epsilon)
    for name in public.names:
        with InMemoryLedger(tmp_path / "f" / "sites" / name) as site:
            assert said in site.guarantee().sentence()
            assert site.guarantee().epsilon == pytest.approx(outcome.guarantee.epsilon)
    assert "released/accuracy" in outcome.metrics


class InMemoryLedger:
    """A site that is opened only to be asked."""

    def __init__(self, folder: Path) -> None:
        self._site = Site(folder)

    def __enter__(self) -> Site:
        return self._site

    def __exit__(self, *_: object) -> None:
        self._site.close()


# Sites that drop out.


def losing(site: int, kind: str, times: int = 1) -> Tap:
    """A network that loses a site's answers of one kind."""
    left = [times]

    def tap(index: int, reply: bytes) -> bytes | None:
        if index == site and decode(reply).kind == kind and left[0] > 0:
            left[0] -= 1
            return None
        return reply

    return tap


@pytest.mark.parametrize("kind", [KEYS, SHARES, "train", AGREE, OPEN])
def test_the_survivors_sum_counts(kind: str, tmp_path: Path) -> None:
    algorithm = {**FEDAVG, "honest": 3, "dropouts": 1}
    outcome, public, _ = trained(tmp_path / "f", algorithm, losing(1, kind), minimum=2)
    replies = [row.value for row in outcome.rows if row.metric == "server/replies"]
    there = 3 if kind in (AGREE, OPEN) else 2  # then its numbers are in the sum already
    assert replies == [there, 3, 3]
    charged = [len(list(ledger_of(tmp_path / "f", name))) for name in public.names]
    assert charged == [3, 2 if kind in (KEYS, SHARES) else 3, 3]


@pytest.mark.parametrize("kind", [KEYS, SHARES, "train", AGREE, OPEN])
def test_where_all_must_stay_a_round_is_repeated_and_paid_again(kind: str, tmp_path: Path) -> None:
    outcome, public, _ = trained(tmp_path / "f", FEDAVG, losing(1, kind))
    assert outcome.rounds == 3
    charged = [len(list(ledger_of(tmp_path / "f", name))) for name in public.names]
    assert charged == [3, 3, 3] if kind in (KEYS, SHARES) else [4, 4, 4]
    assert outcome.guarantee.epsilon > public.guarantee(1e-3).epsilon


def ledger_of(folder: Path, name: str) -> Iterator[Any]:
    from tacit.accounting import Ledger

    return iter(Ledger.read(folder / "sites" / name / "ledger.jsonl").charges)


# Dishonest servers, against real sites.


class Lab:
    """Sites of a small federation, and a server that says what it likes."""

    def __init__(self, public: Public, sites: InMemory) -> None:
        self.public, self.sites = public, sites
        self.server = DishonestServer(public, sites)
        self.plan = public.plan
        self.phase = self.plan.algorithm.phases(self.plan.task, self.plan.population)[0]

    def step(self, kind: str, fields: Any = None, site: int = 0, **meta: Any) -> Any:
        about = {} if kind == "train" else {"phase": "train"}
        return decode(self.server.ask(site, self.server.request(kind, fields, **about, **meta)))

    def all(self, kind: str, fields: Any = None) -> list[Any]:
        return [self.step(kind, fields, site) for site in range(3)]

    def until_shared(self) -> list[dict[str, Any]]:
        """The model and the shares for every site."""
        keys = np.stack([reply.fields["keys"] for reply in self.all(KEYS)])
        members = np.arange(3, dtype=np.int32)
        sealed = [r.fields for r in self.all(SHARES, {"clients": members, "keys": keys})]
        requests = []
        for me in range(3):
            others = [i for i in range(3) if i != me]
            rows = [sealed[i]["shares"][sealed[i]["clients"].tolist().index(me)] for i in others]
            model = self.server.model(self.plan, self.phase)
            shares = {"secure:from": np.asarray(others, np.int32), "secure:shares": np.stack(rows)}
            requests.append({**model, **shares})
        return requests

    def whole_session(self) -> None:
        """All steps, as an honest server takes them."""
        for site, request in enumerate(self.until_shared()):
            assert self.step("train", request, site).kind == "train"
        present = {"clients": np.arange(3, dtype=np.int32)}
        rows = np.stack([r.fields["signature"] for r in self.all(AGREE, present)])
        opened = self.all(OPEN, {**present, "signatures": rows})
        assert [reply.kind for reply in opened] == [OPEN] * 3

    def charges(self, site: int = 0) -> int:
        return len(list(self.sites.sites[site].ledger.charges))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    public = make(tmp_path / "f", config(FEDAVG), policy=SITE_POLICY)
    made = Lab(public, InMemory(site_folders(tmp_path / "f", public)))
    yield made
    assert not any(site.stopped for site in made.sites.sites.values())
    made.sites.close()


def test_a_second_masked_answer_is_not_given(lab: Lab) -> None:
    request = lab.until_shared()[0]
    assert lab.step("train", request).kind == "train"
    assert lab.charges() == 1
    assert lab.step("train", request).kind == "failed"
    assert lab.charges() == 1, "what is refused is not charged"


def test_nothing_goes_before_its_turn(lab: Lab) -> None:
    model = lab.server.model(lab.plan, lab.phase)
    present = {"clients": np.arange(3, dtype=np.int32)}
    nobody = {"clients": np.zeros(0, np.int32), "signatures": np.zeros((0, 64), np.uint8)}
    for kind, fields in (("train", model), (AGREE, present), (OPEN, nobody), (SHARES, present)):
        assert lab.step(kind, fields).kind == "failed"
    requests = lab.until_shared()
    assert lab.step(AGREE, present).kind == "failed"
    assert lab.step(OPEN, nobody).kind == "failed"
    assert lab.charges() == 0
    assert lab.step("train", requests[0]).kind == "train"


def test_other_rounds_and_phases_have_no_session(lab: Lab) -> None:
    request = lab.until_shared()[0]
    assert lab.step("train", request, round=1).kind == "failed"
    assert lab.step(AGREE, {"clients": np.arange(3, dtype=np.int32)}, round=1).kind == "failed"
    assert lab.charges() == 0


def test_settings_in_a_message_change_nothing(lab: Lab) -> None:
    """Flower's server tells clients the threshold and the range; here they are not read."""
    lies = {"present": 1, "honest": 1, "modulus": 8, "clients": 1, "threshold": 1, "dropouts": 2}
    keys = np.stack([lab.step(KEYS, None, site, **lies).fields["keys"] for site in range(3)])
    members = np.arange(3, dtype=np.int32)
    one = {"clients": members[:1], "keys": keys[:1]}
    assert lab.step(SHARES, one, **lies).kind == "failed", "one site alone is no sum"
    client = lab.sites.sites[0]._clients["train"]
    context = client._secure._party.context
    assert (context.clients, context.present, context.modulus) == (3, 3, 32)


@pytest.mark.parametrize(
    "lie",
    [
        {"clients": np.array([0, 1, 2.0])},
        {"clients": np.array([[0, 1, 2]], np.int32)},
        {"clients": np.array([0, 1, 1], np.int32)},
        {"clients": np.array([0, -1, 2**31 - 1], np.int32)},
        {"clients": np.array([True, True, False])},
        {},
        {"keys": np.zeros((3, 160), np.uint8)},
        {"clients": np.arange(3, dtype=np.int32), "keys": np.zeros((3, 9), np.uint8)},
        {"clients": np.arange(3, dtype=np.int32), "signatures": np.zeros((2, 64), np.uint8)},
    ],
)
def test_malformed_steps_are_refused_and_free(lie: dict[str, Any], lab: Lab) -> None:
    for kind in (SHARES, AGREE, OPEN):
        assert lab.step(KEYS).kind == KEYS
        assert lab.step(kind, lie).kind == "failed"
    assert lab.charges() == 0


def test_a_killed_site_opens_nothing_of_its_old_session(lab: Lab) -> None:
    requests = lab.until_shared()
    for site, request in enumerate(requests):
        assert lab.step("train", request, site).kind == "train"
    present = {"clients": np.arange(3, dtype=np.int32)}
    lab.sites.restart(0)
    assert lab.step(AGREE, present).kind == "failed"
    signed = [lab.step(AGREE, present, site) for site in (1, 2)]
    rows = np.stack([reply.fields["signature"] for reply in signed])
    opening = {"clients": np.array([1, 2], np.int32), "signatures": rows}
    assert [lab.step(OPEN, opening, site).kind for site in range(3)] == ["failed"] * 3
    assert lab.charges() == 1, "what was sent stays charged"


def test_new_keys_end_the_session_before(lab: Lab) -> None:
    request = lab.until_shared()[0]
    lab.step(KEYS)
    assert lab.step("train", request).kind == "failed"
    assert lab.charges() == 0


# What the server sees.


@contextmanager
def known_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Keys, seeds and polynomials from a counter, so that two runs can be compared."""
    count = itertools.count()

    def drawn(size: int = 32) -> bytes:
        return hashlib.shake_256(str(next(count)).encode()).digest(size)

    class Known:
        token_bytes = staticmethod(drawn)

        @staticmethod
        def randbelow(limit: int) -> int:
            return int.from_bytes(drawn(40)) % limit

    class KnownKey:
        generate = staticmethod(lambda: X25519PrivateKey.from_private_bytes(drawn()))
        from_private_bytes = staticmethod(X25519PrivateKey.from_private_bytes)

    def again() -> None:
        nonlocal count
        count = itertools.count()

    with monkeypatch.context() as patch:
        patch.setattr(parties, "secrets", Known)
        patch.setattr(parties.shamir, "secrets", Known)
        patch.setattr(parties, "X25519PrivateKey", KnownKey)
        yield again


def view_of(folder: Path, seed: int, share: Any, patch: pytest.MonkeyPatch) -> list[bytes]:
    """All bytes that sites with these records send in a session, with shares by ``share``."""
    for name, own in make_records(seed).items():
        np.savez(folder / "sites" / name / "records.npz", **own)
    seen: list[bytes] = []

    def tap(index: int, reply: bytes) -> bytes:
        seen.append(bytes([index]) + reply)
        return reply

    for name in SIZES:
        (folder / "sites" / name / "ledger.jsonl").unlink(missing_ok=True)
        (folder / "sites" / name / "state" / "head").unlink(missing_ok=True)
    public = Public.load(folder / "server")
    sites = InMemory(site_folders(folder, public), tap=tap)
    with patch.context() as inner:
        inner.setattr(Release, "share", share)
        Lab(public, sites).whole_session()
    sites.close()
    return seen


@pytest.mark.parametrize("method", ["dp-fedavg", "dp-fedexp"])
def test_the_servers_view_depends_on_the_sum_alone(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where shares destroy their numbers, all bytes are the same for any records."""
    folder = tmp_path / "f"
    make(folder, config(METHODS[method]), policy=SITE_POLICY)

    def destroyed(self: Release, bounded: Any, grid: Any) -> Any:
        return np.arange(len(bounded)) * 1000

    def kept(self: Release, bounded: Any, grid: Any) -> Any:
        return np.rint(bounded / grid.step).astype(np.int64)

    views = {}
    with known_secrets(monkeypatch) as again:
        for seed, share in itertools.product((0, 1), (destroyed, kept)):
            again()
            views[seed, share] = view_of(folder, seed, share, monkeypatch)
    assert views[0, destroyed] == views[1, destroyed]
    differs = [one != other for one, other in zip(views[0, kept], views[1, kept], strict=True)]
    assert sum(differs) == 3, "the masked numbers, and nothing else, depend on the records"


def test_one_noisy_sum_has_one_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of numbers with the same sum, and fresh masks: a server cannot tell them apart."""
    from scipy import stats

    public = make(tmp_path / "f", config(FEDAVG), policy=SITE_POLICY)
    seen: list[np.ndarray] = []

    def tap(index: int, reply: bytes) -> bytes:
        if "sum" in (fields := decode(reply).fields):
            seen.append(fields["sum"])
        return reply

    sites = InMemory(site_folders(tmp_path / "f", public), tap=tap)
    lab, numbers = Lab(public, sites), ((500, -200, 7), (0, 0, 307))
    order = itertools.chain.from_iterable(row * 30 for row in numbers)
    fixed = lambda self, bounded, grid: np.full(len(bounded), next(order))
    with monkeypatch.context() as patch:
        patch.setattr(Release, "share", fixed)
        for _ in range(60):
            lab.whole_session()
    sites.close()
    one, other = np.stack(seen).astype(np.float64).reshape(2, 30, 3, -1)
    for site in range(3):
        assert stats.ks_2samp(one[:, site].ravel(), other[:, site].ravel()).pvalue > 1e-6
    pairs = [((v[:, 0] + v[:, 1]) % 2**32).ravel() for v in (one, other)]
    assert stats.ks_2samp(*pairs).pvalue > 1e-6


# Dishonest sites.


def test_a_site_that_sends_noise_of_its_own_gives_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masked numbers cannot be checked; a sum that honest sites cannot have is not used."""
    # Under fresh masks garbage is uniform, and each number of the sum may be in the honest range
    # by chance: with 60 numbers all of them are in about no run, with 4 in one of four.
    monkeypatch.setattr(folders, "FEATURES", 60)

    def garbage(fields: dict[str, Any]) -> dict[str, Any]:
        if "sum" not in fields:
            return fields
        rng = np.random.default_rng(0)
        return {"sum": rng.integers(0, 2**32, fields["sum"].shape, dtype=np.uint32)}

    with pytest.raises(TacitError, match="not one that honest clients can have"):
        trained(tmp_path / "f", {**FEDAVG, "local_steps": 1}, lying(garbage, 2))
    # Who it was cannot be known: another try would only be charged again.
    assert [len(list(ledger_of(tmp_path / "f", name))) for name in SIZES] == [1, 1, 1]


@pytest.mark.parametrize("dropouts", [0, 1])
def test_a_site_whose_secrets_do_not_open_is_left_out_or_ends_the_run(
    dropouts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot make the others pay again and again."""
    original = parties.shamir.split
    liar: list[bytes] = []

    class Lying(Party):
        def _shared(self, roster: Any) -> Any:
            if self.index == 2:
                liar[:] = [self._seed]
            return super()._shared(roster)

    def split(secret: bytes, points: Any, threshold: int) -> Any:
        return original(bytes(32) if [secret] == liar else secret, points, threshold)

    monkeypatch.setattr("tacit.wire.secure_client.Party", Lying)
    monkeypatch.setattr(parties.shamir, "split", split)
    algorithm = {**FEDAVG, "honest": 3, "dropouts": dropouts}
    options: dict[str, Any] = {"minimum": 2} if dropouts else {}
    if dropouts == 0:
        with pytest.raises(TacitError, match="stopped by a dishonest site"):
            trained(tmp_path / "f", algorithm, **options)
        charges = [1, 1, 1]
    else:
        outcome, _, _ = trained(tmp_path / "f", algorithm, **options)
        assert outcome.rounds == 3
        charges = [4, 4, 1]
    assert [len(list(ledger_of(tmp_path / "f", name))) for name in SIZES] == charges


def test_a_site_that_answers_nonsense_is_left_out(tmp_path: Path) -> None:
    algorithm = {**FEDAVG, "honest": 3, "dropouts": 1}
    outcome, _, _ = trained(tmp_path / "f", algorithm, lying(filled(1.0), 2), minimum=2)
    replies = [row.value for row in outcome.rows if row.metric == "server/replies"]
    assert replies == [2, 2, 2]


# Policies and keys.


@pytest.mark.parametrize(("honest", "said"), [(None, "policy.honest = 2"), (1, "takes 1 to be")])
def test_a_site_decides_how_many_it_trusts(honest: int | None, said: str, tmp_path: Path) -> None:
    from tacit.deployment.setup.overview import verdict

    public = make(tmp_path / "f", config(FEDAVG), policy=SITE_POLICY)
    site = tmp_path / "f" / "sites" / public.names[0]
    values = read_toml(site / "site.toml")
    assert values["policy"].pop("honest") == 2
    if honest is not None:
        values["policy"]["honest"] = honest
    (site / "site.toml").write_text(as_toml(values))
    told = verdict(site)
    assert not told["joins"] and told["reason"] == "trust" and said in told["sentence"]


def test_whoever_made_the_keys_is_in_the_sentence(tmp_path: Path) -> None:
    """Without keys of the sites' own, the machine that made them could play all of them."""
    from tacit.deployment.setup.keys import make_site, read_public
    from tacit.deployment.setup.overview import trust_sentence, verdict

    rehearsal = make(tmp_path / "r", config(FEDAVG), policy=SITE_POLICY)
    said = "and nobody else has the signing keys that were made for them"
    assert said in rehearsal.guarantee(1e-3).sentence()
    assert "one machine made the signing keys" in trust_sentence(rehearsal)
    (tmp_path / "public").mkdir()
    for name in SIZES:
        (own := tmp_path / "own" / name).mkdir(parents=True)
        make_site(own, name)
        (tmp_path / "public" / f"{name}.toml").write_bytes((own / "public.toml").read_bytes())
    keys = read_public(tmp_path / "public", SIZES)
    public = make(tmp_path / "f", config(FEDAVG), policy=SITE_POLICY, keys=keys)
    assert said not in public.guarantee(1e-3).sentence()
    assert "one machine" not in trust_sentence(public)
    for name in SIZES:
        site = tmp_path / "f" / "sites" / name
        assert not (site / "signing.key").exists() and not (site / "key").exists()
        assert "honest" not in read_toml(site / "site.toml")["policy"], "the site decides"
        for file in ("signing.key", "key", "key.pub"):
            (site / file).write_bytes((tmp_path / "own" / name / file).read_bytes())
        told = verdict(site)
        assert told["reason"] == "trust" and "policy.honest = 2" in told["sentence"]
        assert told["keys"] == public.about.keys
    (tmp_path / "public" / "north.toml").unlink()
    with pytest.raises(ConfigError, match="tacit site keys DIR --name north"):
        read_public(tmp_path / "public", SIZES)


def test_a_site_needs_its_own_signing_key(tmp_path: Path) -> None:
    public = make(tmp_path / "f", config(FEDAVG), policy=SITE_POLICY)
    one, other = (tmp_path / "f" / "sites" / name for name in public.names[:2])
    (one / "signing.key").write_bytes((other / "signing.key").read_bytes())
    with pytest.raises(TacitError, match="not the one that federation"):
        Site(one)
    (one / "signing.key").write_text("nonsense")
    with pytest.raises(TacitError, match="is not a signing key"):
        Site(one)


def test_keys_in_federation_toml_are_of_all_sites(tmp_path: Path) -> None:
    make(tmp_path / "f", config(FEDAVG), policy=SITE_POLICY)
    path = tmp_path / "f" / "server" / "federation.toml"
    values = read_toml(path)
    keys = values["keys"]
    first, second = list(keys)[:2]
    for wrong, said in (
        ({}, "needs \\[keys\\]"),
        ({first: keys[first]}, "every site"),
        ({**keys, first: keys[second]}, "same signing key"),
        ({**keys, first: "xyz"}, "64 hexadecimal"),
    ):
        path.write_text(as_toml({**values, "keys": wrong}))
        with pytest.raises((ConfigError, TacitError), match=said):
            _ = Public.load(path.parent).signers


# Kills.


def test_fifty_kills_open_nothing_twice_and_lose_no_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites die before or after any answer, and the server at any moment."""
    opened: Counter[bytes] = Counter()
    masked: Counter[int] = Counter()
    original = {name: getattr(Party, name) for name in ("mask", "open")}

    def watched(self: Party, *given: Any) -> Any:
        opened[self._session + bytes([self.index])] += 1
        return original["open"](self, *given)

    def counted(self: Party, *given: Any) -> Any:
        masked[self.index] += 1
        return original["mask"](self, *given)

    monkeypatch.setattr(Party, "open", watched)
    monkeypatch.setattr(Party, "mask", counted)
    algorithm = {**FEDAVG, "honest": 3, "dropouts": 1}
    run = config(algorithm, train={"rounds": 30, "dtype": "float64"})
    public = make(tmp_path / "f", run, policy=SITE_POLICY, minimum=2)
    rng, kills = random.Random(5), 0

    class Dying(InMemory):
        def ask(self, requests: Any) -> Any:
            nonlocal kills
            replies: dict[int, bytes | None] = {}
            for index, request in requests.items():
                when = rng.choice(["before", "after", "not", "not", "not", "not", "not", "not"])
                if when == "before" and kills < 50:
                    self.restart(index)
                    kills += 1
                replies[index] = self.sites[index].answer(request)
                if when == "after" and kills < 50:
                    self.restart(index)
                    kills += 1
                    replies[index] = None
            if kills < 50 and rng.random() < 0.03:
                kills += 1
                raise KeyboardInterrupt
            return replies

    sites = Dying(site_folders(tmp_path / "f", public))
    rounds = 0
    while rounds < 30:
        try:
            rounds = Coordinator(tmp_path / "f" / "server", sites, pause=0.01).run().rounds
        except (KeyboardInterrupt, TacitError):
            continue
    assert kills == 50
    assert max(opened.values()) == 1
    for index, site in sites.sites.items():
        charges = list(site.ledger.charges)
        assert len(charges) >= masked[index] > 0
        assert not site.stopped
    sites.close()
