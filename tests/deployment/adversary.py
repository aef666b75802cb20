"""The adversary kit: dishonest servers and sites that any test can use.

A ``DishonestServer`` speaks to real sites (in memory, or whatever else has ``ask``) and chooses
every byte: model, round, run, what was released before. A ``lying`` tap makes a site send what it
likes. ``WILD`` are the numbers that break careless code. ``same_answers`` asks two federations that
differ in their records alone, and gives back what was answered.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from folders import make, make_records, site_folders

from tacit import tree
from tacit.algorithm import Phase
from tacit.deployment.setup.settings import Public
from tacit.deployment.transport.in_memory import InMemory, Tap
from tacit.planning import Plan
from tacit.run.config import RunConfig
from tacit.streams import Stream
from tacit.wire.codec import decode, encode
from tacit.wire.shapes import to_fields

WILD = (0.0, 1.0, -1e-300, 5e-324, 1e-38, 1e12, 2.0**40, 1e30, 1e300, np.inf, -np.inf, np.nan)


class DishonestServer:
    """Sends anything to sites, and reads what they answer."""

    def __init__(self, public: Public, transport: Any, run: str = "ab12") -> None:
        self.public, self.transport, self.run = public, transport, run
        self._exchange = itertools.count()

    def ask(self, site: int, request: bytes) -> bytes:
        """One request to one site."""
        reply = self.transport.ask({site: request})[site]
        assert reply is not None
        return reply

    def said(self, site: int, kind: str, fields: Any = None, **meta: Any) -> tuple[str, Any]:
        """The kind of a site's answer, and the reason that it gives."""
        reply = decode(self.ask(site, self.request(kind, fields, **meta)))
        return reply.kind, reply.meta.get("reason")

    def request(self, kind: str, fields: Any = None, **meta: Any) -> bytes:
        """A message of this run; every part of it can be replaced."""
        about = {"run": self.run, "digest": self.public.digest, "round": 0, "counted": -1}
        return encode(kind, fields or {}, {**about, "exchange": next(self._exchange), **meta})

    def model(self, plan: Plan, phase: Phase, fill: float | None = None) -> dict[str, Any]:
        """What an honest server sends first, or one number everywhere."""
        with jax.enable_x64(self.public.dtype == "float64"):
            state = plan.algorithm.init(plan.task.init(jax.random.key(0)))
            fields = to_fields(phase.send(state))
        if fill is None:
            return fields
        return {
            name: np.full(v.shape, fill, v.dtype) if v.dtype.kind == "f" else v
            for name, v in fields.items()
        }

    def phases(self) -> Iterator[tuple[Plan, Phase]]:
        """Every exchange of the run: before, in and after its rounds."""
        for plan in self.public.plans:
            for phase in plan.algorithm.phases(plan.task, plan.population):
                yield plan, phase


def lying(lie: Callable[[dict[str, Any]], dict[str, Any]], *liars: int) -> Tap:
    """A tap under which these sites answer with other numbers of the right form."""

    def tap(index: int, reply: bytes) -> bytes:
        message = decode(reply)
        if index not in liars or not message.fields:
            return reply
        return encode(message.kind, lie(dict(message.fields)), dict(message.meta))

    return tap


def filled(value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The lie that puts one number everywhere."""
    return lambda fields: {k: np.full(v.shape, value, v.dtype) for k, v in fields.items()}


def wild_requests(server: DishonestServer) -> Iterator[tuple[str, bytes]]:
    """Every kind of request with wild content; the first part names it."""
    yield "garbage", b"\x00garbage" * 9
    yield "nothing", b""
    yield "a phase that is none", server.request("steal", {})
    yield "a round that is none", server.request("train", {}, round=-3)
    yield "join", server.request("join")
    yield "another federation", server.request("join", digest="0" * 64)
    for text in wild_outcomes(server.public):
        yield f"prepare {text[:40]}", server.request("prepare", released=text)
    yield "prepare without anything", server.request("prepare")
    for plan, phase in server.phases():
        first = server.public.first_round(plan)
        for value in (None, *WILD):
            fields = server.model(plan, phase, value)
            yield f"{phase.name} {value}", server.request(phase.name, fields, round=first)
        fields = server.model(plan, phase)
        one = next(iter(fields))
        yield f"{phase.name} lacks", server.request(phase.name, {}, round=first)
        yield (
            f"{phase.name} of another shape",
            server.request(phase.name, {**fields, one: np.zeros((2, 2, 2))}, round=first),
        )
        yield f"{phase.name} of another round", server.request(phase.name, fields, round=10**6)
        yield f"{phase.name} again", server.request(phase.name, fields, round=first)
        yield f"{phase.name} counted", server.request(phase.name, fields, round=first, counted=0)
        yield f"{phase.name} exchange", server.request(phase.name, fields, exchange="x")


def wild_outcomes(public: Public) -> Iterator[str]:
    """What a server may claim that the prelude has released."""
    yield from ("", "[]", "{}", "null", "NaN", '{"centre": "x"}', '{"centre": [1e400]}')
    features = public.shapes["x"].shape[0]
    for value in (0.0, 0.1, 1e-300, 1e308, -1e308, 3.0):
        yield json.dumps({"centre": [value] * features})
    plan = public.prelude
    columns = getattr(plan.algorithm, "columns", ()) if plan is not None else ()
    means, scales = (0.0, 50.0, -1e308, 1e308, 120.0, 121.0), (0.0, 1.0, 1e-308, -1.0, 30.0, 1e308)
    for mean, scale in itertools.product(means, scales):
        yield json.dumps({c.column: {"mean": mean, "scale": scale} for c in columns})


def pair_of_federations(
    folder: Path, run: RunConfig, change: Callable[[Path, int], None], **options: Any
) -> tuple[list[DishonestServer], list[InMemory]]:
    """Two federations with the same public file and other records, and a server for each."""
    servers, transports = [], []
    for variant in (0, 1):
        place = folder / str(variant)
        if variant == 0:
            public = make(place, run, seed=variant, **options)
        else:  # the same keys, so the same public file
            shutil.copytree(folder / "0", place)
            for name, own in make_records(variant, public.about.sites).items():
                np.savez(place / "sites" / name / "records.npz", **own)
        change(place, variant)
        with jax.enable_x64(public.dtype == "float64"):
            stream = Stream.seeded(9)
        sites = InMemory(site_folders(place, public), stream=stream, exact=False)
        transports.append(sites)
        servers.append(DishonestServer(public, sites))
    return servers, transports


def answers(servers: Sequence[DishonestServer], site: int = 0) -> Iterator[tuple[str, list[bytes]]]:
    """What each of the federations answers to the same wild requests."""
    for name, request in wild_requests(servers[0]):
        yield name, [server.ask(site, request) for server in servers]


def wild_records(folder: Path, variant: int, sizes: Mapping[str, int], features: int) -> None:
    """Records of very different sizes in the second federation: huge, tiny, zero."""
    if variant == 0:
        return
    rng = np.random.default_rng(11)
    for name, count in sizes.items():
        exponents = rng.choice([-320.0, -40.0, 0.0, 25.0, 150.0, 300.0], (count, features))
        x = rng.choice([-1.0, 1.0], (count, features)) * 10.0**exponents
        x[0] = 0.0
        labels = rng.integers(0, 2, count).astype(np.int32)
        np.savez(folder / "sites" / name / "records.npz", x=x, y=labels)


def flat(params: Any) -> np.ndarray:
    """A model as one vector."""
    return np.concatenate([np.ravel(v) for v in tree.to_named(params).values()])
