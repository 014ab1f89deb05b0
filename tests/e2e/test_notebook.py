"""What a user sees and does in a real JupyterLab, and in Notebook 7."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amount import thorough
from driver import Lab, Server, open_tab, screenshot, walk_by_keys, write_notebook
from fake_perfetto import ADDRESS, FakePerfetto, given_trace
from playwright.sync_api import expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETUP = """\
%load_ext torchprof_magic
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
optimizer = torch.optim.AdamW(model.parameters())"""
TRAIN = """\
%%torchprof --memory -o run
for batch in torch.randn(8, 32, 64):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("after the loop")
6 * 7"""
LEAK = """\
%%torchprof --memory
kept = []
for batch in torch.randn(8, 32, 64):
    kept.append(model(batch).detach())"""
ORDER = "print('BY_CALLS', run.ops.sort('calls', descending=True)['calls'][0], run.ops.height)"


@pytest.fixture(scope="module", params=["lab", pytest.param("notebook", marks=thorough)])
def lab(
    request: pytest.FixtureRequest, open_notebook: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory
) -> Lab:
    root = tmp_path_factory.mktemp(request.param)
    notebook = write_notebook(root / "train.ipynb", SETUP, TRAIN, ORDER, LEAK)
    opened = open_notebook(notebook, request.param)
    opened.run_all()
    return opened


def grid(report: Any) -> Any:
    return report.locator("[data-tp-rows-shown]")


def flame(report: Any) -> Any:
    return report.locator("canvas[data-tp-zoom]")


def box(report: Any, across: float, row: int) -> tuple[float, float]:
    """Return a point in the flame graph: a share of its width, and the middle of a row of 21 px."""
    area = flame(report).bounding_box()
    return area["x"] + area["width"] * across, area["y"] + 21 * row + 10


def test_the_cell_shows_its_value_and_prints_next_to_the_live_report(lab: Lab) -> None:
    cell = lab.page.locator(".jp-Cell").nth(1)
    expect(cell).to_contain_text("after the loop")
    expect(cell.locator(".jp-OutputArea-executeResult")).to_contain_text("42")
    report = lab.report()
    # What stepped it stands in the tooltip, and in "About this run".
    steps = report.locator(".tp-subtitle")
    expect(steps).to_contain_text("steps 2–4 recorded")
    whole = re.compile(r"steps 2–4 recorded(, details from [6-9–]+)?, stepped by line 2")
    expect(steps).to_have_attribute("title", whole)
    expect(report).to_contain_text("for batch in torch.randn(8, 32, 64):")
    screenshot(lab.page, f"{lab.app}-light")


def test_what_piles_up_leads_to_the_variable_that_holds_it(lab: Lab) -> None:
    report = lab.page.locator('.tp-report[data-tp-ready="true"]').nth(1)
    open_tab(report, "memory")
    expect(report.locator(".tp-growth")).to_contain_text("Each step leaves 8 KiB behind.")
    report.get_by_role("button", name="Who holds it?").click()
    row = report.locator("[data-tp-rows-shown] [role=row]").nth(1)
    expect(row).to_contain_text("kept[…]")
    screenshot(lab.page, f"{lab.app}-holders")


def test_the_live_report_hides_its_static_copy(lab: Lab) -> None:
    lab.report()
    static = lab.page.locator("[data-tp-static]").first
    expect(static).to_be_hidden()


@thorough  # test_accessibility.py sorts and searches it by keys
def test_the_table_sorts_and_searches(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    most_calls, ops = lab.page.locator(".jp-Cell").nth(2).inner_text().split("BY_CALLS ")[-1].split()[:2]
    expect(grid(report)).to_have_attribute("data-tp-rows-shown", ops)
    report.locator('[data-tp-column="calls"]').click()
    # A table shows a step, and 3 were recorded.
    expect(report.locator("[data-tp-row]").first).to_contain_text(f"{int(most_calls) / 3:g}")
    search = report.locator(".tp-search:visible")
    search.fill("addmm")
    expect(grid(report)).not_to_have_attribute("data-tp-rows-shown", ops)
    for row in report.locator("[data-tp-row]").all_inner_texts():
        assert "addmm" in row.lower()
    search.fill("no such op")
    expect(grid(report)).to_have_attribute("data-tp-rows-shown", "0")
    search.fill("")
    expect(grid(report)).to_have_attribute("data-tp-rows-shown", ops)
    screenshot(report, "ops-light")


def test_the_flame_graph_zooms_searches_and_goes_back(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "flame")
    expect(flame(report)).to_have_attribute("data-tp-focus", "all")
    # How long the calls took decides where a box lies; beside one, nothing is zoomed.
    for share in (0.2, 0.1, 0.3, 0.4, 0.6):
        lab.page.mouse.dblclick(*box(report, share, 2))
        lab.page.wait_for_timeout(200)
        if flame(report).get_attribute("data-tp-focus") != "all":
            break
    expect(flame(report)).not_to_have_attribute("data-tp-focus", "all")
    lab.page.keyboard.press("Escape")
    expect(flame(report)).to_have_attribute("data-tp-focus", "all")
    lab.page.mouse.move(*box(report, 0.5, 2))
    for _ in range(3):
        lab.page.keyboard.press("w")
    expect(flame(report)).not_to_have_attribute("data-tp-zoom", "1.00")
    lab.page.keyboard.press("Escape")
    search = report.locator(".tp-search:visible")
    search.fill("addmm")
    expect(flame(report)).not_to_have_attribute("data-tp-matches", "0")
    screenshot(report, "flame-search-light")
    search.fill("")


def test_an_op_is_followed_from_the_table_to_the_flame_graph_and_back(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    report.locator(".tp-search:visible").fill("aten::addmm")
    report.locator("[data-tp-row]").first.click()
    report.locator('[data-tp-target="flame"]').click()
    expect(flame(report)).to_have_attribute("data-tp-selected", "aten::addmm")
    expect(report).to_have_attribute("data-tp-view", "flame")
    report.locator('[data-tp-target="ops"]').click()
    expect(report).to_have_attribute("data-tp-view", "ops")
    expect(report.locator('[data-tp-row][aria-selected="true"]')).to_contain_text("aten::addmm")
    report.locator(".tp-search:visible").fill("")


# The text of each line, and its first number with a bar.
NUMBERS = """rows => rows.map((row) =>
    [".tp-code", ".tp-bar-value"].map((part) => row.querySelector(part)?.textContent ?? ""))"""


def test_the_source_shows_the_cell_as_it_was_written_and_the_verdicts_line_leads_to_it(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "overview")
    shown = report.locator(".tp-line:has(.tp-bar-value)").evaluate_all(NUMBERS)
    report.locator(".tp-line-named .tp-line-text").click()
    lab.page.wait_for_function("root => root.dataset.tpView === 'source'", arg=report.element_handle(), timeout=10_000)
    rows = report.locator("[data-tp-row]")
    numbers = rows.evaluate_all(NUMBERS)
    # Short as the cell is, the overview has all its lines, with the same numbers.
    assert any(number for _, number in numbers)
    assert [each for each in numbers if each[1]] == [each for each in shown if each[1]]
    expect(rows.nth(2)).to_contain_text("    loss = model(batch).square().mean()")
    expect(rows.nth(3)).to_contain_text("loss.backward()")
    expect(rows.nth(3)).to_contain_text("its backward is shown at line 3")
    expect(rows.nth(2).locator('.tp-bar[title="backward"]')).to_be_visible()
    expect(rows.nth(0)).to_have_class("tp-row tp-quiet")  # the magic's own line
    screenshot(report, "source-light")


def test_the_modules_are_a_tree_that_opens_and_closes(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "modules")
    rows = report.locator("[data-tp-row]")
    expect(rows.nth(0)).to_contain_text("Sequential")
    expect(rows.nth(0)).to_have_attribute("aria-expanded", "true")
    expect(rows).to_have_count(4)
    screenshot(report, "modules-light")
    rows.nth(0).locator("button").click()
    expect(rows).to_have_count(1)
    rows.nth(0).locator("button").click()
    expect(rows).to_have_count(4)


def test_memory_is_drawn(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "memory")
    drawn = report.locator("[data-tp-points]")
    assert int(drawn.get_attribute("data-tp-points")) > 20
    expect(report).to_contain_text("peak")
    screenshot(report, "memory-light")


@pytest.mark.parametrize("view", ["flame", "ops"])
def test_no_key_reaches_the_notebook(lab: Lab, view: str) -> None:
    report = lab.report()
    open_tab(report, view)
    if view == "flame":
        lab.page.mouse.click(*box(report, 0.3, 1))
    else:
        report.locator("[data-tp-row]").nth(1).click()
    before = lab.state()
    for key in ("b", "a", "d", "d", "x", "ArrowDown", "ArrowUp", "w", "s", "c", "v", "y", "0", "Enter"):
        lab.page.keyboard.press(key)
    assert lab.state()[0] == before[0]
    assert lab.state()[3] == before[3]


@thorough  # in a file, they do in the sample
def test_keys_alone_lead_through_all_views(lab: Lab) -> None:
    report = lab.report()
    before = lab.state()
    report.locator(".tp-header").click(position={"x": 4, "y": 4})
    walk_by_keys(lab.page, report)
    after = lab.state()
    assert (after[0], after[3]) == (before[0], before[3])


@thorough  # test_interactions.py tries two widths of a notebook
def test_a_narrow_notebook_overflows_nowhere(lab: Lab) -> None:
    report = lab.report()
    lab.page.set_viewport_size({"width": 700, "height": 1000})
    try:
        for view in ("overview", "timeline", "ops", "flame", "source", "modules", "memory"):
            open_tab(report, view)
            width, content = report.evaluate("(root) => [root.clientWidth, root.scrollWidth]")
            assert content <= width, view
            screenshot(report, f"{view}-700")
    finally:
        lab.page.set_viewport_size({"width": 1280, "height": 1000})


def test_the_report_follows_the_hosts_theme(lab: Lab) -> None:
    report = lab.report()
    expect(report).to_have_attribute("data-tp-theme", "light")
    lab.page.evaluate(
        "() => { void jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' }) }"
    )
    expect(report).to_have_attribute("data-tp-theme", "dark")
    for view in ("overview", "timeline", "flame", "ops"):
        open_tab(report, view)
        screenshot(report, f"{view}-dark")
    screenshot(lab.page, f"{lab.app}-dark")
    lab.page.evaluate(
        "() => { void jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' }) }"
    )
    expect(report).to_have_attribute("data-tp-theme", "light")


def test_the_export_is_an_interactive_file(lab: Lab, tmp_path: Path) -> None:
    report = lab.report()
    report.get_by_role("button", name="Export").click()
    with lab.page.expect_download() as download:
        lab.page.get_by_text("Interactive HTML file").click()
    download.value.save_as(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_the_trace_is_handed_to_perfetto_on_one_click(lab: Lab, tmp_path: Path) -> None:
    perfetto = FakePerfetto(lab.page.context)
    report = lab.report()
    report.get_by_role("button", name="Export").click()
    entry = report.locator(".tp-export .tp-menu button", has_text="Open in Perfetto")
    expect(entry).to_contain_text("opens ui.perfetto.dev")
    screenshot(lab.page, f"{lab.app}-export-menu")
    assert perfetto.requests == []
    with lab.page.context.expect_page() as popup:
        entry.click()
    given = given_trace(popup.value, tmp_path / "given.json.gz")
    assert given["title"] == "In [2]"
    assert "aten::addmm" in tp.load(tmp_path / "given.json.gz").ops["name"]
    assert perfetto.requests == [f"{ADDRESS}/"]
    expect(report.locator(".tp-export [role=status]")).to_be_empty()
    popup.value.close()


def test_a_cell_that_is_run_again_closes_a_perfetto_that_has_no_trace_yet(lab: Lab) -> None:
    lab.page.context.unroute_all()
    lab.page.context.route(f"{ADDRESS}/**", lambda route: route.fulfill(body="<!DOCTYPE html>never answers"))
    report = lab.report()
    report.get_by_role("button", name="Export").click()
    with lab.page.context.expect_page() as popup:
        report.get_by_text("Open in Perfetto").click()
    expect(report.locator(".tp-export [role=status]")).to_have_text("Opening Perfetto…")
    with popup.value.expect_event("close"):
        lab.run_all()
    lab.page.context.unroute_all()


def test_a_reopened_notebook_shows_the_report_at_its_full_height(
    lab: Lab, open_notebook: Callable[..., Lab], server_of: Callable[[str], Server]
) -> None:
    lab.command("docmanager:save")
    lab.page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    server = server_of(lab.app)
    notebook = next(server.root.glob(f"**/{lab.app}*/train.ipynb"))
    reopened = open_notebook(notebook, lab.app)
    report = reopened.report()
    cell = reopened.page.locator(".jp-CodeCell").nth(1)
    expect(cell).not_to_contain_class("jp-mod-outputsScrolled")
    assert cell.locator(".jp-Cell-outputArea").bounding_box()["height"] >= report.bounding_box()["height"] >= 420


def test_the_page_made_no_requests_and_had_no_errors(lab: Lab) -> None:
    lab.report()
    strangers = [url for url in lab.requests if not url.startswith(("http://127.0.0.1:", "blob:", "data:"))]
    assert lab.requests
    assert strangers == []
    assert lab.errors == []


def test_the_static_copy_replaces_a_view_that_the_kernel_has_closed(lab: Lab) -> None:
    kernel = "jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
    lab.page.evaluate(f"() => {{ void {kernel}.requestExecute({{ code: 'run.widget.close()' }}) }}")
    static = lab.page.locator("[data-tp-static]").first
    expect(static).to_be_visible()
    expect(lab.page.locator(".tp-report")).to_have_count(1)  # that of the other cell
    static.scroll_into_view_if_needed()
    screenshot(lab.page, f"{lab.app}-closed")
    lab.run_all()
    lab.report()
    expect(static).to_be_hidden()


def test_after_a_kernel_restart_the_view_still_works(lab: Lab) -> None:
    report = lab.report()
    lab.page.evaluate("() => { void jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart() }")
    lab.wait_until_idle()
    open_tab(report, "ops")
    report.locator('[data-tp-column="calls"]').click()
    expect(grid(report)).not_to_have_attribute("data-tp-rows-shown", "0")
