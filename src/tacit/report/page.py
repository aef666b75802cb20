"""One HTML page about one or several runs, in one file: no network, no scripts, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from tacit.report.charts import Chart


@dataclass(frozen=True)
class About:
    """What the page says of a run besides its charts."""

    name: str
    headline: tuple[tuple[str, str], ...]  # what a reader wants first: a word, a number
    sentence: str
    meaning: str
    config: str
    facts: tuple[tuple[str, str], ...] = ()  # rounds, clients, time, versions
    use: str = ""  # code that loads the model
    simulated: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of texts under a title; ``note`` says what the numbers are."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A title, the runs, tables, and the charts by section; ``remark`` stands on top."""

    title: str
    runs: Sequence[About]
    sections: Sequence[tuple[str, Sequence[Chart]]] = field(default_factory=tuple)
    tables: Sequence[Table] = field(default_factory=tuple)
    remark: str = ""


def write_page(page: Page, path: Path) -> Path:
    """Write the page; whatever a run's texts hold is shown as text."""
    from jinja2 import Environment, StrictUndefined

    text = (resources.files("tacit.report") / "page.html.jinja").read_text(encoding="utf-8")
    rules = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    rules.filters["download"] = lambda table: "data:text/csv;charset=utf-8," + quote(table)
    path.write_text(rules.from_string(text).render(page=page), encoding="utf-8")
    return path
