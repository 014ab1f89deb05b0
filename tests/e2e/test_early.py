"""The report of a loop that still runs, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from amount import thorough
from driver import Lab, open_tab, screenshot, write_notebook
from playwright.sync_api import Locator, expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# A loop of unknown length, which ends when the test says so. Nearly all of a step is the optimizer, so that its advice
# is worth trying however busy the machine is, and the budget lets it record the details then, too.
SETUP = """\
%load_ext torchprof_magic
import itertools, pathlib, time, torch
from torch import nn
import torchprof_magic.run.early.helper as helper
helper.gives_way = False  # the machine of a test is busy
weights = [nn.Parameter(torch.randn(64)) for _ in range(100)]
optimizer = torch.optim.AdamW(weights, foreach=False)"""
TRAIN = """\
%%torchprof -o run --budget 10min
print("before the loop")
for step in itertools.count():
    loss = torch.stack(weights).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
    if pathlib.Path("{go}").exists():
        break
print("after", step, "steps")"""
# A loop that ends soon after the report has taken the place of the bar, which is then closed.
SHORT = """\
%%torchprof -o short
for step in range(20):
    loss = torch.stack(weights).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)"""
FACTS = "print('FACTS', run.ops.height > 10, sorted({problem.code for problem in run.problems}))"


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that ends the loop."""
    return tmp_path_factory.mktemp("early") / "go"


@pytest.fixture(scope="module")
def lab(open_notebook: Callable[..., Lab], go: Path) -> Lab:
    """Return a notebook whose second cell runs until ``go`` is there."""
    notebook = write_notebook(go.with_name("early.ipynb"), SETUP, TRAIN.format(go=go), FACTS, SHORT)
    opened = open_notebook(notebook, "lab")
    opened.command("notebook:run-all-cells")
    return opened


def report_of(lab: Lab, cell: int = 1) -> Locator:
    return lab.page.locator(".jp-Cell").nth(cell).locator(".tp-report")


def test_a_report_stands_while_the_loop_runs_and_is_completed_where_it_stands(lab: Lab, go: Path) -> None:
    page = lab.page
    report = report_of(lab)
    progress = report.locator(".tp-progress")
    expect(report).to_be_visible(timeout=120_000)
    expect(progress).to_contain_text("Still running", timeout=60_000)
    assert report.count() == 1
    # The details have come, in the same place: the memory of the cell is one of them.
    expect(report.get_by_role("tab", name="Memory")).to_be_visible(timeout=120_000)
    expect(progress).to_have_text("Still running; the report is completed when the loop ends")
    screenshot(page, "early-running")
    open_tab(report, "ops")
    report.locator(".tp-search:visible").fill("addcdiv")
    rows = report.locator("[data-tp-rows-shown]")
    expect(rows).not_to_have_attribute("data-tp-rows-shown", "0")
    report.locator("[data-tp-row]", has_text="addcdiv").first.click()
    chosen = report.locator("[data-tp-row][aria-selected='true']")
    expect(chosen).to_have_count(1)
    before = report.bounding_box()
    go.touch()
    expect(progress).to_have_count(0, timeout=120_000)
    lab.wait_until_idle()
    # View, filter, selection and place are as they were.
    expect(report).to_have_attribute("data-tp-view", "ops")
    expect(report.locator(".tp-search:visible")).to_have_value("addcdiv")
    expect(chosen).to_have_count(1)
    after = report.bounding_box()
    assert before is not None
    assert after is not None
    assert after["y"] == pytest.approx(before["y"], abs=2)
    screenshot(page, "early-completed")


def test_the_whole_report_can_be_asked_by_then(lab: Lab) -> None:
    lab.wait_until_idle()
    report = report_of(lab)
    expect(report).to_have_count(1)
    expect(report.get_by_role("button", name="Export")).to_be_visible()
    expect(lab.page.get_by_text("FACTS True")).to_be_visible()
    assert "part_failed" not in lab.page.get_by_text("FACTS").last.inner_text()


@thorough
def test_advice_at_its_line_is_tried_in_the_page(lab: Lab) -> None:
    lab.wait_until_idle()
    report = report_of(lab)
    open_tab(report, "overview")
    change = report.locator(".tp-line-change", has_text="fused=True")
    expect(change).to_contain_text("estimated")
    change.get_by_role("button", name="Try it here").click()
    expect(change).to_contain_text("measured here", timeout=60_000)
    expect(change.get_by_role("button")).to_have_count(0)
    expect(report).to_have_attribute("data-tp-view", "overview")
    change.scroll_into_view_if_needed()
    screenshot(lab.page, "advice-tried")


def test_the_number_of_a_line_leads_to_the_line_in_the_cell(lab: Lab) -> None:
    lab.wait_until_idle()
    report = report_of(lab)
    open_tab(report, "overview")
    report.locator(".tp-line", has_text="optimizer.zero_grad()").get_by_title("Go to this line in the cell").click()
    cell = lab.page.locator(".jp-Cell").nth(1)
    expect(cell.locator(".cm-content")).to_be_focused()
    at_cursor = "() => document.getSelection().anchorNode.parentElement.closest('.cm-line')?.textContent"
    lab.page.wait_for_function(f"() => ({at_cursor})()?.trim() === 'optimizer.zero_grad()'", timeout=10_000)
    lab.page.keyboard.press("Escape")


def test_a_report_is_in_sight_when_a_short_loop_has_ended(lab: Lab) -> None:
    report = report_of(lab, cell=3)
    expect(report).to_have_count(1, timeout=120_000)
    report.evaluate("(report) => report.closest('.jp-Cell').scrollIntoView()")
    expect(report).to_be_visible()
    expect(report.locator(".tp-progress")).to_have_count(0, timeout=60_000)
    expect(report).to_have_attribute("data-tp-ready", "true")
