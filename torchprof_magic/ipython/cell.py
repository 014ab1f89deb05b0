"""Compiles and runs a cell under the magic as it would run without it.

The cell keeps its line numbers and ``Cell In[n]`` label, IPython syntax (``!ls``, ``%magics``) in its body, the value
of its last expression, a single traceback, and its exceptions.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from IPython.core.error import InputRejected, UsageError

from torchprof_magic.capture import FUNCTIONS, LINES, MARKED_LOOP, open_to_interrupts, protected
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.meta import CellSource, source_lines
from torchprof_magic.run.line_marks import mark_lines, with_marks
from torchprof_magic.run.stepping.choosing import Choice
from torchprof_magic.run.stepping.instrument import instrument, with_steppers
from torchprof_magic.run.stepping.plan import StepPlan, plan_steps
from torchprof_magic.run.stepping.syntax import fill_locations

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

    from torchprof_magic.capture import ProgramWatch
    from torchprof_magic.capture.parts import Parts
    from torchprof_magic.run.stepping.choosing import WatchedSession

    class CellSession(WatchedSession, Protocol):
        """The part of a capture session that running a cell needs."""

        @property
        def is_active(self) -> bool:
            """True once the session is open."""

        @property
        def parts(self) -> Parts:
            """What notes failures of ours."""

        @property
        def program(self) -> ProgramWatch:
            """What watches the lines of the cell."""

        def open(self) -> None:
            """Run the checks that are possible before the cell runs."""

        def let_interrupts_in(self) -> None:
            """Raise an interrupt that was deferred."""

        def stop(self, *, is_held: bool = False) -> object:
            """End the recording and save it; a deferred interrupt stays deferred with ``is_held``."""


AWAIT_IS_OFF = "the cell uses top-level await, but %autoawait is off; turn it on with: %autoawait asyncio"
AWAIT_IS_NESTED = """\
top-level await works only when %%torchprof is the outermost cell magic: put %%torchprof first, without %%time,
%%capture or another magic above it, or use the context manager inside the cell:
    import torchprof_magic as tp
    with tp.profile() as p: ..."""
# Mistakes in the flags or the cell, which the user has to see.
NOT_OURS = (UsageError, OptionsError, SyntaxError, InputRejected)
_HANDLER_MODULE = "torchprof_magic.capture.interrupts.guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCell:
    """A cell that is ready to run.

    ``code`` is its text as Python compiles it. ``last`` computes the value of its last expression, on ``last_line``, if
    IPython would show it. ``flaw`` is the error because of which no line is marked and no loop is stepped.
    """

    source: CellSource
    code: str
    plan: StepPlan
    body: CodeType
    last: CodeType | None
    last_line: int = 0
    flaw: Exception | None = None

    @property
    def number(self) -> int:
        """Execution count of the cell."""
        return int(self.source.label.strip("In []"))

    @property
    def awaits(self) -> bool:
        """True when the cell must run as a coroutine."""
        return is_coroutine(self.body) or (self.last is not None and is_coroutine(self.last))


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of the magic's body: below ``offset`` header lines of the cell with the full text ``raw``.

    ``is_statement``: the body is a statement after ``%torchprof`` on a line of a cell.
    """

    raw: str
    offset: int
    number: int
    is_statement: bool = False


def compile_cell(shell: InteractiveShell, cell: str, *, step: str = "auto", may_await: bool = False) -> CompiledCell:
    """Compile the body of a cell magic and plan its steps; ``step`` is the value of ``--step``.

    Raises OptionsError when the cell cannot be stepped as requested, or when it awaits and ``may_await`` is False; and
    SyntaxError as usual.
    """
    __tracebackhide__ = True
    place = _place(shell, cell)
    source = "\n" * place.offset + shell.transform_cell(cell)  # type: ignore[no-untyped-call]
    filename = _cache(shell.compile, source, place)
    text = CellSource(label=f"In [{place.number}]", filename=filename, source=place.raw or source)
    try:
        compiled = _compiled(shell, source, text, step)
    except NOT_OURS:
        raise
    except Exception as exc:  # noqa: BLE001 - Python may compile what is nested too deeply to be rewritten
        compiled = replace(_compiled(shell, source, text), flaw=exc)
    if compiled.last is not None:
        open_to_interrupts(compiled.last)
    if compiled.awaits and not may_await:
        raise OptionsError(AWAIT_IS_NESTED if shell.autoawait else AWAIT_IS_OFF)
    return compiled


def _compiled(shell: InteractiveShell, source: str, text: CellSource, step: str | None = None) -> CompiledCell:
    """Compile the source of a cell; without ``step`` as it is, with no line marked and no loop stepped."""
    __tracebackhide__ = True
    compiler: Any = shell.compile  # accepts a tree, but its type does not say so
    tree = shell.transform_ast(compiler.ast_parse(source, filename=text.filename))  # type: ignore[no-untyped-call]
    plan = StepPlan(how="optimizer")
    if step is not None:
        plan = plan_steps(tree, source_lines(text.source), shell.user_ns, step)
    last = _split_last(tree, shell.ast_node_interactivity)
    if step is not None:
        tree = fill_locations(instrument(mark_lines(tree, plan.loop), plan))
    with compiler.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        return CompiledCell(
            source=text,
            code=source,
            plan=plan,
            body=compiler(tree, text.filename, "exec"),
            last=compiler(last, text.filename, "eval") if last is not None else None,
            last_line=last.body.lineno if last is not None else 0,
        )


def compile_plain(shell: InteractiveShell, cell: str) -> CompiledCell:
    """Compile a cell that is not recorded; raises what IPython raises for it."""
    __tracebackhide__ = True
    source: str = shell.transform_cell(cell)  # type: ignore[no-untyped-call]
    filename: str = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    return _compiled(shell, source, CellSource(label="", filename=filename, source=cell))


def run_plain(shell: InteractiveShell, compiled: CompiledCell, local_ns: dict[str, Any] | None = None) -> object:
    """Run a cell that is not recorded, and return the value of its last expression."""
    __tracebackhide__ = True
    names = shell.user_ns if local_ns is None else local_ns
    exec(compiled.body, shell.user_global_ns, names)  # noqa: S102 - runs the user's cell
    return None if compiled.last is None else eval(compiled.last, shell.user_global_ns, names)  # noqa: S307


async def await_plain(shell: InteractiveShell, compiled: CompiledCell) -> object:
    """Do what ``run_plain`` does for a cell that awaits, in the current task."""
    __tracebackhide__ = True
    await _awaited(shell, compiled.body)
    return None if compiled.last is None else await _awaited(shell, compiled.last)


@protected
def run_cell(
    shell: InteractiveShell, compiled: CompiledCell, session: CellSession, local_ns: dict[str, Any] | None = None
) -> object:
    """Run the cell under ``session`` and return the value of its last expression.

    An exception of the cell propagates unchanged, after the recording has been saved. A session that is not open yet is
    opened first, which may raise ProfilerBusyError or CaptureError before the cell runs. Interrupts are raised only in
    the cell's own code; one that arrives outside of it is deferred until ``session.release()``. ``local_ns`` holds the
    local variables when the code is called inside a function.
    """
    __tracebackhide__ = True
    if not session.is_active:
        session.open()
    names = shell.user_ns if local_ns is None else local_ns
    try:
        body = _body_of(shell, compiled, session, names)
        open_to_interrupts(body)
        if not compiled.plan.starts_late:
            session.start()
        session.let_interrupts_in()
        exec(body, shell.user_global_ns, names)  # noqa: S102 - runs the user's cell
        if compiled.last is None:
            return None
        session.program.lines.mark(compiled.last_line)
        return eval(compiled.last, shell.user_global_ns, names)  # noqa: S307
    except KeyboardInterrupt as exc:
        _end_at_users_line(exc)
        raise
    finally:
        session.stop(is_held=True)


@protected
async def await_cell(shell: InteractiveShell, compiled: CompiledCell, session: CellSession) -> object:
    """Do what ``run_cell`` does for a cell that awaits, in the current task."""
    __tracebackhide__ = True
    if not session.is_active:
        session.open()
    try:
        body = _body_of(shell, compiled, session, shell.user_ns)
        open_to_interrupts(body)
        if not compiled.plan.starts_late:
            session.start()
        session.let_interrupts_in()
        await _awaited(shell, body)
        if compiled.last is None:
            return None
        session.program.lines.mark(compiled.last_line)
        return await _awaited(shell, compiled.last)
    finally:
        session.stop(is_held=True)


def _body_of(
    shell: InteractiveShell, compiled: CompiledCell, session: CellSession, names: Mapping[str, object]
) -> CodeType:
    """Return the code of the cell with what makes its steps; without that, if it fails."""
    try:
        body = _with_helpers(compiled, session, names)
    except Exception as exc:  # noqa: BLE001 - the cell must run all the same
        session.parts.fail(MARKED_LOOP, exc)
        body = _compiled(shell, compiled.code, compiled.source).body
    else:
        session.parts.run(LINES, session.program.lines.be_of, body, compiled.last)
    session.parts.run(FUNCTIONS, _leave_out, session, body)
    return body


def _with_helpers(compiled: CompiledCell, session: CellSession, names: Mapping[str, object]) -> CodeType:
    """Return the code of the cell with the stepper and the marks of this session in it."""
    session.program.modules.namespace = names
    marks = session.program.lines
    choice = Choice(session, compiled.plan, marks, compiled.source.filename)
    return with_marks(with_steppers(compiled.body, choice.stepper_of), marks)


def _leave_out(session: CellSession, body: CodeType) -> None:
    """Time no lines of the code of the cell, which is no function."""
    if session.program.functions is not None:
        session.program.functions.leave_out(body)


def is_coroutine(code: CodeType) -> bool:
    """Return whether ``code`` uses top-level await, so that running it returns a coroutine."""
    return bool(code.co_flags & inspect.CO_COROUTINE)


def cell_labels(shell: InteractiveShell) -> tuple[tuple[str, str], ...]:
    """Return the file name and the label (``In [4]``) of every cell that this shell compiled."""
    compiler: Any = shell.compile
    labels = ((name, compiler.format_code_name(name)) for name in list(linecache.cache))
    return tuple((name, " ".join(label).replace("Cell In[", "In [")) for name, label in labels if label is not None)


def _cache(compiler: Any, source: str, place: _Place) -> str:
    """Add the source to ``linecache`` for tracebacks and ``inspect``, line by line as the user sees the cell.

    In a kernel, the file name of a cell depends on its text, so the entry's other lines are kept.
    """
    name: str = compiler.get_code_name(place.raw or source, source, place.number)
    before = linecache.cache.get(name)
    compiler.cache(source, place.number, raw_code=place.raw or None)
    around = source_lines(place.raw)
    lines = source_lines(source)
    if place.is_statement and before is not None:
        known = before[2] if len(before) > 1 else []
        around = [line.rstrip("\n") for line in known] or around
    for row, line in enumerate(around):
        if row >= len(lines):
            lines.append(line)
        elif not lines[row].strip():
            lines[row] = line
    linecache.cache[name] = (sum(map(len, lines)), None, [f"{line}\n" for line in lines], name)
    return name


def _end_at_users_line(exc: KeyboardInterrupt) -> None:
    """Remove the frames of our signal handler from the end of the traceback."""
    trace = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        if trace.tb_next.tb_frame.f_globals.get("__name__") == _HANDLER_MODULE:
            trace.tb_next = None
        trace = trace.tb_next


async def _awaited(shell: InteractiveShell, code: CodeType) -> object:
    __tracebackhide__ = True
    value: Any = eval(code, shell.user_global_ns, shell.user_ns)  # noqa: S307 - the same
    return await value if is_coroutine(code) else value


def _place(shell: InteractiveShell, cell: str) -> _Place:
    """Find the full cell in the history, so that line numbers count from its first line."""
    history: list[str] = shell.history_manager.input_hist_raw if shell.history_manager else [""]
    # In[n] is entry n of the history; execution_count is n or n + 1, depending on the version of IPython.
    number = len(history) - 1
    raw, body = history[-1], cell.rstrip("\n")
    above, found, below = raw.rpartition(body) if body else (raw, "", "")
    # transform_cell drops blank lines at the top, which still count.
    blank = cell[: len(cell) - len(cell.lstrip())].count("\n")
    # A statement after %torchprof may be followed by other lines; it is found if it occurs only once.
    if not body or not found or (below.strip() and raw.count(body) > 1):
        return _Place("", 1 + blank, number)
    return _Place(raw, above.count("\n") + blank, number, is_statement=bool(above) and not above.endswith("\n"))


def _split_last(tree: ast.Module, interactivity: str) -> ast.Expression | None:
    """Remove the last expression from ``tree`` and return it, if IPython would show its value."""
    if not tree.body or interactivity == "none":
        return None
    final = tree.body[-1]
    if isinstance(final, ast.Expr):
        tree.body.pop()
        return ast.Expression(final.value)
    if (
        interactivity == "last_expr_or_assign"
        and isinstance(final, ast.Assign)
        and isinstance(final.targets[0], ast.Name)
    ):
        return ast.Expression(ast.copy_location(ast.Name(final.targets[0].id, ast.Load()), final))
    return None
