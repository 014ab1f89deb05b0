"""Cells with ``await`` run on the event loop, and an interrupt ends them while they wait."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import signal
import sys
import types
from typing import TYPE_CHECKING

import pytest
from ipykernel.ipkernel import IPythonKernel
from IPython.core.interactiveshell import InteractiveShell
from tornado.ioloop import IOLoop

from torchprof_magic.capture import CaptureSession, busy_profiler
from torchprof_magic.ipython import extension
from torchprof_magic.ipython.awaiting import InterruptCancels
from torchprof_magic.ipython.cell import await_cell, compile_cell
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.options import ProfileOptions

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

AWAITED = "await get_ipython().magics_manager.registry['TorchProfMagics'].torchprof_awaited("
SYNC = "get_ipython().run_cell_magic('torchprof', "


@pytest.mark.parametrize(
    "body",
    [
        "await x",
        "async for a in b:\n  pass",
        "async with a:\n  pass",
        "y = [a async for a in b]",
        "def f(a=await x): pass",
        "words = !ls\n%precision 3\nawait x",
        "f'{await x}'",
    ],
)
def test_cell_that_awaits_is_awaited(shell: InteractiveShell, body: str) -> None:
    assert shell.transform_cell(f"%%torchprof -o run\n{body}") == f"{AWAITED}'-o run', {body + chr(10)!r})\n"


@pytest.mark.parametrize(
    "body",
    [
        "async def f():\n  await x",
        "x = 'await this'",
        "lambda: (a async for a in b)",
        "for i in x: pass",
    ],
)
def test_cell_that_does_not_await_is_unchanged(shell: InteractiveShell, body: str) -> None:
    text = shell.transform_cell(f"%%torchprof -o run\n{body}")
    extension.unload(shell)
    assert text == shell.transform_cell(f"%%torchprof -o run\n{body}")
    assert text.startswith(SYNC)


@pytest.mark.parametrize(
    "cell",
    [
        "await x",
        "%%time\n%%torchprof\nawait x",
        "%%writefile some.py\n%%torchprof\nawait x",
        "%%capture\nawait x",
        "get_ipython().run_cell_magic('torchprof', '', 'await x').y",
        "get_ipython().run_cell_magic('torchprof', name, 'await x'); y",
    ],
)
def test_other_cells_are_unchanged(shell: InteractiveShell, cell: str) -> None:
    text = shell.transform_cell(cell)
    extension.unload(shell)
    assert text == shell.transform_cell(cell)


def test_capture_above_is_removed_so_that_the_error_is_shown(shell: InteractiveShell) -> None:
    assert shell.transform_cell("%%capture out\n%%torchprof -q\nawait x") == f"{SYNC}'-q', 'await x\\n')\n"


def test_without_autoawait_no_cell_is_awaited(shell: InteractiveShell) -> None:
    shell.autoawait = False
    assert shell.transform_cell("%%torchprof\nawait x").startswith(SYNC)
    with pytest.raises(OptionsError, match="%autoawait is off"):
        compile_cell(shell, "await x")


def test_cell_that_another_cell_transforms_is_not_awaited(shell: InteractiveShell) -> None:
    shell.run_cell("text = get_ipython().transform_cell('%%torchprof\\nawait x')")
    assert shell.user_ns["text"].startswith(SYNC)


def test_incomplete_cell_still_asks_for_more_input(shell: InteractiveShell) -> None:
    cell = "%%torchprof\nasync for i in x:\n    f(i)\n"
    with_it = [shell.check_complete(cell + end) for end in ("", "\n")]
    extension.unload(shell)
    assert with_it == [shell.check_complete(cell + end) for end in ("", "\n")]
    assert [status for status, _ in with_it] == ["incomplete", "complete"]


def test_loading_twice_leaves_one_transformer_and_unloading_none(shell: InteractiveShell) -> None:
    extension.load(shell)
    assert len(shell.input_transformers_post) == 1
    extension.unload(shell)
    assert shell.input_transformers_post == []


def test_body_runs_in_the_task_that_awaits_it_and_gives_its_value(shell: InteractiveShell, tmp_path: Path) -> None:
    loop = "import asyncio, torch\nfor i in range(8):\n    await asyncio.sleep(0)\n    torch.ones(2)\n"
    compiled = compile_cell(shell, f"{loop}asyncio.current_task(), await asyncio.sleep(0, 5)", may_await=True)
    session = CaptureSession(ProfileOptions(activities=("cpu",)), stepping=compiled.plan.stepping, folder=tmp_path)

    async def main() -> None:
        assert await await_cell(shell, compiled, session) == (asyncio.current_task(), 5)
        session.release()

    asyncio.run(main())
    assert session.recording is not None
    assert [mark.number for mark in session.recording.cycles[0].steps] == [2, 3, 4]
    assert busy_profiler() is None
    assert "_torchprof_steps_" not in shell.user_ns


def test_cell_that_is_destroyed_while_it_awaits_leaves_the_profiler_off(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    compiled = compile_cell(shell, "import asyncio\nfor i in range(8):\n    await asyncio.sleep(0)", may_await=True)
    session = CaptureSession(ProfileOptions(activities=("cpu",)), stepping=compiled.plan.stepping, folder=tmp_path)
    running = await_cell(shell, compiled, session)
    for _ in range(4):
        running.send(None)
    assert busy_profiler() is not None
    running.close()
    session.release()
    assert busy_profiler() is None


# -- interrupts ---------------------------------------------------------------------------------------------------


def run(main: Coroutine[object, object, None]) -> None:
    """Run a coroutine as IPython does; asyncio.run would install its own signal handler."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(main)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.sleep(0)


def test_interrupt_while_the_cell_waits_ends_it_with_a_keyboard_interrupt() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(0.01, interrupt)
        with pytest.raises(KeyboardInterrupt) as caught, InterruptCancels():
            await asyncio.Event().wait()
        assert caught.value.__suppress_context__
        assert any(entry.name == "wait" for entry in caught.traceback)
        task = asyncio.current_task()
        assert task is not None
        assert sys.version_info < (3, 11) or task.cancelling() == 0
        await asyncio.sleep(0)

    run(main())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupt_while_the_cell_computes_is_raised_there() -> None:
    async def main() -> None:
        with pytest.raises(KeyboardInterrupt), InterruptCancels():
            interrupt()
        await asyncio.sleep(0)

    run(main())


def test_cancellation_by_other_code_stays_a_cancellation() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(asyncio.CancelledError), InterruptCancels():
            await cancelled(task)

    run(main())


def test_handler_that_cancels_by_itself_is_called_and_the_loop_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        before = signal.signal(signal.SIGINT, lambda *_: task.cancel())
        woken: list[object] = []
        call_soon_threadsafe = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *f: woken.append(f) or call_soon_threadsafe(*f))
        loop.call_later(0.01, interrupt)
        try:
            with pytest.raises(asyncio.CancelledError), InterruptCancels():
                await asyncio.Event().wait()
        finally:
            signal.signal(signal.SIGINT, before)
        assert len(woken) == 1

    run(main())


@pytest.mark.parametrize(
    ("awaits", "ends_in"),
    # ipykernel cancels in the second iteration of the loop, and not at all if the cell has ended by then.
    [(0, KeyboardInterrupt), (1, KeyboardInterrupt), (2, asyncio.CancelledError), (3, asyncio.CancelledError)],
)
def test_only_an_interrupt_that_ipykernel_would_drop_is_raised_at_the_end(
    awaits: int, ends_in: type[BaseException]
) -> None:
    went_on: list[int] = []

    async def cell() -> None:
        with InterruptCancels():
            interrupt()
            for i in range(awaits):
                await asyncio.sleep(0)
                went_on.append(i)

    async def caught() -> None:
        with pytest.raises(ends_in):
            await cell()

    async def main() -> None:
        task = asyncio.ensure_future(caught())
        with IPythonKernel._cancel_on_sigint(types.SimpleNamespace(io_loop=IOLoop.current()), task):
            await task

    run(main())
    assert went_on == list(range(min(awaits, 1)))


def test_cell_that_catches_its_cancellation_runs_to_its_end() -> None:
    async def cell() -> str:
        with InterruptCancels():
            interrupt()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return "its end"

    async def main() -> None:
        task = asyncio.ensure_future(cell())
        with IPythonKernel._cancel_on_sigint(types.SimpleNamespace(io_loop=IOLoop.current()), task):
            assert await task == "its end"

    run(main())


def test_interrupt_that_a_users_handler_handled_is_not_raised() -> None:
    got: list[int] = []

    async def main() -> None:
        before = signal.signal(signal.SIGINT, lambda number, _frame: got.append(number))
        try:
            with InterruptCancels():
                interrupt()
        finally:
            signal.signal(signal.SIGINT, before)

    run(main())
    assert got == [signal.SIGINT]


def test_transformed_text_is_one_statement_of_one_line(shell: InteractiveShell) -> None:
    text = shell.transform_cell("%%torchprof -o 'a b'\ns = '''x\u2028\n'''\nawait y")
    assert len(text.splitlines()) == 1
    assert len(ast.parse(text).body) == 1
