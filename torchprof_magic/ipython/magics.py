"""The magics ``%%torchprof`` and ``%torchprof``, which record a cell or a statement and show the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from traitlets import Dict, TraitError, validate

from torchprof_magic.capture import MARKED_LOOP, PROGRESS, protected
from torchprof_magic.ipython.awaiting import ASKS_FOR_HELP, InterruptCancels
from torchprof_magic.ipython.cell import (
    NOT_OURS,
    CompiledCell,
    await_cell,
    await_plain,
    cell_labels,
    compile_cell,
    compile_plain,
    run_cell,
    run_plain,
)
from torchprof_magic.ipython.commands import Commands
from torchprof_magic.ipython.early_view import EarlyView, can_show_early
from torchprof_magic.ipython.flags import FlagDefaults, checked_variable, flagged, parsed_flags, split_flags, values_of
from torchprof_magic.ipython.idle import Idle
from torchprof_magic.ipython.named_reports import named_report
from torchprof_magic.ipython.progress import ProgressBar
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.units import print_text
from torchprof_magic.options import keep_options, profile_options
from torchprof_magic.render.display import can_be_asked, has_front_end, import_what_shows, show
from torchprof_magic.report import peaks, rules
from torchprof_magic.run.conductor import Run
from torchprof_magic.run.early.reports import EarlyReports
from torchprof_magic.run.messages import say
from torchprof_magic.runs.kept_runs import check_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.capture import CaptureSession
    from torchprof_magic.report.trace_report import Report


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell with its flags, ready to be recorded."""

    flags: dict[str, Any]
    compiled: CompiledCell
    run: Run
    bar: ProgressBar | None
    view: EarlyView | None

    def open(self) -> CaptureSession:
        """Run the checks that are possible before the cell runs; raises ``UsageError``."""
        try:
            self.run.open()
        except TorchProfError as exc:
            raise UsageError(str(exc)) from None
        return self.run.session


@magics_class
class TorchProfMagics(Magics, FlagDefaults):
    """Record cells with torch's profiler and show the report in their output."""

    shell: InteractiveShell
    advice = Dict(
        help="Advice: {'mute': [names of rules], 'threshold': least share of a step, 'thresholds': {name: share}}."
    ).tag(config=True)

    peaks = Dict(
        help="Peaks of devices: {part of the name: {'bytes_per_s': number, 'flops_per_s': {type: number}}}."
    ).tag(config=True)

    def __init__(self, shell: InteractiveShell, **configuration: Any) -> None:
        super().__init__(shell, **configuration)
        self.idle = Idle(shell)

    @validate("advice")
    def _check_advice(self, proposal: dict[str, Any]) -> dict[str, Any]:
        """Apply what `%config` sets to all reports of this process."""
        try:
            rules.configure(proposal["value"])
        except TorchProfError as exc:
            raise TraitError(str(exc)) from None
        return dict(proposal["value"])

    @validate("peaks")
    def _check_peaks(self, proposal: dict[str, Any]) -> dict[str, Any]:
        """Apply what `%config` sets to all reports of this process."""
        try:
            peaks.configure(proposal["value"])
        except TorchProfError as exc:
            raise TraitError(str(exc)) from None
        return dict(proposal["value"])

    @no_var_expand
    @output_can_be_silenced
    @flagged
    @cell_magic
    def torchprof(self, line: str, cell: str) -> object:
        """Record this cell with torch's profiler and show where time and memory went.

        The cell runs as it would without the magic, and its training loop is stepped automatically. Without schedule
        flags, the profiler waits for one step, warms up for one and records three, or fewer if the loop is short.
        """
        __tracebackhide__ = True
        if line.strip() in ASKS_FOR_HELP:
            help_text: str = self.torchprof.parser.format_help()
            print_text(help_text.removeprefix("::").strip())  # the colons are markup
            return None
        return self._record(line, cell)

    @protected
    async def torchprof_awaited(self, line: str, cell: str) -> object:
        """Do what ``%%torchprof`` does, for a cell that awaits; ``CellTransformer`` inserts the call."""
        __tracebackhide__ = True
        with InterruptCancels():
            try:
                recorded = self._prepare(line, cell, may_await=True)
                session = recorded.open()
            except NOT_OURS:
                raise
            except Exception as exc:  # noqa: BLE001 - the cell must not fail because of us
                value = await await_plain(self.shell, self._unrecorded(cell, exc))
            else:
                try:
                    value = await await_cell(self.shell, recorded.compiled, session)
                finally:
                    self._finish(recorded)
        return None if DisplayHook.semicolon_at_end_of_expression(cell) else value  # as IPython does for magics

    @no_var_expand
    @needs_local_scope
    @output_can_be_silenced
    @line_magic("torchprof")  # type: ignore[arg-type]
    def torchprof_line(self, line: str, local_ns: dict[str, Any] | None = None) -> object:
        """Record one statement, or run a command: last, load, save, export, compare, history, config, doctor, off.

        ``%torchprof help`` lists all commands. The value of a recorded statement is returned, as with ``%time``.
        """
        __tracebackhide__ = True
        try:
            if Commands(self.shell, self).run(line):
                return None
        except (TorchProfError, ValueError) as exc:
            raise UsageError(str(exc)) from None
        flags, statement = split_flags(line, self.torchprof.parser)
        if not statement:
            raise UsageError("%torchprof: expected a statement after the flags; %torchprof help lists the commands")
        return self._record(flags, statement, local_ns)

    @protected
    def _record(self, line: str, cell: str, local_ns: dict[str, Any] | None = None) -> object:
        __tracebackhide__ = True
        try:
            recorded = self._prepare(line, cell, local_ns)
            session = recorded.open()
        except NOT_OURS:
            raise
        except Exception as exc:  # noqa: BLE001 - the cell must not fail because of us
            return run_plain(self.shell, self._unrecorded(cell, exc), local_ns)
        try:
            return run_cell(self.shell, recorded.compiled, session, local_ns)
        finally:
            self._finish(recorded)

    def _prepare(
        self, line: str, cell: str, local_ns: dict[str, Any] | None = None, *, may_await: bool = False
    ) -> _Cell:
        """Parse the flags and compile the cell; every mistake in them is a ``UsageError`` before the cell runs."""
        __tracebackhide__ = True
        try:
            args = parsed_flags(self.torchprof, line)
            flags = values_of(args, self, self.shell.user_ns | (local_ns or {}))
            flags["out"] = checked_variable(flags["out"])
            options = profile_options(flags)
            known = self.shell.user_ns | (local_ns or {})
            baseline = named_report(flags["compare"], known) if flags["compare"] else None
            if flags["save"]:
                check_name(flags["save"])
            bar = self._bar(is_quiet=flags["quiet"])
            compiled = compile_cell(self.shell, cell, step=flags["step"], may_await=may_await)
            view = self._early_view(bar, flags["display"], compiled.source.label)
            run = Run(
                options,
                keep_options(flags),
                stepping=compiled.plan.stepping,
                title=compiled.source.label,
                cell=compiled.source,
                cell_number=compiled.number,
                is_magic=True,
                on_progress=bar,
                early=None if view is None else EarlyReports(view, lambda: cell_labels(self.shell)),
                cell_id=_cell_id(self.shell),
                baseline=baseline,
                save=flags["save"],
                keep_runs=flags["keep_runs"] or 0,
            )
        except TorchProfError as exc:
            raise UsageError(str(exc)) from None
        if not flags["quiet"]:
            import_what_shows(self.shell, flags["display"])
        run.session.may_hand_over = flags["step"] in ("auto", "manual")
        run.session.by_model = compiled.plan.by_model
        if compiled.flaw is not None:
            run.session.parts.fail(MARKED_LOOP, compiled.flaw)
        return _Cell(flags, compiled, run, bar, view)

    def _unrecorded(self, cell: str, failure: Exception) -> CompiledCell:
        """Return the cell as it is, and say that it runs without a recording because of ``failure``."""
        __tracebackhide__ = True
        compiled = compile_plain(self.shell, cell)
        say(
            f"The cell runs without a recording, because torchprof failed ({type(failure).__name__}: {failure}). "
            "Please report this with the output of %torchprof doctor."
        )
        return compiled

    def _bar(self, *, is_quiet: bool) -> ProgressBar | None:
        has_place = not has_front_end(self.shell) or can_be_asked(self.shell)
        return ProgressBar() if has_place and not is_quiet else None

    def _early_view(self, bar: ProgressBar | None, mode: str, title: str) -> EarlyView | None:
        is_possible = bar is not None and has_front_end(self.shell) and can_show_early(self.shell, mode)
        return EarlyView(self.shell, bar, title) if bar is not None and is_possible else None

    def _finish(self, recorded: _Cell) -> None:
        """Read and show what was recorded; an exception of the cell propagates afterwards."""
        __tracebackhide__ = True
        bar = recorded.bar
        if bar is not None:
            recorded.run.session.parts.undo(PROGRESS, bar.end)
        flags = recorded.flags

        def assign(report: Report) -> None:
            if flags["out"]:
                self.shell.user_ns[flags["out"]] = report

        def show_unless_quiet(report: Report) -> None:
            if not flags["quiet"]:
                place = None if recorded.view is None else recorded.view.widget
                show(report, self.shell, flags["display"], place=place)

        try:
            recorded.run.finish(
                assign=assign,
                show=show_unless_quiet,
                labels=lambda: cell_labels(self.shell),
                is_awaiting=recorded.compiled.awaits,
                later=self.idle.later,
            )
        finally:
            if bar is not None:  # an interrupt ends a report in any stage
                recorded.run.session.parts.undo(PROGRESS, bar.close)
        recorded.run.report = None  # a traceback that IPython keeps holds this run, and must not hold its report


def _cell_id(shell: InteractiveShell) -> str:
    """Return the id of the cell in its notebook, as the front end told it; empty if it does not."""
    message: object = getattr(getattr(shell, "kernel", None), "get_parent", dict)()
    found = message.get("metadata", {}).get("cellId", "") if isinstance(message, dict) else ""
    return found if isinstance(found, str) else ""
