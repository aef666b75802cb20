"""What the pages show is what the commands print."""

from __future__ import annotations

import pytest
from console import Example, agree, examples, printed

EXAMPLES = list(examples())


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.page.stem}-{e.command[2:40]}")
def test_a_page_shows_what_the_command_prints(example: Example) -> None:
    now = printed(example.command)
    assert agree(example.shown, now), now
