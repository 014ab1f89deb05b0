"""Every act of the hand on a report of a GPU trace, in a real JupyterLab and in Notebook 7."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from amount import sampled, thorough
from driver import Lab, open_tab, screenshot, write_notebook
from gpu_trace import STEP_US, write_gpu_trace
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# The step that the timeline opens at is the one of median length: here all are alike, so the third.
STEP = 2
GUTTER_PX = 128
LEAST_ROW_PX = 10  # each is higher


@pytest.fixture(scope="module", params=["lab", pytest.param("notebook", marks=thorough)])
def lab(
    request: pytest.FixtureRequest, open_notebook: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory
) -> Lab:
    root = tmp_path_factory.mktemp(request.param)
    write_gpu_trace(root / "gpu.json")
    notebook = write_notebook(root / "gpu.ipynb", "import torchprof_magic as tp\ntp.load('gpu.json')")
    opened = open_notebook(notebook, request.param)
    opened.run_all()
    opened.report()
    return opened


@pytest.fixture
def timeline(lab: Lab) -> Timeline:
    """Return the timeline at its first window, without a range, a selection or a search."""
    report = lab.report()
    open_tab(report, "timeline")
    report.locator(".tp-search:visible").fill("")
    canvas = report.locator("canvas.tp-stage-canvas")
    canvas.focus()
    for _ in range(12):
        lab.page.keyboard.press("Escape")
    report.get_by_role("button", name="Step", exact=True).click()
    canvas.focus()
    lab.page.mouse.move(5, 5)
    found = Timeline(lab.page, report)
    expect(found.footer).not_to_contain_text("aten")
    return found


class Timeline:
    """The timeline of a report, with points for the mouse in times of the trace."""

    def __init__(self, page: Page, report: Any) -> None:
        self.page = page
        self.report = report
        self.canvas = report.locator("canvas.tp-stage-canvas")
        self.footer = report.locator(".tp-footer")
        self.panel = report.locator(".tp-side")

    @property
    def window(self) -> tuple[float, float]:
        """The shown times, in us."""
        return tuple(float(self.canvas.get_attribute(name)) / 1000 for name in ("data-tp-start", "data-tp-end"))

    def x(self, at_us: float) -> float:
        area = self.canvas.bounding_box()
        start, end = self.window
        return area["x"] + GUTTER_PX + (at_us - start) / (end - start) * (area["width"] - GUTTER_PX)

    def find(self, at_us: float, text: str, *, on_path: bool = False) -> tuple[float, float]:
        """Return where the footer says ``text`` for a moment, looking from the top to the bottom.

        The critical path shows what ran once more: it is looked at with ``on_path``, and only then.
        """
        area = self.canvas.bounding_box()
        x = self.x(at_us)
        for y in range(int(area["y"]) + 30, int(area["y"] + area["height"]), LEAST_ROW_PX):
            self.page.mouse.move(x, y)
            self.page.wait_for_timeout(20)
            said = self.footer.inner_text()
            if text in said and ("critical path" in said) == on_path:
                return x, y
        raise AssertionError(f"nothing says {text} at {at_us} us")

    def detail(self, label: str) -> Any:
        return self.panel.locator(f'[data-tp-detail="{label}"] dd')


def at(us: float) -> float:
    """Return a time of the shown step."""
    return STEP * STEP_US + us


def test_hover_says_what_is_under_the_pointer(timeline: Timeline) -> None:
    timeline.find(at(5_000), "gemm")
    expect(timeline.footer).to_contain_text("5 ms")
    expect(timeline.footer).to_contain_text("3 ms into step 2")
    timeline.page.mouse.move(5, 5)
    expect(timeline.footer).not_to_contain_text("gemm")


def test_a_click_on_a_wait_says_what_the_host_does_and_what_runs_around_it(timeline: Timeline) -> None:
    timeline.page.mouse.click(*timeline.find(at(1_500), "loading data"))
    expect(timeline.detail("cause")).to_have_text("loading data")
    expect(timeline.detail("host in")).to_contain_text("enumerate(DataLoader)")
    expect(timeline.detail("waits")).to_have_text("2.80 ms")
    # 1 ms at the end of the step before, and 3 ms in this one: the gap is cut where the step begins or not.
    expect(timeline.detail("runs after")).to_contain_text("cutlass")
    timeline.detail("runs after").locator("button").click()
    expect(timeline.detail("runs")).to_have_text("5 ms")
    expect(timeline.detail("by")).to_have_text("aten::mm")
    screenshot(timeline.report, "timeline-selection")


def test_a_kernel_leads_to_the_op_that_launched_it_with_its_shapes_and_stack(timeline: Timeline) -> None:
    timeline.page.mouse.click(*timeline.find(at(5_000), "gemm"))
    expect(timeline.detail("call")).to_have_text("cudaLaunchKernel")
    # From the start of the call at 2,990 us to the start of the kernel at 3,000 us.
    expect(timeline.detail("launched")).to_have_text("10 µs earlier")
    timeline.detail("by").locator("button").click()
    expect(timeline.detail("takes")).to_have_text("200 µs")
    expect(timeline.panel).to_contain_text("[[128, 64], [64, 256]]")
    expect(timeline.panel).to_contain_text("train.py:12")


def test_a_part_of_the_critical_path_leads_to_what_ran(timeline: Timeline) -> None:
    timeline.page.mouse.click(*timeline.find(at(5_000), "gemm", on_path=True))
    expect(timeline.detail("on")).to_contain_text("stream 7")
    timeline.detail("is").locator("button").click()
    expect(timeline.detail("runs")).to_have_text("5 ms")
    expect(timeline.detail("call")).to_have_text("cudaLaunchKernel")


def test_a_search_for_long_waits_goes_from_one_to_the_next(timeline: Timeline) -> None:
    search = timeline.report.locator(".tp-search:visible")
    search.fill("wait >2ms")
    # 3 ms before the first kernel, and 1 + 3 ms between the steps, where a step cuts the gap or not.
    count = int(timeline.canvas.get_attribute("data-tp-matches"))
    assert count == 4
    search.press("Enter")
    expect(timeline.detail("cause")).to_have_text("loading data")
    first = timeline.canvas.get_attribute("data-tp-row")
    search.press("Enter")
    expect(timeline.canvas).not_to_have_attribute("data-tp-row", first)
    search.fill("/cutlass.*nn_/")
    expect(timeline.canvas).to_have_attribute("data-tp-matches", "4")


def test_a_drag_chooses_a_range_that_all_views_count_in(timeline: Timeline) -> None:
    _, y = timeline.find(at(5_000), "gemm")
    timeline.page.mouse.move(timeline.x(at(4_000)), y)
    timeline.page.mouse.down()
    timeline.page.mouse.move(timeline.x(at(6_000)), y, steps=5)
    timeline.page.mouse.up()
    bar = timeline.report.locator(".tp-range-bar")
    expect(bar).to_be_visible()
    start, end = (float(each) / 1000 for each in timeline.canvas.get_attribute("data-tp-range").split("-"))
    # A pixel is about 10 us.
    assert start == pytest.approx(at(4_000), abs=40)
    assert end == pytest.approx(at(6_000), abs=40)
    expect(timeline.panel).to_contain_text("100 %")
    open_tab(timeline.report, "ops")
    # 2 of the 5 ms that the gemm runs; no call of an op begins in the range.
    row = timeline.report.locator("[data-tp-row]", has_text="aten::mm")
    expect(row).to_contain_text(re.compile(r"(1\.9|2\.0)\d"))
    open_tab(timeline.report, "timeline")
    timeline.canvas.focus()
    timeline.page.keyboard.press("Escape")
    expect(bar).to_have_count(0)


def test_the_wheel_scrolls_zooms_with_ctrl_and_pans_with_shift(timeline: Timeline) -> None:
    x, _ = timeline.find(at(5_000), "gemm")
    before = timeline.window
    timeline.page.keyboard.down("Control")
    timeline.page.mouse.wheel(0, -300)
    timeline.page.keyboard.up("Control")
    timeline.page.wait_for_timeout(100)
    zoomed = timeline.window
    assert zoomed[1] - zoomed[0] < 0.8 * (before[1] - before[0])
    assert timeline.x(at(5_000)) == pytest.approx(x, abs=3)
    timeline.page.keyboard.down("Shift")
    timeline.page.mouse.wheel(0, 120)
    timeline.page.keyboard.up("Shift")
    timeline.page.wait_for_timeout(100)
    panned = timeline.window
    assert panned[0] > zoomed[0]
    assert panned[1] - panned[0] == pytest.approx(zoomed[1] - zoomed[0], rel=0.001)
    timeline.canvas.focus()
    timeline.page.keyboard.press("0")
    assert timeline.window == (0, 4 * STEP_US)
    timeline.page.keyboard.press("Escape")


def test_keys_zoom_pan_and_move_the_selection(timeline: Timeline) -> None:
    timeline.canvas.focus()
    timeline.page.mouse.move(5, 5)
    start, end = timeline.window
    timeline.page.keyboard.press("w")
    assert timeline.window[1] - timeline.window[0] < end - start
    timeline.page.keyboard.press("s")
    timeline.page.keyboard.press("a")
    assert timeline.window[0] < start
    timeline.page.keyboard.press("d")
    timeline.page.keyboard.press("ArrowRight")
    first = int(timeline.canvas.get_attribute("data-tp-row"))
    timeline.page.keyboard.press("ArrowDown")
    below = int(timeline.canvas.get_attribute("data-tp-row"))
    assert first >= 0
    assert below not in (-1, first)
    expect(timeline.report.locator(".tp-aloud[aria-live]")).not_to_be_empty()


def test_a_selection_goes_with_the_user_to_other_views_and_back(timeline: Timeline) -> None:
    timeline.page.mouse.click(*timeline.find(at(3_100), "aten::mm"))
    timeline.canvas.focus()
    timeline.page.keyboard.press("f")
    expect(timeline.report).to_have_attribute("data-tp-view", "flame")
    expect(timeline.report.locator("canvas[data-tp-zoom]")).to_have_attribute("data-tp-selected", "aten::mm")
    timeline.report.locator("canvas[data-tp-zoom]").focus()
    timeline.page.keyboard.press("o")
    expect(timeline.report).to_have_attribute("data-tp-view", "ops")
    expect(timeline.report.locator('[data-tp-row][aria-selected="true"]')).to_contain_text("aten::mm")
    timeline.report.get_by_role("button", name="Back", exact=True).click()
    expect(timeline.report).to_have_attribute("data-tp-view", "flame")
    timeline.report.get_by_role("button", name="Forward", exact=True).click()
    expect(timeline.report).to_have_attribute("data-tp-view", "ops")


def test_a_step_is_chosen_in_the_strip_and_all_views_show_it_alone(timeline: Timeline) -> None:
    timeline.report.locator('[data-tp-step="1"]').click()
    expect(timeline.report.locator(".tp-range-bar")).to_contain_text("Step 1")
    start, end = (float(each) / 1000 for each in timeline.canvas.get_attribute("data-tp-range").split("-"))
    assert (start, end) == (STEP_US, 2 * STEP_US)
    timeline.report.locator('[data-tp-step="1"]').click()
    expect(timeline.report.locator(".tp-range-bar")).to_have_count(0)


def test_the_report_fills_the_window_and_comes_back(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "timeline")
    report.locator("canvas.tp-stage-canvas").focus()
    lab.page.keyboard.press("m")
    box = report.bounding_box()
    size = lab.page.viewport_size
    assert (box["width"], box["height"]) == (size["width"], size["height"])
    screenshot(lab.page, f"{lab.app}-maximized")
    for _ in range(10):  # what was zoomed and selected before goes first
        lab.page.keyboard.press("Escape")
        lab.page.wait_for_timeout(30)
    assert report.bounding_box()["height"] < size["height"]


def test_a_question_mark_shows_all_keys_and_escape_closes_them(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "timeline")
    report.locator("canvas.tp-stage-canvas").focus()
    lab.page.keyboard.press("?")
    expect(report.locator(".tp-help")).to_be_visible()
    lab.page.keyboard.press("Escape")
    expect(report.locator(".tp-help")).to_have_count(0)


def test_the_height_is_dragged_and_kept(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    handle = report.get_by_role("button", name=re.compile("Report height"))
    handle.scroll_into_view_if_needed()
    before = report.bounding_box()["height"]
    grip = handle.bounding_box()
    x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.mouse.move(x, y + 80, steps=4)
    lab.page.mouse.up()
    assert report.bounding_box()["height"] == pytest.approx(before + 80, abs=3)
    open_tab(report, "flame")
    assert report.bounding_box()["height"] == pytest.approx(before + 80, abs=3)
    handle.dblclick()


def test_kernels_modules_and_shapes_are_groupings_of_the_ops(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    report.locator(".tp-segmented").get_by_text("Kernel", exact=True).click()
    rows = report.locator("[data-tp-row]")
    expect(rows.first).to_contain_text("gemm bf16 128x64")
    expect(rows.first).to_contain_text("aten::mm")
    screenshot(report, "ops-by-kernel")
    report.locator(".tp-segmented").get_by_text("Op", exact=True).click()


def test_a_filter_compares_numbers(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    search = report.locator(".tp-search:visible")
    search.fill("gpu>2ms")
    expect(report.locator("[data-tp-rows-shown]")).to_have_attribute("data-tp-rows-shown", "1")
    search.fill("-phase:data name:mm")
    expect(report.locator("[data-tp-row]").first).to_contain_text("aten::mm")
    search.fill("")


def test_waits_are_hatched_and_kernels_have_the_colour_of_their_phase(timeline: Timeline) -> None:
    x, y = timeline.find(at(4_000), "gemm")
    timeline.page.mouse.move(5, 5)
    kernel = pixels(timeline, x, y + 8)
    # #4477aa, the light theme's forward.
    assert (68, 119, 170) in kernel
    x, y = timeline.find(at(1_000), "loading data")
    timeline.page.mouse.move(5, 5)
    wait = pixels(timeline, x, y)
    assert len(wait) > 1  # lines and ground
    assert max(max(each) - min(each) for each in wait) < 24  # without a hue


def pixels(timeline: Timeline, x: float, y: float) -> set[tuple[int, ...]]:
    """Return the colours of the canvas around a point of the page."""
    found = timeline.canvas.evaluate(
        """(canvas, [x, y]) => {
          const area = canvas.getBoundingClientRect();
          const scale = canvas.width / area.width;
          const at = [(x - area.left) * scale - 8, (y - area.top) * scale - 3];
          const { data } = canvas.getContext("2d").getImageData(...at, 16, 6);
          return Array.from({ length: data.length / 4 }, (_, i) => Array.from(data.slice(4 * i, 4 * i + 3)));
        }""",
        [x, y],
    )
    return {tuple(each) for each in found}


@pytest.mark.parametrize("width", sampled([500, 620, 1100, 1990], 2))
def test_nothing_overflows_or_is_cut_at_any_width(lab: Lab, width: int) -> None:
    report = lab.report()
    size = lab.page.viewport_size
    lab.page.set_viewport_size({"width": width + 180, "height": 900})
    try:
        for view in ("overview", "timeline", "ops", "flame", "source", "memory"):
            open_tab(report, view)
            own, content = report.evaluate("(root) => [root.clientWidth, root.scrollWidth]")
            assert content <= own, view
            screenshot(report, f"gpu-{view}-{width}")
    finally:
        lab.page.set_viewport_size(size)


def test_no_request_left_the_machine_and_nothing_failed(lab: Lab) -> None:
    assert [url for url in lab.requests if not url.startswith(("http://127.0.0.1:", "blob:", "data:"))] == []
    assert lab.errors == []
