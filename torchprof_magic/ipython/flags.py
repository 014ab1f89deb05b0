"""The flags of ``%%torchprof`` and the defaults of ``%config TorchProfMagics``, built from the table of options."""

from __future__ import annotations

import builtins
import json
import keyword
import os
import re
import unicodedata
from argparse import BooleanOptionalAction
from itertools import groupby
from string import Template
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, argument_group, magic_arguments, parse_argstring
from traitlets import Bool, CaselessStrEnum, Dict, Float, HasTraits, Int, TraitType, Unicode, Union

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.options import ACTIVITIES, OPTIONS, Kind, Option, closest_flag, meant, resolved

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

# A word, or several in quotes; and a flag. Other words with a minus, such as -1, belong to a statement.
_WORD = re.compile(r"""\s*("[^"]*"|'[^']*'|\S+)""")
_FLAG = re.compile(r"--|-[oq]\b")
# Variables of IPython: inputs, outputs, folders, and what ends it; and the inputs and outputs by number, _i3 and _3.
_OF_IPYTHON = frozenset(
    ("In", "Out", "get_ipython", "exit", "quit", "_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh")
)
_OF_HISTORY = re.compile(r"_i?[0-9]+")
# What argparse says of a flag that does not exist.
_UNKNOWN = re.compile(r"unrecognized arguments: (--\S+)")
_DUNDER = re.compile(r"__.*__")


def flagged(function: Any) -> Any:
    """Decorate the cell magic with its flags, in groups, in the order of the table."""
    arguments: list[Any] = []
    for group, options in groupby(OPTIONS.values(), key=lambda option: option.group):
        arguments += [argument_group(group), *(each for option in options for each in _arguments(option))]
    for decorate in reversed([magic_arguments("%torchprof"), *arguments]):
        function = decorate(function)
    return function


def _arguments(option: Option) -> list[Any]:
    names = [*([option.short] if option.short else []), option.dashed]
    # Every default is None, which marks a flag that was not given.
    how: dict[str, Any] = {"dest": option.name, "default": None, "help": option.help.replace("%", "%%")}
    if option.kind in (Kind.SWITCH, Kind.YES_NO):
        if option.is_of_run:  # there is no default that a --no- flag could turn off
            return [argument(*names, action="store_const", const=True, **how)]
        return [argument(*names, action=BooleanOptionalAction, **how)]
    how["metavar"] = option.metavar
    by_kind: dict[Kind, Any] = {Kind.COUNT: int, Kind.SECONDS: float, Kind.SECONDS_OR_YES: float}
    if option.kind in (Kind.PATH_OR_YES, Kind.SECONDS_OR_YES):
        off = {"dest": option.name, "action": "store_const", "const": False, "help": f"Turn off {option.dashed}."}
        return [
            argument(*names, type=by_kind.get(option.kind, _unquoted), nargs="?", const=True, **how),
            argument(f"--no-{option.flag}", **off),
        ]
    if option.kind is Kind.METADATA:
        return [argument(*names, type=_unquoted, action="append", **how)]
    return [argument(*names, type=by_kind.get(option.kind, _unquoted), **how)]


def _trait(option: Option) -> TraitType[Any, Any]:
    """Return the trait that holds an option's default. The default of a variable is its name."""
    by_kind: dict[Kind, TraitType[Any, Any]] = {
        Kind.COUNT: Int(None, allow_none=True),
        Kind.SECONDS: Float(None, allow_none=True),
        Kind.SECONDS_OR_YES: Union([Bool(), Float()], default_value=False),
        Kind.SWITCH: Bool(None, allow_none=True),
        Kind.YES_NO: Bool(None, allow_none=True) if option.default is None else Bool(default_value=False),
        Kind.CHOICE: CaselessStrEnum(list(option.choices), option.default_of_magics or option.default),
        Kind.PATH_OR_YES: Union([Bool(), Unicode()], default_value=False),
        Kind.METADATA: Dict(),
        Kind.VARIABLE: Unicode(None, allow_none=True),
    }
    found = by_kind.get(option.kind) or Unicode(option.default or "")
    found.help = option.help
    return found.tag(config=True)


class FlagDefaults(HasTraits):
    """The defaults of the flags; set one with ``%config TorchProfMagics.NAME = VALUE``."""

    locals().update({option.flag: _trait(option) for option in OPTIONS.values() if not option.is_of_run})


def values_of(args: Namespace, defaults: FlagDefaults, variables: Mapping[str, object]) -> dict[str, Any]:
    """Return a value for every option: from the line, a preset, ``%config``, or its default.

    ``variables`` are the user's variables, which some flags refer to by name. Raises ``OptionsError``.
    """
    given = {name: getattr(args, name) for name in OPTIONS}
    if given["metadata"] is not None:
        given["metadata"] = _metadata_of(given["metadata"])
    configured = {name: getattr(defaults, option.flag) for name, option in OPTIONS.items() if not option.is_of_run}
    values = resolved(given, configured)
    return {name: _looked_up(OPTIONS[name], value, variables) for name, value in values.items()}


def _looked_up(option: Option, value: Any, variables: Mapping[str, object]) -> Any:
    """Replace the names of variables with their values."""
    if not isinstance(value, str):
        return value
    if option.kind in (Kind.PATH, Kind.PATH_OR_YES):
        return _expanded(option, value, variables)
    if option.kind is Kind.VARIABLE:
        if value not in variables:
            raise OptionsError(f"{option.dashed} needs the name of a variable, and {value!r} is not defined")
        return variables[value]
    if option.kind is Kind.ACTIVITIES:
        names = value.replace(",", " ").split()
        is_variable = len(names) == 1 and names[0].lower() not in ACTIVITIES and names[0] in variables
        return variables[names[0]] if is_variable else names
    return value


def _expanded(option: Option, text: str, variables: Mapping[str, object]) -> str:
    """Replace ``$NAME`` with the value of a user's or an environment variable.

    IPython does this for the line of other magics, but it would also expand the braces of a template.
    """
    try:
        return Template(text).substitute({**os.environ, **variables})
    except KeyError as exc:
        raise OptionsError(f"{option.dashed}: variable {exc.args[0]!r} is not defined (got {text!r})") from None
    except ValueError:
        raise OptionsError(f"{option.dashed}: write $$ for a dollar sign (got {text!r})") from None


def _metadata_of(texts: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in map(_metadata, texts):
        if key in found:
            raise OptionsError(f"--metadata: {key!r} is given twice")
        found[key] = value
    return found


def _metadata(text: str) -> tuple[str, object]:
    """Return a key and its value. A value that is not JSON is a string, so ``run=3b`` needs no quotes."""
    key, sign, value = text.partition("=")
    if not sign:
        raise OptionsError(f"--metadata takes KEY=JSON (got {text!r})")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value


def parsed_flags(function: Any, line: str) -> Namespace:
    """Return the flags of a line; raises ``UsageError``, with the flag that an unknown one is nearly."""
    try:
        return parse_argstring(function, line)
    except UsageError as exc:
        unknown = _UNKNOWN.match(str(exc))
        raise UsageError(f"{exc}{meant(closest_flag(unknown[1])) if unknown else ''}") from None


def split_flags(line: str, parser: ArgumentParser) -> tuple[str, str]:
    """Return the flags at the beginning of a line and the statement after them; ``--`` also ends the flags."""
    at = 0
    while (found := _WORD.match(line, at)) is not None and _FLAG.match(found[1]):
        at = found.end()
        if found[1] == "--":
            return line[: found.start()].strip(), line[at:].strip()
        action = parser._option_string_actions.get(found[1])  # noqa: SLF001 - there is no public way
        value = _WORD.match(line, at) if action is not None and action.nargs is None else None
        at = value.end() if value else at
    return line[:at].strip(), line[at:].strip()


def checked_variable(name: str | None) -> str:
    """Return the name of a variable for a report, as Python writes it; an empty text for none.

    Raises ``UsageError`` for a name that is not valid, or whose value Python, IPython or the program need.
    """
    if not name:
        return ""
    written = unicodedata.normalize("NFKC", name)  # as Python reads a name in code
    if not written.isidentifier() or keyword.iskeyword(written):
        raise UsageError(f"-o needs a valid variable name (got {name!r})")
    if _DUNDER.fullmatch(written):
        raise UsageError(f"-o {name}: Python itself uses names like this; choose another one")
    if written in _OF_IPYTHON or _OF_HISTORY.fullmatch(written):
        raise UsageError(f"-o {name}: IPython itself uses this name; choose another one")
    if hasattr(builtins, written):
        raise UsageError(f"-o {name}: this would replace Python's {written}; choose another name")
    return written


def _unquoted(text: str) -> str:
    """Return the text without the quotes that IPython leaves around values with spaces."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text
