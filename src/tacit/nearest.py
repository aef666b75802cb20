"""The nearest valid name, for the sentence that answers a typo."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """An ending for a sentence: what was probably meant, or everything that is allowed."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    return f": choose one of {', '.join(choices)}." if choices else ": there is nothing to choose."
