"""``site.toml``: where the records of a site are, and what it allows over all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from tacit.accounting.guarantee import Budget, Relation, Unit, observer
from tacit.deployment.setup.settings import SITE, Public, file_of
from tacit.run.config import read_toml
from tacit.validation import Section, validated


class Policy(Section):
    """What a site allows, in total over all runs."""

    methods: list[str]
    unit: Unit
    relation: Relation
    epsilon: float
    delta: float
    least_noise: float = Field(default=0.0, ge=0)
    trust_server: bool = False
    honest: int | None = Field(default=None, ge=1)  # of the sites; None: it joins no secure sum
    inexact_noise: bool = False
    unprotected: bool = False  # for public records only: the budget is not enforced

    @field_validator("relation")
    @classmethod
    def _sizes_are_public(cls, value: Relation) -> Relation:
        if value == "add-remove":
            raise ValueError("sizes are public in a deployment: write 'zero-out' instead")
        return value

    def observer(self, public: Public) -> str:
        """Against whom the site counts its spending: the weakest protection that it accepts."""
        return observer(self.trust_server, self.honest, len(public.names), public.copied_keys)

    @property
    def budget(self) -> Budget:
        """The total budget."""
        return Budget(self.epsilon, self.delta)


class SiteSettings(Section):
    """The contents of ``site.toml``."""

    name: str
    data: dict[str, Any]
    policy: Policy


def load_site(folder: Path) -> SiteSettings:
    """Read ``site.toml`` of a site's folder."""
    return validated(SiteSettings, read_toml(file_of(folder, SITE)), SITE)
