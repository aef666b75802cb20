"""What the pages show is what the commands print."""

from __future__ import annotations

import doctest

import pytest
from console import ROOT, Example, agree, examples, printed

EXAMPLES = list(examples())


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.page.stem}-{e.command[2:40]}")
def test_a_page_shows_what_the_command_prints(example: Example) -> None:
    now = printed(example.command)
    assert agree(example.shown, now), now


@pytest.mark.parametrize("page", ["explanation/accounting.md", "explanation/privacy.md"])
def test_the_python_of_a_page_says_what_it_shows(page: str) -> None:
    """Every ``>>>`` of the page, in one session from top to bottom."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").replace("```", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.summarize().attempted > 3
    assert runner.summarize().failed == 0
