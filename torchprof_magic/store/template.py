"""Names of folders and files from templates, which can never lead out of the folder that the user named.

A template holds ``{field}``, or ``{field:04d}`` for a number with leading zeros. The rest of Python's format syntax is
refused, because it can reach into objects or ask for gigabytes of padding. Templates are checked before anything runs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from string import Formatter

from torchprof_magic.errors import OptionsError
from torchprof_magic.files.urls import is_url

TEXT_FIELDS = frozenset({"run_name", "timestamp"})
# The folder is made before the run, so it cannot depend on what changes during the run.
CHANGING_FIELDS = frozenset({"step", "cycle", "epoch", "batch"})
OWN_PREFIX = ".torchprof"  # file names with this beginning are used by the store itself
MOST_NAME_BYTES = 255  # for one part of a path, on every common file system
TIMESTAMP = "%Y%m%d-%H%M%S"

_PADDED = re.compile(r"0([1-9]|1[0-9]|20)d")  # every 64-bit number fits
_RESERVED = frozenset('/<>:"|?*\\')
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SUFFIX = re.compile(r"(?i)(\.snapshot\.pickle|(\.pt)?(\.trace)?(\.json)?(\.gz)?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceValues:
    """The values of one trace for the fields of a template; docs/traces.md says what each means."""

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


FIELDS = tuple(each.name for each in fields(TraceValues))


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A checked template. A piece is plain text, then the name of a field or nothing, and the padding of its value."""

    text: str
    pieces: tuple[tuple[str, str, str], ...]
    is_folder: bool = False

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields in use."""
        return frozenset(name for _, name, _ in self.pieces if name)

    def format(self, values: TraceValues) -> str:
        """Return the folder or the file name. Raises ``OptionsError`` when a value makes it invalid."""
        text = "".join(plain + self._filled(name, spec, values) for plain, name, spec in self.pieces)
        flaw = _flaw_of_folder(text) if self.is_folder else _flaw_of_name(text)
        if flaw:
            raise OptionsError(f"{_flag(is_folder=self.is_folder)} {self.text!r}: {flaw}")
        return text

    def _filled(self, name: str, spec: str, values: TraceValues) -> str:
        value = getattr(values, name) if name else ""
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc).strftime(TIMESTAMP)
        flaw = _flaw_of_name(value) if name in TEXT_FIELDS else ""
        if flaw:
            raise OptionsError(f"--{name.replace('_', '-')} {value!r}: {flaw}")
        return format(value, spec)

    def told_apart(self, *, cycles: int | None, world_size: int) -> Template:
        """Return a template that gives every trace of a run a name of its own.

        It adds ``-rank{rank}`` for several processes and ``-cycle{cycle}`` for several cycles, or an unknown number of
        them (``None``), unless the fields in use already tell them apart.
        """
        stem, suffix = split_suffix(self.text)
        if world_size > 1 and not (self.fields & {"rank"} or {"local_rank", "node_rank"} <= self.fields):
            stem += "-rank{rank}"
        if cycles != 1 and not (self.fields & {"cycle", "step"} or {"epoch", "batch"} <= self.fields):
            stem += "-cycle{cycle}"
        return parse_filename(stem + suffix)


def parse_filename(text: str) -> Template:
    """Return the template of a file name. Raises ``OptionsError`` that says what is wrong and which fields exist."""
    return _checked(Template(text=text, pieces=_pieces(text, text, is_folder=False)))


def parse_folder(text: str) -> Template:
    """Return the template of a folder, which may be absolute or begin with ``~``.

    Raises ``OptionsError`` that says what is wrong and which fields exist.
    """
    if is_url(text):
        raise OptionsError("--trace-dir must be a local folder; use --remote for a URL")
    try:
        home = str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError as exc:
        raise OptionsError(f"--trace-dir {text!r}: cannot resolve this home directory; write the path out") from exc
    template = Template(text=text, pieces=_pieces(home, text, is_folder=True), is_folder=True)
    changing = sorted(template.fields & CHANGING_FIELDS)
    if changing:
        raise OptionsError(f"--trace-dir {text!r}: {{{changing[0]}}} changes during the run; use it in --filename")
    return _checked(template)


def _flag(*, is_folder: bool) -> str:
    return "--trace-dir" if is_folder else "--filename"


def _checked(template: Template) -> Template:
    """Find what is wrong for all values, with the shortest ones."""
    template.format(TraceValues(run_name="r", pid=0))
    return template


def _pieces(text: str, shown: str, *, is_folder: bool) -> tuple[tuple[str, str, str], ...]:
    try:
        found = list(Formatter().parse(text))
    except ValueError as exc:
        raise OptionsError(f"{_flag(is_folder=is_folder)} {shown!r}: {exc}") from exc
    for _, name, spec, conversion in found:
        flaw = "" if name is None else _flaw_of_field(name, spec or "", conversion)
        if flaw:
            raise OptionsError(f"{_flag(is_folder=is_folder)} {shown!r}: {flaw}")
    return tuple((plain, name or "", spec or "") for plain, name, spec, _ in found)


def _flaw_of_field(name: str, spec: str, conversion: str | None) -> str:
    if name not in FIELDS:
        return f"there is no field {{{name}}}; choose from {', '.join(FIELDS)}"
    if conversion is not None or (spec and name in TEXT_FIELDS):
        return f"write {{{name}}}; this field has no other format"
    if spec and not _PADDED.fullmatch(spec):
        return f"write {{{name}}}, or {{{name}:04d}} for leading zeros, up to 20 digits"
    return ""


def check_name(name: str) -> str:
    """Return a file name; raises ``OptionsError`` when it is invalid or leads to another folder."""
    flaw = _flaw_of_name(name)
    if flaw:
        raise OptionsError(f"--filename {name!r}: {flaw}")
    return name


def split_suffix(name: str) -> tuple[str, str]:
    """Return a file name, or its template, in two parts: before and from the suffix of a trace or snapshot."""
    found = _SUFFIX.search(name)
    at = found.start() if found else len(name)
    return name[:at], name[at:]


def numbered(name: str, number: int) -> str:
    """Return a file name with ``-number`` before its suffix, for a name that is taken; number 1 adds nothing."""
    stem, suffix = split_suffix(name)
    return f"{stem}-{number}{suffix}" if number > 1 else name


def _flaw_of_folder(text: str) -> str:
    """Return why a text is not a folder, or nothing; the system says the rest when the folder is made."""
    if not text:
        return "the folder is empty"
    if ".." in PurePosixPath(text).parts:
        return "'..' leads to another folder"
    return _flaw_of_characters(text, reserved=frozenset())


def _flaw_of_name(name: str) -> str:
    """Return why a text is not a valid file name on every common system, or nothing."""
    if not name:
        return "the name is empty"
    if name.startswith(OWN_PREFIX):
        return f"names beginning with {OWN_PREFIX} are reserved"
    if flaw := _flaw_of_characters(name, reserved=_RESERVED):
        return flaw
    if len(name.encode()) > MOST_NAME_BYTES:
        return f"a file name can have {MOST_NAME_BYTES} bytes at most (got {len(name.encode())})"
    if name != name.rstrip(". "):
        return "a file name cannot end in a dot or a space"
    return f"{name} is the name of a device on Windows" if _DEVICE.fullmatch(name) else ""


def _flaw_of_characters(text: str, reserved: frozenset[str]) -> str:
    bad = next((ascii(char) for char in text if char in reserved or not char.isprintable()), "")
    hint = "; --trace-dir sets the folder" if bad == "'/'" else ""
    return f"a file name cannot contain {bad}{hint}" if bad else ""
