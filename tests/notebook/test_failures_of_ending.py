"""Recorded cells that end early, in a real kernel: rows 1 to 9 of docs/failures.md.

Each test checks what the user sees and what survives, and ends with ``assert_recovered``: the profiler is off, and the
next cell is recorded as usual.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Cell, Kernel, started
from recovering import (
    FIRST,
    LOOP,
    TORCH,
    assert_recovered,
    op_names,
    ops,
    outcome,
    steps,
    warned,
)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with started(FIRST, TMPDIR=str(tmp_path_factory.mktemp("runs"))) as found:
        yield found


# -- exceptions and interrupts in the cell ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "phase"), [pytest.param(0, "wait", id="row 1"), pytest.param(1, "warm-up", id="row 2")]
)
def test_row_1_and_2_an_exception_before_anything_is_recorded(kernel: Kernel, step: int, phase: str) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == {step}: raise KeyError('mine')")
    assert (outcome(cell), cell.reply["evalue"], cell.error_lines) == ("KeyError", "'mine'", [1, 4])
    assert warned(cell, f"No step was recorded: the run ended during the {phase}, after {step} of 5 steps.")
    assert kernel.run("print(i, y.item())").text == f"{step} 32.0\n"
    assert_recovered(kernel)


def test_row_3_an_exception_in_a_recorded_step(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == 3: raise KeyError('mine')")
    assert (outcome(cell), cell.error_lines) == ("KeyError", [1, 4])
    assert warned(cell, "Partial: 1 of 3 steps are complete. The run ended while recording, after 3 of 5 steps.")
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert "aten::mul" in ops(kernel)
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("step", "words", "kept"),
    [
        (0, "the run ended during the wait, after 0 of 5 steps.", "[]"),
        (1, "the run ended during the warm-up, after 1 of 5 steps.", "[]"),
        (3, "Partial: 1 of 3 steps are complete. The run ended while recording", "[(2, True), (3, False)]"),
    ],
    ids=["wait", "warm-up", "active"],
)
def test_row_4_an_interrupt_in_each_phase(kernel: Kernel, step: int, words: str, kept: str) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == {step}: hang()", interrupt_at="here")
    assert (outcome(cell), cell.error_lines[:2]) == ("KeyboardInterrupt", [1, 4])
    assert warned(cell, words)
    assert steps(kernel) == kept
    assert_recovered(kernel)


@pytest.mark.parametrize(
    ("moment", "begun", "kept"),
    [
        # Even steps warm up, odd ones are cycles of their own; the interrupt is armed in step 2.
        ("start_trace", [0, 1, 2], "[(1, True)]"),
        ("stop_trace", [0, 1, 2, 3], "[(1, True), (3, True)]"),
        ("prepare_trace", [0, 1, 2, 3], "[(1, True), (3, True)]"),
    ],
)
def test_row_5_an_interrupt_inside_a_transition(kernel: Kernel, moment: str, begun: list[int], kept: str) -> None:
    armed = f"    begun.append(i)\n    if i == 2: interrupt_in({TORCH}, '{moment}')"
    cell = kernel.run(f"%%torchprof --wait 0 --warmup 1 --active 1 --repeat 0\nbegun = []\n{LOOP}{armed}")
    assert (outcome(cell), cell.error_lines) == ("KeyboardInterrupt", [1, 3])
    assert kernel.run("print(begun)").text == f"{begun}\n"
    assert steps(kernel) == kept
    assert_recovered(kernel)


def test_row_5_an_interrupt_in_a_handler_of_the_users(kernel: Kernel) -> None:
    once = "    calls.append(p)\n    if len(calls) == 1: os.kill(os.getpid(), signal.SIGINT); print('not reached')\n"
    block = "with tp.profile(wait=0, warmup=0, active=1, repeat=0, on_trace_ready=ready) as p:\n"
    cell = kernel.run(
        f"calls = []\ndef ready(p):\n{once}{block}    for i in p.steps(range(8)): y = torch.ones(16).mul(2).sum()"
    )
    assert (outcome(cell), cell.text) == ("KeyboardInterrupt", "")
    assert steps(kernel).startswith("[(0, True)")
    assert_recovered(kernel)


# -- interrupts afterwards ----------------------------------------------------------------------------------------

FINISHING = "torchprof: Saving the recording. Interrupt again to skip the report.\n"
SKIPPED = "torchprof: Report skipped. Interrupt again to discard the recording.\n"


def test_row_6_one_interrupt_while_the_recording_is_finished(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof --step cell\ninterrupt_in({TORCH}, 'stop_trace')\ny = torch.ones(16).mul(2)")
    assert (outcome(cell), cell.text) == ("KeyboardInterrupt", FINISHING)
    assert len(cell.static) == 1
    assert steps(kernel) == "[(0, True)]"
    assert "aten::mul" in ops(kernel)
    assert_recovered(kernel)


def test_row_6_a_second_interrupt_does_without_the_report(kernel: Kernel) -> None:
    armed = f"interrupt_in({TORCH}, 'stop_trace')\ninterrupt_in({TORCH}, 'export_chrome_trace')\n"
    cell = kernel.run(f"%%torchprof --step cell\n{armed}y = torch.ones(16).mul(2)")
    assert outcome(cell) == "KeyboardInterrupt"
    assert cell.text.startswith(FINISHING + SKIPPED)
    assert cell.static == []
    assert_recovered(kernel)
    assert_opens(kernel, cell)


def test_row_6_a_third_interrupt_gives_the_recording_up(kernel: Kernel) -> None:
    armed = f"interrupt_in({TORCH}, 'stop_trace')\ninterrupt_in({TORCH}, 'export_chrome_trace', times=2)\n"
    cell = kernel.run(f"%%torchprof --step cell\n{armed}y = torch.ones(16).mul(2)")
    assert outcome(cell) == "KeyboardInterrupt"
    given_up = "cycle-0.pt.trace.json was not saved, because of repeated interrupts."
    assert cell.text == f"{FINISHING}{SKIPPED}torchprof: No trace was saved. {given_up}\n"
    assert_recovered(kernel)


def assert_opens(kernel: Kernel, cell: Cell) -> None:
    """Assert that the line a cell ended with names a command that opens its trace."""
    found = re.search(r"The trace is kept in (\S+)\. Open it with: (%torchprof load .*)\n", cell.text)
    assert found is not None
    assert Path(found[1]).is_dir()
    opened = kernel.run(found[2])
    assert outcome(opened) == "ok"
    assert "aten::mul" in ops(kernel)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("torchprof_magic.run.recorded_trace", "read_chrome"),
        ("torchprof_magic.run.conductor.Run", "_remember"),  # the report exists but was not remembered yet
    ],
)
def test_row_7_an_interrupt_while_the_trace_is_read(kernel: Kernel, owner: str, name: str) -> None:
    kernel.run(
        f"import torchprof_magic.run.recorded_trace, torchprof_magic.run.conductor\ninterrupt_in({owner}, '{name}')"
    )
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    assert (outcome(cell), cell.static) == ("KeyboardInterrupt", [])
    assert cell.text.startswith("torchprof: Analysis interrupted. The trace is kept in ")
    assert_recovered(kernel)
    assert_opens(kernel, cell)


def test_row_7_an_interrupt_while_the_report_is_shown(kernel: Kernel) -> None:
    kernel.run(
        "import torchprof_magic.report.trace_forms\ninterrupt_in(torchprof_magic.report.trace_forms, 'static_html')"
    )
    cell = kernel.run(f"%%torchprof\n{LOOP}")
    assert (outcome(cell), cell.static) == ("KeyboardInterrupt", [])
    assert cell.text == "torchprof: Interrupted before the report was shown. Show it with: %torchprof last\n"
    assert len(kernel.run("%torchprof last").static) == 1
    assert_recovered(kernel)


# -- the end of the process ---------------------------------------------------------------------------------------


def test_row_8_sys_exit_in_a_recorded_step(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof\n{LOOP}    if i == 3: sys.exit(3)")
    assert (outcome(cell), cell.reply["evalue"]) == ("SystemExit", "3")
    assert "To exit: use 'exit', 'quit', or Ctrl-D." in cell.text
    assert warned(cell, "Partial: 1 of 3 steps are complete")
    assert steps(kernel) == "[(2, True), (3, False)]"
    assert_recovered(kernel)


@pytest.mark.slow
def test_row_8_exit_ends_the_kernel_when_the_trace_is_flushed(tmp_path: Path) -> None:
    with started(FIRST) as kernel:
        cell = kernel.run(f"%%torchprof --trace-dir {shlex.quote(str(tmp_path))} --filename kept.json\n{LOOP}exit()")
        assert (outcome(cell), cell.reply["payload"][0]["source"]) == ("ok", "ask_exit")
        assert len(cell.static) == 1
        wait_until_dead(kernel)
    assert "aten::mul" in op_names(tmp_path / "kept.json")


def wait_until_dead(kernel: Kernel) -> None:
    deadline = time.monotonic() + 60
    while kernel.manager.is_alive():
        assert time.monotonic() < deadline, "the kernel goes on"
        time.sleep(0.05)


@pytest.mark.slow
def test_row_9_a_kernel_that_is_killed_in_a_recorded_step(tmp_path: Path) -> None:
    kept = f"--trace-dir {shlex.quote(str(tmp_path / 'kept'))} --filename {{run_name}}-{{cycle}}.json"
    runs = tmp_path / "runs"
    runs.mkdir()
    with started(FIRST, TMPDIR=str(runs)) as kernel:
        assert outcome(kernel.run(f"%%torchprof -q {kept} --run-name earlier\n{LOOP}")) == "ok"
        # Every step is a cycle; in step 2 the cycles of steps 0 and 1 are recorded, and with idle steps also saved.
        flags = "--wait 1 --warmup 0 --active 1 --repeat 3"
        kernel.client.execute(f"%%torchprof {flags} {kept}\n{LOOP}    if i == 5: os.kill(os.getpid(), signal.SIGKILL)")
        wait_until_dead(kernel)
    with started(FIRST.replace("%load_ext torchprof_magic\n", ""), TMPDIR=str(runs)) as kernel:
        told = kernel.run("%load_ext torchprof_magic").text
        found = re.fullmatch(
            r"torchprof: The run In \[3\] of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d did not finish, because its process ended. "
            r"2 cycles were saved. Open the first with: (%torchprof load .*)\n",
            told,
        )
        assert found is not None, told
        assert kernel.run("%reload_ext torchprof_magic").text == ""
        assert outcome(kernel.run(found[1])) == "ok"
        assert "aten::mul" in ops(kernel)
        assert "earlier-0.json" in kernel.run(f"%torchprof traces {shlex.quote(str(tmp_path / 'kept'))}").text
        assert outcome(kernel.run(f"%%torchprof -q {kept} --run-name later\n{LOOP}")) == "ok"
        assert sorted(path.name for path in (tmp_path / "kept").glob("*-0.json")) == ["earlier-0.json", "later-0.json"]
        assert_recovered(kernel)
