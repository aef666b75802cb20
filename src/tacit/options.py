"""Options of a named thing (a task, an algorithm) from a configuration, checked one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from tacit.errors import ConfigError
from tacit.nearest import nearest


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that does not exist, with the nearest one that does."""
    allowed = list(known)
    for key in given:
        if key not in allowed:
            raise ConfigError(f"{what} has no option {key!r}{nearest(key, allowed)}")


def check_types(what: str, given: Mapping[str, Any], cls: type) -> dict[str, Any]:
    """The options with their values checked against the class's own annotations."""
    hints = get_type_hints(cls)
    return {key: _checked(what, key, value, hints[key]) for key, value in given.items()}


def _checked(what: str, key: str, value: Any, hint: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(_hashable(value), strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].replace("Input", "it", 1)
        raise ConfigError(f"the option {key!r} of {what} is {value!r}: {reason}.") from None


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value
