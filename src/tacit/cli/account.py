"""``tacit account`` and ``tacit calibrate``: from noise to the privacy of a run, and back."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import show
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.accounting.events import DpEvent, SamplingScheme

account = typer.Typer(no_args_is_help=True, help="The guarantee of a whole run, from its noise.")
calibrate = typer.Typer(no_args_is_help=True, help="The smallest noise for a budget.")


class RelationName(StrEnum):
    """The neighbouring relation."""

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"
    REPLACE_ONE = "replace-one"


class SamplingName(StrEnum):
    """How the units of one release are sampled."""

    NONE = "none"
    POISSON = "poisson"
    FIXED = "fixed"


class AccountantName(StrEnum):
    """The accountant that computes epsilon."""

    BEST = "best"
    EXACT = "exact"
    PLD = "pld"
    RDP = "rdp"
    WANG = "wang"
    ZCDP = "zcdp"
    ALL = "all"


class UnitName(StrEnum):
    """The protected unit."""

    CLIENT = "client"
    RECORD = "record"


Count = Annotated[int, typer.Option(help="Number of releases in the whole run.", min=1)]
Delta = Annotated[float, typer.Option(help="The delta of the guarantee.")]
RelationOption = Annotated[
    RelationName,
    typer.Option("--relation", help="Neighbouring relation: add-remove, replace-one or zero-out."),
]
SamplingOption = Annotated[
    SamplingName, typer.Option("--sampling", help="How the units of one release are sampled.")
]
Rate = Annotated[float | None, typer.Option(help="Sampling rate, for poisson and fixed.")]
AccountantOption = Annotated[
    AccountantName, typer.Option("--accountant", help="The accountant that computes epsilon.")
]
UnitOption = Annotated[UnitName, typer.Option("--unit", help="The protected unit.")]
Observer = Annotated[str, typer.Option(help="Who sees the releases, in words.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_ANYONE = "anyone who sees what is released"


@account.command("gaussian")
def account_gaussian(
    noise: Annotated[
        float,
        typer.Option(
            help="Standard deviation of the noise on the SUM, in units of the bound radius C."
        ),
    ],
    count: Count,
    delta: Delta,
    relation: RelationOption,
    sampling: SamplingOption = SamplingName.NONE,
    rate: Rate = None,
    accountant: AccountantOption = AccountantName.BEST,
    unit: UnitOption = UnitName.RECORD,
    observer: Observer = _ANYONE,
    json: Json = False,
) -> None:
    """Epsilon of releasing a bounded sum with Gaussian noise, over the whole run."""
    from tacit.accounting import gaussian_event

    event = gaussian_event(
        radius=1.0,
        noise=noise,
        relation=relation.value,
        sampling=_scheme(sampling, rate),
        count=count,
    )
    described = {"noise": noise, "count": count, "sampling": sampling.value, "rate": rate}
    _report(event, described, accountant, delta, relation, unit, observer, json)


@account.command("privunit")
def account_privunit(
    eps0: Annotated[float, typer.Option(help="Epsilon for the choice of the cap.")],
    eps1: Annotated[float, typer.Option(help="Epsilon for the height of the cap.")],
    eps2: Annotated[float, typer.Option(help="Epsilon for the norm.")],
    count: Count,
    delta: Delta,
    accountant: AccountantOption = AccountantName.BEST,
    observer: Observer = "the server",
    json: Json = False,
) -> None:
    """Epsilon of sending PrivUnit messages (pure eps0 + eps1 + eps2 each), over the whole run."""
    from tacit.accounting import pure_event

    for name, value in (("eps0", eps0), ("eps1", eps1), ("eps2", eps2)):
        if not value >= 0:
            raise TacitError(f"{name} is {value}; give a number, 0 or more.")
    event = pure_event(eps0 + eps1 + eps2, count=count)
    described = {"per_message": eps0 + eps1 + eps2, "count": count, "sampling": "none"}
    relation, unit = RelationName.REPLACE_ONE, UnitName.CLIENT
    _report(event, described, accountant, delta, relation, unit, observer, json)


@calibrate.command("gaussian")
def calibrate_gaussian(
    epsilon: Annotated[float, typer.Option(help="The epsilon budget of the whole run.")],
    delta: Delta,
    count: Count,
    relation: RelationOption,
    sampling: SamplingOption = SamplingName.NONE,
    rate: Rate = None,
    accountant: AccountantOption = AccountantName.BEST,
    unit: UnitOption = UnitName.RECORD,
    observer: Observer = _ANYONE,
    json: Json = False,
) -> None:
    """The smallest noise on the sum, in units of the bound radius C, for (epsilon, delta)."""
    from tacit.accounting import Budget, gaussian_event
    from tacit.accounting import calibrate as least_noise

    if accountant is AccountantName.ALL:
        raise TacitError("calibrate needs one accountant, not all: omit the option to use best.")
    scheme = _scheme(sampling, rate)

    def event(noise: float) -> DpEvent:
        return gaussian_event(
            radius=1.0, noise=noise, relation=relation.value, sampling=scheme, count=count
        )

    budget = Budget(epsilon, delta)
    noise = least_noise(event, budget, relation=relation.value, accountant=accountant.value)
    described = {"noise": noise, "count": count, "sampling": sampling.value, "rate": rate}
    _report(event(noise), described, accountant, delta, relation, unit, observer, json)


def _scheme(sampling: SamplingName, rate: float | None) -> SamplingScheme:
    from tacit.accounting import Everyone, FixedSize, Poisson

    if sampling is SamplingName.NONE:
        if rate is not None and rate != 1:
            raise TacitError("a --rate needs --sampling poisson or --sampling fixed.")
        return Everyone()
    if rate is None:
        raise TacitError(f"--sampling {sampling.value} needs a --rate between 0 and 1.")
    return Poisson(rate=rate) if sampling is SamplingName.POISSON else FixedSize.of_rate(rate)


def _report(
    event: DpEvent,
    described: dict[str, Any],
    accountant: AccountantName,
    delta: float,
    relation: RelationName,
    unit: UnitName,
    observer: str,
    json: bool,
) -> None:
    from tacit.accounting import every_epsilon, guarantee, rounded_up

    one = AccountantName.BEST if accountant is AccountantName.ALL else accountant
    sure = guarantee(
        event,
        delta=delta,
        unit=unit.value,
        relation=relation.value,
        observer=observer,
        accountant=one.value,
    )
    compared: dict[str, float] = {}
    if accountant is AccountantName.ALL:
        compared = every_epsilon(event, delta=delta, relation=relation.value)
    if json:
        result = {**described, **sure.as_dict()}
        if compared:
            result["accountants"] = [
                {"accountant": name, "epsilon": value} for name, value in compared.items()
            ]
        show.as_json(result)
        return
    if "noise" in described:
        show.sentence(
            f"Noise {described['noise']:.6g} C on the sum, {described['count']} times,"
            f" sampling {described['sampling']}"
            + (f" at rate {described['rate']:g}." if described.get("rate") else ".")
        )
    if compared:
        rows = [(name, rounded_up(value)) for name, value in compared.items()]
        show.table(("accountant", "epsilon"), rows)
    show.guarantee(sure)
