"""A report stands in the output while the loop runs, and what the cell does is as without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Cell, Kernel, started
from recovering import FIRST, assert_recovered

WIDGET = "application/vnd.jupyter.widget-view+json"
# The machine of a test is busy, so that the process would wait for long; and the loop ends when its report was shown.
FIRST_EARLY = (
    FIRST
    + """
import torchprof_magic.run.early.helper as helper
from torchprof_magic.ipython.early_view import EarlyView
helper.gives_way = False
shown = []
real_show = EarlyView.show
def show(view, made):
    real_show(view, made)
    shown.append(made)
EarlyView.show = show
def until(count):
    "Steps until so many early reports were shown."
    shown.clear()
    until_s = time.monotonic() + 60
    step = 0
    while len(shown) < count and time.monotonic() < until_s:
        yield step
        step += 1
        time.sleep(0.001)
    yield from range(3)
"""
)
LOOP = "for i in until({count}):\n    y = torch.ones(16).mul(2).sum()\n"


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(FIRST_EARLY) as found:
        yield found


def views(cell: Cell) -> list[str]:
    """Return the ids of the live views that a cell showed, in order, those in the place of others too."""
    found: list[Any] = [*cell.of("display_data"), *cell.of("update_display_data")]
    order = [content for message in cell.messages if (content := message["content"]) in found]
    return [content["data"][WIDGET]["model_id"] for content in order if WIDGET in content["data"]]


def progress(cell: Cell) -> list[str]:
    """Return what the report said of itself."""
    states = [content["data"].get("state", {}) for content in cell.of("comm_msg")]
    return [state["_progress"] for state in states if "_progress" in state]


def test_the_report_stands_while_the_loop_runs_and_is_completed_in_its_place(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\nprint('begin')\n{LOOP.format(count=1)}print('end')\ny.item()")
    assert (cell.reply["status"], cell.values, cell.text) == ("ok", ["32.0"], "begin\nend\n")
    bar, view = dict.fromkeys(views(cell))
    assert kernel.run(f"print(run.widget.model_id == {view!r}, bar := {bar!r})").text.startswith("True")
    assert progress(cell)[0] == "Still running; the report is completed when the loop ends"
    assert progress(cell)[-1] == ""
    # The page is there before the cell prints its last line, and one static copy after it.
    kinds = [
        "view" if WIDGET in content.get("data", {}) and content["data"][WIDGET]["model_id"] == view
        else "end" if content.get("text") == "end\n"
        else "static" if "data-tp-static" in str(content.get("data", {}).get("text/html", ""))
        else ""
        for content in (message["content"] for message in cell.messages)
    ]  # fmt: skip
    assert [kind for kind in kinds if kind] == ["view", "end", "static"]
    assert kernel.run("print(shown[0].header != '', run.run_id in shown[0].header)").text == "True True\n"
    assert_recovered(kernel)


def test_details_take_the_place_of_the_times_while_the_loop_runs(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof --preset auto --budget 10min -o run\n{LOOP.format(count=2)}")
    assert cell.reply["status"] == "ok"
    assert len(dict.fromkeys(views(cell))) == 2  # the bar, and one report
    asked = "['\"memory\"' in made.header for made in shown], [p.code for p in run.problems if 'part' in p.code]"
    assert kernel.run(f"import json\nprint({asked})").text.startswith("[")
    names = "[[v['name'] for v in json.loads(m.header)['views'] if v['place'] == 'tab'] for m in shown]"
    assert kernel.run(f"print(['memory' in names for names in {names}])").text == "[False, True]\n"
    assert kernel.run("print([p.code for p in run.problems if 'part' in p.code or 'threads' in p.code])").text == "[]\n"
    assert_recovered(kernel)


def test_a_cell_that_clears_its_output_has_its_report_after_the_loop(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%torchprof -o run\nfrom IPython.display import clear_output\n"
        f"{LOOP.format(count=1)}clear_output()\nprint('cleared')"
    )
    assert cell.reply["status"] == "ok"
    cleared = [message["msg_type"] for message in cell.messages].index("clear_output")
    after = Cell()
    after.messages = cell.messages[cleared:]
    (view,) = views(after)
    assert kernel.run(f"print(run.widget.model_id == {view!r})").text == "True\n"
    assert len(after.static) == 1
    assert_recovered(kernel)


def test_an_exception_and_an_interrupt_complete_the_report_with_what_was_recorded(kernel: Kernel) -> None:
    cell = kernel.run(f"%%torchprof -o run\n{LOOP.format(count=1)}raise KeyError('mine')")
    assert (cell.reply["ename"], cell.error_lines) == ("KeyError", [1, 4])
    assert progress(cell)[-1] == ""
    assert kernel.run("print(run.steps.height)").text == "3\n"
    cell = kernel.run(f"%%torchprof -o run\n{LOOP.format(count=1)}hang()", interrupt_at="here")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert (progress(cell)[-1], len(cell.static)) == ("", 1)
    assert_recovered(kernel)


def test_what_cannot_be_shown_early_is_said_and_the_report_comes_as_ever(kernel: Kernel) -> None:
    kernel.run("def fail(view, made):\n    shown.append(made)\n    raise ValueError('mine')\nEarlyView.show = fail")
    cell = kernel.run(f"%%torchprof -o run\n{LOOP.format(count=1)}")
    kernel.run("EarlyView.show = show")
    assert cell.reply["status"] == "ok"
    assert len(cell.static) == 1
    said = kernel.run("print([p.message for p in run.problems if p.code == 'capture.part_failed'])").text
    assert "The report that is shown while the loop runs" in said
    assert "mine" in said
    assert_recovered(kernel)
