"""The event classes of dp_accounting, loaded without the rest of that package.

Importing ``dp_accounting`` loads all of its accountants and SciPy's signal processing. This takes
more than a second, and every Tacit command would have to wait for it. The events are in one file
without dependencies. It is loaded under its own module name, so a later import of the whole package
gets the same classes.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

_NAME = "dp_accounting.dp_event"


def _alone() -> ModuleType:
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    package = importlib.util.find_spec("dp_accounting")
    places = package.submodule_search_locations if package is not None else None
    path = Path(next(iter(places or [""]))) / "dp_event.py"
    spec = importlib.util.spec_from_file_location(_NAME, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        return importlib.import_module(_NAME)
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from dp_accounting import dp_event
else:
    dp_event = _alone()

__all__ = ["dp_event"]
