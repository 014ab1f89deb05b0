"""How tall a report is, by hand, in a window of its own, and in one that it fills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from driver import open_tab, screenshot, show_file
from gpu_trace import write_gpu_trace
from hosts import Hosted, hosted, open_host
from playwright.sync_api import Browser, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

VIEWS = ("overview", "timeline", "ops", "flame", "source", "memory")
WINDOW = {"width": 1100, "height": 900}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tp.Report:
    return tp.load(write_gpu_trace(tmp_path_factory.mktemp("trace") / "gpu.json"))


@pytest.fixture
def shown(browser: Browser, report: tp.Report, tmp_path: Path) -> Iterator[Hosted]:
    with hosted(browser, tmp_path, "plain", report, viewport=WINDOW) as opened:
        yield opened


def handle_of(report: Any) -> Any:
    return report.get_by_role("button", name=re.compile("Report height"))


def height_of(report: Any) -> float:
    return float(report.bounding_box()["height"])


def test_a_height_that_was_chosen_by_hand_is_kept_for_the_next_report(
    shown: Hosted, report: tp.Report, tmp_path: Path
) -> None:
    open_tab(shown.report, "ops")
    grip = handle_of(shown.report).bounding_box()
    before = height_of(shown.report)
    x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
    shown.page.mouse.move(x, y)
    shown.page.mouse.down()
    shown.page.mouse.move(x, y + 100, steps=4)
    shown.page.mouse.up()
    assert height_of(shown.report) == pytest.approx(before + 100, abs=2)
    other = open_host(shown.page.context, tmp_path, "plain", report)
    for view in VIEWS:
        open_tab(other.report, view)
        assert height_of(other.report) == pytest.approx(before + 100, abs=2), view
    handle_of(other.report).dblclick()
    open_tab(other.report, "ops")
    assert height_of(other.report) == pytest.approx(before, abs=2)


def test_the_height_is_changed_with_the_arrow_keys(shown: Hosted) -> None:
    before = height_of(shown.report)
    handle_of(shown.report).focus()
    shown.page.keyboard.press("ArrowUp")
    assert height_of(shown.report) == pytest.approx(before - 40, abs=1)
    shown.page.keyboard.press("ArrowDown")
    assert height_of(shown.report) == pytest.approx(before, abs=1)


def test_a_report_that_fills_the_window_leaves_the_page_where_it_is(shown: Hosted) -> None:
    shown.page.evaluate("document.body.style.paddingBottom = '2000px'; scrollTo(0, 60)")
    open_tab(shown.report, "timeline")
    before = shown.report.bounding_box()
    shown.report.get_by_role("button", name="Fill the window (M)").click()
    assert shown.report.bounding_box() == {"x": 0, "y": 0, **WINDOW}
    panel = shown.report.locator(".tp-panel").bounding_box()
    footer = shown.report.locator(".tp-footer").bounding_box()
    assert panel["y"] + panel["height"] == pytest.approx(footer["y"], abs=1)
    screenshot(shown.page, "window-filled")
    shown.report.locator("canvas.tp-stage-canvas").focus()
    shown.page.keyboard.press("Escape")
    expect(shown.report).not_to_have_attribute("data-tp-maximized", "true")
    assert shown.report.bounding_box() == before
    assert shown.page.evaluate("scrollY") == 60


def test_a_report_in_a_frame_fills_the_screen_where_the_frame_may(
    browser: Browser, report: tp.Report, tmp_path: Path
) -> None:
    with hosted(browser, tmp_path, "colab", report, viewport=WINDOW) as shown:
        shown.page.evaluate("document.querySelector('iframe').allow = 'fullscreen *'")
        # The permission is read when the page of the frame is loaded.
        with shown.page.expect_event("framenavigated"):
            shown.frame.evaluate("setTimeout(() => location.reload())")
        shown.report.wait_for()
        before = height_of(shown.report)
        shown.report.get_by_role("button", name="Fill the window (M)").click()
        shown.frame.wait_for_function("document.fullscreenElement !== null")
        assert shown.report.bounding_box() == {"x": 0, "y": 0, **WINDOW}
        shown.frame.evaluate("document.exitFullscreen()")
        expect(shown.report).not_to_have_attribute("data-tp-maximized", "true")
        assert height_of(shown.report) == before


def test_a_file_fills_its_window(browser: Browser, report: tp.Report, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    shown = show_file(page, report.to_html(tmp_path / "report.html"))
    for height, view in product((500, 1300), VIEWS):
        page.set_viewport_size({"width": 1100, "height": height})
        open_tab(shown, view)
        assert height_of(shown) == height, view
        footer = shown.locator(".tp-footer").bounding_box()
        assert footer["y"] + footer["height"] == pytest.approx(height, abs=1), view
        panel = shown.locator(".tp-panel").bounding_box()
        assert panel["y"] + panel["height"] == pytest.approx(footer["y"], abs=1), view
    page.close()


@pytest.mark.parametrize(("view", "canvas"), [("flame", ".tp-flame-canvas"), ("timeline", ".tp-stage-canvas")])
def test_a_faded_edge_says_that_more_is_below(browser: Browser, tmp_path: Path, view: str, canvas: str) -> None:
    with hosted(browser, tmp_path, "plain", deep_report(tmp_path), viewport={"width": 1100, "height": 700}) as shown:
        open_tab(shown.report, view)
        drawing = shown.report.locator(canvas)
        box = drawing.locator("..")
        expect(box).to_have_attribute("data-tp-more", "true")
        assert "gradient" in drawing.evaluate("(canvas) => getComputedStyle(canvas).maskImage")
        screenshot(shown.report, f"faded-{view}")
        box.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
        expect(box).to_have_attribute("data-tp-more", "false")
        assert drawing.evaluate("(canvas) => getComputedStyle(canvas).maskImage") == "none"
        shown.page.set_viewport_size({"width": 1100, "height": 2400})
        expect(box).to_have_attribute("data-tp-more", "false")


def deep_report(folder: Path) -> tp.Report:
    """Return a report whose calls are nested 40 deep."""
    from support import annotation, chrome, span  # noqa: PLC0415

    spans = [span(f"level {depth}", 10 + depth, 900 - 2 * depth) for depth in range(40)]
    file = folder / "deep.json"
    file.write_bytes(chrome(annotation("ProfilerStep#1", 0, 1_000), *spans))
    return tp.load(file)
