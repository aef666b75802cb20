"""The methods, one paper per file; each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tacit.algorithms.names import CLASSES

__all__ = sorted(CLASSES)


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{CLASSES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
