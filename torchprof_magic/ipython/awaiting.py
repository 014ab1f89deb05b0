"""How does a cell that awaits run under the magic, on the event loop that its shell uses?

A magic is called, not awaited. So the text ``get_ipython().run_cell_magic('torchprof', ...)`` that IPython makes of
such a cell is turned into one that awaits, and IPython runs it as it runs any cell with ``await`` in it.
"""

from __future__ import annotations

import ast
import asyncio
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from torchprof_magic.capture import is_main_thread
from torchprof_magic.ipython.cell import is_coroutine

if TYPE_CHECKING:
    from types import FrameType, TracebackType

CALL = "get_ipython().run_cell_magic('torchprof', "
# Swallows the errors of its cell, our refusal too.
CAPTURE_CALL = "get_ipython().run_cell_magic('capture', "
AWAITED_CALL = "await get_ipython().magics_manager.registry['TorchProfMagics'].torchprof_awaited("
# Cells without these words, nearly all, are not even parsed.
WORDS = ("await", "async")


class AwaitTransformer:
    """Input transformer for ``%%torchprof`` cells with ``await`` in them; leaves every other cell as it is."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines of the cell, which every other transformer has seen already."""
        text = "".join(lines)
        if not text.startswith((CALL, CAPTURE_CALL)) or not any(word in text for word in WORDS):
            return lines
        if not self._shell.autoawait or _is_inside_cell():
            return lines  # cannot be awaited: the magic itself will refuse, and say why
        try:
            line, cell = _arguments(text)
            inner = self._shell.transform_cell(cell)  # type: ignore[no-untyped-call]
            if text.startswith(CAPTURE_CALL):
                is_ours = inner.startswith(AWAITED_CALL)
                return [CALL + inner.removeprefix(AWAITED_CALL)] if is_ours else lines
            return [f"{AWAITED_CALL}{line!r}, {cell!r})\n"] if _awaits(inner) else lines
        except Exception:  # noqa: BLE001 - the magic meets it again when it compiles the cell, and says what it is
            return lines


class InterruptCancels:
    """Lets Ctrl-C end an awaiting cell at once, wherever the event loop is just then.

    In a terminal a KeyboardInterrupt would be raised in the event loop, past the cell, which would wait for ever with
    its profiler on. So the task is cancelled, and the cell ends with the KeyboardInterrupt. ipykernel's handler cancels
    the cell, and does it here too; but the loop may sleep on for as long as nothing else happens, so it is woken. And
    the cell may never wait again, while its recording is finished above all: then it ends with the KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._handler = self._handle  # each access makes another object, and signal handlers are compared
        self._previous: Any = None
        self._was_cancelled = False
        self._is_unheard = False

    def __enter__(self) -> None:
        """Take the place of the handler that is there."""
        previous = signal.getsignal(signal.SIGINT)
        if is_main_thread() and callable(previous):
            self._task = _current_task()
        if self._task is not None:
            self._previous = previous
            signal.signal(signal.SIGINT, self._handler)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put the handler back, and turn the cancellation that an interrupt caused into that interrupt."""
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
        loop.call_soon_threadsafe(loop.call_soon, self._hear)  # wakes it, too

    def _hear(self) -> None:
        """Leave the rest to the cancellation: ipykernel's came in the second turn of the loop, just before this."""
        self._is_unheard = False


def _is_of_kernel(handler: object) -> bool:
    """Return whether ``handler`` is the one with which ipykernel cancels an awaiting cell, and no user's."""
    return str(getattr(handler, "__module__", "")).startswith("ipykernel.")


def _arguments(text: str) -> tuple[str, str]:
    """Return the line and the cell of ``get_ipython().run_cell_magic(name, line, cell)``."""
    call: Any = ast.parse(text.strip(), mode="eval").body
    _, line, cell = (ast.literal_eval(argument) for argument in call.args)
    return line, cell


def _awaits(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come again, with their place, when the cell is compiled to be run
        return is_coroutine(compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True))


def _is_inside_cell() -> bool:
    """Return whether some cell is being run by the code that wants this one transformed: another magic, say."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller
    while frame is not None:
        if frame.f_code is InteractiveShell.run_cell_async.__code__:
            return True
        frame = frame.f_back
    return False


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop of asyncio's: trio, for one, minds its interrupts itself
        return None
