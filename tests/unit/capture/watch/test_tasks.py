"""Tasks that ran during a recording are distinguished from those that only waited."""

from __future__ import annotations

import asyncio
import gc
import weakref

from torchprof_magic.capture.problems import ProblemLog
from torchprof_magic.capture.watch.tasks import OtherTasks


async def poll() -> None:
    while True:  # noqa: ASYNC110 - a task that runs at every turn is what is wanted
        await asyncio.sleep(0)


async def wait_for_queue(queue: asyncio.Queue[int]) -> None:
    while True:
        await queue.get()


async def in_turn(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        await future


def noted(others: OtherTasks) -> list[tuple[str, int]]:
    problems = ProblemLog()
    others.note_moved(problems)
    assert all(problem.code == "capture.other_tasks" for problem in problems.as_tuple())
    return [(problem.message.split()[2], problem.count) for problem in problems.as_tuple()]


async def settle(*tasks: asyncio.Task[None]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


def test_tasks_that_ran_are_counted_by_name() -> None:
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        tasks = [asyncio.create_task(each) for each in (poll(), poll(), wait_for_queue(queue))]
        await settle(*tasks)
        others = OtherTasks()
        await settle(*tasks)
        assert noted(others) == [("poll", 2)]
        others = OtherTasks()
        queue.put_nowait(1)
        await settle(*tasks)
        assert sorted(noted(others)) == [("poll", 2), ("wait_for_queue", 1)]
        for task in tasks:
            task.cancel()

    asyncio.run(main())


def test_a_task_that_waits_at_the_same_place_for_another_result_has_run() -> None:
    async def main() -> None:
        futures = [asyncio.get_running_loop().create_future() for _ in range(3)]
        task = asyncio.create_task(in_turn(futures))
        await settle(task)
        others = OtherTasks()
        await settle(task)
        assert noted(others) == []
        futures[0].set_result(None)
        await settle(task)
        assert noted(others) == [("in_turn", 1)]
        task.cancel()

    asyncio.run(main())


def test_a_task_that_ended_has_run_and_tasks_of_the_cell_do_not_count() -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(0))
        others = OtherTasks()
        await asyncio.gather(task, asyncio.sleep(0))
        del task
        gc.collect()
        assert noted(others) == [("sleep", 1)]

    asyncio.run(main())


def test_watching_tasks_keeps_no_object_alive() -> None:
    async def main() -> None:
        class Large:
            pass

        async def hold(large: Large, until: asyncio.Event) -> None:
            await until.wait()
            del large

        large, until = Large(), asyncio.Event()
        seen = weakref.ref(large)
        task = asyncio.create_task(hold(large, until))
        del large
        await settle(task)
        others = OtherTasks()
        until.set()
        await task
        assert seen() is None
        assert noted(others) == [("test_watching_tasks_keeps_no_object_alive.<locals>.main.<locals>.hold", 1)]

    asyncio.run(main())


def test_without_an_event_loop_there_are_no_tasks() -> None:
    assert noted(OtherTasks()) == []
