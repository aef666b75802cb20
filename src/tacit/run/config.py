"""The configuration of a run: ``[data] [[features]] [task] [privacy] [algorithm] [train]``.

Unknown keys, wrong types and impossible values are refused with one sentence that names the nearest
valid key.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from tacit.accounting.guarantee import Budget, NoiseFrom
from tacit.data.config import anchored
from tacit.errors import ConfigError
from tacit.validation import Section, validated


class PrivacyConfig(Section):
    """A budget to calibrate to, or a noise to account for, or neither: no privacy.

    ``scaling_share`` is the part of the budget's mu squared for columns with scaling = "release".
    """

    epsilon: float | None = None
    delta: float | None = None
    noise: float | None = None
    accountant: str = "best"
    scaling_share: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.epsilon is None and self.noise is None:
            raise ValueError("give epsilon and delta, or noise and delta, or privacy = 'none'")
        if self.delta is None:
            raise ValueError("give delta: an epsilon means nothing without it (for instance 1e-5)")
        if self.epsilon is not None:
            Budget(self.epsilon, self.delta)
        if self.noise is not None and not 0 < self.noise < float("inf"):
            raise ValueError(f"noise is {self.noise}; give a positive number, or privacy = 'none'")
        if self.scaling_share is not None and not 0 < self.scaling_share < 1:
            raise ValueError(f"scaling_share is {self.scaling_share}; give 0.05, or up to below 1")
        return self

    @property
    def budget(self) -> Budget | None:
        """The budget, if one is stated."""
        if self.epsilon is None or self.delta is None:
            return None
        return Budget(self.epsilon, self.delta)


class TrainConfig(Section):
    """How long, with which noise, and how often to look.

    Without ``rounds`` the method chooses them, if it is one that can (auto and auto-local). Without
    a ``seed`` the noise comes from the operating system; with one the run can be repeated, is a
    simulation, and protects nobody. Without ``dtype`` the run chooses a sufficient one.
    """

    rounds: int | None = None
    seed: int | None = None
    eval_every: int | None = None
    dtype: Literal["float32", "float64"] | None = None
    oracle: bool = True
    block: int | Literal["auto"] | None = None

    @property
    def noise_from(self) -> NoiseFrom:
        """Where the noise of the run comes from."""
        return "system" if self.seed is None else "seed"

    @field_validator("block")
    @classmethod
    def _some_clients(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, int) and value < 1:
            raise ValueError(f"it is {value}; give at least 1, or 'auto'")
        return value

    @field_validator("rounds", "eval_every")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ValueError(f"it is {value}; give at least 1")
        return value

    @field_validator("seed")
    @classmethod
    def _small(cls, value: int | None) -> int | None:
        if value is not None and not 0 <= value < 2**31:
            raise ValueError("give a whole number from 0 to 2147483647")
        return value


class Named(BaseModel):
    """A name, and options that the named thing checks itself."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.model_extra or {})


class RunConfig(Section):
    """A whole run."""

    data: dict[str, Any]
    features: list[str | dict[str, Any]] | None = None
    task: Named
    algorithm: Named
    train: TrainConfig = TrainConfig()
    privacy: PrivacyConfig | Literal["none"]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """Check a configuration; a mistake is one sentence."""
        return validated(cls, values, "the configuration")

    @classmethod
    def load(cls, path: str | Path, changes: Sequence[str] = ()) -> RunConfig:
        """Read a TOML file and apply ``section.key=value`` changes."""
        return cls.from_dict(changed(read_toml(path), changes))

    def with_seed(self, seed: int | None) -> RunConfig:
        """The same run from another seed, or with noise from the operating system."""
        return self.model_copy(update={"train": self.train.model_copy(update={"seed": seed})})

    def anchored(self, base: Path) -> RunConfig:
        """The same run with its files named from the root, so that it can be resumed anywhere."""
        return self.model_copy(update={"data": anchored(self.data, base)})

    def as_dict(self) -> dict[str, Any]:
        """The configuration as plain values, without the options that were left out."""
        return self.model_dump(exclude_none=True)


def read_toml(path: str | Path) -> dict[str, Any]:
    """A TOML file as a dictionary, or one sentence that says what is wrong with it."""
    file = Path(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}: `tacit examples` lists ready ones.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read ({error.__class__.__name__}).") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from None


def changed(values: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Apply ``section.key=value``; the value is TOML, or plain text where that is not valid."""
    result: dict[str, Any] = json.loads(json.dumps(values, default=str))
    for change in changes:
        key, sign, text = change.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {change!r} is not of the form section.key=value.")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        place = result
        *sections, last = key.strip().split(".")
        for section in sections:
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                inner = place[section] = {}
            place = inner
        place[last] = value
    return result


def as_toml(values: Mapping[str, Any]) -> str:
    """Plain values as TOML."""
    return tomli_w.dumps(dict(values))
