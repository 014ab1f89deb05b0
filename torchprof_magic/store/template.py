"""How does a trace get its folder and name from a template, without ever leaving the folder that was asked for?

A template is plain text with ``{name}`` in it, or ``{name:04d}`` for a whole number with leading zeros. Nothing else of
Python's format language is understood, because it reaches into objects and can ask for gigabytes of spaces. Everything
that is wrong with a template is said when it is parsed, which is before the run.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from torchprof_magic.distributed import number_of
from torchprof_magic.errors import OptionsError
from torchprof_magic.files.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

# What may stand between the braces, in the order in which it is offered.
FIELDS: Mapping[str, str] = {
    "run_name": "the name given to the run",
    "rank": "the number of this process among all, from RANK",
    "local_rank": "the number of this process on its node, from LOCAL_RANK",
    "world_size": "how many processes there are, from WORLD_SIZE",
    "local_world_size": "how many processes there are on this node, from LOCAL_WORLD_SIZE",
    "node_rank": "the number of the node, from NODE_RANK or GROUP_RANK",
    "step": "the last step of the cycle",
    "cycle": "the number of the cycle, counted from 0",
    "epoch": "how often the loop of the steps had been entered before",
    "batch": "the number of the last step in its epoch, counted from 0",
    "pid": "the number of this process on its machine",
    "timestamp": "the time in UTC, such as 20260102-030405",
    "cell": "the execution count of the notebook cell",
}
TEXT_FIELDS = frozenset({"run_name", "timestamp"})
# A folder is made once, before the run; what changes during the run belongs into the name of the file.
CHANGING_FIELDS = frozenset({"step", "cycle", "epoch", "batch"})
OWN_PREFIX = ".torchprof"  # names that begin so belong to the store itself
MOST_DIGITS = 20  # of a padded number; every 64-bit number fits
MOST_NAME_BYTES = 255  # of one part of a path, on every common file system
TIMESTAMP = "%Y%m%d-%H%M%S"

_PIECE = re.compile(r"\{([a-z_]+)(?::0([1-9][0-9]?)d)?\}|([^{}]+)")
_RESERVED = frozenset('<>:"|?*\\')
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SUFFIX = re.compile(r"(?i)(\.pt)?(\.trace)?(\.json)?(\.gz)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceValues:
    """What a template can tell about one trace; ``dataclasses.replace`` makes the values of the next one."""

    run_name: str = "run"
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0
    step: int = 0
    cycle: int = 0
    epoch: int = 0
    batch: int = 0
    pid: int = field(default_factory=os.getpid)
    timestamp: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    cell: int = 0


def rank_values(environ: Mapping[str, str] = os.environ) -> TraceValues:
    """Return values with the ranks of this process as launchers such as torchrun tell them.

    A variable that is missing, or is no number, counts as rank 0 of 1.
    """
    node = _count(environ, "NODE_RANK", -1)
    return TraceValues(
        rank=_count(environ, "RANK", 0),
        local_rank=_count(environ, "LOCAL_RANK", 0),
        world_size=max(1, _count(environ, "WORLD_SIZE", 1)),
        local_world_size=max(1, _count(environ, "LOCAL_WORLD_SIZE", 1)),
        node_rank=node if node >= 0 else _count(environ, "GROUP_RANK", 0),
    )


def rank_flaw(environ: Mapping[str, str] = os.environ) -> str:
    """Say why the rank of this process is not known, or return nothing."""
    text, world_size = environ.get("RANK", "").strip(), max(1, _count(environ, "WORLD_SIZE", 1))
    if not text:
        return f"RANK is not set, although WORLD_SIZE is {world_size}" if world_size > 1 else ""
    rank = number_of(environ, "RANK")
    if rank is not None and rank < world_size:
        return ""
    return f"RANK is {text[:MOST_DIGITS]!a}, and WORLD_SIZE is {world_size}"


def _count(environ: Mapping[str, str], name: str, default: int) -> int:
    number = number_of(environ, name)
    return default if number is None else number


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some text as it is, or a field; ``digits`` is the least number of digits of a padded number."""

    text: str = ""
    field: str = ""
    digits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A template that has been found good; ``option`` is the flag it was given with."""

    text: str
    pieces: tuple[Piece, ...]
    option: str
    is_folder: bool = False

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields in use."""
        return frozenset(piece.field for piece in self.pieces if piece.field)

    def format(self, values: TraceValues) -> Path:
        """Return the folder, or the name of a file in it.

        Raises ``OptionsError`` when a value cannot be part of a path, or when the result is none.
        """
        text = "".join(piece.text or _text_of(piece, values, self.option) for piece in self.pieces)
        flaw = _flaw_of_path(text, is_folder=self.is_folder)
        if flaw:
            raise OptionsError(f"{self.option} {self.text!r}: {flaw}")
        return _at_home(text, self.option) if self.text.startswith("~") else Path(text)

    def told_apart(self, *, cycles: int | None, world_size: int) -> Template:
        """Return a template that gives every trace of a run a name of its own.

        ``-rank{rank}`` is put before the suffix when there are several processes and nothing tells them apart, and
        ``-cycle{cycle}`` when there are several cycles, or nobody knows how many (``None``).
        """
        addition = ""
        if world_size > 1 and not (self.fields & {"rank"} or {"local_rank", "node_rank"} <= self.fields):
            addition += "-rank{rank}"
        if cycles != 1 and not (self.fields & {"cycle", "step"} or {"epoch", "batch"} <= self.fields):
            addition += "-cycle{cycle}"
        if not addition:
            return self
        suffix = _SUFFIX.search(self.text)
        at = suffix.start() if suffix else len(self.text)
        return parse_filename(self.text[:at] + addition + self.text[at:], option=self.option)


def parse_filename(text: str, *, option: str = "--filename") -> Template:
    """Return the template of a file's name: one name, without any folder.

    Raises ``OptionsError`` that says what is wrong, and which fields there are.
    """
    return _checked(Template(text=text, pieces=_pieces(text, option), option=option))


def parse_folder(text: str, *, option: str = "--trace-dir") -> Template:
    """Return the template of a folder, which may be absolute or begin with ``~`` for the home folder.

    Raises ``OptionsError`` that says what is wrong, and which fields there are.
    """
    if is_url(text):
        raise OptionsError(f"{option} is a folder of this machine; --remote takes an address elsewhere")
    template = Template(text=text, pieces=_pieces(text, option), option=option, is_folder=True)
    changing = sorted(template.fields & CHANGING_FIELDS)
    if changing:
        raise OptionsError(f"{option} {text!r}: {{{changing[0]}}} changes during the run; use it in --filename")
    return _checked(template)


def _checked(template: Template) -> Template:
    """Find what is wrong whatever the values are, by trying the shortest there can be."""
    template.format(TraceValues(run_name="r", pid=0))
    return template


def _pieces(text: str, option: str) -> tuple[Piece, ...]:
    pieces = []
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise OptionsError(f"{option} {text!r}: {_flaw_of_braces(text, at)}")
        name, digits, plain = match.groups()
        pieces.append(Piece(text=plain) if plain else _field_piece(name, int(digits or 0), f"{option} {text!r}"))
        at = match.end()
    return tuple(pieces)


def _field_piece(name: str, digits: int, where: str) -> Piece:
    if name not in FIELDS:
        raise OptionsError(f"{where}: there is no field {{{name}}}; choose from {', '.join(FIELDS)}")
    if digits and name in TEXT_FIELDS:
        raise OptionsError(f"{where}: {{{name}}} is no number and cannot be padded")
    if digits > MOST_DIGITS:
        raise OptionsError(f"{where}: a number can be padded to {MOST_DIGITS} digits at most (got {digits})")
    return Piece(field=name, digits=digits)


def _flaw_of_braces(text: str, at: int) -> str:
    """Say what is wrong with the brace at this place."""
    inner, closing, _ = text[at + 1 :].partition("}")
    if text[at] == "}":
        return "a } has no { before it"
    if not closing or "{" in inner:
        return "a { has no } after it; braces cannot be nested or doubled"
    if "!" in inner:
        return f"{{{inner}}}: conversions are not allowed; write {{name}} or {{name:04d}}"
    if "." in inner or "[" in inner:
        return f"{{{inner}}}: attributes and indexes are not allowed; write {{name}} or {{name:04d}}"
    if ":" in inner:
        return f"{{{inner}}}: a number can only be padded with zeros, as in {{step:06d}}"
    return f"there is no field {{{inner}}}; choose from {', '.join(FIELDS)}"


def _text_of(piece: Piece, values: TraceValues, option: str) -> str:
    value: int | str | datetime = getattr(values, piece.field)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).strftime(TIMESTAMP)
    if isinstance(value, str):
        flaw = _flaw_of_word(value)
        if flaw:
            raise OptionsError(f"{option}: the {piece.field} {value!r} {flaw}; choose another")
        return value
    return f"{int(value):0{piece.digits}d}" if piece.digits else str(int(value))


def _at_home(text: str, option: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as exc:
        raise OptionsError(f"{option} {text!r}: nobody knows this home folder; write the folder out") from exc


def _flaw_of_word(word: str) -> str:
    """Say why a value cannot be part of a name, or return nothing."""
    if not word:
        return "is empty"
    if "/" in word:
        return "contains a slash"
    if ".." in word or word == ".":
        return "leads to another folder"
    if word.startswith("~"):
        return "begins with ~"
    bad = _reserved_in(word, _RESERVED)
    return f"contains {bad}, which names of files cannot have" if bad else ""


def _flaw_of_path(text: str, *, is_folder: bool) -> str:
    """Say why a text is no folder, or no name of a file in one, or return nothing."""
    if not text:
        return "this is empty"
    bad = _reserved_in(text, _RESERVED_IN_FOLDERS if is_folder else _RESERVED)
    if bad:
        return f"this contains {bad}, which names of files cannot have"
    if not is_folder and "/" in text:
        return "this is more than a name; folders belong into --trace-dir"
    if not is_folder and text.startswith(OWN_PREFIX):
        return f"names that begin with {OWN_PREFIX} are kept for the store itself"
    if ".." in text.split("/"):
        return "this leads to another folder (..)"
    return next(filter(None, map(_flaw_of_part, PurePosixPath(text).parts if is_folder else (text,))), "")


# A folder is typed by the user for their own machine, where it may already be there.
_RESERVED_IN_FOLDERS = _RESERVED - ({":", "\\"} if sys.platform == "win32" else {":"})


def check_name(name: str, option: str = "--filename") -> str:
    """Return a file's name; raise ``OptionsError`` when it can be none, or would be in another folder."""
    flaw = _flaw_of_path(name, is_folder=False)
    if flaw:
        raise OptionsError(f"{option} {name!r}: {flaw}")
    return name


def numbered(name: str, number: int) -> str:
    """Return a file's name with ``-number`` before its suffix, for a trace whose name is taken."""
    suffix = _SUFFIX.search(name)
    at = suffix.start() if suffix and suffix[0] else len(name) - len(PurePosixPath(name).suffix)
    return check_name(f"{name[:at]}-{number}{name[at:]}")


def _reserved_in(text: str, reserved: frozenset[str]) -> str:
    """Return the first character that no name should have, as it is to be shown, or nothing."""
    return next((ascii(char) for char in text if char in reserved or not char.isprintable()), "")


def _flaw_of_part(part: str) -> str:
    if len(part.encode()) > MOST_NAME_BYTES:
        return f"a name can have {MOST_NAME_BYTES} bytes at most (got {len(part.encode())})"
    if part != part.rstrip(". ") and part != "/":
        return "a name cannot end in a dot or a space"
    return f"{part} is the name of a device" if _DEVICE.fullmatch(part) else ""
