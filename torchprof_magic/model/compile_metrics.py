"""A compilation from what torch measured of it: ``CompilationMetrics``, in a process or in a log that it wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchprof_magic.model.compile_ids import frame_of, region_of
from torchprof_magic.model.meta import Compilation

if TYPE_CHECKING:
    from collections.abc import Callable

    # Name, file and first line of the function that a number stands for.
    Names = dict[str, tuple[str, str, int | None]]

MOST_CHARS = 160
GUARD = re.compile(r"^(?P<frame>[0-9]+)/[0-9]+: (?P<reason>.*)", re.DOTALL)
_EXPLAINED = re.compile(r"^\s*Explanation: (?P<text>[^\n]+)", re.MULTILINE)
# What torch calls an `if` on a tensor, and one in a function that a compiled one calls.
_BRANCH, _BRANCH_IN_CALLED = "generic_jump", "Explanation: Detected data-dependent branching"
_NS_PER_S, _NS_PER_US, _US_PER_S = 1_000_000_000, 1_000, 1_000_000
# Beyond it, a number of seconds is none; in ns, it fits into 63 bits.
_MOST_S = 9e9
_MOST_LINES = 1 << 31


def compilation_of(ask: Callable[[str], object], names: Names) -> Compilation:
    """Return a compilation, without its breaks. ``ask`` returns a value by torch's name for it, None if there is none.

    ``names`` remembers functions by their numbers: of a backward pass, and of what is given up, torch keeps no name.
    """
    region = region_of(_text(ask("compile_id")))
    frame, name = frame_of(region), ask("co_name")
    if name is not None:
        line = ask("co_firstlineno")
        first = line if isinstance(line, int) and 0 <= line < _MOST_LINES else None
        names[frame] = _text(name), _text(ask("co_filename")), first
    function, file, first_line = names.get(frame, ("", "", None))
    return Compilation(
        region=region,
        name=function,
        file=file,
        line=first_line,
        is_backward=ask("is_forward") is False,
        start_unix_ns=_ns(ask("start_time")) or _of_us(ask("start_time_us")) or 0,
        dur_ns=_duration_ns(ask),
        backend_ns=_ns(ask("backend_compile_time_s")),
        inductor_ns=_ns(ask("inductor_compile_time_s")),
        codegen_ns=_ns(ask("code_gen_time_s")),
        reason=without_number(_text(ask("recompile_reason"))),
        failed=why_broken(_text(ask("fail_reason"))),
    )


def without_number(reason: str) -> str:
    """Return a reason without the number of the code whose guard failed, which newer versions of torch write first."""
    return GUARD.sub(r"\g<reason>", reason)


def why_broken(reason: str) -> str:
    """Return a reason in a few words: torch's explanation where it gives one."""
    if reason.startswith(_BRANCH) or _BRANCH_IN_CALLED in reason:
        return "Data-dependent branching, such as `if` on a tensor"
    match = _EXPLAINED.search(reason)
    text = match["text"] if match else (reason.strip().splitlines() or [""])[0]
    return text.strip().rstrip(".")[:MOST_CHARS]


def _duration_ns(ask: Callable[[str], object]) -> int | None:
    """Return how long all of it took; torch gives a backward pass the moments of its beginning and its end."""
    whole = _ns(ask("entire_frame_compile_time_s"))
    begin_ns, end_ns = _of_us(ask("start_time_us")), _of_us(ask("end_time_us"))
    if whole is None and begin_ns is not None and end_ns is not None:
        return max(end_ns - begin_ns, 0)
    return whole


def _of_us(number: object) -> int | None:
    return number * _NS_PER_US if isinstance(number, int) and 0 <= number <= _MOST_S * _US_PER_S else None


def _ns(seconds: object) -> int | None:
    if not isinstance(seconds, int | float) or not 0 <= seconds <= _MOST_S:
        return None
    return round(seconds * _NS_PER_S)


def _text(value: object) -> str:
    return "" if value is None else str(value)
