"""A site in its folder: charges first, refuses with a code, forgets nothing over a restart."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folders import LOCAL, config, make

from tacit import tree
from tacit.accounting import Ledger
from tacit.deployment.setup.settings import Public
from tacit.deployment.site.site import Site
from tacit.errors import DataError, LedgerError, TacitError
from tacit.run.config import as_toml, read_toml
from tacit.wire.codec import decode, encode

pytestmark = pytest.mark.usefixtures("quick_compilation")

SCAFFOLD = {"name": "dp-scaffold", "local_steps": 2, "batch_size": 3, "option": "I"}


def opened(folder: Path, run: Any = None, **options: Any) -> tuple[Public, Path]:
    public = make(folder / "f", run, **options)
    return public, folder / "f" / "sites" / "north"


def request(public: Public, round_: int = 0, **meta: Any) -> bytes:
    """What the server of this federation asks in a round."""
    plan = public.plan
    phase = plan.algorithm.phases(plan.task, plan.population)[0]
    import jax

    with jax.enable_x64(True):
        sent = phase.send(plan.algorithm.init(plan.task.init(jax.random.key(0))))
        fields = tree.to_named(sent)
    about = {"run": "ab12", "digest": public.digest, "round": round_, "counted": -1}
    return encode(phase.name, fields, {**about, "exchange": round_, **meta})


def told(reply: bytes) -> tuple[str, Any]:
    message = decode(reply)
    return message.kind, message.meta.get("reason")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    _, folder = opened(tmp_path)
    with_ledger = Site(folder)
    yield with_ledger
    with_ledger.close()


def test_it_charges_before_it_answers_and_marks_it_done(site: Site) -> None:
    reply = decode(site.answer(request(site.public)))
    assert reply.kind == "train"
    assert set(reply.meta) == {"round"}
    charge = site.ledger.get(0)
    assert charge.done
    assert dict(charge.label) == {"run": "ab12", "round": 0, "phase": "train"}
    assert sum(1 for _ in site.ledger.charges) == 1


def test_a_join_costs_nothing(site: Site) -> None:
    labels = {"run": "ab12", "digest": site.public.digest}
    assert told(site.answer(encode("join", {}, labels))) == ("joined", None)
    assert list(site.ledger.charges) == []


def test_another_run_than_its_own_copy_is_refused(site: Site) -> None:
    assert told(site.answer(request(site.public, digest="0" * 64))) == ("refused", "run")
    assert list(site.ledger.charges) == []


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "AB", "x" * 70, 7, 1.5, True])
def test_a_run_has_a_plain_name(site: Site, name: Any) -> None:
    assert told(site.answer(request(site.public, run=name))) == ("failed", None)


@pytest.mark.parametrize("bad", [b"", b"\x80pickle" * 9, encode("train", {}, {})])
def test_garbage_is_answered_with_a_word(site: Site, bad: bytes) -> None:
    assert told(site.answer(bad)) == ("failed", None)


def test_clip_noise_and_seed_in_a_message_change_nothing(tmp_path: Path) -> None:
    from tacit.streams import Stream

    public, folder = opened(tmp_path)
    replies = []
    for meta in ({}, {"noise": 0.0, "clip": 1e9, "seed": 3, "epsilon": 1e9}):
        (folder / "ledger.jsonl").unlink(missing_ok=True)
        (folder / "state" / "head").unlink(missing_ok=True)
        site = Site(folder, stream=Stream.seeded(1), exact=False)
        replies.append(site.answer(request(public, **meta)))
        site.close()
    assert replies[0] == replies[1]


def test_the_whole_run_must_fit_into_the_budget(tmp_path: Path) -> None:
    """Three rounds cost 26 at delta 1e-3; nothing is spent on a run that could not end."""
    public, folder = opened(tmp_path, policy={"epsilon": 20.0})
    site = Site(folder)
    assert told(site.answer(request(public))) == ("refused", "budget")
    assert list(site.ledger.charges) == []
    with pytest.raises(TacitError, match="this site would have spent epsilon = 2"):
        site.cost_of_new_run()
    site.close()


def test_budget_is_over_all_runs(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, policy={"epsilon": 30.0})
    site = Site(folder)
    for round_ in range(3):
        assert told(site.answer(request(public, round_))) == ("train", None)
    assert told(site.answer(request(public, 0, run="cd34"))) == ("refused", "budget")
    assert told(site.answer(request(public, 0))) == ("refused", "budget"), "a round again"
    assert site.guarantee().epsilon <= 30.0
    assert sum(1 for _ in site.ledger.charges) == 3
    site.close()


def test_rounds_again_are_paid_until_the_budget_ends(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, policy={"epsilon": 40.0})
    site = Site(folder)
    answers = [told(site.answer(request(public, 0)))[0] for _ in range(9)]
    paid = answers.count("train")
    assert 3 < paid < 9
    assert answers == ["train"] * paid + ["refused"] * (9 - paid)
    assert site.guarantee().epsilon <= 40.0
    assert sum(1 for _ in site.ledger.charges) == paid
    site.close()


def test_a_restart_keeps_what_was_spent_and_who_it_was(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, policy={"epsilon": 30.0})
    for round_ in range(3):
        site = Site(folder)
        assert told(site.answer(request(public, round_))) == ("train", None)
        site.close()
    site = Site(folder)
    assert told(site.answer(request(public, 0))) == ("refused", "budget")
    site.close()


def test_a_ledger_that_lost_lines_stops_the_site(tmp_path: Path) -> None:
    public, folder = opened(tmp_path)
    site = Site(folder)
    site.answer(request(public))
    site.close()
    path = folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))  # the charge and its mark: still a valid chain
    Ledger.read(path)
    with pytest.raises(LedgerError, match="charges are missing"):
        Site(folder)


def test_state_waits_for_its_acknowledgement_over_a_restart(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, config(SCAFFOLD))
    site = Site(folder)
    site.answer(request(public, 0, exchange=70))
    after = site._clients["train"]._pending
    assert after is not None
    site.close()
    site = Site(folder)
    site.answer(encode("join", {}, {"run": "ab12", "digest": public.digest}))
    kept = site._clients["train"]
    assert kept._pending is not None and kept._pending.exchange == 70
    _same(kept._pending.state, after.state)
    assert not np.any(tree.to_named(kept._state)["['w']"])
    site.answer(request(public, 1, exchange=71, counted=70))
    _same(kept._state, after.state)
    site.close()
    # A reply that was not counted leaves the state where it was.
    site = Site(folder)
    site.answer(request(public, 1, exchange=72, counted=70))
    _same(site._clients["train"]._state, after.state)
    site.close()


def _same(first: Any, second: Any) -> None:
    ours, theirs = tree.to_named(first), tree.to_named(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name])


def test_another_run_starts_from_nothing_and_old_states_go(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, config(SCAFFOLD))
    site = Site(folder)
    for run in ("aa", "bb", "cc"):
        assert told(site.answer(request(public, 0, run=run))) == ("train", None)
    assert [p.name for p in (folder / "state").glob("*.npz")] == ["cc.npz"]
    site.close()


def test_files_are_private(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, config(SCAFFOLD))
    site = Site(folder)
    site.answer(request(public))
    site.close()
    for path in (folder / "ledger.jsonl", folder / "key", *(folder / "state").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((folder / "state").stat().st_mode) == 0o700


def _changed(folder: Path, **policy: Any) -> None:
    values = read_toml(folder / "site.toml")
    values["policy"] |= policy
    (folder / "site.toml").write_text(as_toml(values))


def test_a_ledger_counts_one_thing(tmp_path: Path) -> None:
    _, folder = opened(tmp_path)
    Site(folder).close()
    _changed(folder, trust_server=False)
    with pytest.raises(TacitError, match="the policy now differs"):
        Site(folder)


def test_records_must_be_what_is_public(tmp_path: Path) -> None:
    _, folder = opened(tmp_path)
    with np.load(folder / "records.npz") as archive:
        x, y = archive["x"], archive["y"]
    bad: Mapping[str, tuple[dict[str, Any], str]] = {
        "size": ({"x": x[:-1], "y": y[:-1]}, "holds 4 records, but federation.toml says 5"),
        "shape": ({"x": x[:, :2], "y": y}, "has the shape"),
        "columns": ({"x": x}, "columns"),
        "labels": ({"x": x, "y": y + 2}, "outside 0 to 1"),
        "nan": ({"x": x * np.nan, "y": y}, "NaN"),
    }
    for records, sentence in bad.values():
        np.savez(folder / "records.npz", **records)
        with pytest.raises(DataError, match=sentence):
            Site(folder)


def test_a_name_that_is_not_in_the_federation(tmp_path: Path) -> None:
    _, folder = opened(tmp_path)
    values = read_toml(folder / "site.toml")
    (folder / "site.toml").write_text(as_toml({**values, "name": "west"}))
    with pytest.raises(TacitError, match="not this site, 'west'"):
        Site(folder)


def test_central_noise_over_secret_cohorts_is_paid_up_front(tmp_path: Path) -> None:
    """A site that is not drawn is amplified by that, so it pays for every round, asked or not."""
    run = config({"name": "dp-fedavg", "clip": 0.5, "cohort_rate": 0.5})
    public, folder = opened(tmp_path, run)
    site = Site(folder)
    planned = public.plan.guarantee(1e-3).epsilon
    for round_ in range(3):
        assert told(site.answer(request(public, round_))) == ("train", None)
        assert site.guarantee().epsilon == pytest.approx(planned, rel=1e-6)
    labels = [charge.label["phase"] for charge in site.ledger.charges]
    assert labels == ["whole run", "train", "train", "train"]
    site.close()


def test_a_secret_cohort_pays_for_each_planned_request_once(tmp_path: Path) -> None:
    """60 requests were answered on one charge; what is asked again has no secret any more."""
    run = config({"name": "dp-fedavg", "clip": 0.5, "cohort_rate": 0.5})
    public, folder = opened(tmp_path, run, policy={"epsilon": 15.0})
    site = Site(folder)
    spent = []
    for round_ in (0, 1, 2, 0, 0):
        site.answer(request(public, round_))
        spent.append(site.guarantee().epsilon)
    assert spent[0] == spent[1] == spent[2] < spent[3] < spent[4]
    site.close()
    site = Site(folder)  # a restart forgets nothing of it
    site.answer(request(public, 2))
    assert site.guarantee().epsilon > spent[4]
    said = [told(site.answer(request(public, 10**6)))[0] for _ in range(20)]
    assert said[-1] == "refused"
    assert site.guarantee().epsilon <= 15.0
    site.close()


def test_central_noise_is_paid_when_everyone_is_asked(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, config({"name": "dp-fedavg", "clip": 0.5}))
    site = Site(folder)
    assert told(site.answer(request(public, 0))) == ("train", None)
    (charge,) = site.ledger.charges
    assert dict(charge.label) == {"run": "ab12", "round": 0, "phase": "train"}
    site.close()


def test_a_site_without_trust_answers_no_central_run(tmp_path: Path) -> None:
    public, folder = opened(
        tmp_path, config({"name": "dp-fedavg", "clip": 0.5}), policy={"trust_server": False}
    )
    site = Site(folder)
    assert told(site.answer(request(public, 0))) == ("refused", "trust")
    site.close()


def test_two_sites_share_no_noise(tmp_path: Path) -> None:
    public, folder = opened(tmp_path, config({**LOCAL}))
    replies = []
    for _ in range(2):
        site = Site(folder)
        replies.append(decode(site.answer(request(public, 0))).fields["['update']['w']"])
        site.close()
    assert np.abs(replies[0] - replies[1]).min() > 1e-6


def test_the_noise_of_a_site_has_the_scale_that_it_pays_for(tmp_path: Path) -> None:
    """From the operating system, so no seed; the thresholds are wide for that."""
    from scipy import stats

    run = config(
        {"name": "dp-fedavg", "noise_at": "message", "clip": 0.5, "relation": "replace-one"},
        privacy={"noise": 100.0, "delta": 1e-3},
    )
    public, folder = opened(tmp_path, run)
    site = Site(folder)
    replies = [decode(site.answer(request(public, 0))).fields for _ in range(150)]
    site.close()
    drawn = np.concatenate([np.ravel(value) for reply in replies for value in reply.values()])
    assert drawn.size == 600
    # 7 standard errors either side: neither 2/3 nor 3/2 of the scale would pass.
    assert 0.8 < float(np.std(drawn)) / 50.0 < 1.2
    assert stats.kstest(drawn / 50.0, "norm").pvalue > 1e-6
