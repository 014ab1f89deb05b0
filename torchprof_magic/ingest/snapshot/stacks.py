"""The stacks in a memory snapshot as one tree, callers first."""

from __future__ import annotations

from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.ingest.snapshot.values import dicts_of, size_of, text_of
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.intervals import NO_PARENT
from torchprof_magic.model.meta import encodable, shortened
from torchprof_magic.model.trace import FRAME_SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchprof_magic.ingest.snapshot.values import Entry

MAX_DEPTH = 500  # the innermost frames of a stack; those outside of them are left out
MAX_PATH_CHARS = 4_096  # longer than any file system allows
MAX_FUNCTION_CHARS = 4_096
MAX_LINE = 1 << 31
# A snapshot names a few thousand frames. Texts can be shared, so a small file can name very many long ones.
MAX_CHARS = 256 << 20
# The functions that gather a stack are its innermost frames.
_GATHERING = ("torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::(anonymous namespace)::gather")
_NOT_ASKED = -2


class StackTree:
    """Collects stacks and gives each the row of its innermost frame in ``frame()``, which are ``trace.stacks``.

    With ``stacks="all"`` torch lists frames of C++ innermost first, puts the innermost Python frame in place of the
    interpreter's, and appends the other Python frames. Native frames outside of the innermost Python frame are those
    of the interpreter, so they are left out.
    """

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._frame: list[int] = []
        self._row: dict[tuple[int, int], int] = {}  # by parent and number of frame
        self._frames: dict[tuple[str | None, int, str], int] = {}
        # Lists and dicts are shared by many entries. The snapshot keeps them alive, so that their ids stay theirs.
        self._frame_of_dict: dict[int, int] = {}
        self._row_of_list: dict[int, int | None] = {}
        self._chars = 0

    def row_of(self, frames: object) -> int | None:
        """Return the row of the innermost frame of a stack, None for an empty one."""
        if not frames:
            return None
        row = self._row_of_list.get(id(frames), _NOT_ASKED)
        if row == _NOT_ASKED:
            row = self._row_of_list[id(frames)] = self._added(dicts_of(frames))
        return row

    def frame(self) -> pl.DataFrame:
        """Return all frames, each after its caller."""
        files, lines, functions = zip(*self._frames, strict=True) if self._frames else ((), (), ())
        distinct = pl.DataFrame(
            {
                "name": [f"{file}({line}): {function}" if file else function for file, line, function in self._frames],
                "file": files,
                "line": [line if file else None for file, line in zip(files, lines, strict=True)],
                "function": functions,
            },
            schema={name: dtype for name, dtype in FRAME_SCHEMAS["stacks"].items() if name != "parent"},
        )
        parent = pl.Series("parent", self._parent, dtype=pl.Int32)
        return distinct[self._frame].select(parent, pl.all())

    def _added(self, frames: Sequence[Entry]) -> int | None:
        row = NO_PARENT
        for frame in reversed(list(islice(_innermost_first(frames), MAX_DEPTH))):
            key = (row, self._number_of(frame))
            row = self._row.get(key, NO_PARENT)
            if row == NO_PARENT:
                row = self._row[key] = len(self._parent)
                self._parent.append(key[0])
                self._frame.append(key[1])
        return None if row == NO_PARENT else row

    def _number_of(self, frame: Entry) -> int:
        number = self._frame_of_dict.get(id(frame))
        if number is None:
            known = _described(frame)
            number = self._frames.get(known, len(self._frames))
            if number == len(self._frames):
                self._frames[known] = number
                self._chars += len(known[0] or "") + len(known[2])
                if self._chars > MAX_CHARS:
                    raise IngestError("the stacks of the snapshot would expand far more than those of any program")
            self._frame_of_dict[id(frame)] = number
        return number


def is_python(filename: object) -> bool:
    """Return whether a file holds Python code."""
    return isinstance(filename, str) and (filename.endswith(".py") or filename.startswith("<"))


def path_of(frame: Entry) -> str:
    """Return the end of a file's path, with slashes; a path that is longer than any file system allows is cut off."""
    return text_of(frame.get("filename"))[-MAX_PATH_CHARS:].replace("\\", "/")


def _innermost_first(frames: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the native frames inside the innermost Python frame, then the Python frames."""
    native = takewhile(lambda frame: not is_python(frame.get("filename")), frames)
    yield from dropwhile(lambda frame: text_of(frame.get("name")).startswith(_GATHERING), native)
    yield from (frame for frame in frames if is_python(frame.get("filename")))


def _described(frame: Entry) -> tuple[str | None, int, str]:
    """Return the file of a frame, its line and its function; native code has neither file nor line."""
    function = shortened(encodable(text_of(frame.get("name"))), MAX_FUNCTION_CHARS) or "unknown"
    if not is_python(frame.get("filename")):
        return None, 0, function
    return encodable(path_of(frame))[-MAX_PATH_CHARS:], min(size_of(frame.get("line")), MAX_LINE - 1), function
