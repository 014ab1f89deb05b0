"""Names of folders and files from templates, which can never lead out of the folder that the user named.

A template holds ``{field}``, ``{field:04d}`` for a number with leading zeros, or ``{field:.1f}`` for seconds. The rest
of Python's format syntax is refused, because it can reach into objects or ask for gigabytes of padding. Templates are
checked before anything runs. The fields have the names and the meaning that they have in Composer.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from string import Formatter
from urllib.parse import quote

from torchprof_magic.model.errors import OptionsError
from torchprof_magic.system.files.urls import is_url, public_path

FILENAME, FOLDER, REMOTE = "--filename", "--trace-dir", "--remote"
TEXT_FIELDS = frozenset({"run_name", "timestamp"})
# The folder is made before the run, so it cannot depend on what changes during the run.
SECONDS = ("total_wct", "epoch_wct", "batch_wct")
_OF_EPOCH = ("batch_in_epoch", "sample_in_epoch", "token_in_epoch")
CHANGING_FIELDS = frozenset({"step", "cycle", "epoch", "batch", "sample", "token", *_OF_EPOCH, *SECONDS})
# What only the user knows, and the option that tells it.
TOLD_BY = {
    "sample": ("--step-samples", "the number of samples in a step"),
    "sample_in_epoch": ("--step-samples", "the number of samples in a step"),
    "token": ("--step-tokens", "the number of tokens in a step"),
    "token_in_epoch": ("--step-tokens", "the number of tokens in a step"),
}
# Alone, or together, each of these sets gives the traces of one run different names.
_APART = ({"cycle"}, {"step"}, {"batch"}, {"sample"}, {"token"}, {"epoch", "batch_in_epoch"})
OWN_PREFIX = ".torchprof"  # file names with this beginning are used by the store itself
MOST_NAME_BYTES = 255  # for one part of a path, on every common file system
TIMESTAMP = "%Y%m%d-%H%M%S"

_PADDED = re.compile(r"0([1-9]|1[0-9]|20)d")  # every 64-bit number fits
_ROUNDED = re.compile(r"\.[0-6]f")
_NUMBER = re.compile(r"[2-9]|[1-9][0-9]{1,8}", re.ASCII)
_HTTP = ("http://", "https://")
_RESERVED = frozenset('/<>:"|?*\\')
_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SUFFIX = re.compile(r"(?i)(\.snapshot\.pickle|(\.pt)?(\.trace)?(\.json)?(\.gz)?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceValues:
    """The values of one trace for the fields of a template; docs/traces.md says what each means.

    ``None`` stands for what the user has not told. Times are seconds.
    """

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
    batch_in_epoch: int = 0
    sample: int | None = 0
    sample_in_epoch: int | None = 0
    token: int | None = 0
    token_in_epoch: int | None = 0
    total_wct: float = 0.0
    epoch_wct: float = 0.0
    batch_wct: float = 0.0
    pid: int = field(default_factory=os.getpid)
    timestamp: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    cell: int = 0


FIELDS = tuple(each.name for each in fields(TraceValues))


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A checked template. A piece is plain text, then the name of a field or nothing, and the padding of its value.

    ``flag`` is the flag that it was given with.
    """

    text: str
    pieces: tuple[tuple[str, str, str], ...]
    flag: str = FILENAME

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields in use."""
        return frozenset(name for _, name, _ in self.pieces if name)

    def format(self, values: TraceValues) -> str:
        """Return the folder, the URL or the file name. Raises ``OptionsError`` when a value makes it invalid."""
        text = "".join(plain + self._filled(name, spec, values) for plain, name, spec in self.pieces)
        flaw = {FOLDER: _flaw_of_folder, FILENAME: _flaw_of_name}.get(self.flag, _no_flaw)(text)
        if flaw:
            raise OptionsError(f"{self.flag} {self.text!r}: {flaw}")
        return text

    def _filled(self, name: str, spec: str, values: TraceValues) -> str:
        value = getattr(values, name) if name else ""
        if value is None:
            option, what = TOLD_BY[name]
            raise OptionsError(f"{self.flag} {self.text!r}: {{{name}}} needs {option}, {what}")
        if name in SECONDS:
            return format(value, spec or ".6f")
        if isinstance(value, datetime):
            return value.astimezone(timezone.utc).strftime(TIMESTAMP)
        flaw = _flaw_of_name(value) if name in TEXT_FIELDS else ""
        if flaw:
            raise OptionsError(f"--{name.replace('_', '-')} {value!r}: {flaw}")
        text = format(value, spec)
        return quote(text, safe="") if self.flag == REMOTE and self.text.startswith(_HTTP) else text

    def told_apart(self, *, cycles: int | None, world_size: int) -> Template:
        """Return a template that gives every trace of a run a name of its own.

        It adds ``-rank{rank}`` for several processes and ``-cycle{cycle}`` for several cycles, or an unknown number of
        them (``None``), unless the fields in use already tell them apart.
        """
        stem, suffix = split_suffix(self.text)
        if world_size > 1 and not (self.fields & {"rank"} or {"local_rank", "node_rank"} <= self.fields):
            stem += "-rank{rank}"
        if cycles != 1 and not any(fields <= self.fields for fields in _APART):
            stem += "-cycle{cycle}"
        return parse_filename(stem + suffix)


def parse_filename(text: str) -> Template:
    """Return the template of a file name. Raises ``OptionsError`` that says what is wrong and which fields exist."""
    return _checked(Template(text=text, pieces=_pieces(text, text, FILENAME)))


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
    return _checked_constant(Template(text=text, pieces=_pieces(home, text, FOLDER), flag=FOLDER))


def parse_remote(url: str) -> Template:
    """Return the template of the URL of a remote folder. Its messages show no credentials.

    Raises ``OptionsError`` that says what is wrong and which fields exist.
    """
    shown = public_path(url)
    if "{" not in url and "}" not in url:
        return Template(text=shown, pieces=((url, "", ""),), flag=REMOTE)
    return _checked_constant(Template(text=shown, pieces=_pieces(url, shown, REMOTE), flag=REMOTE))


def _checked_constant(template: Template) -> Template:
    """Check a template whose value must be known before the run."""
    changing = sorted(template.fields & CHANGING_FIELDS)
    if changing:
        raise OptionsError(
            f"{template.flag} {template.text!r}: {{{changing[0]}}} changes during the run; use it in --filename"
        )
    return _checked(template)


def _checked(template: Template) -> Template:
    """Find what is wrong for all values, with the shortest ones."""
    template.format(TraceValues(run_name="r", pid=0))
    return template


def _pieces(text: str, shown: str, flag: str) -> tuple[tuple[str, str, str], ...]:
    try:
        found = list(Formatter().parse(text))
    except ValueError as exc:
        raise OptionsError(f"{flag} {shown!r}: {exc}") from exc
    for _, name, spec, conversion in found:
        flaw = "" if name is None else _flaw_of_field(name, spec or "", conversion)
        if flaw:
            raise OptionsError(f"{flag} {shown!r}: {flaw}")
    return tuple((plain, name or "", spec or "") for plain, name, spec, _ in found)


def _flaw_of_field(name: str, spec: str, conversion: str | None) -> str:
    if name not in FIELDS:
        return f"there is no field {{{name}}}; choose from {', '.join(FIELDS)}"
    if conversion is not None or (spec and name in TEXT_FIELDS):
        return f"write {{{name}}}; this field has no other format"
    if spec and name in SECONDS and not _ROUNDED.fullmatch(spec):
        return f"write {{{name}}}, or {{{name}:.1f}} for fewer digits, up to 6"
    if spec and name not in SECONDS and not _PADDED.fullmatch(spec):
        return f"write {{{name}}}, or {{{name}:04d}} for leading zeros, up to 20 digits"
    return ""


def check_name(name: str, flag: str = FILENAME) -> str:
    """Return a file name; raises ``OptionsError`` when it is invalid or leads to another folder."""
    flaw = _flaw_of_name(name)
    if flaw:
        raise OptionsError(f"{flag} {name!r}: {flaw}")
    return name


def split_suffix(name: str) -> tuple[str, str]:
    """Return a file name, or its template, in two parts: before and from the suffix of a trace or snapshot."""
    found = _SUFFIX.search(name)
    at = found.start() if found else len(name)
    return name[:at], name[at:]


def number_in(name: str, template: str) -> int:
    """Return the number that ``numbered`` put into ``name``: 1 for ``template`` itself, 0 for another name."""
    stem, suffix = split_suffix(template)
    if name == template:
        return 1
    if not (name.startswith(f"{stem}-") and name.endswith(suffix)):
        return 0
    digits = name[len(stem) + 1 : len(name) - len(suffix)]
    return int(digits) if _NUMBER.fullmatch(digits) else 0


def numbered(name: str, number: int) -> str:
    """Return a file name with ``-number`` before its suffix, for a name that is taken; number 1 adds nothing."""
    stem, suffix = split_suffix(name)
    return f"{stem}-{number}{suffix}" if number > 1 else name


def _no_flaw(_text: str) -> str:
    """Accept a URL; the upload checks it."""
    return ""


def _flaw_of_folder(text: str) -> str:
    """Return why a text is not a folder, or nothing; the system says the rest when the folder is made."""
    if not text:
        return "the folder is empty"
    if ".." in PurePosixPath(text).parts:
        return "'..' leads to another folder"
    return _flaw_of_characters("".join(char for char in text if not _is_byte(char)), reserved=frozenset())


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


def _is_byte(char: str) -> bool:
    """Return whether a character stands for a byte of a path that the system's encoding does not know."""
    return "\udc80" <= char <= "\udcff" and os.fsencode(char) == bytes((ord(char) - 0xDC00,))


def _flaw_of_characters(text: str, reserved: frozenset[str]) -> str:
    bad = next((ascii(char) for char in text if char in reserved or not char.isprintable()), "")
    hint = "; --trace-dir sets the folder" if bad == "'/'" else ""
    return f"a file name cannot contain {bad}{hint}" if bad else ""
