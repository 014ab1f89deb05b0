"""A chosen step or range of time in the views that the kernel computes for it, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driver import Lab, open_tab, screenshot, show_file, write_notebook
from playwright.sync_api import Browser, expect
from support import annotation, chrome, frame, span

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STEPS_MS = (10, 20, 40)
KERNEL = "jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"

SLOW = """
import time
from torchprof_magic.render.range_views import RangeViews
encoded = RangeViews.encoded
RangeViews.encoded = lambda *question: (time.sleep(3), encoded(*question))[1]
"""


def write_uneven_steps(path: Path) -> Path:
    """Write steps of 10, 20 and 40 ms: 0.9 of each in a module, half in its op; the second has another op of 1 ms."""
    events = [frame("loop.py(1): main", 0, 1000 * sum(STEPS_MS))]
    at = 0
    for number, length_ms in enumerate(STEPS_MS):
        length = 1000 * length_ms
        events += [
            annotation(f"ProfilerStep#{number}", at, length),
            frame("loop.py(7): step", at, length),
            frame("nn.Module: Net_0", at + 0.05 * length, 0.9 * length),
            span("aten::mm", at + 0.1 * length, 0.5 * length),
        ]
        if number == 1:
            events.append(span("aten::relu", at + 15_000, 1000))
        at += length
    path.write_bytes(chrome(*events))
    return path


@pytest.fixture(scope="module")
def lab(open_notebook: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Lab:
    root = tmp_path_factory.mktemp("ranges")
    write_uneven_steps(root / "uneven.json")
    notebook = write_notebook(root / "uneven.ipynb", "import torchprof_magic as tp\ntp.load('uneven.json')")
    opened = open_notebook(notebook)
    opened.run_all()
    opened.report()
    return opened


@pytest.fixture
def report(lab: Lab) -> Any:
    """Return the report, of which all steps are shown."""
    found = lab.report()
    if found.locator(".tp-range-bar").count():
        show_all(found)
    return found


def show_all(report: Any) -> None:
    report.get_by_role("button", name="Show all steps").click()
    expect(report.locator(".tp-range-bar")).to_have_count(0)


def choose(report: Any, step: int) -> None:
    report.locator(f'[data-tp-step="{step}"]').first.click()
    expect(report.locator(".tp-range-bar")).to_contain_text(f"Step {step}")
    expect(report.locator(".tp-range-note")).to_have_count(0)


def row_of(report: Any, name: str) -> Any:
    return report.locator("[data-tp-row]", has_text=name)


def test_the_flame_graph_shows_the_chosen_step_the_next_one_and_all_again(lab: Lab, report: Any) -> None:
    open_tab(report, "flame")
    total = report.locator(".tp-crumb-total > :last-child")
    names = report.locator(".tp-flame table")
    expect(total).to_have_text("total 15 ms per step")
    choose(report, 1)
    expect(total).to_have_text("total 20 ms")
    expect(names).to_contain_text("aten::relu")
    screenshot(lab.page, "range-flame")
    report.get_by_role("button", name="Next step").click()
    expect(total).to_have_text("total 40 ms")
    expect(names).not_to_contain_text("aten::relu")
    report.get_by_role("button", name="Back", exact=True).click()
    expect(total).to_have_text("total 20 ms")
    report.get_by_role("button", name="Forward", exact=True).click()
    expect(total).to_have_text("total 40 ms")
    show_all(report)
    expect(total).to_have_text("total 15 ms per step")


def test_source_and_modules_show_the_chosen_step_and_all_again(lab: Lab, report: Any) -> None:
    open_tab(report, "source")
    # The step of 40 ms is left out: 30 ms in 2 steps.
    expect(row_of(report, "step")).to_contain_text("15.00")
    choose(report, 1)
    expect(row_of(report, "step")).to_contain_text("20.00")
    open_tab(report, "modules")
    expect(row_of(report, "Net")).to_contain_text("18.00")
    screenshot(lab.page, "range-modules")
    show_all(report)
    expect(row_of(report, "Net")).to_contain_text("13.50")
    open_tab(report, "source")
    expect(row_of(report, "step")).to_contain_text("15.00")


def test_the_ops_of_each_module_are_those_of_the_chosen_step(lab: Lab, report: Any) -> None:
    open_tab(report, "ops")
    report.get_by_role("group", name="Group by").get_by_role("button", name="Module", exact=True).click()
    # 15 ms of mm and 1 ms of relu in the two steps that count.
    expect(row_of(report, "Net")).to_contain_text("8.00")
    choose(report, 1)
    expect(row_of(report, "Net")).to_contain_text("11.00")
    row_of(report, "Net").get_by_role("button").first.click()
    expect(row_of(report, "aten::relu")).to_contain_text("1.00")
    screenshot(lab.page, "range-modules-of-ops")
    report.get_by_role("button", name="Next step").click()
    expect(row_of(report, "Net")).to_contain_text("20.00")
    expect(row_of(report, "aten::relu")).to_have_count(0)
    show_all(report)
    expect(row_of(report, "Net")).to_contain_text("8.00")


def test_the_overview_follows_the_chosen_step(report: Any) -> None:
    open_tab(report, "overview")
    phases = report.locator(".tp-breakdown").first
    expect(phases).to_contain_text("ms per step")
    report.locator('[data-tp-step="2"] button').first.click()
    expect(phases).to_contain_text("ms in this range")
    screenshot(report, "range-overview")
    open_tab(report, "flame")
    expect(report.locator(".tp-crumb-total > :last-child")).to_have_text("total 40 ms")


def test_a_step_is_taken_in_and_out_and_everything_follows(report: Any) -> None:
    open_tab(report, "overview")
    expect(report.locator(".tp-left-out")).to_have_count(1)
    expect(report.locator(".tp-left-out-reason")).to_have_text(
        "Step 2 does not count: 2.67 times the median. Count step 2"
    )
    screenshot(report, "left-out")
    report.get_by_role("button", name="Count step 2").last.click()
    # 70 ms in 3 steps.
    expect(report.locator(".tp-left-out")).to_have_count(0)
    expect(report.locator(".tp-verdict-words")).to_contain_text("of 23.3 ms per step")
    open_tab(report, "flame")
    expect(report.locator(".tp-crumb-total > :last-child")).to_have_text("total 23.3 ms per step")
    expect(report.locator(".tp-step-text")).to_have_text("3 steps")
    report.locator('[data-tp-step="2"]').first.click()
    report.get_by_role("button", name="Leave out step 2").click()
    expect(report.locator(".tp-crumb-total > :last-child")).to_have_text("total 15 ms per step")
    expect(report.locator(".tp-step-text")).to_have_text("2 of 3 steps")


def test_a_file_says_which_step_is_left_out_and_has_nothing_to_take_it_in(browser: Browser, tmp_path: Path) -> None:
    file = tp.load(write_uneven_steps(tmp_path / "uneven.json")).to_html(tmp_path / "uneven.html")
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    shown = show_file(page, file)
    expect(shown.locator(".tp-left-out-reason")).to_have_text("Step 2 does not count: 2.67 times the median.")
    expect(shown.locator(".tp-counts")).to_have_count(0)
    page.close()


def test_the_old_picture_stays_dimmed_until_the_answer_is_there(lab: Lab, report: Any) -> None:
    open_tab(report, "flame")
    lab.page.evaluate(f"(code) => {KERNEL}.requestExecute({{ code }}).done", SLOW)
    report.locator('[data-tp-step="0"]').first.click()
    expect(report.locator(".tp-in-range")).to_have_attribute("aria-busy", "true")
    expect(report.locator(".tp-range-note")).to_have_text("Computing…")
    expect(report.locator(".tp-crumb-total > :last-child")).to_have_text("total 15 ms per step")
    expect(report.locator(".tp-in-range")).to_have_css("opacity", "0.5")
    screenshot(report, "range-waiting")
    expect(report.locator(".tp-crumb-total > :last-child")).to_have_text("total 10 ms", timeout=15_000)
    expect(report.locator(".tp-in-range")).to_have_css("opacity", "1")


def test_a_kernel_that_was_restarted_is_said_in_place_and_all_steps_stay(lab: Lab, report: Any) -> None:
    open_tab(report, "flame")
    lab.page.evaluate(f"() => {{ void {KERNEL}.restart() }}")
    lab.wait_until_idle()
    report.locator('[data-tp-step="1"]').first.click()
    expect(report.get_by_role("alert")).to_contain_text("restarted or has stopped")
    screenshot(report, "range-failed")
    show_all(report)
    expect(report.locator(".tp-crumb-total > :last-child")).to_have_text("total 15 ms per step")
