"""The tables of the audit page, from the stored results. The text around them is written by hand.

python -m experiments.audits.page
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.audits.methods import ENOUGH
from experiments.studies.adversarial.table import table as models_table

PAGE = Path("docs/explanation/audits.md")
PICTURE = Path("docs/explanation/audit-dp-fedavg.svg")
RESULTS = Path("results")
_MARK = re.compile(
    r"(<!-- audit-(?P<name>[a-z-]+): begin -->\n).*?(<!-- audit-(?P=name): end -->)", re.DOTALL
)
Content = dict[str, Any]


def mechanisms(content: Content) -> str:
    """Claimed and audited epsilon of every mechanism."""
    lines = ["| mechanism | neighbours | claimed epsilon | audited, at least | share |"]
    lines.append("|---|---|---:|---:|---:|")
    lines += [f"| `{r['name']}` | {r['about']} | {_numbers(r)} |" for r in content["rows"]]
    return "\n".join([*lines, "", _source(content)])


def methods(content: Content) -> str:
    """The same for every method, with a reason where little is shown."""
    lines = [
        "| method | claimed epsilon | audited, at least | share | seen, and why less is shown |"
    ]
    lines.append("|---|---:|---:|---:|---|")
    for row in content["rows"]:
        seen = row["about"].partition("seen: ")[2]
        why = f"; {row['why']}" if row["share"] < ENOUGH else ""
        lines.append(f"| {row['name']} | {_numbers(row)} | {seen}{why} |")
    return "\n".join([*lines, "", _source(content)])


def one_run(content: Content) -> str:
    """What the guessed coins of canaries show."""
    lines = ["| example | method | right guesses | claimed epsilon | audited, at least | share |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for row in content["rows"]:
        right = f"{row['right']} of {row['guesses']}"
        lines.append(f"| `{row['example']}` | {row['name']} | {right} | {_numbers(row)} |")
    return "\n".join([*lines, "", _source(content)])


def broken(content: Content) -> str:
    """Every planted fault, and what flagged it."""
    lines = ["| fault | flagged by | evidence |", "|---|---|---|"]
    for row in content["rows"]:
        told = "it fails"
        if row.get("audited") is not None:
            told = f"claimed {row['claimed']:.3g}, shown {row['audited']:.3g}"
            if row["audited"] <= row["claimed"]:
                told = f"claimed {row['claimed']:.3g}, above its trade-off curve"
        about = row["about"].replace("|", "\\|")
        lines.append(f"| {about} | {row['caught_by']} | {told} |")
    return "\n".join([*lines, "", _source(content)])


def models(content: Content) -> str:
    """The worst contribution that the search has found, by task."""
    made = "; ".join(f"`{command}`" for command in content["commands"])
    spent = f"{content['models']:,} models and records, {content['seconds']:,} seconds of search"
    searched = f"*Made by {made}: {spent}. {content.get('put together', '')}*"
    return "\n".join([models_table(content).rstrip(), "", searched])


TABLES: dict[str, tuple[str, Callable[[Content], str]]] = {
    "mechanisms": ("audit/mechanisms.json", mechanisms),
    "methods": ("audit/methods.json", methods),
    "one-run": ("audit/one-run.json", one_run),
    "broken": ("audit/broken.json", broken),
    "models": ("studies/adversarial-models.json", models),
}


def written(page: str) -> str:
    """The page with the tables of the stored results between its marks."""

    def fill(found: re.Match[str]) -> str:
        file, table = TABLES[found["name"]]
        content = json.loads((RESULTS / file).read_text(encoding="utf-8"))
        return f"{found[1]}\n{table(content)}\n\n{found[3]}"

    return _MARK.sub(fill, page)


def write() -> None:
    """Write the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _numbers(row: dict[str, Any]) -> str:
    return f"{row['claimed']:.3g} | {row['audited']:.3g} | {row['share']:.0%}"


def _source(content: Content) -> str:
    return f"*Made by `{content['command']}`; confidence 99 %.*"


if __name__ == "__main__":
    write()
