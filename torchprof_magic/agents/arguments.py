"""The arguments of a tool: their schema, from its signature, and whether what a client sent fits it."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from torchprof_magic.agents.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Of a text that a client sends; queries have a limit of their own.
MOST_CHARS = 100_000
MOST_ITEMS = 200
_KINDS: dict[object, tuple[str, str]] = {
    str: ("string", "a text"),
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    bool: ("boolean", "true or false"),
    list[str]: ("array", "a list of texts"),
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that a number may be."""

    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a tool; ``choices`` are all its values, if they are known."""

    name: str
    kind: object
    description: str
    bounds: Bounds | None
    choices: tuple[str, ...]
    default: Any

    @property
    def is_needed(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def schema(self) -> dict[str, object]:
        """The JSON schema of the argument."""
        found: dict[str, object] = {"type": _KINDS[self.kind][0], "description": self.description}
        if self.kind == list[str]:
            found["items"] = {"type": "string"}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.bounds is not None:
            found |= {"minimum": self.bounds.least, "maximum": self.bounds.most}
        return found if self.is_needed else found | {"default": self.default}

    def value(self, given: object) -> object:
        """Return what a client gave; raises ``ToolError`` if it does not fit."""
        # JSON has only one kind of numbers.
        if self.kind is int and isinstance(given, float) and given.is_integer():
            given = int(given)
        if not self._is_kind(given):
            raise ToolError(f"{self.name} must be {_KINDS[self.kind][1]}")
        if self.choices and given not in self.choices:
            raise ToolError(f"{self.name} must be one of {', '.join(self.choices)}")
        if self.bounds is not None and not self.bounds.least <= given <= self.bounds.most:  # type: ignore[operator]
            raise ToolError(f"{self.name} must be from {self.bounds.least} to {self.bounds.most}")
        return given

    def _is_kind(self, given: object) -> bool:
        if self.kind == list[str]:
            return isinstance(given, list) and len(given) <= MOST_ITEMS and all(map(_is_text, given))
        if self.kind is str:
            return _is_text(given)
        if self.kind is bool or isinstance(given, bool):
            return self.kind is bool and isinstance(given, bool)
        return isinstance(given, int) or (self.kind is float and isinstance(given, float) and isfinite(given))


def arguments_of(tool: Callable[..., object]) -> dict[str, Argument]:
    """Return the arguments of a tool by name."""
    hints = typing.get_type_hints(tool, include_extras=True)
    return {name: _argument(name, hints[name], each) for name, each in inspect.signature(tool).parameters.items()}


def schema_of(tool: Callable[..., object]) -> dict[str, object]:
    """Return the JSON schema of the arguments of a tool."""
    known = arguments_of(tool)
    return {
        "type": "object",
        "properties": {name: each.schema for name, each in known.items()},
        "required": [name for name, each in known.items() if each.is_needed],
        "additionalProperties": False,
    }


def description_of(tool: Callable[..., object]) -> str:
    """Return what a tool does, as its docstring says."""
    return inspect.getdoc(tool) or ""


def checked(tool: Callable[..., object], given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments that a client gave a tool; raises ``ToolError`` for what does not fit its schema."""
    known = arguments_of(tool)
    for name in given:
        if name not in known:
            raise ToolError(f"there is no argument {name[:100]!r}; the arguments are: {', '.join(known) or 'none'}")
    for name, each in known.items():
        if each.is_needed and name not in given:
            raise ToolError(f"the argument {name} is missing. {each.description}")
    return {name: known[name].value(value) for name, value in given.items()}


def _argument(name: str, hint: Any, parameter: inspect.Parameter) -> Argument:
    kind, *extras = typing.get_args(hint)
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
    return Argument(
        name=name,
        kind=str if choices else kind,
        description=next(each for each in extras if isinstance(each, str)),
        bounds=next((each for each in extras if isinstance(each, Bounds)), None),
        choices=choices,
        default=parameter.default,
    )


def _is_text(given: object) -> bool:
    return isinstance(given, str) and len(given) <= MOST_CHARS
