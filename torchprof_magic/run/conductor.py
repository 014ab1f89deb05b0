"""One run from start to report, used by the cell magic, the line magic and ``profile()``.

A run opens a ``capture.CaptureSession``, which records while the user's code runs. When that has ended, the run stores
copies, reads the trace, remembers the report, deletes files that are no longer needed, and reports what was lost.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from torchprof_magic.capture import (
    CLEANUP,
    COLLECTIONS,
    EARLY,
    FREE_MEMORY,
    FREED_EVENTS,
    KEPT_TRACES,
    PROGRESS,
    SAMPLE,
    CaptureSession,
    Progress,
    protected,
)
from torchprof_magic.ingest.fork_check import NO_REPORTS, can_report
from torchprof_magic.model.errors import CaptureError, TorchProfError
from torchprof_magic.model.units import format_file_size
from torchprof_magic.report.trace_forms import new_id
from torchprof_magic.run.archive import Archive
from torchprof_magic.run.cleanup import keep_raw, sweep
from torchprof_magic.run.interrupts import interrupts_raise
from torchprof_magic.run.messages import say, say_holders, say_unread, say_waiting
from torchprof_magic.run.reading import read_recording
from torchprof_magic.runs import this_process
from torchprof_magic.runs.kept_runs import keep_run
from torchprof_magic.runs.this_process import at_once
from torchprof_magic.system.process.garbage import HeldCollections
from torchprof_magic.system.process.memory import lack_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.meta import CellSource, Problem, Stepping
    from torchprof_magic.model.recording import Recording
    from torchprof_magic.options import KeepOptions, ProfileOptions
    from torchprof_magic.report.trace_report import Report
    from torchprof_magic.run.early.reports import EarlyReports


# Reading traces of so many bytes takes 0.1 s, and with torch's end and export the report takes 0.3 s.
SLOW_BYTES = 4_000_000
# What failed in a recording that was begun anew.
OWN_FAILURES = ("capture.part_failed", "capture.failed", "capture.gave_up", "capture.handler_failed")


class Run:
    """One run of the profiler. Raises ``OptionsError`` if its traces cannot be stored as requested.

    ``title`` names the run in messages and in its report; ``cell`` is the recorded notebook cell, if any. ``is_magic``
    decides whether messages name the magic or the Python function to call next. ``on_progress`` is called as the
    recording advances, and ``early`` shows what is recorded while the loop still runs. ``cell_id`` is that of the
    notebook. The run is compared with ``baseline``, and kept across kernels under the name ``save``, or among the
    newest ``keep_runs``. ``report`` is set after ``finish``; if there is none, ``failure`` says why.
    """

    def __init__(
        self,
        options: ProfileOptions,
        keep: KeepOptions,
        *,
        stepping: Stepping,
        title: str = "",
        cell: CellSource | None = None,
        cell_number: int = 0,
        is_magic: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
        cell_id: str = "",
        baseline: Report | None = None,
        save: str = "",
        keep_runs: int = 0,
        early: EarlyReports | None = None,
    ) -> None:
        self.title = title
        self.report: Report | None = None
        self.failure = ""
        self._cell = cell
        self._cell_id = cell_id
        self._baseline = baseline
        self._save, self._keep_runs = save, keep_runs
        self._is_magic = is_magic
        self._on_progress = on_progress
        self._archive = (
            Archive(keep, cycles=options.cycles, cell=cell_number, is_first_only=options.is_auto)
            if keep.trace_dir
            else None
        )
        self._notes: list[Problem] = []
        self._early = early
        self._run_id = new_id()  # of the early report, too, which the last one takes the place of
        self._told = 0  # how many problems of the session are in the report
        self.session = self._new_session(options, stepping)

    def prepare(self) -> None:
        """Run the checks that need no session. Raises ``TorchProfError``; no code of the user's has run then."""
        parts = self.session.parts
        parts.check(FREE_MEMORY, _check_reports)
        parts.run(CLEANUP, sweep)  # files of old reports must not fill the disk
        if self._archive is not None:
            parts.check(KEPT_TRACES, self._archive.prepare)

    def open(self) -> None:
        """Prepare the run and open its session. Raises ``TorchProfError``; no code of the user's has run then."""
        self.prepare()
        self.session.open()
        if self._early is not None:
            self.session.parts.run(EARLY, self._early.begin)

    @protected
    def restart(self, options: ProfileOptions, stepping: Stepping) -> None:
        """Discard the recording so far, and open a new session with other options."""
        self.session.discard()
        self._notes += [known for known in self.session.problems if known.code in OWN_FAILURES]
        fresh = self._new_session(options, stepping)
        fresh.open()
        self.session = fresh

    def note(self, problem: Problem) -> None:
        """Add a problem to the report."""
        self._notes.append(problem)

    def finish(
        self,
        *,
        assign: Callable[[Report], None] | None = None,
        show: Callable[[Report], None] | None = None,
        labels: Callable[[], tuple[tuple[str, str], ...]] = tuple,
        stepping: Stepping | None = None,
        is_awaiting: bool = False,
        later: Callable[[Callable[[], object]], None] = at_once,
    ) -> None:
        """Make the report; call this in ``finally``, after the session has stopped.

        ``assign`` is called with the report as soon as it is made, ``show`` to show it. ``labels`` returns the file
        names and labels of the notebook's cells. ``stepping`` replaces the planned stepping, if the real one differs.
        ``later`` is called with what can wait until nobody does, which is done at once by default.
        Errors become a message and ``failure``; the user's own exception is not affected. Only an interrupt is raised
        here, and only if no other exception is being raised.
        """
        __tracebackhide__ = True
        held = HeldCollections()
        try:
            self._finish(held, assign, show, labels, stepping, is_awaiting=is_awaiting, later=later)
        except BaseException:
            held.end()  # an interrupt can come where it would have been ended
            raise

    def _finish(
        self,
        held: HeldCollections,
        assign: Callable[[Report], None] | None,
        show: Callable[[Report], None] | None,
        labels: Callable[[], tuple[tuple[str, str], ...]],
        stepping: Stepping | None,
        *,
        is_awaiting: bool,
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        __tracebackhide__ = True
        session = self.session
        if self._early is not None and not session.is_forked:
            session.parts.undo(EARLY, self._early.end)
        if session.recording is None or session.is_forked:
            session.release()
            return
        has_exception = sys.exc_info()[0] is not None
        self._told = len(session.problems)
        # A collection of all that torch has imported takes as long as half of a report.
        session.parts.run(COLLECTIONS, held.begin)
        try:
            session.guard.uninstall()  # an interrupt from here on ends the analysis
            if session.is_unwanted:
                self._say_unread()
            else:
                if stepping is not None:
                    session.recording = replace(session.recording, stepping=stepping)
                with interrupts_raise(is_awaiting=is_awaiting):
                    self._make_report(session.recording, labels, assign, show, later)
        except KeyboardInterrupt:
            self._say_unread()
            if not has_exception:
                session.guard.drop_pending()  # one is enough
                raise
        except TorchProfError as exc:
            self.failure = str(exc)
            say(self.failure)
        except Exception as exc:  # noqa: BLE001 - a failure here must not affect the result of the cell
            self._say_unread(f"{type(exc).__name__}: {exc}")
        finally:
            session.parts.undo(COLLECTIONS, partial(_later_or_now, later, held.end))
            if has_exception:
                session.guard.drop_pending()
            session.parts.undo(FREED_EVENTS, partial(later, session.free_events))
            self._release(session)

    def _release(self, session: CaptureSession) -> None:
        """Let interrupts in again, and say what failed too late for the report."""
        __tracebackhide__ = True
        try:
            session.release()
        finally:
            for problem in session.problems[self._told :]:
                say(problem.message)

    def _make_report(
        self,
        recording: Recording,
        labels: Callable[[], tuple[tuple[str, str], ...]],
        assign: Callable[[Report], None] | None,
        show: Callable[[Report], None] | None,
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        is_slow = recording.size_bytes > SLOW_BYTES
        self._tell("reading", format_file_size(recording.size_bytes), is_long=is_slow)
        report = self._compared(self._read(recording, labels))
        self._remember(report, assign, later)
        self._keep(report)
        if show is not None:
            self._tell("showing", is_long=is_slow)
            show(report)
        self._tell("done")
        if any(problem.code == "capture.out_of_memory_snapshot" for problem in recording.problems):
            say_holders(report)
        sweep()  # the previous report may be gone now

    def _tell(self, phase: str, note: str = "", *, is_long: bool = False) -> None:
        """Say what is being done."""
        if self._on_progress is not None:
            progress = Progress(phase=phase, step=0, total=None, note=note, is_long=is_long)
            self.session.parts.run(PROGRESS, self._on_progress, progress)

    def _new_session(self, options: ProfileOptions, stepping: Stepping) -> CaptureSession:
        session = CaptureSession(
            options,
            stepping=stepping,
            fallback=self._archive.folder if self._archive is not None else None,
            on_progress=self._on_progress,
            on_wait=say_waiting,
            title=self.title,
        )
        if self._early is not None:
            session.news.on_warmup = self._early.look
            session.news.on_cycle = partial(self._early.offer, title=self.title, cell=self._cell, run_id=self._run_id)
        return session

    def _read(self, recording: Recording, labels: Callable[[], tuple[tuple[str, str], ...]]) -> Report:
        recording = self._kept(replace(recording, problems=self.session.problems))
        self._told = len(self.session.problems)
        recording = replace(recording, problems=(*recording.problems, *self._notes))
        return read_recording(
            recording,
            title=self.title,
            cell=self._cell,
            cell_labels=labels(),
            find_saved=self._archive.saved_traces if self._archive is not None else None,
            run_id=self._run_id,
        )

    def _kept(self, recording: Recording) -> Recording:
        """Return the recording with the paths of its copies, if it is to be kept; a failure is a problem of it."""
        if self._archive is None:
            return recording
        before = len(self.session.problems)
        kept = self.session.parts.ask(KEPT_TRACES, self._archive.keep, recording, default=recording)
        return replace(kept, problems=(*kept.problems, *self.session.problems[before:]))

    def _keep(self, report: Report) -> None:
        """Keep the report across kernels as it was asked for; a failure is a message, and the report is shown."""
        try:
            keep_run(report, name=self._save, keep_runs=self._keep_runs)
        except TorchProfError as exc:
            say(str(exc))
        except Exception as exc:  # noqa: BLE001 - the report is there
            say(f"The run was not kept ({type(exc).__name__}: {exc}).")

    def _compared(self, report: Report) -> Report:
        """Return the report with its comparison, if one was asked for; a failure is a message."""
        if self._baseline is None:
            return report
        try:
            return report.with_comparison(report.compare(self._baseline))
        except Exception as exc:  # noqa: BLE001 - the report is there
            say(f"The runs could not be compared ({type(exc).__name__}: {exc}).")
            return report

    def _remember(
        self,
        report: Report,
        assign: Callable[[Report], None] | None,
        later: Callable[[Callable[[], object]], None],
    ) -> None:
        contained = partial(partial, self.session.parts.undo, SAMPLE)
        this_process.remember(report, "", self._cell_id, lambda take: later(contained(take)))
        self.session.report = weakref.ref(report)
        self.report = report  # set last: from here on, messages say that it is in the history
        if assign is not None:
            assign(report)

    def _say_unread(self, failure: str = "") -> None:
        recording = self.session.recording
        assert recording is not None
        if self.report is None:
            self.failure = f"no report was made: {failure or 'the analysis was interrupted'}"
            keep_raw(recording)
        say_unread(recording, is_remembered=self.report is not None, is_magic=self._is_magic, failure=failure)


def _later_or_now(later: Callable[[Callable[[], object]], None], act: Callable[[], object]) -> None:
    """Have ``act`` be called later, or call it now if that fails."""
    try:
        later(act)
    except BaseException:
        act()
        raise


def _check_reports() -> None:
    """Raise ``CaptureError`` where polars would hang, as in a forked process."""
    # Asking may start polars' threads. Where they do not fit, the trace is kept without a report.
    if lack_for_reading(0) is None and not can_report():
        raise CaptureError(f"{NO_REPORTS}. Nothing was run.")
