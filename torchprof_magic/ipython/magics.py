"""What can a user write after ``%%torchprof`` and ``%torchprof``, and what happens then?"""

from __future__ import annotations

import sys
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
from IPython.core.magic_arguments import parse_argstring

from torchprof_magic.capture import CaptureSession, protected
from torchprof_magic.errors import TorchProfError
from torchprof_magic.ipython.awaiting import InterruptCancels, interrupts_raise
from torchprof_magic.ipython.cell import CompiledCell, await_cell, cell_labels, compile_cell, run_cell
from torchprof_magic.ipython.commands import Commands
from torchprof_magic.ipython.display import can_be_asked, has_front_end, show
from torchprof_magic.ipython.flags import (
    FlagDefaults,
    check_variable,
    completed,
    expanded,
    flagged,
    keep_of,
    options_of,
    split_flags,
)
from torchprof_magic.ipython.progress import ProgressBar
from torchprof_magic.run import history
from torchprof_magic.run.archive import Keeper
from torchprof_magic.run.cleanup import keep_raw, sweep
from torchprof_magic.run.messages import say_unread, say_waiting
from torchprof_magic.run.reading import read_recording

if TYPE_CHECKING:
    from argparse import Namespace

    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.capture import Recording
    from torchprof_magic.options import ProfileOptions
    from torchprof_magic.report import Report


@dataclass(frozen=True, slots=True)
class _Run:
    """One cell with its flags, ready to be recorded."""

    args: Namespace
    options: ProfileOptions
    compiled: CompiledCell
    keeper: Keeper | None
    bar: ProgressBar | None

    def open(self) -> CaptureSession:
        """Check all that can be checked before the cell runs; raises ``UsageError``."""
        session = CaptureSession(
            self.options,
            stepping=self.compiled.plan.stepping,
            spare=self.keeper.folder if self.keeper is not None else None,
            on_progress=self.bar,
            on_wait=say_waiting,
            title=self.compiled.source.label,
        )
        sweep()  # what is not needed any more must not fill the disk that this recording needs
        try:
            if self.keeper is not None:
                self.keeper.prepare()
            session.open()
        except TorchProfError as exc:
            raise UsageError(str(exc)) from None
        return session


# The cell below is not run then, as a program would not.
ASKS_FOR_HELP = ("-h", "--help", "?")


@magics_class
class TorchProfMagics(Magics, FlagDefaults):
    """Record cells with torch's profiler and show the result in their output."""

    shell: InteractiveShell

    @no_var_expand
    @output_can_be_silenced
    @flagged
    @cell_magic
    def torchprof(self, line: str, cell: str) -> object:
        """Record this cell with torch's profiler and show where time and memory went.

        The cell runs as it would without the magic. Its training loop is stepped for you, and without schedule flags
        a few steps in the middle are recorded: one idle, one to warm up, three recorded; fewer when the loop is short.
        """
        __tracebackhide__ = True
        if line.strip() in ASKS_FOR_HELP:
            help_text: str = self.torchprof.parser.format_help()
            print(help_text.removeprefix("::").strip())  # noqa: T201 - this is the output; the colons are markup
            return None
        return self._record(line, cell)

    @protected
    async def torchprof_awaited(self, line: str, cell: str) -> object:
        """Do what ``%%torchprof`` does, for a cell that awaits; called by what ``AwaitTransformer`` writes."""
        __tracebackhide__ = True
        run = self._prepare(line, cell, may_await=True)
        with InterruptCancels():
            session = run.open()
            try:
                value = await await_cell(self.shell, run.compiled, session)
            finally:
                self._present(session, run)
        return None if DisplayHook.semicolon_at_end_of_expression(cell) else value  # as IPython does for magics

    @no_var_expand
    @needs_local_scope
    @output_can_be_silenced
    @line_magic("torchprof")  # type: ignore[arg-type]
    def torchprof_line(self, line: str, local_ns: dict[str, Any] | None = None) -> object:
        """Record one statement, or do something outside a cell: last, load, save, export, history, config, doctor, off.

        ``%torchprof help`` lists what can be said. A recorded statement's value is returned, as ``%time`` does.
        """
        __tracebackhide__ = True
        try:
            if Commands(self.shell, self).run(line):
                return None
        except (TorchProfError, ValueError) as exc:
            raise UsageError(str(exc)) from None
        flags, statement = split_flags(line, self.torchprof.parser)
        if not statement:
            raise UsageError("%torchprof: a statement is missing behind the flags; %torchprof help lists the commands")
        return self._record(flags, statement, local_ns)

    @protected
    def _record(self, line: str, cell: str, local_ns: dict[str, Any] | None = None) -> object:
        __tracebackhide__ = True
        run = self._prepare(line, cell, local_ns)
        session = run.open()
        try:
            return run_cell(self.shell, run.compiled, session, local_ns)
        finally:
            self._present(session, run)

    def _prepare(
        self, line: str, cell: str, local_ns: dict[str, Any] | None = None, *, may_await: bool = False
    ) -> _Run:
        """Turn flags and cell into something that can run; every mistake in them is a ``UsageError`` before that."""
        __tracebackhide__ = True
        args = parse_argstring(self.torchprof, line)
        check_variable(args.out)
        try:
            variables = self.shell.user_ns | (local_ns or {})
            options = options_of(expanded(completed(args, self), variables), variables)
            kept = keep_of(args)
            compiled = compile_cell(self.shell, cell, step=args.step, may_await=may_await)
            keeper = Keeper(kept, cycles=options.cycles, cell=compiled.number) if kept.trace_dir else None
        except TorchProfError as exc:
            raise UsageError(str(exc)) from None
        return _Run(args, options, compiled, keeper, self._bar(args))

    def _bar(self, args: Namespace) -> ProgressBar | None:
        has_place = not has_front_end(self.shell) or can_be_asked(self.shell)
        return ProgressBar() if has_place and not args.quiet else None

    def _present(self, session: CaptureSession, run: _Run) -> None:
        """Read and show what was recorded; the cell's own exception, if any, goes on afterwards."""
        if run.bar is not None:
            run.bar.close()
        if session.recording is None or session.is_forked:
            session.release()
            return
        recording, before = session.recording, history.newest_id()
        has_exception = sys.exc_info()[0] is not None
        try:
            session.guard.uninstall()  # an interrupt that comes from here on ends the analysis
            if session.is_unwanted:
                _say_unread(session, is_remembered=False)
            else:
                with interrupts_raise(is_awaiting=run.compiled.awaits):
                    self._show(session, recording, run)
        except KeyboardInterrupt:
            _say_unread(session, is_remembered=history.newest_id() != before)
            if not has_exception:
                session.guard.drop_pending()  # one is enough
                raise  # the cells below must not run; an exception of the cell's own goes first
        except TorchProfError as exc:
            print(f"torchprof: {exc}")  # noqa: T201 - the cell's own result must not be replaced
        except Exception as exc:  # noqa: BLE001 - the same: whatever fails here, the cell has its own result
            what = f"{type(exc).__name__}: {exc}"
            print(f"torchprof: the report could not be shown ({what})")  # noqa: T201 - the same
            _say_unread(session, is_remembered=history.newest_id() != before)
        finally:
            if has_exception:
                session.guard.drop_pending()
            session.release()

    def _show(self, session: CaptureSession, recording: Recording, run: _Run) -> None:
        if run.keeper is not None:
            recording = run.keeper.keep(session.checked() or recording)
        report = read_recording(
            recording,
            title=run.compiled.source.label,
            cell=run.compiled.source,
            cell_labels=cell_labels(self.shell),
            check=session.checked,
        )
        session.skip_check()
        self._keep(report, run.args)
        if not run.args.quiet:
            show(report, self.shell, run.args.display)
        sweep()  # the report that this one takes the place of has gone

    @protected
    def _keep(self, report: Report, args: Namespace) -> None:
        history.remember(report)
        if args.out:
            self.shell.user_ns[args.out] = report


def _say_unread(session: CaptureSession, *, is_remembered: bool) -> None:
    session.settle()
    assert session.recording is not None
    recording = session.recording
    if not is_remembered:
        keep_raw(recording)
    say_unread(recording, is_remembered=is_remembered, is_magic=True)
