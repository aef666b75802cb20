"""The two doors: what is declared passes, what is not does not, and bad values stop there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import tree
from tacit.algorithm import Phase, releases
from tacit.boundary import enter_server, leave_client
from tacit.bounds import Clip, ClipScalar
from tacit.errors import TacitError
from tacit.local import Noised
from tacit.mechanisms import Gaussian, NoNoise
from tacit.population import Population
from tacit.release import At, Release

KEY = jax.random.key(0)


def release(at: At = "message", noise: float = 0.0) -> Release:
    return Release(bound=Clip(1.0), mechanism=Gaussian(noise) if noise else NoNoise(), at=at)


def phase(declared: dict[str, Release], **more: Any) -> Phase:
    return Phase(
        name="train",
        client=lambda moment, state, data, sent: ({}, state),
        server=lambda state, mean: state,
        releases=declared,
        **more,
    )


def test_an_undeclared_field_is_refused() -> None:
    with pytest.raises(TacitError, match="would send 'loss', 'n' without a release"):
        leave_client(
            phase({"g": release()}), KEY, {"g": jnp.ones(2), "n": jnp.ones(()), "loss": 1.0}, 0
        )


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(TacitError, match="declares 'g' but its client does not send it"):
        leave_client(phase({"g": release(), "h": release()}), KEY, {"h": jnp.ones(2)}, 0)


def test_statistics_need_what_the_client_itself_released() -> None:
    with pytest.raises(TacitError, match="noised only in their sum"):
        phase({"g": release("aggregate")}, stats={"norm": lambda sent: tree.squared_norm(sent)})
    with pytest.raises(TacitError, match="one name"):
        phase({"g": release()}, stats={"g": lambda sent: jnp.ones(())})


def test_statistics_see_the_noise() -> None:
    seen = phase({"g": release(noise=3.0)}, stats={"norm": lambda s: tree.squared_norm(s["g"])})
    released, stats = leave_client(seen, KEY, {"g": jnp.zeros(5)}, 0)
    assert stats["norm"] == pytest.approx(float(jnp.sum(released["g"] ** 2)), rel=1e-6)
    assert stats["norm"] > 0


@pytest.mark.parametrize("at", ["message", "aggregate", "step"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_contributes_nothing(at: At, bad: float) -> None:
    """A diverged client must not end the round for the others."""
    value = {"w": jnp.asarray([1.0, bad]), "b": jnp.ones(())}
    sent = Noised._of(value) if at == "step" else value
    released, _ = leave_client(phase({"g": release(at)}), KEY, {"g": sent}, 0)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(released["g"]))


def test_step_releases_pass_as_they_are() -> None:
    value = jnp.asarray([30.0, -40.0])
    sent = {"g": Noised._of(value)}
    released, _ = leave_client(phase({"g": release("step", noise=9.0)}), KEY, sent, 0)
    assert released["g"].tolist() == value.tolist()


def test_messages_are_bounded_and_noised_and_aggregates_bounded_only() -> None:
    value = jnp.asarray([30.0, -40.0])
    fields = {"local": release("message", 2.0), "central": release("aggregate", 2.0)}
    released, _ = leave_client(phase(fields), KEY, {"local": value, "central": value}, 0)
    assert np.linalg.norm(released["central"]) == pytest.approx(1, rel=1e-5)
    assert not np.allclose(released["local"], released["central"])
    means = enter_server(phase(fields), KEY, released, 0, 4.0, Population((1,)))
    np.testing.assert_allclose(means["local"], released["local"] / 4, rtol=1e-6)
    assert not np.allclose(means["central"], released["central"] / 4)


def test_a_squared_norm_is_that_of_the_bounded_value() -> None:
    fields = {
        "update": release("aggregate"),
        "norm": Release(bound=ClipScalar(1.0), mechanism=NoNoise(), at="aggregate"),
    }
    joint = phase(fields, norm_of=("norm", "update"))
    released, _ = leave_client(joint, KEY, {"update": jnp.asarray([30.0, -40.0])}, 0)
    assert released["norm"] == pytest.approx(1.0, rel=1e-5)
    small, _ = leave_client(joint, KEY, {"update": jnp.asarray([0.3, 0.4])}, 0)
    assert small["norm"] == pytest.approx(0.25, rel=1e-5)


def test_one_algorithm_protects_one_unit() -> None:
    class Mixed:
        def phases(self, task: Any, population: Any) -> tuple[Phase, ...]:
            record = Release(bound=Clip(1.0), mechanism=NoNoise(), at="step", unit="record")
            return (phase({"g": release(), "h": record}),)

    with pytest.raises(TacitError, match="protects one unit"):
        releases(Mixed(), None, None)  # type: ignore[arg-type]
