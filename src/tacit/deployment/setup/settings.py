"""The three files of a federation: what everybody knows, what a site decides, what a server has.

    federation.toml   public, the same in every folder: sites and their sizes, the shape of a
                      record, task, method, budget of the run, rounds
    site.toml         a site's own: where its records are, and its policy
    server.toml       the server's own: public records to test on, and how long to wait

Everything that decides a release is read from a site's own copy of federation.toml. What the server
announces is its digest; a site that holds another copy refuses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from tacit.accounting import Guarantee, compose, guarantee
from tacit.accounting.guarantee import Budget, Relation, Unit
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.deployment.accuracy import PrivateAccuracy
from tacit.errors import ConfigError
from tacit.planning import Plan
from tacit.population import Population
from tacit.precision import Precision
from tacit.run.config import RunConfig, read_toml
from tacit.run.exactness import chosen_precision
from tacit.run.settled import settled_plan
from tacit.validation import Section, validated
from tacit.wire.codec import VERSION
from tacit.wire.shapes import RecordShapes

FEDERATION, SITE, SERVER = "federation.toml", "site.toml", "server.toml"
_RUN = ("data", "features", "task", "algorithm", "privacy", "train")


class Exchange(Section):
    """How a round goes: the least sound replies, seconds to wait for them, and how often to try."""

    minimum: int = Field(default=1, ge=1)
    timeout: float = Field(default=300.0, gt=0)
    tries: int = Field(default=3, ge=1)


class Evaluation(Section):
    """A released accuracy after the last round, to within this standard deviation."""

    error: float = Field(gt=0, lt=1)


class _Public(Section):
    name: str = Field(min_length=1, max_length=60)
    address: str
    insecure: bool = False
    classes: int = Field(default=0, ge=0)
    sites: dict[str, int]
    records: dict[str, list[str | int]]
    exchange: Exchange = Exchange()
    evaluation: Evaluation | None = None


class Policy(Section):
    """What a site allows, over all runs together."""

    methods: list[str]
    unit: Unit
    relation: Relation
    epsilon: float
    delta: float
    least_noise: float = Field(default=0.0, ge=0)
    trust_server: bool = False
    inexact_noise: bool = False
    unprotected: bool = False  # public records only: nothing is refused for its price

    @field_validator("relation")
    @classmethod
    def _sizes_are_public(cls, value: Relation) -> Relation:
        if value == "add-remove":
            raise ValueError("sizes are public here: write 'zero-out', its new name")
        return value

    @property
    def budget(self) -> Budget:
        """What may be spent in total."""
        return Budget(self.epsilon, self.delta)


class SiteSettings(Section):
    """A site's own file."""

    name: str
    data: dict[str, Any]
    policy: Policy


class ServerSettings(Section):
    """The server's own file; ``test`` names public records in the manner of a site's ``data``."""

    test: dict[str, Any] | None = None
    eval_every: int = Field(default=1, ge=1)
    wait: float = Field(default=300.0, gt=0)


@dataclass(frozen=True)
class Public:
    """What everybody knows about a federation and its run."""

    about: _Public
    run: RunConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Public:
        """Check the file's content; a mistake is one sentence."""
        mine = {k: v for k, v in values.items() if k not in _RUN}
        about = validated(_Public, mine, FEDERATION)
        if not about.sites or any(n < 1 for n in about.sites.values()):
            raise ConfigError("[sites] names every site with how many records it holds, from 1.")
        if about.exchange.minimum > len(about.sites):
            raise ConfigError(
                f"exchange.minimum is {about.exchange.minimum} and there are {len(about.sites)}"
                " sites: ask for fewer replies."
            )
        public = cls(about, RunConfig.from_dict({k: values[k] for k in _RUN if k in values}))
        public.shapes  # noqa: B018 - a bad [records] is said now
        return public

    @classmethod
    def load(cls, folder: Path) -> Public:
        """Read ``federation.toml`` of a folder."""
        return cls.from_dict(read_toml(_file(folder, FEDERATION)))

    @property
    def names(self) -> tuple[str, ...]:
        """The sites in the order that counts."""
        return tuple(self.about.sites)

    @property
    def population(self) -> Population:
        """How many records each site holds."""
        return Population(tuple(self.about.sites.values()))

    @property
    def dtype(self) -> Precision:
        """What sites and server compute in: float64, unless the run says otherwise."""
        return self.run.train.dtype or "float64"

    @cached_property
    def shapes(self) -> RecordShapes:
        """The shape of one record."""
        import jax

        found = {}
        for name, given in self.about.records.items():
            dtype, *sizes = given
            if dtype not in ("float", "int32") or not all(isinstance(n, int) for n in sizes):
                raise ConfigError(
                    f"records.{name} is {given!r}: write 'float' or 'int32' and then its sizes,"
                    " for instance ['float', 13]."
                )
            kind = self.dtype if dtype == "float" else "int32"
            found[name] = jax.ShapeDtypeStruct(tuple(sizes), np.dtype(kind))
        if "x" not in found and "a" not in found:
            raise ConfigError("[records] needs x, the features of a record.")
        return found

    @cached_property
    def plan(self) -> Plan:
        """The run, its noise settled from this file alone."""
        features = self.shapes.get("x") or self.shapes["a"]
        columns = public_columns(self.run.data)
        plan = settled_plan(
            self.run,
            shape=tuple(features.shape),
            classes=self.about.classes,
            population=self.population,
            waiting=columns.waiting if columns is not None else (),
        )
        chosen_precision(self.dtype, plan, real=True)
        return plan

    @property
    def prelude(self) -> Plan | None:
        """What is released before round 0, if the method asks for it."""
        return self.plan.prelude

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Everything that is released: before, in and after the rounds."""
        return tuple(p for p in (self.prelude, self.plan, self.evaluation) if p is not None)

    def guarantee(self, delta: float) -> Guarantee:
        """What a run that goes as planned costs, with the accuracy that is released after it."""
        return guarantee(
            compose(self.plan.total(), *(p.total() for p in (self.evaluation,) if p is not None)),
            delta=delta,
            unit=self.plan.unit,
            relation=self.plan.relation,
            observer=self.plan.observer,
            public_sizes=True,
            noise_from="system",
        )

    def first_round(self, plan: Plan) -> int:
        """The number of a plan's first round: no two rounds of a run share a number."""
        if plan is self.plan:
            return 0
        return self.plan.rounds if plan is self.evaluation else self.plan.opening_round

    @cached_property
    def evaluation(self) -> Plan | None:
        """The release of an accuracy after the run, if one is wanted."""
        if self.about.evaluation is None:
            return None
        training = self.plan
        accuracy = PrivateAccuracy.after(
            training.algorithm, training.task, training.population, self.about.evaluation.error
        )
        return Plan(accuracy, training.task, training.population, 1)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of everything that decides what is released."""
        content = {
            "wire": VERSION,
            "classes": self.about.classes,
            "sites": list(self.about.sites.items()),
            "records": self.about.records,
            "run": self.run.as_dict(),
            "evaluation": self.about.evaluation and self.about.evaluation.error,
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def load_site(folder: Path) -> SiteSettings:
    """Read ``site.toml`` of a site's folder."""
    return validated(SiteSettings, read_toml(_file(folder, SITE)), SITE)


def load_server(folder: Path) -> ServerSettings:
    """Read ``server.toml`` of the server's folder."""
    return validated(ServerSettings, read_toml(_file(folder, SERVER)), SERVER)


def public_columns(data: Mapping[str, Any]) -> Preprocessing | None:
    """The public meaning of the columns, where [data] describes them."""
    described = {k: data[k] for k in ("columns", "target", "targets", "drop") if k in data}
    return Preprocessing.from_config(described) if "columns" in described else None


def kind_of(folder: Path) -> Literal["site", "server", "federation"]:
    """What a folder is."""
    for name, kind in ((SITE, "site"), (SERVER, "server")):
        if (folder / name).exists():
            return kind  # type: ignore[return-value]
    if (folder / "server" / SERVER).exists():
        return "federation"
    raise ConfigError(f"{folder} is no folder of a federation: make one with `tacit deploy init`.")


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        raise ConfigError(
            f"there is no {name} in {folder}: `tacit deploy init` makes the folders of a"
            " federation, one for the server and one for each site."
        )
    return folder / name
