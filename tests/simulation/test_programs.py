"""Programs that differ only in their numbers are compiled once, and each gives its own result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax.sharding import PartitionSpec

from tacit import DPFedAvg, Simulator
from tacit.algorithm import Problem
from tacit.algorithms import DPFedEXP, DynamicLDP, RecordDPFedAvg
from tacit.data import federate
from tacit.population import Population
from tacit.precision import precision
from tacit.simulation import programs
from tacit.simulation.constants import traced
from tacit.simulation.layout import AXIS
from tacit.tasks import make


def winding(a: float, b: float) -> Any:
    """A function with constants in loops, branches, calls and derivatives."""

    @jax.jit
    def called(v: Array) -> Array:
        return jax.nn.softplus(v * a) + jax.nn.relu(v - b)

    def function(x: Array, steps: Array) -> tuple[Array, Array]:
        x = lax.fori_loop(0, 3, lambda i, v: v + a * i * jnp.sin(v), x)
        x = lax.while_loop(lambda v: jnp.sum(v) < 30 * b, lambda v: v * (1 + a) + b, x)
        x = lax.cond(steps > 1, lambda v: v - a, lambda v: v * b, x)
        x, total = lax.scan(lambda c, r: (c * b + r, jnp.sum(c) * a), x, jnp.full((4, 3), a))
        return jax.grad(lambda v: jnp.sum(called(v)))(x), total

    return function


ARGS = jnp.array([0.4, 0.9, 1.3]), jnp.asarray(2)


def test_a_trace_with_its_own_constants_is_the_function() -> None:
    trace, _ = traced(winding(0.3, 0.7), *ARGS)
    found = trace.run(ARGS, trace.constants)
    for ours, theirs in zip(found, winding(0.3, 0.7)(*ARGS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_trace_with_other_constants_is_the_other_function(steps: int) -> None:
    args = ARGS[0], jnp.asarray(steps)
    one, _ = traced(winding(0.3, 0.7), *args)
    two, _ = traced(winding(0.45, 0.8), *args)
    assert one.shape == two.shape
    assert hash(one.shape) == hash(two.shape)
    found = one.run(args, two.constants)
    for ours, theirs in zip(found, winding(0.45, 0.8)(*args), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_shapes_tell_programs_apart() -> None:
    def shape(function: Any, *args: Any) -> Any:
        return traced(function, *args)[0].shape

    x = jnp.ones(3)
    assert shape(lambda v: v * 3.5, x) == shape(lambda v: v * 4.5, x)
    assert shape(lambda v: v * 3.5, x) != shape(lambda v: v + 3.5, x)
    assert shape(lambda v: v * 3.5, x) != shape(lambda v: v * 3.5, jnp.ones(4))
    assert shape(lambda v: v[:2], x) != shape(lambda v: v[:1], x)
    assert shape(lambda v: v * 3.5, x) != shape(lambda v: v * 1.0, x), "plain numbers stay inside"


def test_whole_numbers_are_part_of_the_shape() -> None:
    x = jnp.arange(3)
    one, two = (traced(lambda v, k=k: v * k, x)[0] for k in (3, 4))
    assert one.shape != two.shape
    assert one.constants == []


@pytest.mark.parametrize("size", [3, 5000])
def test_what_stays_inside_a_step_is_part_of_the_shape(size: int) -> None:
    """A step that is not opened runs with its own constants, so no other program may stand in."""
    x, factors = jnp.ones(size), np.linspace(1.5, 3.5, size, dtype=np.float32)
    others = factors.copy()
    others[size // 2] += 1

    def kept(values: Any) -> Any:
        return jax.checkpoint(lambda v: jnp.sin(v * values) * 0.3)

    one, two = (traced(kept(values), x)[0] for values in (factors, others))
    again, _ = traced(kept(factors.copy()), x)
    found = one.run([x], again.constants)[0] if one.shape == again.shape else kept(factors)(x)
    np.testing.assert_allclose(found, kept(factors)(x), rtol=1e-6)
    swapped = one.run([x], two.constants)[0] if one.shape == two.shape else kept(others)(x)
    np.testing.assert_allclose(swapped, kept(others)(x), rtol=1e-6)
    scaled, _ = traced(jax.checkpoint(lambda v: jnp.sin(v * 3.5)), x)
    wider, _ = traced(jax.checkpoint(lambda v: jnp.sin(v * 4.5)), x)
    assert scaled.shape != wider.shape


METHODS = {
    "clip, step, noise": (
        DPFedAvg(local_steps=3, local_lr=0.3, clip=0.3, noise=0.7),
        {"local_lr": 0.15, "clip": 0.35, "noise": 1.3},
    ),
    "records": (
        RecordDPFedAvg(local_steps=2, local_lr=0.3, clip=0.3, noise=0.7, batch_size=5),
        {"local_lr": 0.2, "clip": 0.7, "noise": 0.9},
    ),
    "extrapolated": (
        DPFedEXP(local_steps=3, local_lr=0.3, clip=0.3, noise=0.7),
        {"local_lr": 0.15, "noise": 1.3},
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_differ_in_numbers_share_a_program(name: str) -> None:
    first, changes = METHODS[name]
    data = federate("digits", split="iid", clients=6, seed=0)
    task = make("multinomial", shape=data.records["x"].shape[1:], classes=10)
    programs._known.clear()
    for algorithm in (first, replace(first, **changes)):
        simulator = Simulator(algorithm, task, data, seed=3)
        shared = simulator.params(simulator.advance(simulator.init(), 0, 2))
        assert len(programs._known) == 1
        alone = by_itself(simulator)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), shared, alone
        )


def by_itself(simulator: Simulator) -> Any:
    """The model of two rounds, from a program with all numbers inside."""
    split, whole = PartitionSpec(AXIS), PartitionSpec()
    with precision(simulator.dtype):
        program = jax.jit(
            jax.shard_map(
                simulator.rounds_on_device,
                mesh=simulator._mesh,
                in_specs=(whole, split, split, whole, whole, whole),
                out_specs=(whole, split),
                check_vma=False,
            )
        )
        state = simulator.init()
        numbers = jnp.asarray(0, jnp.int32), jnp.asarray(2, jnp.int32)
        server, _ = program(
            state.server, state.clients, simulator.data, simulator._stream, *numbers
        )
    return simulator.algorithm.model(server)


def test_a_schedule_of_noise_is_an_input_too() -> None:
    data = federate("breast-cancer", split="iid", clients=4, seed=0)
    task = make("logistic", shape=data.records["x"].shape[1:], classes=2, l2=0.1)
    programs._known.clear()
    models = []
    for noise in (0.7, 1.9):
        algorithm = DynamicLDP(step=0.25, clip=0.4, strong_convexity=0.1, noise=noise)
        population = Population(tuple(int(n) for n in data.sizes))
        planned = algorithm.planned(Problem(task, population, 5))
        simulator = Simulator(planned, task, data, seed=3)
        models.append(simulator.params(simulator.advance(simulator.init(), 0, 5)))
    assert len(programs._known) == 1
    assert not np.allclose(models[0]["w"], models[1]["w"])


def test_old_programs_are_forgotten() -> None:
    programs._known.clear()
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), (AXIS,))
    for size in range(1, programs._MOST + 4):
        whole = PartitionSpec()
        program = programs.Program(lambda v: v * 3.5, mesh, (whole,), whole)
        assert float(program(jnp.ones(size))[0]) == 3.5
    assert len(programs._known) == programs._MOST
