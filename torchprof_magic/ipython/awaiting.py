"""Runs ``%%torchprof`` cells with top-level ``await`` on the event loop of their shell, and shows their syntax errors.

IPython calls a cell magic as a function and does not await it. An input transformer therefore replaces the call
``get_ipython().run_cell_magic('torchprof', ...)`` that IPython generates for such a cell with one that awaits, and
IPython runs the result like any cell with ``await`` in it.
"""

from __future__ import annotations

import ast
import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from IPython.core.interactiveshell import InteractiveShell

from torchprof_magic.ipython.cell import is_coroutine
from torchprof_magic.ipython.commands import Commands
from torchprof_magic.ipython.flags import split_flags
from torchprof_magic.system.process.python_warnings import warnings_to
from torchprof_magic.system.process.threads import is_main_thread

if TYPE_CHECKING:
    from types import CodeType, FrameType, TracebackType

CALL = "get_ipython().run_cell_magic('torchprof', "
LINE_CALL = "get_ipython().run_line_magic('torchprof', "
# %%capture hides the errors of its cell, including our UsageError.
CAPTURE_CALL = "get_ipython().run_cell_magic('capture', "
AWAITED_CALL = "await get_ipython().magics_manager.registry['TorchProfMagics'].torchprof_awaited("
# The rest of the cell is then not run.
ASKS_FOR_HELP = ("-h", "--help", "?")


class CellTransformer:
    """Input transformer for ``%%torchprof`` cells that IPython itself has to run; returns every other cell unchanged.

    A cell with ``await`` is turned into one that IPython awaits. A cell with a syntax error is returned without the
    magic, so that IPython shows the error as usual.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines of the cell, after all other transformers."""
        text = "".join(lines)
        try:
            if LINE_CALL in text:
                return self._with_wrong_statements(text).splitlines(keepends=True)
            if not text.startswith((CALL, CAPTURE_CALL)) or _is_inside_cell():
                return lines
            return self._transformed(text, lines)
        except Exception:  # noqa: BLE001 - the magic raises it again when it compiles the cell
            return lines

    def _transformed(self, text: str, lines: list[str]) -> list[str]:
        line, cell = _arguments(text)
        inner = self._shell.transform_cell(cell)  # type: ignore[no-untyped-call]
        if text.startswith(CAPTURE_CALL):
            is_ours = inner.startswith(AWAITED_CALL)
            return [CALL + inner.removeprefix(AWAITED_CALL)] if is_ours else lines
        if line.strip() in ASKS_FOR_HELP:
            return lines
        code = self._compiled(inner)
        if code is None:
            return ["\n", *inner.splitlines(keepends=True)]  # below the line of the magic
        awaits = self._shell.autoawait and is_coroutine(code)
        return [f"{AWAITED_CALL}{line!r}, {cell!r})\n"] if awaits else lines

    def _with_wrong_statements(self, text: str) -> str:
        """Return a cell in which statements of ``%torchprof`` with a syntax error stand without the magic.

        So IPython shows the error as that of the cell, at its line.
        """
        rows = text.encode().splitlines(keepends=True)
        magics = self._shell.magics_manager.registry["TorchProfMagics"]
        for call in reversed([node for node in ast.walk(ast.parse(text)) if _is_line_call(node)]):
            line = ast.literal_eval(call.args[1])
            _, statement = split_flags(line, magics.torchprof.parser)
            if not Commands(self._shell, magics).holds_statement(line) or self._compiles(statement):
                continue
            row = rows[call.lineno - 1]
            rows[call.lineno - 1] = row[: call.col_offset] + statement.encode() + row[call.end_col_offset :]
        changed = b"".join(rows).decode()
        # What is wrong only under the magic, such as ``return`` in a function, is left to it.
        return text if self._compiled(changed) is not None else changed

    def _compiles(self, statement: str) -> bool:
        return self._compiled(self._shell.transform_cell(statement)) is not None  # type: ignore[no-untyped-call]

    def _compiled(self, source: str) -> CodeType | None:
        """Return the code of the cell, with top-level await allowed, or ``None`` if it has a syntax error."""
        flags = self._shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        try:
            with warnings_to():  # they are shown when the cell is compiled to run it
                return compile(source, "<cell>", "exec", flags, dont_inherit=True)
        except SyntaxError:
            return None


class InterruptCancels:
    """Lets Ctrl-C end an awaiting cell at once, whatever the event loop is doing.

    In a terminal, the KeyboardInterrupt would be raised in the event loop instead of the cell, and the cell would wait
    forever with its profiler on. Therefore its task is cancelled, and the cell ends with the KeyboardInterrupt.
    In a kernel, ipykernel's handler cancels the cell; here the event loop is woken as well, because it may sleep until
    something else happens. If the cell does not await again, for example while its recording is being finished, it ends
    with the KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._handler = self._handle  # each access creates a new object, and signal handlers are compared
        self._previous: Any = None
        self._was_cancelled = False
        self._is_unheard = False

    def __enter__(self) -> None:
        """Replace the current SIGINT handler."""
        previous = signal.getsignal(signal.SIGINT)
        if is_main_thread() and callable(previous):
            self._task = _current_task()
        if self._task is not None:
            self._previous = previous
            signal.signal(signal.SIGINT, self._handler)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the handler, and raise KeyboardInterrupt in place of the CancelledError that an interrupt caused."""
        __tracebackhide__ = True
        handler: object = signal.getsignal(signal.SIGINT)
        if self._task is not None and handler is self._handler:
            signal.signal(signal.SIGINT, self._previous)
        if self._was_cancelled and (kind is None or kind is asyncio.CancelledError):
            if sys.version_info >= (3, 11) and self._task is not None:
                self._task.uncancel()
            raise KeyboardInterrupt().with_traceback(traceback) from None
        if self._is_unheard and kind is None:
            raise KeyboardInterrupt

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        task = self._task
        assert task is not None
        loop = task.get_loop()
        is_elsewhere = asyncio.current_task(loop) is not task
        if self._previous is signal.default_int_handler and is_elsewhere and not self._was_cancelled:
            self._was_cancelled = True
            loop.call_soon_threadsafe(task.cancel)
            return
        self._previous(signum, frame)
        self._is_unheard = _is_of_kernel(self._previous)
        loop.call_soon_threadsafe(loop.call_soon, self._hear)  # also wakes the loop

    def _hear(self) -> None:
        """Leave the rest to ipykernel's cancellation, which the loop runs one callback before this one."""
        self._is_unheard = False


def _is_of_kernel(handler: object) -> bool:
    """Return whether ``handler`` is ipykernel's, which cancels an awaiting cell, and not a user's handler."""
    return str(getattr(handler, "__module__", "")).startswith("ipykernel.")


def _is_line_call(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether a node is what IPython makes of ``%torchprof`` on a line."""
    return isinstance(node, ast.Call) and ast.unparse(node).startswith(LINE_CALL)


def _arguments(text: str) -> tuple[str, str]:
    """Return the line and the cell of ``get_ipython().run_cell_magic(name, line, cell)``."""
    call: Any = ast.parse(text.strip(), mode="eval").body
    _, line, cell = (ast.literal_eval(argument) for argument in call.args)
    return line, cell


def _is_inside_cell() -> bool:
    """Return whether the caller runs inside another cell, for example in another cell magic."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller
    while frame is not None:
        if frame.f_code is InteractiveShell.run_cell_async.__code__:
            return True
        frame = frame.f_back
    return False


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # not an asyncio loop: trio, for example, handles interrupts itself
        return None
