"""What the process knows of its compiled functions: why their graphs broke, and which guards failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from torchprof_magic.model.compile_metrics import GUARD, MOST_CHARS, why_broken, without_number
from torchprof_magic.model.meta import CompiledFrame, GraphBreak

if TYPE_CHECKING:
    from collections.abc import Iterable

# So many functions, and so many reasons of each, are kept, the latest.
MOST_FRAMES = 64
MOST_REASONS = 8


class _Code(NamedTuple):
    """Where a function is defined."""

    file: str
    name: str


def compiled_frames() -> tuple[CompiledFrame, ...]:
    """Return the compiled functions of this process; none if it has compiled nothing, or if torch does not tell."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return ()
    breaks = _breaks(utils)
    frames = _frames(utils)
    failed = _failed_guards(utils)
    found = [
        CompiledFrame(
            frame=frame,
            name=code.name,
            file=code.file,
            line=line,
            breaks=tuple(breaks.pop(code, {}))[-MOST_REASONS:],
            recompiles=tuple(failed.pop(code, {}))[-MOST_REASONS:],
        )
        for (frame, code), line in list(frames.items())[-MOST_FRAMES:]
    ]
    rest = [CompiledFrame(name=code.name, file=code.file, breaks=tuple(each)) for code, each in breaks.items()]
    return (*found, *rest[-MOST_FRAMES:])


def _frames(utils: Any) -> dict[tuple[str, _Code], int]:
    """Return the line of each compiled function, by the number of its frame."""
    ask = getattr(utils, "get_compilation_metrics", None)
    found: dict[tuple[str, _Code], int] = {}
    for metrics in ask() if ask is not None else ():
        frame, *code, line = (
            getattr(metrics, name, None) or "" for name in ("compile_id", "co_filename", "co_name", "co_firstlineno")
        )
        if any(code):  # the backward pass has metrics of its own, without a function
            found[str(frame).partition("/")[0].strip("!"), _Code(*map(str, code))] = int(line or 0)
    for code, reasons in getattr(utils, "guard_failures", {}).items():
        for match in filter(None, map(GUARD.match, map(text_of, reasons))):
            found.setdefault((match["frame"], _Code(code.co_filename, code.co_name)), code.co_firstlineno)
    return found


def _failed_guards(utils: Any) -> dict[_Code, dict[str, None]]:
    """Return which guards of each function failed, each once and in order, as torch writes them."""
    found: dict[_Code, dict[str, None]] = {}
    for code, reasons in getattr(utils, "guard_failures", {}).items():
        texts = (without_number(text_of(reason)) for reason in reasons)
        found[_Code(code.co_filename, code.co_name)] = dict.fromkeys(map(_first_line, texts))
    return found


def text_of(reason: object) -> str:
    """Return the text of a guard that failed; older versions of torch keep it in a tuple with a name."""
    return str(getattr(reason, "reason", reason))


def _first_line(text: str) -> str:
    """Return what torch says of a guard, without the place in its source that stands behind it."""
    lines = text.strip().splitlines() or [""]
    return lines[0].partition("  #")[0].strip()[:MOST_CHARS]


def _breaks(utils: Any) -> dict[_Code, dict[GraphBreak, None]]:
    """Return the breaks of the graphs of each function, each once and in order."""
    found: dict[_Code, dict[GraphBreak, None]] = {}
    for each in getattr(utils, "graph_break_reasons", ()):
        stack = list(each.user_stack)
        inner = stack[-1] if stack else None
        place = {"file": inner.filename, "line": inner.lineno} if inner is not None else {}
        code = _Code(stack[0].filename, stack[0].name) if stack else _Code("", "")
        found.setdefault(code, {})[GraphBreak(reason=why_broken(each.reason), **place)] = None
    return found or {_Code("", ""): dict.fromkeys(_counted(utils))}


def _counted(utils: Any) -> Iterable[GraphBreak]:
    """Return the reasons that torch has only counted, without their lines."""
    counters = getattr(utils, "counters", {})
    return [GraphBreak(reason=why_broken(str(reason))) for reason in counters.get("graph_break", ())]
