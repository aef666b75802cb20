"""The papers' printed settings, attacked through the code of their methods with all their rounds.

Two worlds differ in one client, or in one record of a client: its value is at one end of what the
method lets pass, or at the other. A server sends the same model in every round, receives the
messages of that client and adds up how much each of them speaks for the second world. From many
runs of both worlds: how often the server is right at given rates of false alarms, and the epsilon
that these runs refute (Clopper and Pearson, 99 % confidence).

An event that is never seen in n runs may still have a probability of 6/n, so few runs refute no
large epsilon, however clear the difference is. For "epsilon 15.66" there are 50 million runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.demonstrations import rates
from experiments.theory.adaptdp import Silo, equation_3_epsilon
from tacit import random_numbers
from tacit.accounting import Budget
from tacit.accounting.best_attack import RATES
from tacit.accounting.gaussian import gdp_eps
from tacit.algorithm import ClientData, Moment
from tacit.algorithms import DPFedEXP, RecordDPFedAvg
from tacit.audit import estimators
from tacit.boundary import leave_client
from tacit.mechanisms import PrivUnit
from tacit.mechanisms.privunit import cap_of
from tacit.planning import Plan, calibrate
from tacit.population import Population
from tacit.tasks.linear import LeastSquares

NAME = "printed-settings"
CONFIDENCE, FAR = 0.99, 1e6
RUNS, MANY, FEW, CHUNK = 200_000, 50_000_000, 2_000_000, 500_000
LOOKS = (1, 2, 3, 5, 7, 10, 20, 30, 50, 75, 100, 150)
Score = Callable[[Any], jax.Array]


@dataclass(frozen=True)
class Setting:
    """A setting as printed, the two worlds of one client, and the score of a message."""

    name: str
    printed: str  # what the paper says
    plan: Plan
    delta: float
    records: tuple[dict[str, Any], dict[str, Any]]  # first and second world
    score: Score
    gaussian: bool = True  # plain Gaussian noise, whose trade-off is exact
    runs: int = RUNS
    many: int = 0  # further runs of the first world, of which only the false alarms are counted


def _ends(features: int = 1, short: float = -FAR) -> tuple[dict[str, Any], dict[str, Any]]:
    """One record whose update points one way, or the other."""
    x = np.zeros((1, features))
    x[0, 0] = 1.0
    return {"x": x, "y": np.array([short])}, {"x": x, "y": np.array([FAR])}


def fedexp(noise: float | None) -> Setting:
    """Local Gaussian noise of 0.7 C in each of 50 rounds; or calibrated to 15.66 in all."""
    task, population = LeastSquares(features=1, factor=1.0), Population((1,) * 1000)
    method = DPFedEXP(trust="local", noise=noise or 0.0, clip=0.3, local_steps=20, local_lr=0.003)
    plan = Plan.of(method, task, population, 50)
    name, printed, many = "DP-FedEXP, local Gaussian noise as printed", "15.659 (one round)", MANY
    if noise is None:
        one = Plan.of(method.with_noise(0.7), task, population, 1).guarantee(1e-5)
        plan = calibrate(plan, Budget(one.epsilon, 1e-5))
        name, printed, many = "DP-FedEXP, local noise for 15.66 over the run", "-", 0
    return Setting(
        name, printed, plan, 1e-5, _ends(), lambda sent: sent["update"]["w"][0], many=many
    )


def privunit() -> Setting:
    """PrivUnit and ScalarDP at 2 + 2 + 2 in each of 50 rounds, in 100 dimensions."""
    task = LeastSquares(features=100, factor=1.0)
    method = DPFedEXP(trust="local-privunit", clip=0.3, local_steps=20, local_lr=0.003)
    mechanism = method.release.mechanism
    assert isinstance(mechanism, PrivUnit)
    cap = cap_of(100, mechanism.eps0, mechanism.eps1, mechanism.gamma)
    lengths = mechanism.lengths(method.clip)

    def score(sent: Any) -> jax.Array:
        """The log-likelihood ratio: in which cap the direction is, and which length was sent."""
        message = sent["update"]
        level = message["level"].astype(jnp.int32)
        height = message["vector"]["w"][0] / lengths[level] * cap.mean
        side = (height >= cap.height).astype(float) - (height <= -cap.height).astype(float)
        top, bottom = level == len(lengths) - 1, level == 0
        tall = top.astype(float) - bottom.astype(float)
        return (mechanism.eps0 + mechanism.eps1) * side + mechanism.eps2 * tall

    plan = Plan.of(method, task, Population((1,) * 1000), 50)
    records = _ends(100, short=-1e-6)  # the shortest update against the longest, opposite ways
    name, printed = "DP-FedEXP, PrivUnit as printed", "6 (one round)"
    return Setting(name, printed, plan, 1e-5, records, score, gaussian=False, runs=RUNS // 4)


def adaptdp() -> Setting:
    """The baseline of AdaptDP-FedAvg's Table 1: task T1, level 1, sigma 0.003 on a mean of 100."""
    size, batch, rounds, steps, sigma, delta = 1500, 100, 150, 20, 0.003, 1e-4
    method = RecordDPFedAvg(
        local_steps=steps, local_lr=1.0, clip=1.0, noise=sigma * batch, batch_size=batch
    )
    plan = Plan.of(method, LeastSquares(features=1), Population((size, size)), rounds)
    formula, _ = equation_3_epsilon(sigma, Silo(size, batch, rounds, steps), delta)
    x = np.zeros((size, 1))
    x[0] = 1.0  # all other records are blank, which contributes nothing
    worlds = [{"x": x, "y": np.where(np.arange(size) == 0, y, 0.0)} for y in (-FAR, FAR)]
    return Setting(
        "DP-FedAvg of AdaptDP's Table 1 (T1, level 1)",
        f"none; {formula:,.0f} by its own equation (3)",
        plan,
        delta,
        (worlds[0], worlds[1]),
        lambda sent: sent["update"]["w"][0],
        gaussian=False,
        runs=1000,
    )


def drawn(
    setting: Setting, second: bool, runs: int, seed: int, *, whole: bool = False
) -> Iterator[rates.Floats]:
    """Chunks of runs: the sum of scores after each round, or of the whole run alone."""
    plan = setting.plan
    (phase,) = plan.algorithm.phases(plan.task, plan.population)
    model = plan.task.init(jax.random.key(0))
    state = plan.algorithm.init_client(model)
    records = {k: jnp.asarray(v, jnp.float32) for k, v in setting.records[second].items()}
    data = ClientData(records, jnp.asarray(len(records["y"])))

    def one(key: jax.Array) -> jax.Array:
        def round_(total: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
            work, leave = random_numbers.split(random_numbers.fold_in(key, number))
            message, _ = phase.client(Moment(number, work), state, data, model)
            sent, _ = leave_client(phase, leave, message, number)
            total = total + setting.score(sent)
            return total, jnp.zeros(()) if whole else total

        total, seen = jax.lax.scan(round_, jnp.zeros(()), jnp.arange(plan.rounds))
        return total if whole else seen

    at_once = CHUNK if whole else max(1, 200_000 // records["x"].size)
    several = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=min(at_once, len(keys))))
    key = jax.random.key(seed)
    for start in range(0, runs, CHUNK):
        keys = jax.random.split(jax.random.fold_in(key, start), min(CHUNK, runs - start))
        yield np.asarray(several(keys), np.float64)


def attacked(setting: Setting) -> dict[str, Any]:
    """All numbers of one setting."""
    plan, delta = setting.plan, setting.delta
    first, second = (
        np.concatenate(list(drawn(setting, side, setting.runs, seed=10 + side)))
        for side in (False, True)
    )
    exact = plan.guarantee(delta, noise_from="seed")
    last = np.stack([first[:, -1], second[:, -1]], axis=1)
    scores = rates.Scores(last, np.tile([False, True], (setting.runs, 1)))
    mu = float((last[:, 1].mean() - last[:, 0].mean()) / (last - last.mean(axis=0)).std())
    if setting.many:
        lower, runs = refuted(setting), setting.many + FEW
    else:
        found = estimators.measured(first[:, -1], second[:, -1], delta, CONFIDENCE)
        lower, runs = found.epsilon, 2 * setting.runs  # half of them choose the threshold

    def at_most(rounds: int) -> float | None:
        if not setting.gaussian:
            return None
        return rates.bounds(plan.guarantee(delta, rounds=rounds), RATES[:1])[0]

    return {
        "name": setting.name,
        "printed": setting.printed,
        "one_round": plan.guarantee(delta, rounds=1).epsilon,
        "exact": exact.epsilon,
        "delta": delta,
        "sentence": exact.sentence(),
        "rounds": plan.rounds,
        "runs": runs,
        "refuted_below": lower,
        "confidence": CONFIDENCE,
        # The epsilon of Gaussian noise whose two worlds are as far apart as the scores are.
        "as_gaussian": gdp_eps(mu, delta) if setting.gaussian else None,
        # An epsilon in the thousands allows everything.
        "rates": rates.measured(scores, exact if exact.epsilon < 1000 else None),
        "by_rounds": [
            {
                "rounds": t,
                "true_positives": rates.true_rate(second[:, t - 1], first[:, t - 1], RATES[0]),
                "at_most": at_most(t),
            }
            for t in LOOKS
            if t <= plan.rounds
        ],
    }


def refuted(setting: Setting) -> float:
    """The epsilon that many runs refute: by symmetry the attacker accuses above 0."""
    alarms = sum(
        int((part > 0).sum()) for part in drawn(setting, False, setting.many, seed=20, whole=True)
    )
    hits = sum(int((part > 0).sum()) for part in drawn(setting, True, FEW, seed=21, whole=True))
    each = 1 - (1 - CONFIDENCE) / 2  # two intervals hold together
    _, most = estimators.interval(alarms, setting.many, each)
    least, _ = estimators.interval(hits, FEW, each)
    return estimators.epsilon_from_rates(least, most, setting.delta)


def settings() -> list[Setting]:
    """Three settings as printed, and the first one with noise for the whole run."""
    return [fedexp(0.7), privunit(), adaptdp(), fedexp(None)]


def run() -> dict[str, Any]:
    """All settings."""
    return {"rows": [attacked(setting) for setting in settings()]}


def table(found: dict[str, Any]) -> str:
    """One line for each setting, and the sentences."""
    lines = [
        "| setting | printed epsilon | exact epsilon, whole run | the attack refutes every epsilon"
        " below | separation of the scores, as epsilon of Gaussian noise |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        apart = "-" if row["as_gaussian"] is None else f"{row['as_gaussian']:.2f}"
        lines.append(
            f"| {row['name']} | {row['printed']} | {row['exact']:,.2f} |"
            f" {row['refuted_below']:.2f} ({row['runs']:,} runs) | {apart} |"
        )
    lines += ["", "| setting | recognised, 0.1 % false alarms | 1 % | 5 % |", "|---|---|---|---|"]
    for row in found["rows"]:
        lines.append(f"| {row['name']} | {' | '.join(rates.cells(row['rates']))} |")
    said = "\n".join(f"- {r['name']}: {r['sentence']}" for r in found["rows"])
    return "\n".join(lines) + "\n\n" + said
