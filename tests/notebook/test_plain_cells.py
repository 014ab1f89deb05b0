"""Cells that ask for nothing record times, then details, and do what they do without the magic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import Kernel, started
from recovering import FIRST, assert_recovered

# Details cost more on a busy machine; with a budget, that does not decide how many steps have them.
PLAIN = '%config TorchProfMagics.preset = "auto"\n%config TorchProfMagics.budget = "10min"'
LOOP = "for i in range(12):\n    y = torch.ones(16).mul(2).sum()\n"
ASKED = "run.steps['number'].to_list(), run.trace.meta.two_pass.detail_steps, run.trace.meta.has_memory"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(FIRST) as found:
        assert found.run(PLAIN).reply["status"] == "ok"
        yield found


def test_value_output_and_variables_are_those_of_the_cell_and_the_report_has_everything(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\nprint('begin')\n{LOOP}answer = 41\nanswer + 1")
    assert cell.reply["status"] == "ok"
    assert cell.values == ["42"]
    assert cell.text == "begin\n"
    (static,) = cell.static
    assert "steps 2–4 recorded, details from 6–8, stepped by line 3" in static
    assert kernel.run(f"print({ASKED})").text == "[2, 3, 4] (6, 7, 8) True\n"
    asked = (
        "run.memory.height > 0, run.lines.height > 0, run.ops_by('shapes').height > 0, run.ops_by('stack').height > 0"
    )
    assert kernel.run(f"print({asked})").text == "True True True True\n"
    assert_recovered(kernel)


def test_an_exception_while_details_are_recorded_is_the_cells_and_the_times_are_whole(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{LOOP}    if i == 7: raise KeyError('mine')")
    assert (cell.reply["ename"], cell.reply["evalue"], cell.error_lines) == ("KeyError", "'mine'", [1, 4])
    assert kernel.run("print(run.steps['number'].to_list(), run.steps['complete'].all())").text == "[2, 3, 4] True\n"
    assert kernel.run("print(i)").text == "7\n"
    assert_recovered(kernel)


def test_an_interrupt_while_details_are_recorded_ends_the_cell_and_keeps_the_times(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{LOOP}    if i == 7: hang()", interrupt_at="here")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("print(run.steps['number'].to_list(), run.steps['complete'].all())").text == "[2, 3, 4] True\n"
    assert_recovered(kernel)


FUNCTION = "def own(x):\n    y = x.mul(2)\n    return y.sum()\n"
OWN_LOOP = f"{FUNCTION}for i in range(14):\n    own(torch.ones(16))\n"
OWN_LINES = "[tuple(row) for row in run.lines.filter(run.lines['hits'] > 0).select('line', 'hits').rows()]"


def test_lines_of_functions_are_those_of_one_step_with_the_times_of_the_others(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\nprint('begin')\n{OWN_LOOP}answer = 41\nanswer + 1")
    assert (cell.values, cell.text) == (["42"], "begin\n")
    assert "steps 2–4 recorded, details from 6–8, lines of functions from 10, stepped by line 6" in cell.static[0]
    # The lines of the function run once in each of three steps, and so does the body of the loop.
    assert kernel.run(f"print({OWN_LINES})").text == "[(4, 3), (5, 3), (6, 4), (7, 3)]\n"
    assert kernel.run("print(sys.gettrace())").text == "None\n"
    assert_recovered(kernel)


def test_an_interrupt_while_lines_are_timed_keeps_times_and_details(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{OWN_LOOP}    if i == 10: hang()", interrupt_at="here")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    passes = "run.trace.meta.two_pass.detail_steps, run.trace.meta.two_pass.line_steps, sys.gettrace()"
    assert kernel.run(f"print(run.steps['number'].to_list(), {passes})").text == "[2, 3, 4] (6, 7, 8) () None\n"
    assert_recovered(kernel)


def test_a_loop_that_ends_early_has_what_was_recorded_until_then(kernel: Kernel) -> None:
    kernel.run(f"%%torchprof -q -o run\n{LOOP}    if i == 5: break")
    assert kernel.run("print(run.steps['number'].to_list(), run.trace.meta.has_memory)").text == "[2, 3, 4] False\n"
    codes = "[found.code for found in run.problems if 'details' in found.code]"
    assert kernel.run(f"print({codes})").text == "['run.auto_no_details']\n"
    assert_recovered(kernel)


def test_a_cell_without_a_loop_says_which_flags_bring_the_rest(kernel: Kernel) -> None:
    kernel.run("%%torchprof -q -o run\ntorch.ones(16).mul(2).sum()")
    said = "[found.fix for found in run.problems if found.code == 'run.auto_one_step']"
    assert "add --memory, --shapes, --stack or --lines" in kernel.run(f"print({said})").text


def test_partly_detailed_runs_are_compared_saved_and_listed(kernel: Kernel) -> None:
    kernel.run(f"%%torchprof -q -o first\n{LOOP}    if i == 5: break")
    kernel.run(f"%%torchprof -q -o second --save plain\n{LOOP}")
    said = kernel.run("print(type(second.compare(first)).__name__, first.trace.meta.has_memory)").text
    assert said == "Comparison False\n"
    assert "plain" in kernel.run("%torchprof history").text
