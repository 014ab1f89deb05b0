"""Tells whoever waits for a session how far it is, and hands on what is recorded so far."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from torchprof_magic.capture.parts import EARLY, PROGRESS
from torchprof_magic.capture.progress import Progress
from torchprof_magic.capture.schedule import WatchSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.capture.recorder import Recorder
    from torchprof_magic.model.recording import Recording

# In a run that is watched, the bar goes on so often.
_PROGRESS_EVERY_NS = 2_000_000_000
# Its strip is shown anew, if nothing was recorded meanwhile, when the run has doubled: after 2 s at first, and then so
# often. That takes the run 1 ms, and another thread some more to show it.
_STRIP_SOONEST_NS = 2_000_000_000
_STRIP_EVERY_NS = 10_000_000_000


class News:
    """What a session tells while the user's code runs.

    ``on_progress`` is called at every change of phase. ``on_warmup`` is called with the number of steps left, if known,
    when the profiler begins to warm up. ``on_cycle`` is called when a cycle is on disk and the user's code goes on,
    with the recording so far, which ``so_far`` makes, and with how long the loop will still take, in s, if that can be
    told.
    """

    def __init__(
        self, parts: Parts, on_progress: Callable[[Progress], None] | None, so_far: Callable[[Recorder], Recording]
    ) -> None:
        self.on_warmup: Callable[[int | None], object] | None = None
        self.on_cycle: Callable[[Recording, float | None], object] | None = None
        self.length: int | None = None  # of the loop, in steps
        self._parts = parts
        self._on_progress = on_progress
        self._so_far = so_far
        self._told_cycles = self._handed_on_ns = self._first_handed_on_ns = 0
        self._told_phase = ("", 0)

    @property
    def has_progress(self) -> bool:
        """True if somebody wants to know how far the session is."""
        return self._on_progress is not None

    def start_over(self) -> None:
        """Tell of cycles again from the first one on."""
        self._told_cycles = 0

    def tell_phase(self, recorder: Recorder, phase: str, step: int) -> None:
        """Tell that ``phase`` is that of ``step``."""
        if isinstance(recorder.schedule, WatchSchedule) and not self._is_news(phase):
            return
        if self.on_warmup is not None and phase == "warmup":
            self._parts.run(EARLY, self.on_warmup, None if self.length is None else self.length - step)
        if self._on_progress is not None:
            note = recorder.stack_note(step) if phase == "active" else ""
            self._tell(Progress(phase=phase, step=step, total=recorder.schedule.total, note=note))

    def tell_stage(self, recorder: Recorder, stage: str, note: str, is_long: bool) -> None:
        """Tell what is done with the recording, one of ``STAGES``."""
        total = recorder.schedule.total
        self._tell(Progress(phase=stage, step=recorder.step, total=total, note=note, is_long=is_long))

    def tell_cycles(self, recorder: Recorder) -> None:
        """Hand on what is recorded so far if a cycle is new on disk, and from time to time in a run that is watched."""
        count = recorder.cycles[-1].number + 1 if recorder.cycles else 0
        if self.on_cycle is None or not count:
            return
        is_watched = isinstance(recorder.schedule, WatchSchedule)
        if count > self._told_cycles or (is_watched and self._is_strip_due()):
            self._told_cycles, self._handed_on_ns = count, perf_counter_ns()
            self._first_handed_on_ns = self._first_handed_on_ns or self._handed_on_ns
            self._parts.run(EARLY, self._hand_on, recorder)

    def _is_strip_due(self) -> bool:
        known_ns = self._handed_on_ns - self._first_handed_on_ns
        wait_ns = min(max(known_ns, _STRIP_SOONEST_NS), _STRIP_EVERY_NS)
        return perf_counter_ns() - self._handed_on_ns >= wait_ns

    def _hand_on(self, recorder: Recorder) -> None:
        if self.on_cycle is not None:
            left = None if self.length is None else (self.length - recorder.step) * recorder.typical_step_ns() * 1e-9
            self.on_cycle(self._so_far(recorder), left)

    def _tell(self, progress: Progress) -> None:
        if self._on_progress is not None:
            self._parts.run(PROGRESS, self._on_progress, progress)

    def _is_news(self, phase: str) -> bool:
        """Return whether progress is to be shown: drawing a bar ten times a second takes some percent of a run."""
        before, told_ns = self._told_phase
        now_ns = perf_counter_ns()
        if phase == before and now_ns - told_ns < _PROGRESS_EVERY_NS:
            return False
        self._told_phase = phase, now_ns
        return True
