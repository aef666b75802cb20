"""The commands of the documentation and what they print.

``python tests/docs/console.py`` writes what ``tacit account`` and ``tacit calibrate`` print now
into the pages; the test compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```console\n(.*?)```", re.S)
_LONG = re.compile(r"(\d\.\d{3})\d{7,}")  # last digits may differ between machines
_RUN = ("tacit account", "tacit calibrate")


class Example(NamedTuple):
    """A command as it stands in a page, and the text below it."""

    page: Path
    command: str
    shown: str


def examples() -> Iterator[Example]:
    """Every command of the pages that is quick to run."""
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            for command, shown in _parts(block):
                if _plain(command).startswith(_RUN):
                    yield Example(page, command, shown)


def printed(command: str) -> str:
    """What the command prints in a terminal of 80 columns."""
    from tacit.cli import run

    os.environ["COLUMNS"] = "80"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        run(shlex.split(_plain(command))[1:])
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())


def agree(shown: str, now: str) -> bool:
    """Whether a page shows this; ``15.456...`` stands for any number that begins so."""
    ours, theirs = shown.split(), now.split()
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(
        a == b or ("..." in a and b.startswith(a.partition("...")[0])) for a, b in pairs
    )


def _plain(command: str) -> str:
    return command.removeprefix("$ ").replace("\\\n", " ").strip()


def _parts(block: str) -> Iterator[tuple[str, str]]:
    command, shown = "", ""
    for line in block.splitlines(keepends=True):
        if line.startswith("$ ") and not command.endswith("\\\n"):
            if command:
                yield command, shown
            command, shown = line, ""
        elif command.endswith("\\\n"):
            command += line
        else:
            shown += line
    if command:
        yield command, shown


if __name__ == "__main__":
    for example in examples():
        text = example.page.read_text(encoding="utf-8")
        now = printed(example.command)
        if not agree(example.shown, now):
            print(example.page.relative_to(ROOT), _plain(example.command)[:60])  # noqa: T201
            old, new = example.command + example.shown, example.command + _LONG.sub(r"\1...", now)
            example.page.write_text(text.replace(old, new), encoding="utf-8")
