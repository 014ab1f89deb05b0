"""torch's profiler of one cycle, as the ``torch.profiler.profile`` that handlers expect."""

from __future__ import annotations

import copy
import gzip
import io
import shutil
from collections.abc import Callable  # noqa: TC003 - of a field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.profiler import ProfilerAction, profile
from torch.profiler.profiler import _KinetoProfile  # documented by torch, though its name begins with _

from torchprof_magic.capture.torch_api.user_results import UserProfile

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.capture.schedule import Action, AnySchedule


class TorchState(NamedTuple):
    """Where a run is, by the names of the attributes in which torch's profiler keeps it."""

    step_num: int
    current_action: ProfilerAction
    schedule: Callable[[int], ProfilerAction]


def unscheduled_state(steps: int) -> TorchState:
    """Return the state of torch's profiler without a schedule, after so many calls of ``step``."""
    return TorchState(steps, ProfilerAction.RECORD, _every_step)


def torch_state(step: int, action: Action, schedule: AnySchedule) -> TorchState:
    """Return the state of torch's profiler in a step with this action."""
    planned = schedule.action  # of the schedule alone: a state must keep nothing else alive

    def scheduled(step: int) -> ProfilerAction:
        """Return what is planned for a step, as a schedule of torch does."""
        return ProfilerAction[planned(step).name]

    return TorchState(step, ProfilerAction[action.name], scheduled)


class CycleProfile(profile):
    """A ``torch.profiler.profile`` that an engine prepares, starts and stops; it has no schedule that it follows.

    torch's ``__init__`` is not called: it counts steps for the whole process, and adds an observer that an environment
    variable asks for. So the attributes that it sets are set here; with an empty ``action_map`` nothing is started.
    ``saved`` is the file of a finished cycle, or what was in it, and ``trace_bytes`` its size. Without
    ``has_step_rows`` torch's events have no ranges of steps, as without a schedule.
    """

    trace_bytes = 0
    saved: Path | bytes | None = None
    acc_events = False  # torch sets it if it knows it

    def __init__(self, *, has_step_rows: bool = True, **arguments: Any) -> None:
        _KinetoProfile.__init__(self, **arguments)
        self.on_trace_ready: Callable[..., Any] | None = None
        self.record_steps = has_step_rows
        self.step_rec_fn = None
        self.action_map = {}
        self.mark(TorchState(0, ProfilerAction.RECORD, _every_step))

    def mark(self, state: TorchState) -> None:
        """Set the number of the current step, its action, and the schedule, as torch keeps them."""
        self.step_num, self.schedule = state.step_num, state.schedule
        action: Any = state.current_action  # torch's type omits what it sets itself
        self.current_action = self._prev_schedule_action = action

    def prepare_trace(self) -> None:
        """Prepare the recording; with ``acc_events`` torch would also parse the events while it is stopped."""
        accumulates, self.acc_events = self.acc_events, False
        super().prepare_trace()
        self.acc_events = accumulates
        made: Any = self.profiler
        made.__class__, made.has_step_rows = UserProfile, self.record_steps

    def export_chrome_trace(self, path: str, use_python_export: bool = False, **more: Any) -> None:
        """Write the trace; of a finished cycle, which torch can export only once, the file that was saved.

        ``more`` is what newer versions of torch can add to a trace, by their Python export.
        """
        if self.saved is None or more:
            named = {"use_python_export": True, **more} if use_python_export or more else {}
            super().export_chrome_trace(path, **named)
        else:
            _copy(self.saved, str(path))

    def without_results(self) -> CycleProfile:
        """Return a copy without torch's events, which still writes the trace."""
        made = copy.copy(self)
        made.profiler = None
        return made

    def add_events_of(self, earlier: CycleProfile) -> None:
        """Put the events of an earlier cycle, and what was added to them, after those of this one, as torch does."""
        self.trace_bytes += earlier.trace_bytes
        if not getattr(self.experimental_config, "trace_only", False):  # torch then has no events
            self.events().extend(earlier.events())  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """Do nothing: the cycle is started by its engine."""

    def stop(self) -> None:
        """Do nothing: the cycle is over when a handler gets it."""

    def step(self) -> None:
        """Do nothing: steps are ended by the run, not by the profiler of one cycle."""


def _copy(saved: Path | bytes, path: str) -> None:
    source = io.BytesIO(saved) if isinstance(saved, bytes) else saved.open("rb")
    with source, (gzip.open if path.endswith(".gz") else open)(path, "wb") as target:
        shutil.copyfileobj(source, target)


def _every_step(_step: int) -> ProfilerAction:
    return ProfilerAction.RECORD
