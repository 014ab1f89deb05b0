"""Cells that await behave under the magic as without it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kernels import Kernel, started

SETUP = """%load_ext torchprof_magic
%config TorchProfMagics.preset = 'quick'
import asyncio, contextvars, torch
import torchprof_magic as tp
async def batches(count):
    for i in range(count):
        await asyncio.sleep(0.001)
        yield i
def work():
    torch.ones(16).mul(2).sum()
"""
STEPS = "print(run.steps['number'].to_list(), run.steps['complete'].to_list())"
PLAIN = "for i in range(8):\n    work()\n"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(SETUP) as found:
        yield found


def test_awaited_value_is_the_cells_and_the_report_comes_before_it(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{PLAIN}    await asyncio.sleep(0.001)\nawait asyncio.sleep(0, 'awaited')")
    assert (cell.reply["status"], cell.values, len(cell.static)) == ("ok", ["'awaited'"], 1)
    kinds = [message["msg_type"] for message in cell.messages]
    assert kinds.index("display_data") < kinds.index("execute_result")
    assert re.search(r"steps 2–4 recorded(, details from [6-9–]+)?, stepped by line 2", cell.static[0])
    assert kernel.run("print(_ == 'awaited', run is tp.last)").text == "True True\n"
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"


def test_semicolon_silences_the_awaited_value(kernel: Kernel) -> None:
    assert kernel.run("%%torchprof -q\nawait asyncio.sleep(0, 5);").values == []
    assert kernel.run("%%torchprof -q\nawait asyncio.sleep(0, 5)").values == ["5"]


def test_async_for_makes_the_steps(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%torchprof -o run\nwork()\nasync for i in batches(8):\n    work()\nelse:\n    rest = 'else ran'"
    )
    assert re.search(r"steps 2–4 recorded(, details from [6-9–]+)?, stepped by line 3", cell.static[0])
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"
    assert kernel.run("print(i, rest, run.trace.meta.stepping.code)").text == "7 else ran async for i in batches(8):\n"
    assert kernel.run("print({n: c for n, c in run.ops[['name', 'calls']].rows()}['aten::mul'])").text == "3\n"


def test_break_in_async_for_ends_the_recording_there(kernel: Kernel) -> None:
    kernel.run("%%torchprof -q -o run\nasync for i in batches(8):\n    work()\n    if i == 3: break\nelse:\n    i = -1")
    assert kernel.run(STEPS).text == "[2, 3] [True, False]\n"
    assert kernel.run("print(i, '_torchprof_steps_' in globals())").text == "3 False\n"


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(8):\n    if i == 1: continue\n    work()\n    await asyncio.sleep(0)\n",
        "i = 0\nwhile i < 8:\n    work()\n    await asyncio.sleep(0)\n    i += 1\n",
        "async with asyncio.Lock():\n    for i in range(8):\n        work()\n",
        "found = [i async for i in batches(3)]\nfor i in range(8):\n    work()\n",
        "for epoch in range(2):\n    async for i in batches(4):\n        work()\n",
    ],
)
def test_every_kind_of_loop_steps_while_it_awaits(kernel: Kernel, loop: str) -> None:
    # Its steps take microseconds, so that the loop over epochs would make them.
    flags = " --step line:3" if "epoch" in loop else ""
    assert kernel.run(f"%%torchprof -q -o run{flags}\n{loop}").reply["status"] == "ok"
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"


def test_cell_runs_on_the_kernels_loop_with_the_locks_and_tasks_of_other_cells(kernel: Kernel) -> None:
    kernel.run("loop, lock = asyncio.get_running_loop(), asyncio.Lock()\ntask = asyncio.create_task(lock.acquire())")
    said = "asyncio.get_running_loop() is loop, await task, lock.locked()"
    assert kernel.run(f"%%torchprof -q\n{said}").values == ["(True, True, True)"]
    assert kernel.run("%%torchprof -q\nlock.release()\nasync with lock:\n    held = lock.locked()\nheld").values == [
        "True"
    ]


def test_context_variables_are_those_of_a_plain_cell(kernel: Kernel) -> None:
    kernel.run("place = contextvars.ContextVar('place', default='nowhere')")
    body = "place.set({!r})\nasync def read(): return place.get()\nawait asyncio.sleep(0)\nplace.get(), await read()"
    seen = []
    for header in ("", "%%torchprof -q\n"):
        inside = kernel.run(header + body.format("inside")).values
        seen.append((inside, kernel.run("place.get()").values))
    assert seen[0][0] == ["('inside', 'inside')"]
    assert seen[1] == seen[0]


def test_exception_of_the_cell_has_its_own_line(kernel: Kernel) -> None:
    fails = "async def fail():\n    await asyncio.sleep(0.001)\n    raise KeyError('mine')\n"
    cell = kernel.run(f"%%torchprof\n{fails}{PLAIN}    if i == 5: await fail()")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "KeyError")
    assert cell.error_lines == [1, 7, 4]  # the magic, the loop's last line, the raise
    assert len(cell.static) == 1
    assert not any("torchprof_magic" in line for line in cell.reply["traceback"])


def test_exception_in_the_async_iterator_keeps_its_lines(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%torchprof -q\nasync def bad():\n    yield 1\n    raise KeyError\nasync for i in bad():\n    work()"
    )
    assert cell.reply["ename"] == "KeyError"
    assert cell.error_lines == [1, 5, 4]


def test_async_for_over_a_plain_iterable_fails_as_in_python(kernel: Kernel) -> None:
    cell = "async for i in 5:\n    work()"
    assert kernel.run(f"%%torchprof -q\n{cell}").reply["evalue"] == kernel.run(cell).reply["evalue"]


def test_interrupt_while_awaiting_shows_a_partial_report_and_the_next_cell_records(kernel: Kernel) -> None:
    waits = "    if i == 3: print('here', flush=True)\n    await asyncio.sleep(1000 if i == 3 else 0)\n"
    cell = kernel.run(f"%%torchprof -o run\n{PLAIN}{waits}", interrupt_at="here")
    assert (cell.reply["status"], cell.reply["ename"]) == ("error", "CancelledError")  # as ipykernel reports it
    assert cell.error_lines == [1, 5]
    assert len(cell.static) == 1
    assert kernel.run(STEPS).text == "[2, 3] [True, False]\n"
    assert "No profiler is running" in kernel.run("%torchprof off").text
    assert kernel.run(f"%%torchprof -q -o run\n{PLAIN}    await asyncio.sleep(0)").reply["status"] == "ok"
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"


def test_cancellation_propagates_unchanged(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{PLAIN}asyncio.current_task().cancel('why')\nawait asyncio.sleep(9)")
    assert (cell.reply["ename"], cell.reply["evalue"]) == ("CancelledError", "why")
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"
    assert kernel.run(f"%%torchprof -q\n{PLAIN}").reply["status"] == "ok"


def test_interrupt_while_the_report_is_made_stops_the_cell(kernel: Kernel) -> None:
    kernel.run(
        "import torchprof_magic.ipython.magics as magics; shown = magics.show\n"
        "def slow(*_, **__):\n    import time; print('reading', flush=True); time.sleep(60)\nmagics.show = slow"
    )
    cell = kernel.run(f"%%torchprof\n{PLAIN}    await asyncio.sleep(0)", interrupt_at="reading")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    kernel.run("magics.show = shown")


def test_interrupt_while_the_recording_is_ended_stops_the_cell_and_the_report_is_whole(kernel: Kernel) -> None:
    kernel.run(
        "import signal\nfrom torchprof_magic.capture import CaptureSession; stops = CaptureSession._stop\n"
        "def interrupted(*args, **kwargs):\n    signal.raise_signal(signal.SIGINT)\n    return stops(*args, **kwargs)\n"
        "CaptureSession._stop = interrupted"
    )
    cell = kernel.run(f"%%torchprof -o run\n{PLAIN}    await asyncio.sleep(0)")
    kernel.run("CaptureSession._stop = stops")
    assert (cell.reply["ename"], len(cell.static)) == ("KeyboardInterrupt", 1)
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"
    again = kernel.run(f"%%torchprof -q -o run\n{PLAIN}    await asyncio.sleep(0)\n'its value'")
    assert (again.reply["status"], again.values) == ("ok", ["'its value'"])


def test_cancellation_that_the_cell_catches_does_not_end_the_recording(kernel: Kernel) -> None:
    waits = "try:\n    print('here', flush=True)\n    await asyncio.sleep(60)\n"
    survives = "except asyncio.CancelledError:\n    pass\n'went on'"
    cell = kernel.run(f"%%torchprof -q\n{waits}{survives}", interrupt_at="here")
    assert (cell.reply["status"], cell.values) == ("ok", ["'went on'"])


def test_task_of_another_cell_that_ran_at_the_same_time_is_noted(kernel: Kernel) -> None:
    notes = "print([(p.code, p.severity, p.count) for p in run.trace.problems])"
    kernel.run(
        "async def poll():\n    while True: torch.zeros(3).cos(); await asyncio.sleep(0.001)\n"
        "async def idle(): await asyncio.sleep(1000)\n"
        "tasks = [asyncio.create_task(each()) for each in (poll, poll, idle)]"
    )
    kernel.run(f"%%torchprof -q -o run\n{PLAIN}    await asyncio.sleep(0.01)")
    assert kernel.run(notes).text == "[('capture.other_tasks', 'info', 2)]\n"
    assert kernel.run("print('aten::cos' in run.ops['name'])").text == "True\n"
    kernel.run(f"%%torchprof -q -o run\n{PLAIN}")
    assert kernel.run(notes).text == "[]\n"
    kernel.run("for task in tasks: task.cancel()")
    kernel.run(f"%%torchprof -q -o run\n{PLAIN}    await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))")
    assert kernel.run(notes).text == "[]\n"


@pytest.mark.parametrize("above", ["%%capture", "%%time", "%%capture out\n%%time"])
def test_magic_above_an_awaiting_cell_is_refused_before_it_runs(kernel: Kernel, above: str) -> None:
    kernel.run("ran = False")
    cell = kernel.run(f"{above}\n%%torchprof\nran = True\nawait asyncio.sleep(0)")
    if "\n" not in above:  # captured output is not shown
        assert cell.reply["ename"] == "UsageError"
        assert "put %%torchprof first" in cell.reply["evalue"]
        assert "with tp.profile() as p" in cell.reply["evalue"]
    assert kernel.run("print(ran)").text == "False\n"


def test_context_manager_that_the_error_suggests_works(kernel: Kernel) -> None:
    cell = kernel.run(f"with tp.profile() as p:\n    {PLAIN.replace('    ', '        ')}    await asyncio.sleep(0)")
    assert cell.reply["status"] == "ok"
    assert kernel.run("print({n: c for n, c in p.report.ops[['name', 'calls']].rows()}['aten::mul'])").text == "8\n"


def test_call_that_cannot_await_is_refused_before_the_cell_runs(kernel: Kernel) -> None:
    kernel.run("ran = False")
    cell = kernel.run("x = get_ipython().run_cell_magic('torchprof', '', 'ran = True\\nawait asyncio.sleep(0)')")
    assert (cell.reply["ename"], "put %%torchprof first" in cell.reply["evalue"]) == ("UsageError", True)
    assert kernel.run("print(ran)").text == "False\n"


def test_autoawait_off_is_named(kernel: Kernel) -> None:
    kernel.run("ran = False\n%autoawait off")
    cell = kernel.run("%%torchprof\nran = True\nawait asyncio.sleep(0)")
    assert (cell.reply["ename"], "%autoawait is off" in cell.reply["evalue"]) == ("UsageError", True)
    assert kernel.run("%autoawait on\nprint(ran)").text == "False\n"


def test_second_recording_inside_an_awaiting_cell_is_refused_at_once(kernel: Kernel) -> None:
    inner = "async def inner():\n    get_ipython().run_cell_magic('torchprof', '', 'inner_ran = 1')\n"
    cell = kernel.run(
        f"%%torchprof -o run\n{inner}{PLAIN}    await asyncio.sleep(0)\nawait asyncio.create_task(inner())"
    )
    assert (cell.reply["ename"], "already recording" in cell.reply["evalue"]) == ("UsageError", True)
    assert kernel.run("print('inner_ran' in globals())").text == "False\n"
    assert kernel.run(STEPS).text == "[2, 3, 4] [True, True, True]\n"


def test_wrong_flag_is_refused_before_an_awaiting_cell_runs(kernel: Kernel) -> None:
    kernel.run("ran = False")
    cell = kernel.run("%%torchprof --active 0\nran = True\nawait asyncio.sleep(0)")
    assert (cell.reply["ename"], "--active must be at least 1" in cell.reply["evalue"]) == ("UsageError", True)
    assert kernel.run("print(ran)").text == "False\n"


def test_stacks_are_recorded_across_awaits(kernel: Kernel) -> None:
    body = "async def train(i):\n    await asyncio.sleep(0)\n    work()\nasync for i in batches(8):\n    await train(i)"
    assert kernel.run(f"%%torchprof -q --stack -o run\n{body}").reply["status"] == "ok"
    assert kernel.run("print(any('work' in n for n in run.events['name']))").text == "True\n"


def test_unloading_removes_the_transformer_and_reloading_adds_one(kernel: Kernel) -> None:
    count = "print(sum(type(t).__name__ == 'CellTransformer' for t in get_ipython().input_transformers_post))"
    assert kernel.run(count).text == "1\n"
    kernel.run("%reload_ext torchprof_magic")
    assert kernel.run(count).text == "1\n"
    kernel.run("%unload_ext torchprof_magic")
    assert kernel.run(count).text == "0\n"
    assert kernel.run("%%torchprof\nawait asyncio.sleep(0)").reply["ename"] == "UsageError"
    kernel.run("%load_ext torchprof_magic")
    assert kernel.run("%%torchprof -q\nawait asyncio.sleep(0, 7)").values == ["7"]
