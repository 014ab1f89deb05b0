"""The line of the user's code that an event belongs to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.analysis.shared import once_per_trace
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, depth_of, innermost_at, nearest_marked

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Packages whose frames say how torch works, not what the user wrote.
_MACHINERY = ("torch", "triton", "torchprof_magic", "IPython", "ipykernel", "runpy")
_INSTALLED = r"^.*[/\\](?:site|dist)-packages[/\\]"
_BUILT_IN = r"^<(frozen|string|built-in)"
_OWN_FOLDER = r"[/\\](torchprof_magic|ipykernel|IPython)[/\\]"
_STANDARD = r"^.*[/\\]lib[/\\]python\d[.\d]*[/\\]"


class Places(NamedTuple):
    """A file and a line for each of some events; ``line`` is 0 and ``file`` -1 where they are unknown.

    ``file`` is an index into ``files``.
    """

    files: pl.Series
    file: IntArray
    line: IntArray

    def columns(self) -> tuple[pl.Series, pl.Series]:
        """Return the columns ``file`` and ``line``, null where unknown."""
        at = pl.Series(self.file)
        file = self.files.gather(at.set(at < 0, None)).alias("file")
        line = pl.Series("line", self.line, dtype=pl.Int32)
        return file, line.set(line <= 0, None)


def places_of(trace: Trace, rows: IntArray, at_ns: IntArray | None = None) -> Places:
    """Return the place of each event row, or -1: the watched line at its start, or else the user's innermost frame.

    ``at_ns`` are moments to look at in place of the starts. A frame is recorded with the line of its definition.
    """
    files = trace.sites["file"].cast(pl.String).append(trace.stacks["file"].cast(pl.String))
    count = trace.sites.height
    site = _line_sites(trace, rows, at_ns)
    frame = np.append(_users_frames(trace), NO_PARENT)[_stack_of(trace, rows)]
    file = np.where(site >= 0, site, np.where(frame >= 0, frame + count, NO_PARENT))
    lines = pl.concat([trace.sites["line"], trace.stacks["line"]]).fill_null(0).to_numpy()
    return Places(files, file, np.append(lines, 0)[file])


def _stack_of(trace: Trace, rows: IntArray) -> IntArray:
    stacks = trace.events["stack"].fill_null(NO_PARENT).to_numpy()
    return np.append(stacks, NO_PARENT)[rows].astype(np.int64)


def _line_sites(trace: Trace, rows: IntArray, at_ns: IntArray | None) -> IntArray:
    """Return the line that ran on the event's thread at the moment, a row of ``sites``, or -1."""
    is_line = (trace.sites["kind"] == "line").to_numpy()
    scopes = trace.scopes.filter(pl.Series(is_line[trace.scopes["site"].to_numpy()]))
    found = np.full(len(rows), NO_PARENT, np.int64)
    known = np.flatnonzero(rows >= 0)
    if scopes.height == 0 or len(known) == 0:
        return found
    lane, start = (trace.events[name].to_numpy()[rows[known]].astype(np.int64) for name in ("lane", "start_ns"))
    inside = _innermost_scope(scopes, lane, start if at_ns is None else at_ns[known])
    found[known] = np.append(scopes["site"].to_numpy(), NO_PARENT)[inside]
    return found


def _innermost_scope(scopes: pl.DataFrame, lane: IntArray, at_ns: IntArray) -> IntArray:
    """Return the row of the innermost of some scopes at each moment on a thread, or -1."""
    lanes, start, dur = (scopes[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    return innermost_at(lanes, start, dur, lane, at_ns)


@once_per_trace
def _users_frames(trace: Trace) -> IntArray:
    """Return for each row of ``stacks`` the innermost frame of the user at or above it, a row of ``stacks``, or -1."""
    parent = trace.stacks["parent"].to_numpy()
    found = nearest_marked(parent, depth_of(parent), is_users_file(trace.stacks["file"]))
    return found[:-1].astype(np.int64)


def is_users_file(files: pl.Series) -> BoolArray:
    """Return which files are the user's or a library's, rather than of torch, Python, or built in.

    torch writes paths relative to the folder of installed packages.
    """
    distinct = files.unique().drop_nulls().cast(pl.String)
    short = distinct.str.replace(_INSTALLED, "").str.replace(_STANDARD, "")
    top = short.str.extract(r"^([^/\\(]+)").str.replace(r"\.py$", "").fill_null("")
    machinery = {*_MACHINERY, *sys.stdlib_module_names}
    is_machinery = top.is_in(list(machinery)) | distinct.str.contains(_BUILT_IN) | short.str.contains(_OWN_FOLDER)
    users = distinct.filter(~is_machinery)
    return files.cast(pl.String).is_in(users.implode()).fill_null(value=False).to_numpy()


MODULE_FRAME = "nn.Module: "


def module_of_events(trace: Trace, rows: IntArray) -> pl.Series:
    """Return the path of the innermost nn.Module around each event row, null where it is not known.

    The path is one of attributes where modules were watched. From recorded frames it is one of classes and numbers.
    """
    is_module = (trace.sites["kind"] == "module").to_numpy()
    scopes = trace.scopes.filter(pl.Series(is_module[trace.scopes["site"].to_numpy()]))
    if scopes.height:
        lane, start = (trace.events[name].to_numpy()[rows].astype(np.int64) for name in ("lane", "start_ns"))
        site = np.append(scopes["site"].to_numpy(), NO_PARENT)[_innermost_scope(scopes, lane, start)]
        return _gathered(trace.sites["name"].cast(pl.String), site)
    path, innermost = module_frames(trace)
    return _gathered(path, np.append(innermost, NO_PARENT)[_stack_of(trace, rows)])


@once_per_trace
def module_frames(trace: Trace) -> tuple[pl.Series, IntArray]:
    """Return the path of each frame of a module, and for each row of ``stacks`` the innermost such frame, or -1."""
    names = trace.stacks["name"].cast(pl.String)
    is_module = names.str.starts_with(MODULE_FRAME).fill_null(value=False).to_numpy()
    parent = trace.stacks["parent"].to_numpy()
    innermost = nearest_marked(parent, depth_of(parent), is_module).astype(np.int64)
    paths: list[str | None] = [None] * len(names)
    for row in np.flatnonzero(is_module).tolist():  # callers come first
        name = names[row].removeprefix(MODULE_FRAME)
        above = innermost[parent[row]]
        paths[row] = name if above < 0 else f"{paths[above]}.{name}"
    return pl.Series(paths, dtype=pl.String), innermost[:-1]


def _gathered(values: pl.Series, at: IntArray) -> pl.Series:
    index = pl.Series(at)
    return values.gather(index.set(index < 0, None))
