"""Any answer is a release: what a site says to any request depends on records by a release alone.

Every method, every kind of request, wild content, two sites whose records could not differ more:
with mechanisms that destroy their input the answers are the same bytes. Where the server is trusted
with bounded values the values differ, and everything else must be the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import test_doors
from adversary import DishonestServer, answers, pair_of_federations, wild_records
from erasing import erased
from folders import FEATURES, SIZES, config

from tacit.deployment.site.site import Site
from tacit.deployment.transport.in_memory import InMemory
from tacit.wire.codec import decode

pytestmark = pytest.mark.usefixtures("quick_compilation")

MORE: dict[str, dict[str, Any]] = {
    "dp-fedavg message": {"name": "dp-fedavg", "noise_at": "message"},
    "dp-fedexp privunit": {"name": "dp-fedexp", "trust": "local-privunit", "local_steps": 2},
    "auto record": {"name": "auto", "protects": "record"},
    "auto record central": {"name": "auto", "protects": "record", "noise_at": "aggregate"},
    "dp-scaffold client": {"name": "dp-scaffold", "protects": "client", "local_steps": 2},
}
# Seeded sites, as here, send no masks: test_secure_sums.py attacks the real ones.
METHODS = {
    row: {"name": row.split(",")[0], **options}
    for row, (options, _) in test_doors.ROWS.items()
    if "shares" not in row
}
ROWS = {**METHODS, **MORE}
TRUSTED = (
    *("auto", "auto, public centre", "auto record central", "dp-fedavg"),
    *("dp-fedavg, turns and adam", "dp-fedexp", "dp-norm-fedavg", "fedavg"),
)


@pytest.mark.parametrize("method", sorted(ROWS))
def test_answers_do_not_depend_on_records(method: str, tmp_path: Path) -> None:
    run = config(
        ROWS[method],
        privacy="none" if method == "fedavg" else {"noise": 1.5, "delta": 1e-3},
        train={"rounds": 2, "dtype": "float64"},
    )
    policy = {"unprotected": method == "fedavg"}
    change = partial(wild_records, sizes=SIZES, features=FEATURES)
    evaluation = None if method == "fedavg" else 0.2
    with erased():
        servers, transports = pair_of_federations(
            tmp_path, run, change, policy=policy, evaluation=evaluation
        )
        kinds: set[str] = set()
        for name, (first, second) in answers(servers):
            ours, theirs = decode(first), decode(second)
            kinds.add(ours.kind)
            assert (ours.kind, ours.meta) == (theirs.kind, theirs.meta), name
            assert len(first) == len(second), name
            if method not in TRUSTED:
                assert first == second, name
        spent = [t.sites[0].guarantee().epsilon for t in transports]
        for transport in transports:
            assert not transport.sites[0].stopped
            transport.close()
    assert {"failed", "joined"} <= kinds
    assert kinds & {phase.name for _, phase in servers[0].phases()}
    assert spent[0] == spent[1]


def tables(folder: Path, variant: int) -> None:
    """Ages of 40 and 60, or of 0 and 119.9, in a CSV file at every site."""
    for name, count in SIZES.items():
        site = folder / "sites" / name
        ages = ["0.0", "119.9"] if variant else ["40.0", "60.0"]
        rows = [f"{ages[i % 2]},{i % 9},{('no', 'yes')[i % 2]}" for i in range(count)]
        (site / "records.csv").write_text("age,dose,ill\n" + "\n".join(rows) + "\n")
        text = (site / "site.toml").read_text().replace("records.npz", "records.csv")
        (site / "site.toml").write_text(text)


@pytest.fixture
def clinics(tmp_path: Path) -> Iterator[tuple[list[DishonestServer], list[InMemory]]]:
    """Two federations whose columns wait for a released mean and scale."""
    ranges = {"age": [0, 120], "dose": [0, 9]}
    data = {
        "path": "nowhere",
        "target": {"column": "ill", "classes": ["no", "yes"]},
        "columns": {k: {"range": v, "scaling": "release"} for k, v in ranges.items()},
    }
    run = config({"name": "dp-fedavg-record", "batches": "full"}, data=data)
    with erased():
        servers, transports = pair_of_federations(
            tmp_path, run, tables, records={"x": ["float", 2], "y": ["int32"]}
        )
        yield servers, transports
        for transport in transports:
            transport.close()


def test_what_a_prelude_released_is_judged_by_its_ranges_alone(clinics: Any) -> None:
    """120 requests once gave the exact minimum and maximum of two columns, uncharged."""
    servers, transports = clinics
    said = []
    for name, (first, second) in answers(servers):
        assert first == second, name
        if name.startswith("prepare"):
            said.append(decode(first).kind)
    assert "prepared" in said and said.count("failed") > 30
    charged = [[c.label["phase"] for c in t.sites[0].ledger.charges] for t in transports]
    assert charged[0] == charged[1]


def test_the_test_can_fail(clinics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome that nobody checks overflows for some records and not for others."""
    monkeypatch.setattr(Site, "_checked", lambda self, text: json.loads(text))
    servers, transports = clinics
    outcome = {"age": {"mean": 50.0, "scale": 1e-37}, "dose": {"mean": 4.0, "scale": 1.0}}
    for server in servers:
        server.said(0, "prepare", released=json.dumps(outcome))
    assert [t.sites[0].stopped for t in transports] == [False, True]
