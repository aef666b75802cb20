"""Rounds of two clients by hand, in plain NumPy: nothing of the library but its random keys."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tacit.algorithms import DPFedAvg, RecordDPFedAvg
from tacit.data.federation import Federation
from tacit.sampling import PoissonCohort
from tacit.simulation import Simulator
from tacit.tasks.linear import LeastSquares

pytestmark = pytest.mark.usefixtures("quick_compilation")

SEED = 4
X = [np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]]), np.array([[-2.0, 1.0]])]
Y = [np.array([1.0, -1.0, 2.0]), np.array([5.0])]
TWO = Federation(
    records={"x": np.concatenate(X), "y": np.concatenate(Y)},
    sizes=np.array([3, 1]),
    names=("left", "right"),
)
TASK = LeastSquares(features=2)


def key(*path: int) -> Any:
    """The key at the end of a path of numbers from the seed."""
    found = jax.random.key(SEED)
    for number in path:
        found = jax.random.fold_in(found, number)
    return found


def normal(*path: int) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(jax.random.normal(key(*path), (2,), np.float64))


def run(algorithm: Any, rounds: int = 1) -> np.ndarray:
    simulator = Simulator(algorithm, TASK, TWO, seed=SEED, dtype="float64")
    return np.asarray(simulator.advance(simulator.init(), 0, rounds).server.params["w"])


def descent(w: np.ndarray, client: int, steps: int, rate: float) -> np.ndarray:
    """Steps along the mean gradient of (x.w - y)^2 / 2."""
    for _ in range(steps):
        w = w - rate * X[client].T @ (X[client] @ w - Y[client]) / len(Y[client])
    return w


def clip(v: np.ndarray, radius: float) -> np.ndarray:
    return v * min(1, radius / np.linalg.norm(v))


def test_central_noise() -> None:
    found = run(DPFedAvg(local_steps=2, local_lr=0.1, clip=0.3, noise=1.5))
    updates = [descent(np.zeros(2), client, 2, 0.1) for client in (0, 1)]
    assert all(np.linalg.norm(u) > 0.3 for u in updates)
    total = sum(clip(u, 0.3) for u in updates)
    # Root 1 (rounds), round 0, phase 0 (counted from 1), the server (0), its first field.
    noise = 1.5 * 0.3 * normal(1, 0, 1, 0, 0)
    np.testing.assert_allclose(found, (total + noise) / 2, atol=1e-14)


def test_local_noise() -> None:
    found = run(DPFedAvg(local_lr=0.1, clip=10.0, noise=0.5, noise_at="message", server_lr=0.7))
    sent = []
    for client in (0, 1):
        # The client (counted from 1), its key for leaving (1), its first field.
        noise = 0.5 * 10.0 * normal(1, 0, 1, client + 1, 1, 0)
        sent.append(descent(np.zeros(2), client, 1, 0.1) + noise)
    np.testing.assert_allclose(found, 0.7 * (sent[0] + sent[1]) / 2, atol=1e-14)


def test_poisson_cohorts_divide_by_what_is_expected() -> None:
    rate = 0.6
    found = run(DPFedAvg(local_lr=0.1, clip=0.3, noise=1.0, clients_per_round=PoissonCohort(rate)))
    bits = np.asarray(jax.random.bits(key(1, 0, 0), (2,), np.uint32))
    members = [client for client in (0, 1) if bits[client] < int(rate * 2**32)]
    total = sum((clip(descent(np.zeros(2), c, 1, 0.1), 0.3) for c in members), np.zeros(2))
    noise = 0.3 * normal(1, 0, 1, 0, 0)
    np.testing.assert_allclose(found, (total + noise) / (rate * 2), atol=1e-14)


def test_two_rounds_with_momentum() -> None:
    found = run(DPFedAvg(local_lr=0.1, clip=0.3, noise=1.0, server_momentum=0.9), rounds=2)
    w, velocity = np.zeros(2), np.zeros(2)
    for round_ in (0, 1):
        total = sum(clip(descent(w, client, 1, 0.1) - w, 0.3) for client in (0, 1))
        mean = (total + 0.3 * normal(1, round_, 1, 0, 0)) / 2
        velocity = 0.9 * velocity + mean
        w = w + velocity
    np.testing.assert_allclose(found, w, atol=1e-14)


def test_noisy_steps_on_records() -> None:
    found = run(RecordDPFedAvg(local_steps=2, local_lr=0.1, clip=0.4, noise=0.8, batches="full"))
    updates = []
    for client in (0, 1):
        local = key(1, 0, 1, client + 1, 0)
        _, noise_key = jax.random.split(local)
        w = np.zeros(2)
        for step in (0, 1):
            rows = X[client] * (X[client] @ w - Y[client])[:, None]
            total = sum(clip(row, 0.4) for row in rows)
            with jax.enable_x64(True):
                drawn = jax.random.normal(jax.random.fold_in(noise_key, step), (2,), np.float64)
            w = w - 0.1 * (total + 0.8 * 0.4 * np.asarray(drawn)) / len(rows)
        updates.append(w)
    np.testing.assert_allclose(found, (updates[0] + updates[1]) / 2, atol=1e-12)
