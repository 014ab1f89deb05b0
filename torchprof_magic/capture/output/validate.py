"""Checks of a file that torch exported. Its C++ export does not report failures, and loses names that are not ASCII."""

from __future__ import annotations

import mmap
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.capture.torch_api.engine import Engine

NO_FILE = "torch wrote no file"
# The C++ export of torch 2.13 writes this instead of a name with a non-ASCII character (pytorch#146900).
LOST_NAME = b'"name": "unknown"'
# It turns a backslash into a slash, so an annotation with a slash is compared with the name that was recorded.
ANNOTATION = b'"cat": "user_annotation"'
SLASHED_NAME = re.compile(rb'"cat": "user_annotation",\s*"name": "([^"\n]*/[^"\n]*)"')
# That of torch 2.15 turns a double quote into a single one, so a name with a single one is compared as well.
QUOTED_NAME = re.compile(rb'"name": "([^"\n]*\'[^"\n]*)"')
OWN_NAME = b'"traceName"'
# As either exporter writes it. The search ends at the first op, so it is fast unless there is none.
FIRST_OP = re.compile(rb'"cat": ?"(?:cpu_op|kernel|gpu_memcpy|gpu_memset)"')


def find_flaw(path: Path, engine: Engine | None) -> str | None:
    """Return what is wrong with an exported file: missing, empty, not JSON, or names that differ from ``engine``'s."""
    if not _is_written(path):
        return NO_FILE
    with _mapped(path) as data:
        try:
            msgspec.json.decode(data, type=msgspec.Raw)
        except msgspec.DecodeError as exc:
            return f"torch wrote invalid JSON ({exc})"
        return None if engine is None else _loss(data, engine)


def _loss(data: mmap.mmap, engine: Engine) -> str | None:
    """Return what the C++ export changed in names or metadata."""
    if data.rfind(LOST_NAME) >= 0:  # from the end: twice as fast
        return "torch replaced names with 'unknown'"
    if any(data.rfind(text.encode()) < 0 for _, text in engine.metadata if "\\" in text):
        return "torch changed backslashes in metadata"
    slashed = _slashed_annotations(data)
    if slashed and not slashed <= engine.recorded_names():
        return "torch changed backslashes in names"
    quoted = _quoted_names(data)
    if quoted and not quoted <= engine.recorded_names():
        return "torch changed quotes in names"
    return None


def _slashed_annotations(data: mmap.mmap) -> set[str]:
    """Return the annotations with a slash; finding the few annotations first is faster than the pattern.

    From the end, where the search skips what cannot be one, it is three times faster still.
    """
    names: set[str] = set()
    # In most files without stacks the one name with slashes is that of the file itself, which torch writes last.
    end = data.rfind(OWN_NAME)
    has_slash = data.find(b"/", 0, end if end >= 0 else len(data)) >= 0
    at = data.rfind(ANNOTATION) if has_slash else -1
    while at >= 0:
        match = SLASHED_NAME.match(data, at)
        if match:
            names.add(match[1].decode("ascii", "replace"))
        at = data.rfind(ANNOTATION, 0, at)
    return names


def _quoted_names(data: mmap.mmap) -> set[str]:
    """Return the names with a single quote, of which most files have none."""
    names: set[str] = set()
    end = data.rfind(OWN_NAME)  # the name of the file itself may have one
    end = end if end >= 0 else len(data)
    at = data.find(b"'", 0, end)
    while at >= 0:
        line_end = data.find(b"\n", at)
        line_end = line_end if line_end >= 0 else len(data)
        match = QUOTED_NAME.search(data, data.rfind(b"\n", 0, at) + 1, line_end)
        if match:
            names.add(match[1].decode("ascii", "replace"))
        at = data.find(b"'", line_end, end) if line_end < end else -1
    return names


def has_ops(path: Path) -> bool:
    """Return whether the file has any torch op or device event; ``True`` if it cannot be read."""
    try:
        with _mapped(path) as data:
            return FIRST_OP.search(data) is not None
    except OSError:
        return True


def _is_written(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """Open a file that is not empty, without reading it into memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data
