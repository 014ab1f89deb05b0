"""A recording without what tells of its machine and its program: folders, users, hosts, source text, environment."""

from __future__ import annotations

import dataclasses
import getpass
import re
import socket
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import polars as pl

from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.problems import problem
from torchprof_magic.model.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.model.meta import Meta, Problem
    from torchprof_magic.model.trace import Trace

USER, HOST = "user", "host"
# What can stand around a path; and a home folder, whose name may have spaces.
_AROUND_PATHS = re.compile(r"""([\s*?"'<>|,;()\[\]{}=]+)""")
_HOME_FOLDER = re.compile(r"\b(Users|home)([/\\])[^/\\\n\"'<>|]+(?=[/\\])", re.IGNORECASE)
_ROOT = re.compile(r"[A-Za-z]:[/\\]|[/\\]|~")
# A package, or a module of Python itself: what follows is the same on all machines.
_LIBRARY = re.compile(r"(?:site-packages|dist-packages|lib[/\\]python[0-9.]+)[/\\]")
_HOME = re.compile(r"(?:^|[/\\])(?:home|Users)[/\\]([^/\\\s\"']{2,})", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+|\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b")
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.\-]{1,20}://[^\s'\"<>]+")
# Metadata whose value tells of the machine, the person or the program.
_PRIVATE_KEY = re.compile(
    r"host|user|node|home|path|dir|folder|file|cwd|env|argv|cmd|command|author|mail|commit|branch|url", re.IGNORECASE
)
# One and several of what is left out.
_PATH, _ADDRESSES, _NAME = ("path", "paths"), ("address", "addresses"), ("user or host name", "user and host names")
_LINE, _CELL = ("line of source text", "lines of source text"), ("source of the cell", "sources of cells")
_CODE = ("file of generated code", "files of generated code")
_ENTRY = ("entry of the metadata", "entries of the metadata")
# Users that are the same on all machines.
_COMMON = {"root", "user", "jovyan", "ubuntu", "admin", "runner", "shared", "public"}
_FEWEST_CHARS = 3


class Redactor:
    """Replaces what tells of a machine in texts, and counts it by kind."""

    def __init__(self, users: frozenset[str], hosts: frozenset[str]) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self._names = [
            (re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE), word)
            for names, word in ((users, USER), (hosts, HOST))
            for name in sorted(names, key=len, reverse=True)
        ]
        self._known: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Return a text without folders, users, hosts and addresses."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._without(text)
        return found

    def dropped(self, kind: tuple[str, str], count: int) -> None:
        """Count what was left out as a whole."""
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count

    def frame(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame with the texts of all its columns replaced."""
        changed = []
        for column in frame.get_columns():
            if column.dtype not in (pl.String, pl.Categorical):
                continue
            texts = distinct(column).cast(pl.String).to_list()
            replaced = {text: new for text in texts if (new := self.text(text)) != text}
            if replaced:
                written = column.cast(pl.String).replace(list(replaced), list(replaced.values()))
                changed.append(written.cast(column.dtype).alias(column.name))
        return frame.with_columns(changed) if changed else frame

    def value(self, value: Any) -> Any:
        """Return a text, or the texts in a tuple or in a data class, replaced; other values as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, tuple):
            found = tuple(map(self.value, value))
            return type(value)(*found) if hasattr(value, "_fields") else found
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
            return replace(value, **{name: self.value(each) for name, each in fields.items()})
        return value

    def _without(self, text: str) -> str:
        rules: list[tuple[tuple[str, str], Callable[[str], str]]] = [
            (_ADDRESSES, lambda given: _ADDRESS.sub("address", _URL.sub("url", given))),
            (_PATH, self._without_folders),
            *((_NAME, partial(pattern.sub, word)) for pattern, word in self._names),
        ]
        for kind, write in rules:
            new = write(text)
            self.dropped(kind, int(new != text))
            text = new
        return text

    def _without_folders(self, text: str) -> str:
        if "/" not in text and "\\" not in text:
            return text
        pieces = _AROUND_PATHS.split(_HOME_FOLDER.sub(rf"\1\2{USER}", text))
        return "".join(piece if at % 2 else self._without_folder(piece) for at, piece in enumerate(pieces))

    def _without_folder(self, piece: str) -> str:
        """Return a path with a number for its folders, or with the part of them that is in a package."""
        folders = piece[: max(piece.rfind("/"), piece.rfind("\\")) + 1]
        if not _ROOT.match(piece) or not folders.strip("/\\~"):  # a relative path, or a slash that is none
            return piece
        libraries = list(_LIBRARY.finditer(folders))
        if libraries:
            return piece[libraries[-1].start() :]
        return self._folders.setdefault(folders, f"folder{len(self._folders) + 1}/") + piece[len(folders) :]


def redacted(trace: Trace) -> Trace:
    """Return a recording for others: paths without their folders, no names of users and hosts, no source text.

    Paths of installed packages keep what follows the folder of packages. Metadata that tells of the machine or the
    program is left out, and so are the lines of the program. What was left out is a problem of the recording,
    ``run.redacted``, so that a reader knows it.
    """
    redactor = Redactor(_users_in(trace), _hosts())
    redactor.dropped(_LINE, int((_is_source(trace) & (trace.sites["name"].cast(pl.String) != "")).sum()))
    frames = {
        field.name: redactor.frame(value)
        for field in dataclasses.fields(trace)
        if isinstance(value := getattr(trace, field.name), pl.DataFrame)
    }
    names = pl.when(pl.lit(_is_source(trace))).then(pl.lit("")).otherwise(pl.col("name").cast(pl.String))
    sites = frames["sites"]
    frames["sites"] = sites.with_columns(names.cast(sites.schema["name"]).alias("name"))
    redactor.dropped(_LINE, trace.fx_nodes["source"].drop_nulls().n_unique())
    redactor.dropped(_CODE, trace.fx_code.height)
    frames["fx_nodes"] = _without_lines(frames["fx_nodes"])
    frames["fx_code"] = trace.fx_code.clear()
    meta = _meta(trace.meta, redactor)
    problems = tuple(redactor.value(known) for known in trace.problems if known.code != "run.redacted")
    return replace(trace, **frames, meta=meta, problems=(*problems, _told(redactor.counts)))


def _without_lines(nodes: pl.DataFrame) -> pl.DataFrame:
    """Return nodes of compiled graphs without the texts of the lines that they come from."""
    stacks = pl.col("stack").cast(pl.String).str.replace_all(r"(?m)^ {4}.*\n?", "")
    return nodes.with_columns(stacks.cast(nodes.schema["stack"]), pl.lit(None, nodes.schema["source"]).alias("source"))


def _is_source(trace: Trace) -> pl.Series:
    return trace.sites["kind"].cast(pl.String) == "line"


def _meta(meta: Meta, redactor: Redactor) -> Meta:
    private = [key for key, _ in meta.extra if _PRIVATE_KEY.search(key)]
    redactor.dropped(_ENTRY, len(private))
    cell, stepping = meta.cell, meta.stepping
    if cell is not None:
        redactor.dropped(_CELL, int(bool(cell.source)))
        cell = replace(cell, source="")
    if stepping is not None and stepping.how == "loop":
        stepping = replace(stepping, code="")
    left = replace(
        meta, cell=cell, stepping=stepping, extra=tuple(each for each in meta.extra if each[0] not in private)
    )
    return redactor.value(left)


def _told(counts: dict[tuple[str, str], int]) -> Problem:
    left_out = ", ".join(f"{format_count(count)} {kind[count != 1]}" for kind, count in counts.items())
    return problem("run.redacted", left_out=left_out or "nothing")


def _users_in(trace: Trace) -> frozenset[str]:
    """Return the users whose home folders the recording names, and the one who runs this process."""
    found = {name for text in _texts(trace) for name in _HOME.findall(text)}
    with suppress(Exception):  # no user is known in some containers
        found.add(getpass.getuser())
    return frozenset(name for name in found if len(name) >= _FEWEST_CHARS and name.lower() not in _COMMON)


@lru_cache(maxsize=1)
def _hosts() -> frozenset[str]:
    """Return the names of this machine."""
    with suppress(OSError):
        name = socket.gethostname()
        return frozenset(
            each for each in (name, name.partition(".")[0]) if len(each) >= _FEWEST_CHARS and each != "localhost"
        )
    return frozenset()


def _texts(trace: Trace) -> Iterator[str]:
    for field in dataclasses.fields(trace):
        frame = getattr(trace, field.name)
        for column in frame.get_columns() if isinstance(frame, pl.DataFrame) else ():
            if column.dtype in (pl.String, pl.Categorical):
                yield from distinct(column).cast(pl.String).to_list()
    yield from (value for _, value in trace.meta.extra)
    yield trace.meta.title
