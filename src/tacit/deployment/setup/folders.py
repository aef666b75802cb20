"""A new federation on disk: one folder for the server and one per site; no secret is in two.

DIR/README.md              the steps
DIR/authority/             the key that signed the server's certificate: keep it offline
DIR/server/                federation.toml, server.toml, certificate and key, sites' public keys
DIR/sites/NAME/            federation.toml, site.toml, the site's own key, the authority's
                           certificate: give this folder to the site
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.deployment.setup import keys
from tacit.deployment.setup.keys import SiteKeys
from tacit.deployment.setup.private_files import private_folder, write_private
from tacit.deployment.setup.settings import FEDERATION, SERVER, SITE, Public
from tacit.errors import ConfigError
from tacit.run.config import RunConfig, as_toml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_PRIVATE = ("path", "client_column", "test", "held_out", "held_out_clients", "root")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The settings of a new federation."""

    config: RunConfig
    sites: Mapping[str, int]  # name -> records
    records: Mapping[str, list[str | int]]
    classes: int
    address: str = "127.0.0.1:9443"
    name: str = "federation"
    minimum: int | None = None
    timeout: float = 300.0
    headroom: float = 1.5
    evaluation: float | None = None
    insecure: bool = False
    clients: Mapping[str, str] | None = None  # site -> client of a known dataset
    public_test: bool = False
    keys: Mapping[str, SiteKeys] | None = None  # that the sites have made themselves
    secured: str = ""  # the option that was added, because nothing says where noise is drawn


def make_federation(folder: Path, wanted: Wanted) -> Public:
    """Write all folders; the target folder must be empty."""
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty: choose a new folder for the federation.")
    for name in wanted.sites:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a valid site name: use letters, digits, '-', '_' and '.'."
            )
    values = federation_values(wanted)
    public = Public.from_dict(values)
    public.plan  # noqa: B018 - fail before anything is written if the run cannot be planned
    private_folder(folder)
    server = private_folder(folder / "server")
    write_private(server / SERVER, _server_text(wanted))
    registered = private_folder(server / "sites")
    authority = None
    if not wanted.insecure:
        authority = keys.make_authority(folder / "authority", wanted.name)
        keys.make_server(server, wanted.address.rpartition(":")[0], authority)
    policy = site_policy(wanted, public)
    made_here = wanted.keys is None
    values["keys_made_by"] = "coordinator" if made_here else "sites"
    private_folder(folder / "sites")
    sites = {name: private_folder(folder / "sites" / name) for name in wanted.sites}
    for name, site in sites.items():
        own = (wanted.keys or {}).get(name) or keys.make_site(site, name)
        write_private(site / SITE, _site_text(name, wanted, policy))
        write_private(registered / f"{name}.pub", own.connection.encode())
        values["keys"] = values.get("keys", {}) | {name: own.signing}
        if not wanted.insecure:
            write_private(site / keys.CA, (server / keys.CA).read_bytes())
    text = _federation_text(values)
    for part in (server, *sites.values()):
        write_private(part / FEDERATION, text)
    public = Public.from_dict(values)
    write_private(folder / "README.md", _readme(public, made_here).encode())
    return public


def federation_values(wanted: Wanted) -> dict[str, Any]:
    """The content of federation.toml."""
    run = wanted.config.as_dict()
    data = {key: value for key, value in run["data"].items() if key not in _PRIVATE}
    train = {k: v for k, v in run["train"].items() if k in ("rounds", "dtype")}
    stay = len(wanted.sites) - run["algorithm"].get("dropouts", 0)
    exchange = {"minimum": wanted.minimum or max(1, stay), "timeout": wanted.timeout}
    values: dict[str, Any] = {
        "name": wanted.name,
        "address": wanted.address,
        "insecure": wanted.insecure,
        "classes": wanted.classes,
        "sites": dict(wanted.sites),
        "records": {name: list(shape) for name, shape in wanted.records.items()},
        "exchange": exchange,
        "data": data,
        "task": run["task"],
        "algorithm": run["algorithm"],
        "train": train,
    }
    if run.get("features"):
        values["features"] = run["features"]
    if wanted.evaluation is not None:
        values["evaluation"] = {"error": wanted.evaluation}
    if run["privacy"] == "none":
        return {"privacy": "none", **values}
    return {**values, "privacy": run["privacy"]}


def site_policy(wanted: Wanted, public: Public) -> dict[str, Any]:
    """An initial policy: the method of this run, and its budget with room for repeated rounds.

    The site itself decides whether to trust the server, and how many of the sites. Only in a
    rehearsal, where not even the keys are its own, the latter is decided for it.
    """
    privacy = wanted.config.privacy
    delta = 1e-5 if privacy == "none" else float(privacy.delta or 0.0)
    rehearsal = wanted.keys is None
    plan, planned, trust = public.plan, public.guarantee(delta).epsilon, public.secure_sum
    return {
        "methods": [wanted.config.algorithm.name],
        "unit": plan.unit,
        "relation": plan.relation,
        "epsilon": round(planned * wanted.headroom, 3) if math.isfinite(planned) else 1.0,
        "delta": delta,
        "least_noise": 0.0,
        "trust_server": False,
        **({"honest": trust.honest_of(len(public.names))} if rehearsal and trust else {}),
    }


def _federation_text(values: Mapping[str, Any]) -> bytes:
    head = (
        "# Public: the same file in every folder. Everything that affects a release is here, and\n"
        "# a site uses only its own copy. A changed file is a different run.\n"
    )
    return (head + as_toml(values)).encode()


def _site_text(name: str, wanted: Wanted, policy: Mapping[str, Any]) -> bytes:
    data: dict[str, Any] = {"path": "records.csv"}
    if wanted.clients is not None:
        data = {"client": wanted.clients[name]}
    head = (
        "# Private to this site: where its records are, and what it allows over ALL runs.\n"
        "# epsilon and delta are the total budget; the ledger next to this file counts it.\n"
    )
    return (head + as_toml({"name": name, "data": data, "policy": dict(policy)})).encode()


def _server_text(wanted: Wanted) -> bytes:
    values: dict[str, Any] = {"eval_every": 1, "wait": 300.0}
    if wanted.public_test:
        values["test"] = {}
    head = "# Private to the server: public test records, and how long to wait for sites.\n"
    return (head + as_toml(values)).encode()


def _readme(public: Public, made_here: bool) -> str:
    sites = "\n".join(f"- `sites/{n}` to {n} ({k} records)" for n, k in public.about.sites.items())
    return f"""# Federation {public.about.name}

Address of the server: {public.about.address}

1. Read `federation.toml`: it describes the whole run, and it is public.
2. Send each folder to its owner over a channel that you trust:
{sites}
- `server` stays with the coordinator
- `authority` holds the key that signs server certificates: keep it offline
3. At each site: put the records where `site.toml` says, and read its policy. `tacit site check DIR`
   shows what the run would cost, before anything is sent.
4. Server: `tacit deploy server server`
5. Each site: `tacit deploy site DIR` (let your service manager restart it when it ends)
6. `tacit deploy status DIR` shows the progress, `tacit site budget DIR` the remaining budget.

{_keys_text(public, made_here)}
No secret is in two folders. A site never runs code that the server sends.
"""


def _keys_text(public: Public, made_here: bool) -> str:
    if made_here and public.secure_sum is not None:
        return (
            "The signing keys of the sites were made here. Whoever has seen them can open the\n"
            "secure sums. If sites should not have to trust this machine, let each make its own:\n"
            "`tacit site keys DIR --name NAME`, then `tacit deploy init --keys FOLDER`.\n"
        )
    if made_here:
        return ""
    return "Each site puts the keys that it has made (`tacit site keys`) into its folder.\n"
