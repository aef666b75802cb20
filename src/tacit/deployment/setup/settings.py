"""The three settings files of a federation.

    federation.toml   public, the same in every folder: sites and their sizes, the shape of a
                      record, task, method, budget of the run, rounds
    site.toml         private to a site: where its records are, and its policy
    server.toml       private to the server: public test records, and how long to wait

A site reads everything that affects a release from its own copy of federation.toml. The server
announces the digest of the file; a site with a different copy refuses.
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
from pydantic import Field

from tacit.accounting import Guarantee, compose, guarantee
from tacit.algorithm import observer_of, releases
from tacit.data.own_files.preprocessing import Preprocessing
from tacit.deployment.accuracy import PrivateAccuracy
from tacit.errors import ConfigError
from tacit.planning import Plan
from tacit.population import Population
from tacit.precision import Precision
from tacit.run.config import RunConfig, read_toml
from tacit.run.exactness import chosen_precision
from tacit.run.settled import settled_plan
from tacit.secure_sum import SecureSum
from tacit.validation import Section, validated
from tacit.wire.codec import VERSION
from tacit.wire.shapes import RecordShapes

FEDERATION, SITE, SERVER = "federation.toml", "site.toml", "server.toml"
_RUN = ("data", "features", "task", "algorithm", "privacy", "train")


class Exchange(Section):
    """A round: the minimum of valid replies, the time limit in seconds, and the number of tries."""

    minimum: int = Field(default=1, ge=1)
    timeout: float = Field(default=300.0, gt=0)
    tries: int = Field(default=3, ge=1)


class Evaluation(Section):
    """A released accuracy after the last round, with this standard deviation."""

    error: float = Field(gt=0, lt=1)


class _Public(Section):
    name: str = Field(min_length=1, max_length=60)
    address: str
    insecure: bool = False
    classes: int = Field(default=0, ge=0)
    sites: dict[str, int]
    records: dict[str, list[str | int]]
    keys: dict[str, str] = Field(default_factory=dict)  # public signing keys, for secure sums
    keys_made_by: Literal["sites", "coordinator"] = "sites"
    exchange: Exchange = Exchange()
    evaluation: Evaluation | None = None


class ServerSettings(Section):
    """The contents of ``server.toml``; ``test`` describes public records like a site's ``data``."""

    test: dict[str, Any] | None = None
    eval_every: int = Field(default=1, ge=1)
    wait: float = Field(default=300.0, gt=0)


@dataclass(frozen=True)
class Public:
    """The public description of a federation and its run."""

    about: _Public
    run: RunConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Public:
        """Check the content of the file; a mistake raises an error of one sentence."""
        mine = {k: v for k, v in values.items() if k not in _RUN}
        about = validated(_Public, mine, FEDERATION)
        if not about.sites or any(n < 1 for n in about.sites.values()):
            raise ConfigError("[sites] must give the number of records (1 or more) of every site.")
        if about.exchange.minimum > len(about.sites):
            raise ConfigError(
                f"exchange.minimum is {about.exchange.minimum}, but there are {len(about.sites)}"
                " sites: give a smaller minimum."
            )
        if about.keys and set(about.keys) != set(about.sites):
            raise ConfigError("[keys] must give the public signing key of every site in [sites].")
        public = cls(about, RunConfig.from_dict({k: values[k] for k in _RUN if k in values}))
        public.shapes  # noqa: B018 - check [records] now
        return public

    @classmethod
    def load(cls, folder: Path) -> Public:
        """Read ``federation.toml`` of a folder."""
        return cls.from_dict(read_toml(file_of(folder, FEDERATION)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sites, in their fixed order."""
        return tuple(self.about.sites)

    @cached_property
    def signers(self) -> tuple[Any, ...]:
        """The public signing keys of the sites, in their fixed order."""
        from tacit.secure_aggregation.statements import public_keys

        if not self.about.keys:
            raise ConfigError(
                "a secure sum needs [keys] in federation.toml, with the public signing key of every"
                " site: make the federation again with `tacit deploy init`."
            )
        return public_keys([self.about.keys[name] for name in self.names])

    @cached_property
    def secure_sum(self) -> SecureSum | None:
        """Who has to be trusted with the run's secure sums; None if it has none."""
        for plan in self.plans:
            for release in releases(plan.algorithm, plan.task, plan.population).values():
                if release.at == "shares":
                    return release.trust
        return None

    @property
    def copied_keys(self) -> bool:
        """Whether another machine than the site's own may know its signing key."""
        return self.about.keys_made_by != "sites"

    @cached_property
    def observer(self) -> str:
        """Against whom the run protects."""
        plan = self.plan
        found = releases(plan.algorithm, plan.task, plan.population)
        return observer_of(found, len(self.names), self.copied_keys)

    @property
    def minimum(self) -> int:
        """The fewest valid replies with which a round counts."""
        least = 1 if self.secure_sum is None else self.secure_sum.present(len(self.names))
        return max(least, self.about.exchange.minimum)

    @property
    def population(self) -> Population:
        """The number of records of each site."""
        return Population(tuple(self.about.sites.values()))

    @property
    def dtype(self) -> Precision:
        """The floating-point type of sites and server: float64, unless the run says otherwise."""
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
                    f"records.{name} is {given!r}: write 'float' or 'int32' followed by the sizes,"
                    " for instance ['float', 13]."
                )
            kind = self.dtype if dtype == "float" else "int32"
            found[name] = jax.ShapeDtypeStruct(tuple(sizes), np.dtype(kind))
        if "x" not in found and "a" not in found:
            raise ConfigError("[records] needs x, the features of a record.")
        return found

    @cached_property
    def plan(self) -> Plan:
        """The plan of the run; its noise is calibrated from this file alone."""
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
        """The plan of the releases before round 0, if the method has any."""
        return self.plan.prelude

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of all releases: before, during and after the rounds."""
        return tuple(p for p in (self.prelude, self.plan, self.evaluation) if p is not None)

    def guarantee(self, delta: float) -> Guarantee:
        """The guarantee of a run without repeated rounds, including the released accuracy."""
        return guarantee(
            compose(self.plan.total(), *(p.total() for p in (self.evaluation,) if p is not None)),
            delta=delta,
            unit=self.plan.unit,
            relation=self.plan.relation,
            observer=self.observer,
            public_sizes=True,
            noise_from="system",
        )

    def first_round(self, plan: Plan) -> int:
        """The number of the first round of a plan; all rounds of a run have distinct numbers."""
        if plan is self.plan:
            return 0
        return self.plan.rounds if plan is self.evaluation else self.plan.opening_round

    @cached_property
    def evaluation(self) -> Plan | None:
        """The plan of the accuracy release after the run, if there is one."""
        if self.about.evaluation is None:
            return None
        training = self.plan
        accuracy = PrivateAccuracy.after(
            training.algorithm, training.task, training.population, self.about.evaluation.error
        )
        return Plan(accuracy, training.task, training.population, 1)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of everything that affects a release."""
        content = {
            "wire": VERSION,
            "classes": self.about.classes,
            "sites": list(self.about.sites.items()),
            "records": self.about.records,
            "keys": [self.about.keys, self.about.keys_made_by],
            "run": self.run.as_dict(),
            "evaluation": self.about.evaluation and self.about.evaluation.error,
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def load_server(folder: Path) -> ServerSettings:
    """Read ``server.toml`` of the server's folder."""
    return validated(ServerSettings, read_toml(file_of(folder, SERVER)), SERVER)


def public_columns(data: Mapping[str, Any]) -> Preprocessing | None:
    """The public meaning of the columns, if [data] describes them."""
    described = {k: data[k] for k in ("columns", "target", "targets", "drop") if k in data}
    return Preprocessing.from_config(described) if "columns" in described else None


def kind_of(folder: Path) -> Literal["site", "server", "federation"]:
    """The kind of a folder."""
    for name, kind in ((SITE, "site"), (SERVER, "server")):
        if (folder / name).exists():
            return kind  # type: ignore[return-value]
    if (folder / "server" / SERVER).exists():
        return "federation"
    raise ConfigError(f"{folder} is not a federation folder: make one with `tacit deploy init`.")


def file_of(folder: Path, name: str) -> Path:
    """A settings file of a folder; an error of one sentence if it is missing."""
    if not (folder / name).exists():
        raise ConfigError(
            f"there is no {name} in {folder}: `tacit deploy init` makes the folders of a"
            " federation, one for the server and one for each site."
        )
    return folder / name
