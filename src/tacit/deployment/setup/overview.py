"""An overview of the folders of a federation on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.accounting import Ledger, rounded_up
from tacit.algorithm import releases, trusts_server
from tacit.deployment.server.processes import progress_of
from tacit.deployment.setup.settings import Public, kind_of
from tacit.deployment.setup.site_settings import load_site
from tacit.deployment.site.policy import RefusalError, check_policy
from tacit.deployment.site.site import LEDGER, Site
from tacit.deployment.transport.process_groups import working


def parts(folder: Path) -> dict[str, Path]:
    """The folders that have a process: this one, or those of the server and the sites."""
    kind = kind_of(folder)
    if kind != "federation":
        return {folder.resolve().name: folder}
    sites = sorted(p for p in (folder / "sites").iterdir() if p.is_dir())
    return {"server": folder / "server", **{p.name: p for p in sites}}


def overview(folder: Path) -> dict[str, Any]:
    """Running processes, progress of the run, and spent budget."""
    found: dict[str, Any] = {"sites": []}
    for name, part in parts(folder).items():
        works = working(part) is not None
        if kind_of(part) == "server":
            said = progress_of(part)
            found["server"] = {
                "works": works,
                "stage": said.get("stage", "not started"),
                "round": said.get("round", 0),
                "rounds": said.get("rounds", Public.load(part).run.train.rounds),
                "said": said.get("said", ""),
                "metrics": said.get("metrics", {}),
            }
        else:
            found["sites"].append({"works": works, **budget_of(part), "name": name})
    return found


def budget_of(folder: Path) -> dict[str, Any]:
    """The part of its budget that a site has spent over all runs."""
    settings = load_site(folder)
    policy, path = settings.policy, folder / LEDGER
    found: dict[str, Any] = {
        "name": settings.name,
        "budget": policy.epsilon,
        "delta": policy.delta,
        "spent": "0",
        "charges": 0,
        "sentence": "Nothing is spent yet.",
    }
    if path.exists():
        ledger = Ledger.read(path)
        sure = ledger.guarantee(policy.delta)
        found |= sure.as_dict()
        found |= {
            "spent": rounded_up(sure.epsilon),
            "charges": sum(1 for _ in ledger.charges),
            "head": ledger.head,
        }
    return found


_COPIED = (
    " This is a rehearsal: one machine made the signing keys of all sites, and whoever has copied"
    " them there must be trusted. `tacit site keys` lets each site make its own."
)


def trust_sentence(public: Public) -> str:
    """Who has to trust whom, in one sentence."""
    sites, trust = len(public.names), public.secure_sum
    found = releases(public.plan.algorithm, public.plan.task, public.plan.population)
    if trusts_server(found):
        return "Every site has to trust the server, which sees each message before its noise."
    if trust is None:
        return "No site has to trust anybody: each adds all of its noise before it sends anything."
    return (
        "No site has to trust the server or any other single site: the server sees only sums over"
        f" the sites, and these are private as long as {trust.honest_of(sites)} of the {sites}"
        f" sites follow the protocol.{_COPIED if public.copied_keys else ''}"
    )


def verdict(folder: Path) -> dict[str, Any]:
    """Whether a site would join the run of its federation.toml now, or the reason why not."""
    site = Site(folder)
    public = site.public
    about: dict[str, Any] = {"digest": public.digest, "trust": trust_sentence(public)}
    if public.secure_sum is not None:
        about["keys"] = dict(public.about.keys)
    try:
        check_policy(site.policy, site.public)
        epsilon = site.cost_of_new_run()
    except RefusalError as refusal:
        said = f"It refuses: {refusal}"
        return {"joins": False, "reason": refusal.code, "sentence": said, **about}
    finally:
        site.close()
    return {
        **about,
        "joins": True,
        "epsilon_after": epsilon,
        "sentence": (
            f"It would join: after the whole run this site has spent epsilon ="
            f" {rounded_up(epsilon)} of {site.policy.epsilon:g} at delta = {site.policy.delta:g}."
        ),
    }
