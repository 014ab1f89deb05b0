"""What can wait is done when a cell is over, and before the next one."""

from __future__ import annotations

import asyncio

from IPython.core.interactiveshell import InteractiveShell

from torchprof_magic.ipython import extension
from torchprof_magic.ipython.idle import DELAY_S, Idle


def test_without_an_event_loop_it_is_done_at_once(shell: InteractiveShell) -> None:
    done: list[int] = []
    Idle(shell).later(lambda: done.append(1))
    assert done == [1]


def test_with_an_event_loop_it_is_done_when_the_cell_is_over(shell: InteractiveShell) -> None:
    done: list[int] = []

    async def cell() -> list[int]:
        Idle(shell).later(lambda: done.append(1))
        at_its_end = list(done)
        await asyncio.sleep(2 * DELAY_S)
        return at_its_end

    assert asyncio.run(cell()) == []
    assert done == [1]


def test_it_is_done_before_the_next_cell_once_and_in_order(shell: InteractiveShell) -> None:
    idle, done = Idle(shell), list[int]()
    idle.watch()

    async def cells() -> list[int]:
        idle.later(lambda: done.append(1))
        idle.later(lambda: done.append(2))
        shell.events.trigger("pre_run_cell", None)
        before_the_loop = list(done)
        await asyncio.sleep(2 * DELAY_S)
        return before_the_loop

    try:
        assert asyncio.run(cells()) == [1, 2]
        assert done == [1, 2]
    finally:
        idle.unwatch()


def test_loading_twice_and_unloading_leaves_no_callback_behind(shell: InteractiveShell) -> None:
    before = len(shell.events.callbacks["pre_run_cell"])
    extension.load(shell)
    assert len(shell.events.callbacks["pre_run_cell"]) == before
    extension.unload(shell)
    assert len(shell.events.callbacks["pre_run_cell"]) == before - 1
