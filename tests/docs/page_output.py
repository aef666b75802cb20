"""Whether a page shows what is printed.

Line by line, as in a terminal of 80 columns. ``...`` stands for any text within a line, and on a
line of its own for any number of lines. Measured numbers may differ in their last digit: another
machine adds in another order.
"""

from __future__ import annotations

import re

MEASURED = re.compile(r"loss|accuracy|auc|mean|scale|^\W*[\d.\s]+\W*$")
_NUMBER = re.compile(r"\d+\.\d{2,}(?![\d.]|\.\.)")


def agree(shown: str, printed: str, *, tail: bool = False) -> bool:
    """Whether the page shows this; with ``tail``, the end of it."""
    ours, theirs = _lines(shown), _lines(printed)
    return _match(["...", *ours] if tail else ours, theirs)


def _lines(text: str) -> list[str]:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").split("\n")


def _match(ours: list[str], theirs: list[str]) -> bool:
    if not ours:
        return not theirs
    if ours[0].strip() == "...":
        return any(_match(ours[1:], theirs[skip:]) for skip in range(len(theirs) + 1))
    return bool(theirs) and same_line(ours[0], theirs[0]) and _match(ours[1:], theirs[1:])


def same_line(ours: str, theirs: str) -> bool:
    """Whether one line is shown as it is printed."""
    if ours == theirs:
        return True
    numbers: list[str] = []

    def any_number(found: re.Match[str]) -> str:
        numbers.append(found[0])
        return "\0"

    near = MEASURED.search(ours) is not None
    kept = _NUMBER.sub(any_number, ours) if near else ours
    pattern = ".*".join(re.escape(part) for part in kept.split("..."))
    found = re.fullmatch(pattern.replace("\0", r"(\d+\.\d+)"), theirs)
    if found is None:
        return False
    return all(_near(a, b) for a, b in zip(numbers, found.groups(), strict=True))


def _near(ours: str, theirs: str) -> bool:
    digits = len(ours.partition(".")[2])
    same = len(theirs.partition(".")[2]) == digits
    return same and abs(float(ours) - float(theirs)) < 1.5 * 10.0**-digits
