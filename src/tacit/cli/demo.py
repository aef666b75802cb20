"""``tacit demo``: a privacy plan for one run, at several budgets."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli import show

_ROUNDS, _CLIENTS, _RATE, _DELTA = 100, 1000, 0.1, 1e-5


def demo(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Plan client-level training: the noise that each budget asks for, and what it means."""
    from tacit.accounting import Budget, Poisson, calibrate, gaussian_event, guarantee

    def event(noise: float) -> object:
        return gaussian_event(
            radius=1.0,
            noise=noise,
            relation="add-remove",
            sampling=Poisson(rate=_RATE),
            count=_ROUNDS,
        )

    plans = []
    for epsilon in (1.0, 2.0, 8.0):
        noise = calibrate(event, Budget(epsilon, _DELTA), relation="add-remove")
        sure = guarantee(
            event(noise),
            delta=_DELTA,
            unit="client",
            relation="add-remove",
            observer="anyone who sees the models",
        )
        plans.append({"budget": epsilon, "noise": noise, **sure.as_dict()})
    if json:
        show.as_json({"rounds": _ROUNDS, "clients": _CLIENTS, "rate": _RATE, "plans": plans})
        return
    show.table(
        ("epsilon", "noise on the sum", "noise on the mean"),
        [
            (f"{p['budget']:g}", f"{p['noise']:.4f} C", f"{p['noise'] / (_RATE * _CLIENTS):.5f} C")
            for p in plans
        ],
        title=f"{_ROUNDS} rounds, {_CLIENTS} clients, Poisson cohorts of {_RATE:.0%}",
    )
    for plan in plans:
        show.sentence(plan["sentence"])
