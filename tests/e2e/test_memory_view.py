"""What the memory view says of a moment, against the frames of the same report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from driver import open_tab, screenshot
from playwright.sync_api import Browser, Page, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def report() -> tp.Report:
    """A loop that keeps an output of 1 MB in each step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    kept = []
    with tp.profile(profile_memory=True, with_modules=True, lines=True) as p:
        for _ in tp.steps(range(7)):
            output = model(torch.randn(256, 256))
            output.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            kept.append(output.detach())
    p.report.holders()  # the list is gone when the file is written
    return p.report


@pytest.fixture
def view(browser: Browser, report: tp.Report, tmp_path: Path) -> Iterator[tuple[Page, Any]]:
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.to_html(tmp_path / "report.html").as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    open_tab(shown, "memory")
    expect(shown.locator(".tp-block-table tbody tr").first).to_be_visible()
    yield page, shown
    page.close()
    assert errors == []


def listed(shown: Any) -> dict[str, int]:
    """Return the bytes of each category in the list."""
    rows = shown.locator(".tp-block-table tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [row.dataset.tpCategory, Number(row.dataset.tpBytes)])"
    )
    sums: dict[str, int] = {}
    for category, size in rows:
        sums[category] = sums.get(category, 0) + size
    return sums


def test_the_list_at_the_peak_has_the_bytes_of_each_category(report: tp.Report, view: tuple[Page, Any]) -> None:
    _, shown = view
    peak = report.memory.row(report.memory["total_bytes"].arg_max() or 0, named=True)
    known = {
        name.removesuffix("_bytes"): size
        for name, size in peak.items()
        if name.endswith("_bytes") and name != "total_bytes" and size
    }
    assert listed(shown) == known
    screenshot(shown, "memory-blocks")


def test_a_click_on_the_curve_lists_what_is_in_use_then(report: tp.Report, view: tuple[Page, Any]) -> None:
    page, shown = view
    at_peak = listed(shown)
    plot = shown.locator(".u-over").bounding_box()
    page.mouse.click(plot["x"] + 2, plot["y"] + plot["height"] / 2)
    expect(shown.locator(".tp-blocks")).to_have_attribute("data-tp-listed", "picked")
    now = listed(shown)
    assert now != at_peak
    frame = report.memory
    totals = frame["total_bytes"].to_list()
    assert sum(now.values()) in totals[: len(totals) // 4]
    shown.locator(".tp-blocks").get_by_text("At the peak").click()
    assert listed(shown) == at_peak


def test_the_keys_reach_a_moment_without_a_pointer(report: tp.Report, view: tuple[Page, Any]) -> None:
    page, shown = view
    shown.locator(".tp-plot").focus()
    for key in ("End", "Enter"):
        page.keyboard.press(key)
    expect(shown.locator(".tp-blocks")).to_have_attribute("data-tp-listed", "picked")
    assert sum(listed(shown).values()) == report.memory["total_bytes"][-1]


def test_a_drag_chooses_a_range_and_no_moment(view: tuple[Page, Any]) -> None:
    page, shown = view
    plot = shown.locator(".u-over").bounding_box()
    page.mouse.move(plot["x"] + 100, plot["y"] + 50)
    page.mouse.down()
    page.mouse.move(plot["x"] + 250, plot["y"] + 50, steps=4)
    page.mouse.up()
    expect(shown.locator(".tp-range-bar, [data-tp-range]").first).to_be_visible()
    expect(shown.locator(".tp-blocks")).to_have_attribute("data-tp-listed", "peak")


def test_what_each_step_leaves_behind_is_said_with_its_op_and_line(report: tp.Report, view: tuple[Page, Any]) -> None:
    _, shown = view
    (leak,) = report.leaks.filter(report.leaks["bytes_per_step"] > 10_000).to_dicts()
    assert leak["bytes_per_step"] == 256 * 1024 * 4
    sentence = shown.locator(".tp-growth")
    expect(sentence).to_contain_text("Each step leaves 1 MiB behind.")
    expect(sentence).to_contain_text(f"aten::addmm at {Path(__file__).name}:{leak['line']} allocates it, and ")
    expect(sentence).to_contain_text(f"kept[…] keeps it at {Path(__file__).name}:{leak['kept_line']}.")
    shown.locator(".tp-blocks").get_by_text("Grown").click()
    assert listed(shown)["activation"] >= leak["size_bytes"]


def test_what_holds_it_is_in_the_file_and_a_plain_trace_says_that_it_may_grow(
    browser: Browser, report: tp.Report, view: tuple[Page, Any], tmp_path: Path
) -> None:
    _, shown = view
    shown.get_by_text("Who holds it?").click()
    expect(shown.get_by_text("report(): kept[…]", exact=True)).to_be_visible()
    plain = tp.load(report.export(tmp_path / "plain.json"))
    page = browser.new_page()
    page.goto(plain.to_html(tmp_path / "plain.html").as_uri())
    open_tab(page.locator('.tp-report[data-tp-ready="true"]'), "memory")
    sentence = page.locator(".tp-growth")
    expect(sentence).to_contain_text("Each step may leave 1 MiB behind.")
    expect(sentence).not_to_contain_text("Who holds it?")
    page.close()


def test_the_curve_is_divided_by_category_or_whole(view: tuple[Page, Any]) -> None:
    _, shown = view
    plot = shown.locator(".tp-plot")
    expect(plot).to_have_attribute("data-tp-divided", "true")
    colors = painted(shown)
    shown.get_by_role("button", name="Total", exact=True).click()
    expect(plot).to_have_attribute("data-tp-divided", "false")
    assert len(colors - painted(shown)) >= 3


def painted(shown: Any) -> set[int]:
    """Return the opaque colors that cover many pixels of the chart."""
    found = shown.locator(".tp-plot canvas").evaluate(
        """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const counts = new Map();
          for (const word of new Uint32Array(data.buffer)) counts.set(word, (counts.get(word) ?? 0) + 1);
          return Array.from(counts).filter(([, count]) => count > 300).map(([word]) => word);
        }"""
    )
    return set(found)


def test_allocations_are_a_grouping_of_the_tab_and_open_as_a_table(report: tp.Report, view: tuple[Page, Any]) -> None:
    _, shown = view
    shown.get_by_role("button", name="Allocations", exact=True).click()
    expect(shown.locator(".tp-row").first).to_be_visible()
    expect(shown.locator(".tp-tools-note").first).to_contain_text(f"{report.allocations.height:,}")
