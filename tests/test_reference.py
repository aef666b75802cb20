"""Every reference value by its name.

The values are read from ``tests/reference.json``, or from the file that TACIT_REFERENCE names,
which has the same form: a list of {name, inputs, expected, rtol}. A name is covered by a function
here, or pending with the method that brings it; a name in neither table fails.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.theory.adaptdp import Silo, equation_1_noise, equation_3_epsilon
from experiments.theory.norm import key_quantity, theorem_variance
from tacit.accounting import (
    Budget,
    FixedSize,
    Poisson,
    calibrate,
    compose,
    epsilon_of,
    gaussian_event,
    gdp_delta,
    gdp_eps,
    gdp_mu,
    joint_mu_squared,
    pure_event,
)
from tacit.accounting.gaussian import classical_sigma, zcdp_rho
from tacit.accounting.leaves import Leaf
from tacit.accounting.renyi import (
    alpha_star,
    rdp_curve,
    rdp_to_eps,
    rdp_to_eps_mironov,
    wang_floor,
    wang_wor,
    zcdp_to_eps,
    zcdp_to_eps_tight,
)
from tacit.algorithm import ClientData, Moment, Problem
from tacit.algorithms.adaptdp_fedavg import clip_radius, radius_lift
from tacit.algorithms.dynamic_ldp import DynamicLDP, Worker
from tacit.algorithms.fedexp import step_size
from tacit.algorithms.scaffnew import Control, DPScaffNew
from tacit.boundary import leave_client
from tacit.bounds import Clip, ClipScalar, Normalize
from tacit.mechanisms import Gaussian, NoNoise, PrivUnit
from tacit.mechanisms.privunit import (
    cap_of,
    height_rule_b,
    scalar_constants,
    scalar_sq_norm,
    sq_norm_constants,
)
from tacit.population import Population
from tacit.precision import precision
from tacit.schedules.allocation import dynamic_levels, static_levels
from tacit.schedules.scaffnew import ScaffNewProblem, scaffnew_plan
from tacit.tasks.base import Task
from tacit.tasks.prox import WeightedL1Box

PATH = Path(os.environ.get("TACIT_REFERENCE", Path(__file__).with_name("reference.json")))
ENTRIES = json.loads(PATH.read_text())
RELATIONS = {"add_remove": "add-remove", "replace_one": "replace-one"}


def strengthened_wang(x: dict[str, Any]) -> float:
    leaf = Leaf("gaussian", 1 / x["sigma_over_sensitivity"], "fixed", x["q"])
    return float(rdp_curve([leaf], "replace-one", [x["alpha"]])[0])


def fixed_size_pld(x: dict[str, Any]) -> float:
    event = gaussian_event(
        radius=1.0,
        noise=2 / x["mu"],
        relation="replace-one",
        sampling=FixedSize.of_rate(x["gamma"]),
        count=x["T"],
    )
    return epsilon_of(event, delta=x["delta"], relation="replace-one")


def poisson_pld(x: dict[str, Any]) -> float:
    event = gaussian_event(
        radius=1.0,
        noise=x["noise_multiplier"],
        relation="add-remove",
        sampling=Poisson(rate=x["q"]),
        count=x["T"],
    )
    return epsilon_of(event, delta=x["delta"], relation="add-remove")


def full_participation(x: dict[str, Any]) -> float:
    relation = RELATIONS[x["adjacency"]]
    return calibrate(
        lambda noise: gaussian_event(radius=1.0, noise=noise, relation=relation, count=x["K"]),
        Budget(x["eps"], x["delta"]),
        relation=relation,
    )


def fedexp_releases(x: dict[str, Any], clients: int) -> tuple[float, float]:
    """Noise on the mean, 5C/M, and on the mean squared norm, d sigma^2/M, in units of C."""
    return 5 / clients, x["d"] * 25 / clients**2


def fedexp_separate(x: dict[str, Any]) -> float:
    mean_noise, square_noise = fedexp_releases(x, x["M"])
    event = compose(
        gaussian_event(radius=1 / x["M"], noise=mean_noise, relation="replace-one", count=x["T"]),
        gaussian_event(
            radius=1 / x["M"],
            noise=square_noise,
            relation="replace-one",
            count=x["T"],
            shape="interval",
        ),
    )
    return epsilon_of(event, delta=x["delta"], relation="replace-one")


def fedexp_joint(x: dict[str, Any]) -> float:
    mean_noise, square_noise = fedexp_releases(x, x["M"])
    squared = joint_mu_squared((1 / x["M"] / mean_noise) ** 2, (1 / x["M"] / square_noise) ** 2)
    return gdp_eps(math.sqrt(squared * x["T"]), x["delta"])


def replace_one_rounds(noise: float, rounds: int, delta: float) -> float:
    event = gaussian_event(radius=1.0, noise=noise, relation="replace-one", count=rounds)
    return epsilon_of(event, delta=delta, relation="replace-one")


def ldp_noise(x: dict[str, Any]) -> float:
    return calibrate(
        lambda noise: gaussian_event(radius=1.0, noise=noise, relation="replace-one", count=x["T"]),
        Budget(x["eps"], x["delta"]),
        relation="replace-one",
    )


def adaptdp_equations(x: dict[str, Any]) -> dict[str, float]:
    silo = Silo(records=x["n_p"], batch=x["b"], rounds=x["R"], steps=x["K"])
    epsilon, order = equation_3_epsilon(x["sigma"], silo, x["delta"])
    gradients, scalars = equation_1_noise(epsilon, x["delta"], silo, radius_batch=100)
    return {
        "eps": epsilon,
        "alpha_star": order,
        "sigma_p_eq1": gradients,
        "sigma_C_eq1_bC100": scalars,
        "sigma_C_fullbatch_remark3": equation_1_noise(epsilon, x["delta"], silo)[1],
    }


def adaptdp_radius(x: dict[str, Any]) -> dict[str, float]:
    variance = float(np.mean(np.square(x["sC"])))
    nu = radius_lift(variance, x["P"], x["R"], x["u"], x["Gh"])
    released = jnp.mean(jnp.asarray(x["Gs"]) + jnp.asarray(x["xis"]))
    return {"nu_tilde": nu, "C_r": float(clip_radius(released, nu, x["tau"], x["Gh"]))}


def clipped_squares(x: dict[str, Any]) -> float:
    squares = jnp.sum(jnp.square(jnp.asarray(x["grads"])), axis=1)
    return float(jnp.mean(jax.vmap(ClipScalar(x["Ghat"] ** 2))(squares)))


def clipped_mean(x: dict[str, Any]) -> list[float]:
    clipped = jax.vmap(Clip(x["C"]))(jnp.asarray(x["grads"]))
    return np.asarray(jnp.mean(clipped, axis=0)).tolist()


def both_bounds(x: dict[str, Any]) -> dict[str, list[float]]:
    u = jnp.asarray(x["u"])
    bounds = {"clip": Clip(x["C"]), "norm": Normalize(x["C"])}
    return {name: np.asarray(bound(u)).tolist() for name, bound in bounds.items()}


def priv_unit(x: dict[str, Any]) -> dict[str, float | None]:
    loose = cap_of(x["d"], x["eps0"], x["eps1"], "A")
    exact = cap_of(x["d"], x["eps0"], x["eps1"])
    return {
        "p": 1 / (1 + math.exp(-x["eps0"])),
        "gamma_16a": loose.height,
        "gamma_16b": height_rule_b(x["d"], x["eps1"]),
        "gamma_exact": exact.height,
        "eps1_actual_of_16a": math.log(1 / loose.share - 1),
        "cap_prob_16a": loose.share,
        "m_16a": loose.mean,
        "m_exact": exact.mean,
    }


def scalar_dp(x: dict[str, Any]) -> dict[str, float]:
    k, scale, shift = scalar_constants(x["eps2"])
    c1, c2, c3 = sq_norm_constants(x["eps2"])
    c = x["C"]
    return {"k": k, "a": scale * c, "b": shift, "c1": c1, "c2": c2 * c, "c3": c3 * c * c}


def scalar_moments(x: dict[str, Any]) -> dict[str, Any]:
    """The moments of the sampler's own law: rounding, then another level now and then."""
    k, grown = scalar_constants(x["eps2"])[0], math.exp(x["eps2"])
    values = np.asarray(PrivUnit(eps2=x["eps2"]).lengths(x["C"]))
    place = k * x["r"] / x["C"]
    rounded = np.maximum(0, 1 - np.abs(place - np.arange(k + 1)))
    law = (rounded * (grown - 1) + 1) / (grown + k)
    return {
        "values": values.tolist(),
        "pmf": law.tolist(),
        "mean": law @ values,
        "second_moment": law @ values**2,
        "E_s_hat": law @ np.asarray(scalar_sq_norm(jnp.asarray(values), x["eps2"], x["C"])),
    }


def squared_lengths(x: dict[str, Any]) -> list[float]:
    return np.asarray(scalar_sq_norm(jnp.asarray(x["r_hat"]), x["eps2"], x["C"])).tolist()


def step_of(numerator: Any, mean: Any) -> dict[str, float]:
    denominator = jnp.vdot(mean, mean)
    eta = step_size(numerator, denominator)
    return {"numerator": numerator, "denominator": denominator, "eta_g": eta}


def local_step(x: dict[str, Any]) -> dict[str, float]:
    messages, mechanism = jnp.asarray(x["c"]), Gaussian(x["sigma"])
    squares = jax.vmap(lambda c: mechanism.sq_norm(c, 1.0, 0))(messages)
    return step_of(jnp.mean(squares), jnp.mean(messages, axis=0))


def central_step(x: dict[str, Any]) -> dict[str, float]:
    updates = jnp.asarray(x["delta"])
    numerator = jnp.mean(jnp.sum(jnp.square(updates), axis=1)) + x["xi"]
    return step_of(numerator, jnp.mean(updates, axis=0) + jnp.asarray(x["eps_bar"]))


def scaffnew_v(x: dict[str, Any]) -> dict[str, float]:
    """v of sigma^2 = v C^2 K log(1/delta) / eps^2, for K = 1 and C = 1."""
    unit = math.log(1 / x["delta"]) / x["eps"] ** 2
    exact = gdp_mu(x["eps"], x["delta"]) ** 2
    return {
        "v_zcdp_sens2C": 4 / (2 * zcdp_rho(x["eps"], x["delta"])) / unit,
        "v_exact_sens2C": 4 / exact / unit,
        "v_exact_sensC": 1 / exact / unit,
    }


def _shape(i: dict[str, Any]) -> tuple[float, ...]:
    return dynamic_levels(i["T"], 1 - i["gamma"] * min(i["mu_f"], 1.0))


def _xi_squared(i: dict[str, Any], levels: tuple[float, ...]) -> list[float]:
    """From levels in units of the clip on a worker's sum to the noise on (1/n) of its mean."""
    noise = math.sqrt(2 / i["rho"])  # rho = mu^2/2 and mu = 2/noise under replace-one
    return [(noise * level * i["B"] / (i["n"] * i["m"])) ** 2 for level in levels]


def _sum_rho(i: dict[str, Any]) -> float:
    xi = _xi_squared(i, _shape(i))
    return math.fsum(2 * i["B"] ** 2 / (i["n"] ** 2 * i["m"] ** 2 * x) for x in xi)


def _first_mid_last(i: dict[str, Any]) -> list[float]:
    xi = _xi_squared(i, _shape(i))
    return [xi[0], xi[len(xi) // 2 - 1], xi[-1]]


def _prox(i: dict[str, Any]) -> list[float]:
    return np.asarray(
        WeightedL1Box(weight=i["omega"], box=i["alpha"])(jnp.array(i["z"]), 1.0)
    ).tolist()


@dataclass(frozen=True)
class Given(Task):
    """A loss whose gradient is the record itself."""

    def init(self, key: Any) -> Any:
        return jnp.zeros(2)

    def output(self, params: Any, record: Any) -> Any:
        return jnp.vdot(params, record["g"])

    def loss(self, params: Any, record: Any) -> Any:
        return jnp.vdot(params, record["g"])


@dataclass(frozen=True)
class Fixed(NoNoise):
    """Noise that is written down."""

    drawn: tuple[float, ...] = (0.0, 0.0)

    def noised(self, key: Any, value: Any, radius: Any, round_: Any) -> Any:
        return value + jnp.array(self.drawn)


def _moment(round_: int) -> Moment:
    return Moment(jnp.asarray(round_, jnp.int32), jax.random.key(0))


def _one_step(i: dict[str, Any]) -> dict[str, Any]:
    """Two workers, one record each: a message, then what the broadcast makes of it."""
    n, gamma, population = i["n"], i["gamma"], Population((1,) * i["n"])
    algorithm = DynamicLDP(step=gamma, clip=1e6, allocation="static")
    algorithm = algorithm.planned(Problem(Given(), population, 2))
    one = jnp.asarray(1, jnp.int32)
    workers, messages = [], []
    for x, g, zeta, dual in zip(i["x"], i["grad_fi"], i["zeta"], i["Lambda"], strict=True):
        drawn = Fixed(tuple(n * z for z in zeta))  # (1/n) of it reaches the message
        (phase,) = _with_mechanism(algorithm, drawn).phases(Given(), population)
        data = ClientData({"g": jnp.array([g])}, one)
        worker = Worker(jnp.array(x), jnp.array(dual))
        message, worker = phase.client(_moment(0), worker, data, jnp.array(x))
        messages.append(message["point"].value)
        workers.append(worker)
    xbar = sum(messages) / n
    (silent,) = _with_mechanism(algorithm, Fixed()).phases(Given(), population)
    duals, points = [], []
    for worker in workers:
        nothing = ClientData({"g": jnp.zeros((1, 2))}, one)
        message, after = silent.client(_moment(1), worker, nothing, xbar)
        duals.append(after.dual)
        points.append(message["point"].value + gamma * after.dual)
    return {
        "x_tilde": [m.tolist() for m in messages],
        "x_bar": xbar.tolist(),
        "Lambda_next": [d.tolist() for d in duals],
        "x_next": [x.tolist() for x in points],
    }


def _with_mechanism(algorithm: Any, mechanism: Any) -> Any:
    """The algorithm with its one release noised by this mechanism."""
    release = replace(algorithm.release, mechanism=mechanism)

    class Noised(type(algorithm)):  # type: ignore[misc]
        @property
        def release(self) -> Any:
            return release

    return Noised(**{f.name: getattr(algorithm, f.name) for f in fields(algorithm)})


def _one_communication(i: dict[str, Any]) -> dict[str, Any]:
    population = Population((1,) * len(i["h"]))
    algorithm = DPScaffNew(lr=i["eta"], probability=i["p"], clip=i["C"])
    algorithm = algorithm.planned(Problem(Given(), population, 2))
    x = jnp.array(i["x"])
    deltas = []
    for x_hat, noise in zip(i["x_hat"], i["noise"], strict=True):
        (phase,) = _with_mechanism(algorithm, Fixed(tuple(noise))).phases(Given(), population)
        change = {"change": jnp.array(x_hat) - x}
        released, _ = leave_client(phase, jax.random.key(0), change, 0)
        deltas.append(released["change"])
    state = algorithm.move(algorithm.init(x), {"change": sum(deltas) / len(deltas)})
    (phase,) = algorithm.phases(Given(), population)
    controls = []
    for h, delta in zip(i["h"], deltas, strict=True):
        control = phase.remember(Control(jnp.array(h), x), {"change": delta})
        data = ClientData({"g": jnp.zeros((1, 2))}, jnp.asarray(1, jnp.int32))
        _, after = phase.client(_moment(1), control, data, phase.send(state))
        controls.append(after.h)
    return {
        "delta": [d.tolist() for d in deltas],
        "x_next": state.params.tolist(),
        "h_next": [h.tolist() for h in controls],
        "sum_h": float(np.abs(sum(controls)).max()),
    }


def _eta_p_t(i: dict[str, Any]) -> dict[str, float]:
    problem = ScaffNewProblem(i["psi0"], i["mu"], i["L"], i["N"], i["d"], i["C"])
    plan = scaffnew_plan(problem, i["eps"], i["delta"], i["v"])
    return {
        "eta_star": plan.step,
        "p_star": plan.probability,
        "T_star": plan.iterations,
    }


COVERED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "gdp_eps": lambda x: gdp_eps(x["mu"], x["delta"]),
    "gdp_mu": lambda x: gdp_mu(x["eps"], x["delta"]),
    "gdp_delta": lambda x: gdp_delta(x["eps"], x["mu"]),
    "gdp_rho_equiv": lambda x: gdp_mu(x["eps"], x["delta"]) ** 2 / 2,
    "analytic_gaussian_sigma": lambda x: x["sensitivity"] / gdp_mu(x["eps"], x["delta"]),
    "classical_gaussian_sigma": lambda x: x["sensitivity"] * classical_sigma(x["eps"], x["delta"]),
    "zcdp_rho_from_eps": lambda x: zcdp_rho(x["eps"], x["delta"]),
    "zcdp_to_eps_bun_steinke": lambda x: zcdp_to_eps(x["rho"], x["delta"]),
    "zcdp_to_eps_cks_optimal_alpha": lambda x: zcdp_to_eps_tight(x["rho"], x["delta"]),
    "rdp_to_eps_mironov": lambda x: rdp_to_eps_mironov(x["alpha"], x["rdp"], x["delta"]),
    "rdp_to_eps_cks": lambda x: rdp_to_eps(x["alpha"], x["rdp"], x["delta"]),
    "wang_wor_S": lambda x: wang_wor(2 / x["b"] / x["sigma"], x["b"] / x["n"], x["alpha"]),
    "wang_thm27_gaussian": strengthened_wang,
    "wang_wor_S_floor_sigma_to_inf": lambda x: wang_floor(x["gamma"], x["alpha"]),
    "alpha_star": lambda x: alpha_star(x["eps"], x["delta"]),
    "pld_wor_replace_one_eps": fixed_size_pld,
    "pld_poisson_add_remove_eps": poisson_pld,
    "p001_full_participation_noise_multiplier": full_participation,
    "p003_table1_cdp_fedavg": lambda x: replace_one_rounds(5.0, x["T"], x["delta"]),
    "p003_table1_cdp_fedexp_separate": fedexp_separate,
    "p003_table1_cdp_fedexp_joint": fedexp_joint,
    "p003_table1_ldp_one_round": lambda x: replace_one_rounds(x["sigma_over_C"], 1, x["delta"]),
    "p003_ldp_T_rounds": lambda x: replace_one_rounds(x["sigma_over_C"], x["T"], x["delta"]),
    "p003_privunit_T_rounds_pure": lambda x: epsilon_of(
        pure_event(x["eps"], count=x["T"]), delta=0.0, relation="replace-one"
    ),
    "p003_ldp_sigma_over_C_for_total": ldp_noise,
    "p003_joint_mu2": lambda x: joint_mu_squared(x["A"], x["B"]),
    "p004_v": scaffnew_v,
    "p000_dpfedavg_eps_eq3": adaptdp_equations,
    "p000_nu_and_Cr": adaptdp_radius,
    "p000_G_clip_sq_norm_mean": clipped_squares,
    "p000_clip_mean": clipped_mean,
    "p001_clip_norm": both_bounds,
    "p001_rho_key_quantity": lambda x: key_quantity(x["q"], x["d"], x["n"], x["eps"], x["delta"]),
    "p001_sigma2_theorem3": lambda x: theorem_variance(
        x["q"], x["K"], x["C"], x["n"], x["eps"], x["delta"]
    ),
    "p003_privunit": priv_unit,
    "p003_scalardp": scalar_dp,
    "p003_scalardp_moments": scalar_moments,
    "p003_s_hat": squared_lengths,
    "p003_fedexp_ldp_gauss": local_step,
    "p003_fedexp_cdp": central_step,
}

COVERED |= {
    "p002_xi_squared": lambda i: _xi_squared(i, _shape(i)),
    "p002_sum_rho": _sum_rho,
    "p002_xi_squared_first_mid_last": _first_mid_last,
    "p002_static_xi_squared": lambda i: _xi_squared(i, static_levels(i["T"]))[0],
    "p002_prox_weighted_l1_box": _prox,
    "p002_one_step_g_zero": _one_step,
    "p004_eta_p_T": _eta_p_t,
    "p004_one_comm": _one_communication,
}

PENDING: dict[str, str] = {}


def check(found: Any, expected: Any, rtol: float, where: str = "value") -> None:
    if isinstance(expected, dict):
        assert set(found) == set(expected), where
        for key, value in expected.items():
            check(found[key], value, rtol, f"{where}[{key!r}]")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for index, value in enumerate(expected):
            check(found[index], value, rtol, f"{where}[{index}]")
    elif expected is None:
        assert found is None, where
    else:
        assert float(found) == pytest.approx(expected, rel=rtol, abs=1e-12), where


def named(index: int) -> str:
    return f"{ENTRIES[index]['name']}-{index}"


@pytest.mark.parametrize("index", range(len(ENTRIES)), ids=named)
def test_a_reference_value(index: int) -> None:
    entry = ENTRIES[index]
    name = entry["name"]
    if name in PENDING:
        pytest.skip(f"{name} comes with {PENDING[name]}")
    assert name in COVERED, f"the reference name {name!r} is neither covered nor pending"
    with precision("float64"):
        check(COVERED[name](entry["inputs"]), entry["expected"], entry["rtol"])


def test_no_name_is_both_covered_and_pending() -> None:
    assert not set(COVERED) & set(PENDING)


def test_every_name_of_the_project_s_own_file_is_known() -> None:
    own = json.loads(Path(__file__).with_name("reference.json").read_text())
    assert {entry["name"] for entry in own} == set(COVERED) | set(PENDING)


def test_a_wrong_value_would_fail() -> None:
    with pytest.raises(AssertionError):
        check({"a": [1.0, 2.0]}, {"a": [1.0, 2.1]}, 1e-3)
    with pytest.raises(AssertionError):
        check(0.5, None, 1e-3)
