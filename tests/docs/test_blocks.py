"""Every code block of README and documentation runs, and prints what its page shows.

A block that cannot run says why in a comment above it (page_blocks.py). ``python
tests/docs/write_pages.py PAGE`` writes what the blocks of a page print now.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from page_blocks import REASONS, ROOT, Block, blocks_of, pages
from page_output import agree
from page_session import Session

# How many blocks of a page are not run, and why: no new one comes in silence.
UNRUN = {
    "CONTRIBUTING.md": {"takes minutes": 1},
    "README.md": {"installs packages": 1},
    "docs/explanation/architecture.md": {"a sketch": 2},
    "docs/explanation/attacks.md": {"takes minutes": 1},
    "docs/explanation/audits.md": {"takes minutes": 1},
    "docs/explanation/clinical.md": {"needs data that is not shipped": 1},
    "docs/explanation/secure-sums.md": {"needs another machine": 1},
    "docs/explanation/speed.md": {"takes minutes": 1},
    "docs/explanation/threat-model.md": {"a sketch": 1},
    "docs/how-to/your-own-data.md": {"a sketch": 1},
    "docs/index.md": {"installs packages": 1},
    "docs/reference/cli.md": {"a sketch": 1},
    "docs/tutorials/first-run.md": {"installs packages": 1},
    "docs/tutorials/from-simulation-to-three-hospitals.md": {
        "installs packages": 1,
        "real processes": 4,
        "a sketch": 1,
    },
}
_NOTE = re.compile(
    rf"not run, ({'|'.join(REASONS)})(, make [a-z-]+)*"
    r"|run when (TACIT_DATA is set|(flax|equinox) is installed)"
    r"|part of \S+|read as (site|server)\.toml|the end of the output"
)


class Case(NamedTuple):
    """A page; ``id`` is the group that runs on one worker."""

    page: Path

    @property
    def id(self) -> str:
        return self.page.relative_to(ROOT).as_posix()


CASES = [Case(page) for page in pages() if blocks_of(page)]
BLOCKS = [block for case in CASES for block in blocks_of(case.page)]


def tried(session: Session, block: Block) -> list[str]:
    """What is wrong with a block."""
    try:
        outputs = session.run(block)
    except (Exception, SystemExit) as error:
        return [f"{block.where}: {type(error).__name__}: {error}"]
    return [f"{block.where} prints\n{out.printed}" for out in outputs if not out.agrees]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_blocks_of_a_page(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    session = Session(f"page_{case.page.stem}")
    wrong = [told for block in blocks_of(case.page) for told in tried(session, block)]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_a_comment_above_a_block_is_one_that_is_known(block: Block) -> None:
    assert not block.note or _NOTE.fullmatch(block.note), block.note


def test_a_fence_is_a_block() -> None:
    """None is overlooked because of its indent, or because its comment is not right above it."""
    for case in CASES:
        text = case.page.read_text(encoding="utf-8")
        found = blocks_of(case.page)
        assert len(re.findall(r"^\s*(?:```|~~~)", text, re.M)) == 2 * len(found), case.id
        assert text.count("<!-- block:") == sum(bool(block.note) for block in found), case.id


def test_few_blocks_are_not_run() -> None:
    found: dict[str, Counter[str]] = {}
    for block in BLOCKS:
        if block.unrun:
            page = block.page.relative_to(ROOT).as_posix()
            found.setdefault(page, Counter())[block.unrun] += 1
    assert found == UNRUN


def test_targets_that_run_a_block_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = {name for block in BLOCKS for name in re.findall(r", make ([a-z-]+)", block.note)}
    assert "deploy-test" in named and named <= set(targets)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("epsilon = 8.0001\n", "epsilon = 8.0002\n", False),
        ("accuracy  0.9109\n", "accuracy  0.9110\n", True),
        ("accuracy  0.9109\n", "accuracy  0.9112\n", False),
        ("accuracy  0.9109\n", "accuracy  0.911\n", False),
        ("  head ...\n", "  head 12ab\n", True),
        ("  15.456...\n", "  15.4567\n", True),
        ("  15.456...\n", "  15.4577\n", False),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n...\n", "b\nc\n", False),
        ("a b\n", "a  b\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_what_is_the_same(shown: str, printed: str, same: bool) -> None:
    assert agree(shown, printed) is same


def test_a_false_block_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session("page_false")

    def told(language: str, text: str, note: str = "") -> list[str]:
        return tried(session, Block(ROOT / "README.md", 1, language, "", text, note))

    assert told("python", "1 / 0\n") and told("pycon", ">>> 1 + 1\n3\n")
    assert not told("python", "print(1)\n") and told("text", "2\n") and not told("text", "1\n")
    assert told("console", "$ tacit --version\ntacit 9.9\n") and told("bash", "false\ntrue\n")
    assert told("console", "$ tacit run missing.toml\n") and told("toml", "[data]\n")
    assert told("json", "{") and told("", "make test\n") and told("toml", "a = \n")
    assert told("toml", "[privacy]\nepsilonn = 1\n", "part of digits-dp-fedavg")
    assert not told("bash", "false\n", "not run, takes minutes")
