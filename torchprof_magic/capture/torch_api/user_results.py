"""torch's events of a cycle as the user's program has them: without our frames, and without steps it did not ask for.

torch makes its events from the results of a cycle only when they are asked for; what is left out here is left out of
everything that it tells: ``events()``, ``key_averages()`` and exported stacks. The trace file has all of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from torch.autograd import profiler as autograd_profiler

from torchprof_magic.capture.torch_api.patching import stand_in
from torchprof_magic.model.own_frames import BUILTIN, OWN_FRAME, RECORDING_FRAME, STAND_IN_FRAME

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN, _RECORDING, _STAND_IN = (re.compile(pattern) for pattern in (OWN_FRAME, RECORDING_FRAME, STAND_IN_FRAME))
_STEP = re.compile(r"ProfilerStep#[0-9]+")
_PYTHON = re.compile(r"\.py\([0-9]+\): |^<")


class UserProfile(autograd_profiler.profile):
    """torch's profiler of one cycle, which makes its events from what the user's program did alone.

    Without ``has_step_rows`` the ranges of steps are left out.
    """

    has_step_rows = True

    def _parse_kineto_results(self, result: Any, *arguments: Any, **named: Any) -> Any:
        is_shown: Any = autograd_profiler._filter_stack_entry  # type: ignore[attr-defined]  # noqa: SLF001
        undo = stand_in(
            autograd_profiler, "_filter_stack_entry", lambda entry: is_shown(entry) and not _OWN.search(entry)
        )
        try:
            results = _UserResults(result, has_step_rows=self.has_step_rows)
            return super()._parse_kineto_results(results, *arguments, **named)  # type: ignore[arg-type]
        finally:
            undo()


class _UserResults:
    """torch's results, of which ``events()`` has the user's alone."""

    def __init__(self, results: Any, *, has_step_rows: bool) -> None:
        self._results = results
        self._has_step_rows = has_step_rows

    def events(self) -> list[Any]:
        """Return torch's events without ours."""
        events = self._results.events()
        if not self._has_step_rows:
            events = [event for event in events if not _STEP.fullmatch(event.name())]
        hidden = hidden_frames(events)
        return [event for number, event in enumerate(events) if number not in hidden] if hidden else events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)


def hidden_frames(events: Iterable[Any]) -> set[int]:
    """Return the numbers of the events that are Python frames of this package, or called by its recording."""
    threads: dict[int, list[tuple[int, int, int, str]]] = defaultdict(list)
    has_own = False
    for number, event in enumerate(events):
        name = event.name()
        if _is_python(event, name):
            has_own = has_own or bool(_OWN.search(name))
            threads[event.start_thread_id()].append((event.start_ns(), -event.duration_ns(), number, name))
    if not has_own:
        return set()
    return {number for frames in threads.values() for number in _hidden_of_thread(sorted(frames))}


def _hidden_of_thread(frames: list[tuple[int, int, int, str]]) -> list[int]:
    """Return the numbers of the hidden frames of one thread, whose frames come in the order in which they began."""
    hidden = []
    around: list[tuple[int, bool, bool]] = []  # end, whether it is ours, whether all in it is hidden
    for start_ns, negative_ns, number, name in frames:
        while around and around[-1][0] <= start_ns:
            around.pop()
        in_own, in_recording = around[-1][1:] if around else (False, False)
        is_own = bool(_OWN.search(name))
        if is_own or in_recording or (in_own and name.startswith(BUILTIN)):
            hidden.append(number)
        closes = in_recording or (bool(_RECORDING.search(name)) and not _STAND_IN.search(name))
        around.append((start_ns - negative_ns, is_own, closes))
    return hidden


def _is_python(event: Any, name: str) -> bool:
    told = getattr(event, "is_python_function", None)
    return bool(told() if told is not None else _PYTHON.search(name))
