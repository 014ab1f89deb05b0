"""What ``torch.compile`` compiles during a run, read from what torch keeps of it.

Nothing is changed in the compiler, and it is never imported: it is asked at the end of every step, and, once the
program has loaded it, at the beginning of each compilation, of which it keeps only the latest 64.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from torchprof_magic.capture.parts import COMPILATIONS
from torchprof_magic.capture.torch_api.compiled_frames import text_of
from torchprof_magic.capture.torch_api.patching import HOOK_FILE
from torchprof_magic.model.compile_ids import times_before
from torchprof_magic.model.compile_metrics import compilation_of, why_broken, without_number
from torchprof_magic.model.meta import Compilation, GraphBreak

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.problems import ProblemLog
    from torchprof_magic.model.compile_metrics import Names

# So many are kept, the first ones.
MOST_KEPT = 1_000
# A step of a program that never ends a graph would otherwise collect breaks for ever.
_MOST_BREAKS = 1_000


class Compilations:
    """The compilations of one run, in order, with the steps that they fell into."""

    def __init__(self, problems: ProblemLog, parts: Parts) -> None:
        self._problems = problems
        self._parts = parts
        self._found: list[Compilation] = []
        self._first_of_step = 0
        self._last: object = None
        self._last_break: object = None
        self._breaks_seen = 0
        self._breaks: list[tuple[tuple[str, str], GraphBreak]] = []
        self._failures_seen: dict[int, int] = {}
        self._names: Names = {}
        self._handler: Any = None
        self._is_over = False
        self._looking = Lock()
        self._at_start = partial(parts.run, COMPILATIONS, self._look)

    def watch(self) -> Callable[[], None]:
        """Leave out what was compiled before; return a function that ends the watch."""
        self._look()
        self._found.clear()
        self._breaks.clear()
        failures = getattr(sys.modules.get("torch._dynamo.utils"), "guard_failures", {})
        self._failures_seen = {id(code): len(reasons) for code, reasons in failures.items()}
        return self._end

    def begin_steps(self) -> None:
        """Note that the first step begins: what was compiled until now is in none."""
        self._look()
        self._first_of_step = len(self._found)

    def end_step(self, number: int, step_ns: int) -> None:
        """Note that a step ended, which took so many ns: what was compiled since the last one is in it."""
        self._look()
        for at in range(self._first_of_step, len(self._found)):
            self._found[at] = replace(self._found[at], step=number, step_ns=step_ns)
        self._first_of_step = len(self._found)

    def start_over(self) -> None:
        """Note that the steps begin again: what was compiled until now is in none."""
        self._look()
        self._found = [replace(each, step=None, step_ns=None) for each in self._found]
        self._first_of_step = len(self._found)

    def take(self) -> tuple[Compilation, ...]:
        """Return all of them."""
        self._look()
        return tuple(self._found)

    def _look(self, *_: object) -> None:
        """Read what is new; does nothing while another thread does, and where the program has no compiler."""
        utils = sys.modules.get("torch._dynamo.utils")
        if utils is None or not self._looking.acquire(blocking=False):
            return
        try:
            self._listen()
            self._breaks = [*self._breaks, *self._new_breaks(utils)][-_MOST_BREAKS:]
            for metrics in self._new_metrics(utils):
                self._add(metrics, utils)
        finally:
            self._looking.release()

    def _listen(self) -> None:
        """Be called at the beginning of each compilation; ``torch._dynamo.reset()`` ends that."""
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        listeners = getattr(handler, "start_callbacks", None)
        if listeners is not None and self._at_start not in listeners and not self._is_over:
            self._handler = handler
            self._handler.register_start_callback(self._at_start)

    def _end(self) -> None:
        self._is_over = True
        if self._handler is not None and self._at_start in self._handler.start_callbacks:
            self._handler.remove_start_callback(self._at_start)

    def _new_metrics(self, utils: Any) -> Sequence[Any]:
        """Return what torch has measured of compilations that have ended since the last look, in order."""
        kept = getattr(utils, "_compilation_metrics", None)
        if not kept or kept[-1] is self._last:
            return ()
        latest, last = tuple(kept), self._last
        self._last = latest[-1]
        begin = next((at + 1 for at in reversed(range(len(latest))) if latest[at] is last), 0)
        if begin == 0 and last is not None and len(latest) == getattr(kept, "maxlen", None):
            self._problems.note("capture.compilations_left_out", limit=len(latest))
        return latest[begin:]

    def _new_breaks(self, utils: Any) -> list[tuple[tuple[str, str], GraphBreak]]:
        """Return the graph breaks since the last look, each with the file and the name of the function in work."""
        kept = getattr(utils, "graph_break_reasons", ())
        seen, last = self._breaks_seen, self._last_break
        if not kept or (seen == len(kept) and kept[-1] is last):
            return []
        begin = seen if 0 < seen <= len(kept) and kept[seen - 1] is last else 0
        latest = kept[begin:]
        self._breaks_seen, self._last_break = begin + len(latest), latest[-1] if latest else last
        return [_break_of(each) for each in latest]

    def _add(self, metrics: Any, utils: Any) -> None:
        # The first are of a kernel that is tuned, or a graph that is captured, while compiled code runs.
        if getattr(metrics, "is_runtime", None) or getattr(metrics, "co_filename", None) == HOOK_FILE:
            return
        found = self._compilation(metrics, utils)
        if len(self._found) < MOST_KEPT:
            self._found.append(found)
        else:
            self._problems.note("capture.compilations_left_out", limit=MOST_KEPT)

    def _compilation(self, metrics: Any, utils: Any) -> Compilation:
        def ask(name: str) -> object:
            return getattr(metrics, name, None)

        found = compilation_of(ask, self._names)
        code = (found.file, found.name)
        mine = [each for each in self._breaks if each[0] == code]
        self._breaks = [each for each in self._breaks if each[0] != code]
        reason = found.reason
        if times_before(found.region) and not hasattr(metrics, "recompile_reason"):
            reason = without_number(self._failed_guard(metrics, utils))
        return replace(found, reason=reason, breaks=tuple(each for _, each in mine))

    def _failed_guard(self, metrics: Any, utils: Any) -> str:
        """Return the next guard that failed of the function: the first of as many as it had compilations."""
        for code, reasons in getattr(utils, "guard_failures", {}).items():
            if (code.co_filename, code.co_name, code.co_firstlineno) != (
                metrics.co_filename,
                metrics.co_name,
                metrics.co_firstlineno,
            ):
                continue
            seen = self._failures_seen.get(id(code), 0)
            seen = seen if seen <= len(reasons) else 0  # torch._dynamo.reset() has removed them
            if seen < len(reasons):
                self._failures_seen[id(code)] = seen + max(int(getattr(metrics, "cache_size", None) or 1), 1)
                return text_of(reasons[seen])
        return ""


def _break_of(reason: Any) -> tuple[tuple[str, str], GraphBreak]:
    stack = list(reason.user_stack)
    if not stack:
        return ("", ""), GraphBreak(reason=why_broken(str(reason.reason)))
    inner = stack[-1]
    found = GraphBreak(reason=why_broken(str(reason.reason)), file=inner.filename, line=inner.lineno)
    return (stack[0].filename, stack[0].name), found
