"""What can wait is done when a cell is over, and before the next one."""

from __future__ import annotations

import asyncio

import pytest
from IPython.core.interactiveshell import InteractiveShell

from torchprof_magic.ipython import extension
from torchprof_magic.ipython.idle import DELAY_S, Idle


class Kernel(InteractiveShell):
    """A shell of a kernel, whose loop runs on between cells."""

    kernel = object()


@pytest.mark.parametrize("shell_of", [InteractiveShell, Kernel])
def test_without_an_event_loop_it_is_done_at_once(shell_of: type[InteractiveShell]) -> None:
    done: list[int] = []
    Idle(shell_of()).later(lambda: done.append(1))
    assert done == [1]


@pytest.mark.parametrize(("shell_of", "by_then"), [(InteractiveShell, [1]), (Kernel, [])])
def test_it_waits_for_the_end_of_the_cell_in_a_kernel_only_as_elsewhere_the_loop_may_end_with_the_cell(
    shell_of: type[InteractiveShell], by_then: list[int]
) -> None:
    done: list[int] = []

    async def cell() -> list[int]:
        Idle(shell_of()).later(lambda: done.append(1))
        at_its_end = list(done)
        await asyncio.sleep(2 * DELAY_S)
        return at_its_end

    assert asyncio.run(cell()) == by_then
    assert done == [1]


def test_it_is_done_before_the_next_cell_once_and_in_order() -> None:
    shell = Kernel()
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
