"""Leaks that are planted on purpose: the erasure test or the boundary must find every one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engines import SEED, erased, on_host, with_records
from registry import FEATURES, labelled

from tacit import local, tree
from tacit.accounting.guarantee import Unit
from tacit.algorithm import Algorithm, ClientData, Message, Moment, Phase, ServerState
from tacit.bounds import Clip
from tacit.errors import TacitError
from tacit.mechanisms import Gaussian
from tacit.population import Population
from tacit.release import At, Release
from tacit.sampling import FullBatch
from tacit.simulation import Simulator
from tacit.tasks.base import Params, Task
from tacit.tasks.logistic import Logistic
from tacit.tree import Tree

TASK = Logistic(features=FEATURES)
FEDERATIONS = labelled(0), labelled(1)

Work = Callable[[Release, Moment, ClientData, Params], Message]


@dataclass(frozen=True, kw_only=True)
class Planted(Algorithm):
    """Gradient descent whose client, server or statistic does what it must not do."""

    work: Work
    at: At = "step"
    unit: Unit = "record"
    times: int = 1
    stats: Any = field(default_factory=dict)
    push: float = 0.0  # what the server adds by itself

    @property
    def release(self) -> Release:
        return Release(
            bound=Clip(1.0), mechanism=Gaussian(1.0), at=self.at, unit=self.unit, times=self.times
        )

    def init(self, params: Params) -> ServerState:
        return ServerState(params, jnp.zeros(()))

    def phases(self, task: Task, population: Population) -> tuple[Phase, ...]:
        release = self.release

        def client(
            moment: Moment, state: Tree, data: ClientData, params: Params
        ) -> tuple[Message, Tree]:
            return self.work(release, moment, data, params), state

        def server(state: ServerState, mean: Message) -> ServerState:
            moved = tree.subtract(state.params, mean["g"])
            moved = jax.tree.map(lambda v: v + self.push, moved)
            return state._replace(params=moved, extra=mean.get("said", state.extra))

        return (
            Phase(
                name="train",
                client=client,
                server=server,
                releases={"g": release},
                stats=self.stats,
            ),
        )


def raw(data: ClientData, params: Params) -> Tree:
    zero = jnp.zeros((), jnp.int32)
    return local.gradient(TASK, FullBatch(), jax.random.key(0), zero, params, data)


def private(release: Release, moment: Moment, data: ClientData, params: Params) -> local.Noised:
    return local.private_gradient(TASK, release, moment, params, data)


def honest(release: Release, moment: Moment, data: ClientData, params: Params) -> Message:
    return {"g": private(release, moment, data, params)}


def sends_the_raw_gradient(
    release: Release, moment: Moment, data: ClientData, params: Params
) -> Message:
    return {"g": raw(data, params)}


def adds_a_whisper(release: Release, moment: Moment, data: ClientData, params: Params) -> Message:
    noisy = private(release, moment, data, params)
    return {"g": noisy.map(lambda v: tree.add(v, tree.scale(1e-3, raw(data, params))))}


def draws_around_the_release(
    release: Release, moment: Moment, data: ClientData, params: Params
) -> Message:
    bounded = release.bound(raw(data, params))
    drawn = release.mechanism.noised(moment.key, bounded, 1.0, moment.round)
    return {"g": private(release, moment, data, params).map(lambda _: drawn)}


def lets_the_data_choose_the_noise(
    release: Release, moment: Moment, data: ClientData, params: Params
) -> Message:
    first = jax.lax.bitcast_convert_type(data.records["x"][0, 0], jnp.uint32)
    return honest(release, moment._replace(key=jax.random.fold_in(moment.key, first)), data, params)


def steps_as_often_as_the_data_say(
    release: Release, moment: Moment, data: ClientData, params: Params
) -> Message:
    ones = jnp.sum(jnp.where(jnp.arange(data.capacity) < data.size, data.records["y"], 0))

    def step(number: Any, current: Params) -> Params:
        key = jax.random.fold_in(moment.key, number)
        one = private(release, moment._replace(key=key), data, current)
        return tree.subtract(current, one.value)

    reached = jax.lax.fori_loop(1, ones, step, params)
    last = private(release, moment, data, reached)
    return {"g": last.map(lambda v: tree.add(v, tree.subtract(params, reached)))}


def loses_a_raw_value(said: dict[str, Any]) -> Work:
    """The client puts a raw number where its statistic finds it."""

    def work(release: Release, moment: Moment, data: ClientData, params: Params) -> Message:
        said["raw"] = jnp.sum(data.records["x"][0])
        return honest(release, moment, data, params)

    return work


def found_in(said: dict[str, Any]) -> dict[str, Callable[[Message], Any]]:
    return {"said": lambda released: said["raw"]}


SAID: dict[str, Any] = {}
LEAKS = {
    "raw gradient beside the noise": Planted(work=adds_a_whisper),
    "noise drawn around the release": Planted(work=draws_around_the_release),
    "a noise key made of records": Planted(work=lets_the_data_choose_the_noise),
    "data-dependent number of steps": Planted(work=steps_as_often_as_the_data_say),
    "a statistic of raw records": Planted(work=loses_a_raw_value(SAID), stats=found_in(SAID)),
}


def differ(states: list[Any]) -> bool:
    first, second = (tree.to_named(state.server) for state in states)
    return any(first[name].tobytes() != second[name].tobytes() for name in first)


def erased_states(algorithm: Algorithm) -> list[Any]:
    """One program on both federations: what the records decide is all that can differ."""
    with erased():
        engine = Simulator(algorithm, TASK, FEDERATIONS[0], seed=SEED, max_devices=1)
        states = [on_host(engine.advance(engine.init(), 0, 2))]
        with_records(engine, FEDERATIONS[1])
        states.append(on_host(engine.advance(engine.init(), 0, 2)))
    return states


def test_an_honest_client_passes() -> None:
    assert not differ(erased_states(Planted(work=honest)))


@pytest.mark.parametrize("leak", LEAKS)
def test_erasure_finds(leak: str) -> None:
    assert differ(erased_states(LEAKS[leak]))


@pytest.mark.parametrize(("at", "made_by"), [("step", "Noised"), ("aggregate", "BoundedSum")])
def test_a_plain_value_does_not_leave_where_records_are_bounded(at: At, made_by: str) -> None:
    """What only the bounding code can make is what leaves; a raw gradient stops the round."""
    algorithm = Planted(work=sends_the_raw_gradient, at=at, unit="record")
    engine = Simulator(algorithm, TASK, FEDERATIONS[0], max_devices=1)
    with pytest.raises(TacitError, match=f"functions of tacit.local that return {made_by}"):
        engine.advance(engine.init(), 0, 1)


@pytest.mark.parametrize("kind", [local.Noised, local.BoundedSum])
def test_only_the_bounding_code_makes_what_leaves(kind: Any) -> None:
    with pytest.raises(TacitError, match=r"comes from local\.private_steps"):
        kind({"w": jnp.zeros(3)})


def test_erasure_finds_a_server_that_was_told() -> None:
    """An algorithm that was made from the records themselves."""
    told = [replace(Planted(work=honest), push=float(np.mean(f.records["x"]))) for f in FEDERATIONS]
    with erased():
        engines = [
            Simulator(a, TASK, f, seed=SEED, max_devices=1)
            for a, f in zip(told, FEDERATIONS, strict=True)
        ]
        assert differ([on_host(engine.advance(engine.init(), 0, 1)) for engine in engines])


def test_counting_finds_steps_that_were_not_declared() -> None:
    calls: Counter[Release] = Counter()
    algorithm = Planted(work=steps_as_often_as_the_data_say)
    with erased(calls):
        engine = Simulator(algorithm, TASK, FEDERATIONS[0], seed=SEED, max_devices=1)
        jax.block_until_ready(engine.advance(engine.init(), 0, 1))
    assert calls.total() != FEDERATIONS[0].clients
    assert calls.total() == int(np.sum(FEDERATIONS[0].records["y"]))


def test_an_undeclared_field_does_not_leave() -> None:
    def work(release: Release, moment: Moment, data: ClientData, params: Params) -> Message:
        return {**honest(release, moment, data, params), "labels": data.records["y"]}

    engine = Simulator(Planted(work=work), TASK, FEDERATIONS[0], max_devices=1)
    with pytest.raises(TacitError, match="would send 'labels' without a release"):
        engine.advance(engine.init(), 0, 1)


def test_a_statistic_of_what_only_the_server_noises_is_refused() -> None:
    stats = {"norm": lambda released: tree.squared_norm(released)}
    algorithm = Planted(work=honest, at="aggregate", unit="client", stats=stats)
    with pytest.raises(TacitError, match="noised only in their sum"):
        Simulator(algorithm, TASK, FEDERATIONS[0], max_devices=1)
