"""The code blocks of README and documentation, and what becomes of each of them in the tests.

A block runs, in the folder of its page and after the blocks above it. A comment right above it can
say something else, and a reader of the source sees it:

    <!-- block: not run, REASON -->         one of REASONS; test_blocks.py counts them
    <!-- block: run when NAME is set -->     an environment variable
    <!-- block: run when NAME is installed -->
    <!-- block: part of NAME -->             TOML that is put into this example, or this file above
    <!-- block: read as NAME -->             TOML of a site or a server
    <!-- block: the end of the output -->    of text: what is printed before it is not shown
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Why a block is not run. Targets of the Makefile that run it may follow: ", make TARGET".
REASONS = (
    "a sketch",  # a drawing, pseudo-code or a list
    "needs another machine",
    "installs packages",
    "real processes",
    "takes minutes",
    "needs data that is not shipped",
)
_MADE = "<!-- made from "  # a page that is written from a notebook, which is run itself
_FENCE = re.compile(
    r"(?:^ *<!-- block: (?P<note>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.M | re.S,
)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A block of a page: its first line, language, title, text and the comment above it."""

    page: Path
    line: int
    language: str
    title: str
    text: str
    note: str

    @property
    def where(self) -> str:
        """The page and the line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def unrun(self) -> str:
        """The reason not to run it, or nothing."""
        told = self.note.partition("not run, ")[2]
        return told.partition(", make ")[0]


@dataclass(frozen=True)
class Command:
    """A command of a block as it stands there, and the text below it."""

    source: str
    shown: str

    @property
    def plain(self) -> str:
        """One line, without the prompt."""
        return self.source.removeprefix("$ ").replace("\\\n", " ").strip()


def pages() -> list[Path]:
    """Every page with code that a reader may try."""
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    found = [*own, *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if _MADE not in page.read_text(encoding="utf-8")]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page from top to bottom."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        indent, info = match["indent"], match["info"].strip()
        title = _TITLE.search(info)
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, match.start("fence")) + 1,
                language=info.split(" ")[0],
                title=title[1] if title else "",
                text=re.sub(rf"^{indent}", "", match["text"], flags=re.M),
                note=match["note"] or "",
            )
        )
    return found


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a block, and below each the output that it shows.

    In a ``console`` block a command starts with ``$``; in others every line is one.
    """
    prompt = "$ " if block.language == "console" else ""
    source, shown = "", ""
    for line in block.text.splitlines(keepends=True):
        if source.endswith("\\\n"):
            source += line
        elif line.startswith(prompt):
            if source.strip():
                yield Command(source, shown)
            source, shown = line, ""
        else:
            shown += line
    if source.strip():
        yield Command(source, shown)
