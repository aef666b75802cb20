"""``python tests/docs/write_pages.py [PAGE …]`` writes into pages what their blocks print now.

Only outputs that differ are written. Look at the change: an output that is wrong is written too.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

from page_blocks import Block, blocks_of, pages
from page_session import Output, Session

VARIES = (
    (re.compile(r"(\d\.\d{3})\d{7,}"), r"\1..."),  # last digits differ between machines
    (re.compile(r"[\d.]+ s/round"), "... s/round"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "..."),
)


def write(page: Path) -> None:
    """Run the page in a new folder, and write what differs."""
    differing: list[Output] = []
    session = Session("page")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks_of(page):
            started = time.perf_counter()
            try:
                differing += [found for found in session.run(block) if not found.agrees]
            except (Exception, SystemExit) as error:
                print(f"{block.where}: {type(error).__name__}: {error}")  # noqa: T201
            seconds = time.perf_counter() - started
            print(f"{seconds:7.2f} s  {block.where}")  # noqa: T201
        os.chdir("/")
    text = page.read_text(encoding="utf-8")
    for output in reversed(differing):
        text = _with(text, output.block, output.shown, output.printed)
    page.write_text(text, encoding="utf-8")


def _with(text: str, block: Block, shown: str, printed: str) -> str:
    lines = text.splitlines(keepends=True)
    before, after = "".join(lines[: block.line]), "".join(lines[block.line :])
    for pattern, new in VARIES:
        printed = pattern.sub(new, printed)
    now = [line.rstrip() for line in printed.splitlines()]
    print(f"{block.where}: written")  # noqa: T201
    return before + after.replace(shown, "\n".join(_shortened(shown.splitlines(), now)) + "\n", 1)


def _shortened(shown: list[str], now: list[str]) -> list[str]:
    """What is printed now, with dots where the page has them: between the same words as before."""
    kept: list[str] = []
    while "..." in shown:
        dots = shown.index("...")
        before, shown = shown[:dots], shown[dots + 1 :]
        end = 1 + _place(before[-1], now) if before else 0
        kept, now = [*kept, *now[:end], "..."], now[end:]
        now = now[_place(shown[0], now) :] if shown else []
    return [*kept, *now]


def _place(line: str, printed: list[str]) -> int:
    """The first line with these words, whatever its numbers are."""
    words = [re.sub(r"[\d. ]", "", other) for other in printed]
    wanted = re.sub(r"[\d. ]", "", line)
    return words.index(wanted) if wanted in words else 0


if __name__ == "__main__":
    for given in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        write(given)
