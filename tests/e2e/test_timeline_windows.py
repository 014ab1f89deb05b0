"""A timeline that is too long for the page, beside the same one that is not, in a real JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from amount import thorough
from driver import Lab, open_tab, screenshot, write_notebook
from long_trace import LAYER_US, STEP_US, write_long_trace
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

GUTTER_PX = 128
LEAST_ROW_PX = 10  # each is higher
WHOLE, WINDOWED = 0, 1
SHOW_WHOLE = "import torchprof_magic as tp\ntp.load('long.json')"
SHOW_WINDOWED = (
    "from torchprof_magic.tables.timeline import slice_windows\nslice_windows.WHOLE_SLICES = 300\n"
    "report = tp.load('long.json')\nreport.to_html('long.html')\nreport"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("windows")


@pytest.fixture(scope="module")
def lab(open_notebook: Callable[..., Lab], root: Path) -> Lab:
    write_long_trace(root / "long.json")
    notebook = write_notebook(root / "long.ipynb", SHOW_WHOLE, SHOW_WINDOWED)
    opened = open_notebook(notebook)
    opened.run_all()
    return opened


class Timeline:
    """The timeline of one of the two reports."""

    def __init__(self, lab: Lab, index: int) -> None:
        self.page: Page = lab.page
        self.report = lab.report(index)
        self.report.scroll_into_view_if_needed()
        open_tab(self.report, "timeline")
        self.canvas = self.report.locator("canvas.tp-stage-canvas")
        self.footer = self.report.locator(".tp-footer")
        self.panel = self.report.locator(".tp-side")
        self.search = self.report.locator(".tp-search:visible")
        self.matches = self.report.locator(".tp-match-steps:visible")
        self.waits = self.report.locator(".tp-wait-line[data-tp-exact=true]")

    def start_anew(self) -> Timeline:
        """Show the first window again, without a range, a selection or a search."""
        self.search.fill("")
        self.canvas.focus()
        for _ in range(12):
            self.page.keyboard.press("Escape")
        self.report.get_by_role("button", name="Step", exact=True).click()
        self.report.locator(".tp-segmented").get_by_text("Ops", exact=True).click()
        self.canvas.focus()
        self.page.mouse.move(5, 5)
        return self

    @property
    def window(self) -> tuple[float, float]:
        """The shown times, in us."""
        return tuple(float(self.canvas.get_attribute(name)) / 1000 for name in ("data-tp-start", "data-tp-end"))

    def x(self, at_us: float) -> float:
        area = self.canvas.bounding_box()
        start, end = self.window
        return area["x"] + GUTTER_PX + (at_us - start) / (end - start) * (area["width"] - GUTTER_PX)

    def zoom_to(self, at_us: float, length_us: float) -> None:
        """Zoom in at a moment with the wheel, until the window is no longer than asked for."""
        area = self.canvas.bounding_box()
        y = area["y"] + 40
        for _ in range(60):
            if self.window[1] - self.window[0] <= length_us:
                return
            self.page.mouse.move(self.x(at_us), y)
            self.page.keyboard.down("Control")
            self.page.mouse.wheel(0, -250)
            self.page.keyboard.up("Control")
            self.page.wait_for_timeout(30)
        raise AssertionError("the wheel does not zoom")

    def find(self, at_us: float, text: str) -> tuple[float, float]:
        """Return where the footer says ``text`` for a moment, looking from the top to the bottom."""
        area = self.canvas.bounding_box()
        x = self.x(at_us)
        for _ in range(20):  # until the window is there
            for y in range(int(area["y"]) + 30, int(area["y"] + area["height"]), LEAST_ROW_PX):
                self.page.mouse.move(x, y)
                self.page.wait_for_timeout(15)
                said = self.footer.inner_text()
                if text in said and "critical path" not in said:
                    return x, y
        raise AssertionError(f"nothing says {text} at {at_us} us")

    def attribute(self, name: str) -> str:
        return str(self.canvas.get_attribute(f"data-tp-{name}"))

    def waits_text(self) -> str:
        self.waits.wait_for()
        return " ".join(self.waits.inner_text().split())


@pytest.fixture(params=[WHOLE, WINDOWED], ids=["whole", "windowed"])
def timeline(lab: Lab, request: pytest.FixtureRequest) -> Timeline:
    return Timeline(lab, request.param).start_anew()


def in_turn(lab: Lab) -> Iterator[Timeline]:
    """Yield the two timelines, each scrolled into view and at its first window."""
    for index in (WHOLE, WINDOWED):
        yield Timeline(lab, index).start_anew()


def at(layer: int, us: float = 0, step: int = 3) -> float:
    """Return a moment of a layer, in us."""
    return step * STEP_US + 10 + layer * LAYER_US + us


def test_the_windowed_one_says_how_many_slices_there_are(lab: Lab) -> None:
    whole, windowed = (each.canvas.get_attribute("aria-label") for each in in_turn(lab))
    assert whole == windowed
    assert int(re.search(r"([\d,]+) slices", whole)[1].replace(",", "")) > 5000


def test_both_open_at_the_same_step_and_say_why_the_device_waits(lab: Lab) -> None:
    for button in ("Step", "All"):
        texts = []
        for each in in_turn(lab):
            each.report.get_by_role("button", name=button, exact=True).click()
            texts.append((each.window, each.waits_text()))
        assert texts[0] == texts[1]
        assert re.search(r" of it for op dispatch\.$", texts[0][1])


def test_a_zoom_and_a_pan_end_at_the_same_numbers(lab: Lab) -> None:
    texts = []
    for each in in_turn(lab):
        each.zoom_to(at(20), 400)
        each.page.keyboard.down("Shift")
        each.page.mouse.wheel(0, 700)
        each.page.keyboard.up("Shift")
        each.page.wait_for_timeout(200)
        texts.append((each.window, each.waits_text()))
        screenshot(each.report, f"windows-close-{len(texts)}")
    assert texts[0] == texts[1]


def test_hover_says_the_same_of_a_kernel(timeline: Timeline) -> None:
    timeline.zoom_to(at(21), 400)
    timeline.find(at(21, 20), "scale1_kernel")
    expect(timeline.footer).to_contain_text("30 µs")
    expect(timeline.footer).to_contain_text("by aten::mm")


@thorough  # test_interactions.py does it without windows
def test_a_click_on_a_kernel_shows_its_launch_its_op_and_what_was_recorded(lab: Lab) -> None:
    seen = []
    for each in in_turn(lab):
        each.zoom_to(at(21), 400)
        each.page.mouse.click(*each.find(at(21, 20), "scale1_kernel"))
        expect(each.panel).to_contain_text("cudaLaunchKernel")
        expect(each.panel).to_contain_text("[[22, 64], [64, 256]]")
        expect(each.panel).to_contain_text("train.py:3")
        seen.append((each.attribute("row"), each.panel.inner_text()))
        each.canvas.focus()
        each.page.mouse.move(5, 5)
        screenshot(each.report, f"windows-kernel-{len(seen)}")
    assert seen[0] == seen[1]


@thorough
def test_keys_go_from_slice_to_slice_in_the_same_way(lab: Lab) -> None:
    seen = []
    for each in in_turn(lab):
        each.zoom_to(at(21), 400)
        each.page.mouse.click(*each.find(at(21, 20), "scale1_kernel"))
        each.canvas.focus()
        rows = []
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp", "ArrowUp", "ArrowDown"):
            expect(each.panel.locator('[data-tp-detail="on"]')).to_have_count(1)
            each.page.wait_for_timeout(400)  # the neighbors of the selection are asked for
            each.page.keyboard.press(key)
            rows.append(each.attribute("row"))
        seen.append(rows)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 3


@thorough  # test_interactions.py does it without windows
def test_a_wait_says_the_other_waits_of_its_gap_and_the_work_around_it(lab: Lab) -> None:
    seen = []
    for each in in_turn(lab):
        each.zoom_to(at(20), 400)
        each.page.mouse.click(*each.find(at(20, 50), "Waiting"))
        expect(each.panel.locator('[data-tp-detail="ran before"]')).to_contain_text("add_kernel")
        expect(each.panel.locator('[data-tp-detail="runs after"]')).to_contain_text("scale0_kernel")
        seen.append((each.attribute("row"), each.panel.inner_text()))
    assert seen[0] == seen[1]


@thorough
def test_a_search_counts_and_goes_to_the_same_slices(lab: Lab) -> None:
    for text, count in (("scale3_kernel", 72), ("/^aten::op[12]$/", None), ("wait >50us", None)):
        seen = []
        for each in in_turn(lab):
            each.search.fill(text)
            expect(each.matches).to_contain_text(re.compile(r"\d"))
            found = [each.attribute("matches"), each.matches.inner_text()]
            for step in range(3):
                each.search.press("Enter")
                expect(each.matches).to_contain_text(f"{step + 1} of")
                found.append(each.attribute("row"))
            each.search.press("Shift+Enter")
            expect(each.matches).to_contain_text("2 of")
            found += [each.attribute("row"), each.panel.locator("h3").first.inner_text()]
            seen.append(found)
        assert seen[0] == seen[1]
        if count is not None:
            assert seen[0][0] == str(count)


def test_a_range_is_counted_the_same_in_the_panel_and_in_the_table_of_ops(lab: Lab) -> None:
    seen = []
    for each in in_turn(lab):
        each.report.locator('[data-tp-step="2"]').click()
        expect(each.panel.locator(".tp-side-table")).to_be_visible()
        found = []
        for table in ("Ops", "Kernels", "Waits"):
            each.panel.locator(".tp-segmented").get_by_text(table, exact=True).click()
            expect(each.panel).not_to_contain_text("Counting")
            found.append(each.panel.inner_text())
        found.append(each.waits_text())
        open_tab(each.report, "ops")
        expect(each.report.locator("[data-tp-row]").first).to_be_visible()
        found.append(each.report.locator(".tp-rows").first.inner_text())
        open_tab(each.report, "timeline")
        each.report.locator('[data-tp-step="2"]').click()
        seen.append(found)
    assert seen[0] == seen[1]
    assert "scale0_kernel" in seen[0][1]


def test_the_layer_with_python_shows_its_frames(timeline: Timeline) -> None:
    timeline.report.locator(".tp-segmented").get_by_text("Python", exact=True).click()
    expect(timeline.canvas).to_have_attribute("data-tp-layer", "depth_python")
    timeline.find(at(40, 145), "train.py(3): main")


def test_a_window_that_was_shown_before_needs_no_kernel(lab: Lab) -> None:
    windowed = Timeline(lab, WINDOWED).start_anew()
    windowed.find(at(21, 20), "scale1_kernel")
    windowed.report.get_by_role("button", name="All", exact=True).click()
    windowed.waits.wait_for()
    windowed.page.wait_for_timeout(300)
    lab.page.evaluate(
        "() => { const send = WebSocket.prototype.send; window.resumeSending = () => {"
        " WebSocket.prototype.send = send; }; WebSocket.prototype.send = () => {}; }"
    )
    try:
        windowed.report.get_by_role("button", name="Step", exact=True).click()
        windowed.find(at(21, 20), "scale1_kernel")
        expect(windowed.footer).to_contain_text("30 µs")
    finally:
        lab.page.evaluate("() => window.resumeSending()")


def test_a_file_says_what_it_merges_and_makes_no_request(lab: Lab, root: Path) -> None:
    page = lab.page.context.browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((root / "long.html").as_uri())
    report = page.locator('.tp-report[data-tp-ready="true"]')
    open_tab(report, "timeline")
    expect(report.locator(".tp-timeline-note")).to_contain_text(re.compile(r"\d+ bars stand for [\d,]+ slices"))
    screenshot(report, "windows-file")
    # Merged waits are not cut where the window ends.
    expect(report.locator(".tp-wait-line")).to_contain_text("about")
    report.locator('[data-tp-step="2"]').click()
    expect(report.locator(".tp-side")).to_contain_text("cannot count")
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    page.close()


def test_without_a_kernel_the_last_picture_stays_and_a_sentence_says_why_it_is_coarse(lab: Lab) -> None:
    windowed = Timeline(lab, WINDOWED).start_anew()
    windowed.report.get_by_role("button", name="All", exact=True).click()
    windowed.waits.wait_for()
    lab.page.evaluate("() => jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.shutdown()")
    windowed.page.wait_for_timeout(500)
    windowed.zoom_to(at(21, 0, step=1), 400)
    note = windowed.report.locator(".tp-timeline-note")
    expect(note).to_contain_text("Finer detail needs the running kernel", timeout=20_000)
    windowed.find(at(21, 60, step=1), "of")
    screenshot(windowed.report, "windows-without-kernel")
    assert lab.errors == []
