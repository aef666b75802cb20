"""The policy checks of an announced run; a refusal writes a sentence to the site's own log.

Only a short code is sent to the server, because a sentence could reveal something about records.
"""

from __future__ import annotations

from collections.abc import Iterator

from tacit.algorithm import releases
from tacit.deployment.setup.settings import Public
from tacit.deployment.setup.site_settings import Policy
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, NoNoise
from tacit.release import Release

RUN, POLICY, TRUST, BUDGET, UNPREPARED = "run", "policy", "trust", "budget", "unprepared"


class RefusalError(TacitError):
    """This site does not take part in the run; only ``code`` is sent to others."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def check_policy(policy: Policy, public: Public) -> None:
    """Refuse a run that the policy of the site does not allow, whatever its remaining budget."""
    plan, method = public.plan, public.run.algorithm.name
    if method not in policy.methods:
        raise RefusalError(
            POLICY,
            f"the run uses {method!r}, which policy.methods does not name"
            f" ({', '.join(policy.methods) or 'it names none'}).",
        )
    if (plan.unit, plan.relation) != (policy.unit, policy.relation):
        raise RefusalError(
            POLICY,
            f"the run protects a {plan.unit} under {plan.relation}; this site asks for a"
            f" {policy.unit} under {policy.relation}.",
        )
    for name, release in _all_releases(public):
        _check_release(policy, name, release)
        if release.at == "shares":
            _check_secure_sum(policy, name, release, len(public.names))


def _check_secure_sum(policy: Policy, name: str, release: Release, sites: int) -> None:
    honest = release.trust.honest_of(sites)
    if policy.honest is None:
        raise RefusalError(
            TRUST,
            f"{name} is a secure sum: set policy.honest = {honest} if you trust that at least so"
            f" many of the {sites} sites follow the protocol.",
        )
    if honest > policy.honest:
        raise RefusalError(
            TRUST,
            f"{name} is protected only if {honest} of the {sites} sites follow the protocol, but"
            f" this site takes {policy.honest} to be honest (policy.honest).",
        )


def _check_release(policy: Policy, name: str, release: Release) -> None:
    if release.at == "aggregate" and not policy.trust_server:
        raise RefusalError(
            TRUST,
            f"{name} gets its noise only at the server: set policy.trust_server = true if you trust"
            " the server with this site's messages, or use a method with noise at the site.",
        )
    if policy.unprotected:
        return
    mechanism = release.mechanism
    if isinstance(mechanism, NoNoise):
        raise RefusalError(POLICY, f"{name} would be sent without any noise.")
    if not isinstance(mechanism, Gaussian):
        if not policy.inexact_noise:
            raise RefusalError(
                POLICY,
                f"{name} uses {type(mechanism).__name__}, which is drawn in floating point and is"
                " not exact: set policy.inexact_noise = true if you accept that.",
            )
        return
    levels = mechanism.noise if isinstance(mechanism.noise, tuple) else (mechanism.noise,)
    if min(levels) < policy.least_noise:
        raise RefusalError(
            POLICY,
            f"the noise on {name} is {min(levels):.4g} times its bound, below"
            f" policy.least_noise = {policy.least_noise:g}.",
        )


def _all_releases(public: Public) -> Iterator[tuple[str, Release]]:
    for plan in public.plans:
        found = releases(plan.algorithm, plan.task, plan.population)
        yield from ((f"{phase}.{field}", release) for (phase, field), release in found.items())
