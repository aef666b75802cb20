"""Configurations and options, checked: a mistake is one sentence that says what to write instead.

``validated`` checks a file or section against its pydantic model, ``check_names`` and
``check_types`` the options of a named thing (a task, an algorithm, a column), ``nearest`` ends the
sentence about a name that does not exist.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tacit.errors import ConfigError

# How pydantic calls the members of a union on the way to a mistake.
_MEMBERS = ("Section", "Config", "'none']", "str", "int", "float", "path")
Model = TypeVar("Model", bound=BaseModel)


class Limits(NamedTuple):
    """The numbers that an annotated field may hold, and the words for them."""

    low: float
    high: float
    words: str
    low_too: bool = False
    high_too: bool = False

    def hold(self, value: float) -> bool:
        """Whether a number is within the limits."""
        above = value > self.low or (self.low_too and value == self.low)
        return above and (value < self.high or (self.high_too and value == self.high))


Positive = Annotated[float, Limits(0, math.inf, "a positive number")]
NotNegative = Annotated[float, Limits(0, math.inf, "0 or more", low_too=True)]
OneOrMore = Annotated[float, Limits(1, math.inf, "at least 1", low_too=True)]
ZeroToOne = Annotated[float, Limits(0, 1, "0 to 1", low_too=True, high_too=True)]
WholeNumber = Annotated[int, Limits(0, math.inf, "0 or more", low_too=True)]
AtLeastOne = Annotated[int, Limits(1, math.inf, "at least 1", low_too=True)]
Momentum = Annotated[float, Limits(0, 1, "0 up to below 1", low_too=True)]
Share = Annotated[float, Limits(0, 1, "a number between 0 and 1")]
Probability = Annotated[float, Limits(0, 1, "a number above 0 and at most 1", high_too=True)]


class Section(BaseModel):
    """A table of a configuration: no key beside those that it names, no type but theirs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def nearest(word: str, known: Iterable[str]) -> str:
    """An ending for a sentence: what was probably meant, or everything that is allowed."""
    choices = sorted(known)
    close = difflib.get_close_matches(word, choices, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    return f": choose one of {', '.join(choices)}." if choices else ": there is nothing to choose."


def validated(kind: type[Model], values: Mapping[str, Any], what: str, within: str = "") -> Model:
    """The values as a model; ``within`` is the section that they are, of the file ``what``."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_sentence(kind, error, values, what, within)) from None


def check_names(
    what: str, given: Iterable[str], known: Iterable[str], kind: str = "option"
) -> None:
    """Refuse an option that does not exist, with the nearest one that does."""
    allowed = list(known)
    for key in given:
        if key not in allowed:
            raise ConfigError(f"{what} has no {kind} {key!r}{nearest(key, allowed)}")


def check_limits(value: Any) -> None:
    """Refuse a dataclass with a field outside the limits of its annotation; None is no number."""
    kind: Any = type(value)
    for name, limits in _limits(kind):
        given = getattr(value, name)
        if given is not None and not limits.hold(given):
            raise ConfigError(f"{name} is {given}; give {limits.words}.")


@cache
def _limits(cls: Hashable) -> list[tuple[str, Limits]]:
    found = []
    for name, hint in get_type_hints(cls, include_extras=True).items():
        for part in (hint, *get_args(hint)):  # a field, or a field that may be None
            found += [(name, m) for m in getattr(part, "__metadata__", ()) if type(m) is Limits]
    return found


def check_types(what: str, given: Mapping[str, Any], cls: type) -> dict[str, Any]:
    """The options with their values checked against the class's own annotations."""
    hints = get_type_hints(cls, include_extras=True)
    return {key: _checked(what, key, value, hints[key]) for key, value in given.items()}


def _checked(what: str, key: str, value: Any, hint: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(_hashable(value), strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].replace("Input", "it", 1)
        raise ConfigError(f"the option {key!r} of {what} is {value!r}: {reason}.") from None


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value


def _sentence(
    kind: type[BaseModel], error: ValidationError, values: Mapping[str, Any], what: str, within: str
) -> str:
    # Where a section is a table or a word, the table's own mistake tells more.
    first = min(error.errors(), key=lambda e: e["type"] == "literal_error")
    place = _place(kind, first["loc"])
    where = ".".join([within, *place] if within else place)
    file = f" of {what}" if what.endswith(".toml") else ""
    if first["type"] == "extra_forbidden":
        return f"{what} has no key {where!r}{nearest(place[-1], _keys(kind, place[:-1]))}"
    if first["type"] == "missing":
        return f"{what} needs {where!r}: add it."
    if first["type"] in ("model_type", "dict_type"):
        none = " or privacy = 'none'" if where == "privacy" else ""
        return f"{where}{file} is {first['input']!r}: write a table [{where}]{none}."
    reason = first["msg"].removeprefix("Value error, ").replace("Input", "it", 1)
    given = values.get(place[0]) if len(place) == 1 else first.get("input")
    shown = f" ({given!r})" if isinstance(given, (str, int, float, bool)) else ""
    return f"[{where}]{shown}{file} is not usable: {reason.rstrip('.')}."


def _place(kind: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """The keys on the way to a mistake, without pydantic's names for the members of a union."""
    found: list[str] = []
    at: type[BaseModel] | None = kind
    for part in loc:
        if found and ("[" in str(part) or str(part).endswith(_MEMBERS)):
            continue
        found.append(str(part))
        at = _model_at(at, str(part))
    return found


def _keys(kind: type[BaseModel], place: list[str]) -> Iterable[str]:
    at: type[BaseModel] | None = kind
    for part in place:
        at = _model_at(at, part)
    return at.model_fields if at is not None else ()


def _model_at(kind: type[BaseModel] | None, key: str) -> type[BaseModel] | None:
    """The model behind a key, if it is a table with keys of its own."""
    field = None if kind is None else kind.model_fields.get(key)
    if field is None:
        return None
    hints = [field.annotation, *get_args(field.annotation)]
    return next((h for h in hints if isinstance(h, type) and issubclass(h, BaseModel)), None)
