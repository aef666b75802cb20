"""What a site allows: the checks of an announced run, each with a sentence for the site's own log.

Over the wire goes only a code, because a sentence could say more about the records than it should.
"""

from __future__ import annotations

from collections.abc import Iterator

from tacit.algorithm import releases
from tacit.deployment.setup.settings import Policy, Public
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian, NoNoise
from tacit.release import Release

RUN, POLICY, TRUST, BUDGET, UNPREPARED = "run", "policy", "trust", "budget", "unprepared"


class RefusalError(TacitError):
    """A run that this site does not take part in; ``code`` is all that others hear."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def check_policy(policy: Policy, public: Public) -> None:
    """Refuse what the site's policy does not allow, whatever is left of its budget."""
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


def _check_release(policy: Policy, name: str, release: Release) -> None:
    if release.at == "aggregate" and not policy.trust_server:
        raise RefusalError(
            TRUST,
            f"{name} is noised at the server only: set policy.trust_server = true if you trust the"
            " server with what this site sends, or take a method that noises at the site.",
        )
    if policy.unprotected:
        return
    mechanism = release.mechanism
    if isinstance(mechanism, NoNoise):
        raise RefusalError(POLICY, f"{name} would leave without any noise.")
    if not isinstance(mechanism, Gaussian):
        if not policy.inexact_noise:
            raise RefusalError(
                POLICY,
                f"{name} is noised by {type(mechanism).__name__}, which is drawn in floating point:"
                " set policy.inexact_noise = true if you accept that.",
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
