"""Counters in the timeline of an HTML file, and of a real JupyterLab whose page has only windows of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from amount import sampled, thorough
from counter_trace import write_counter_trace
from driver import Lab, open_tab, screenshot, show_file, write_notebook
from playwright.sync_api import Browser, Page, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROW_PX = 16
SHOW = "import torchprof_magic as tp\ntp.load('counters.json')"
SHOW_WINDOWED = (
    "from torchprof_magic.tables.timeline import slice_windows\nslice_windows.WHOLE_SLICES = 3000\n"
    "tp.load('counters.json')"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Return the HTML file of a report by its number of devices."""
    root = tmp_path_factory.mktemp("counters")
    return {
        devices: tp.load(write_counter_trace(root / f"{devices}.json", devices)).to_html(root / f"{devices}.html")
        for devices in (1, 4)
    }


class Timeline:
    """The timeline of a report, whose lanes are found by what the footer says of them."""

    def __init__(self, page: Page, report: Any) -> None:
        self.page, self.report = page, report
        open_tab(report, "timeline")
        self.canvas = report.locator("canvas.tp-stage-canvas")
        self.footer = report.locator(".tp-footer")

    def hover(self, name: str, share: float = 0.5) -> bool:
        """Move the mouse over a lane at a share of the width; False if no lane says its name there."""
        self.canvas.scroll_into_view_if_needed()
        area = self.canvas.bounding_box()
        for y in range(30, int(area["height"]), ROW_PX):
            self.page.mouse.move(area["x"] + 128 + (area["width"] - 128) * share, area["y"] + y)
            if re.search(rf"\b{name}\b", self.footer.inner_text()):
                return True
        return False

    def toggle(self, name: str) -> None:
        """Click on the head above the first lane of counters, which is the lane of this name."""
        assert self.hover(name)
        area = self.canvas.bounding_box()
        at = self.page.evaluate("() => window.pointerY")
        self.page.mouse.click(area["x"] + 20, at - 20)


@pytest.fixture
def timeline(request: pytest.FixtureRequest, browser: Browser, files: dict[int, Path]) -> Iterator[Timeline]:
    look = getattr(request, "param", "light-1100")
    theme, width = look.split("-")
    context = browser.new_context(viewport={"width": int(width), "height": 1000}, color_scheme=theme, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.message))
    page.add_init_script("addEventListener('pointermove', (event) => { window.pointerY = event.clientY; }, true)")
    found = Timeline(page, show_file(page, files[1]))
    yield found
    screenshot(page, f"counters-{look}")
    assert errors == []
    context.close()


LOOKS = sampled(["light-1100", "light-640", "dark-1100", "dark-640"])


@pytest.mark.parametrize("timeline", LOOKS, indirect=True)
def test_a_counter_says_its_value_under_the_pointer(timeline: Timeline) -> None:
    assert timeline.hover("SM Clock")
    # In the middle of the step the device works.
    expect(timeline.footer).to_contain_text("1,410 MHz")
    assert timeline.hover("Temperature")
    expect(timeline.footer).to_contain_text("°C")
    assert timeline.hover("SM Clock", share=0.1)
    expect(timeline.footer).to_contain_text("1,095 MHz")


def test_a_click_on_a_value_shows_it_in_the_panel(timeline: Timeline) -> None:
    assert timeline.hover("Memory Clock")
    timeline.page.mouse.down()
    timeline.page.mouse.up()
    row = timeline.report.locator('.tp-side-row[data-tp-detail="value"]')
    expect(row).to_contain_text("1,215 MHz")


def test_the_head_of_the_counters_folds_them_and_unfolds_them(timeline: Timeline) -> None:
    assert timeline.hover("SM Active")
    timeline.toggle("Power")
    assert not timeline.hover("SM Active")
    assert timeline.hover("batches")


def test_readers_of_the_screen_get_the_range_of_each_counter(timeline: Timeline) -> None:
    table = timeline.report.locator("table", has_text="Counters in the window")
    cells = table.locator("tr", has_text="SM Clock").locator("td")
    expect(cells).to_have_text(["SM Clock", "Device 0", "1,095 MHz", "1,410 MHz"])


def test_the_counters_of_many_devices_are_folded_at_first(browser: Browser, files: dict[int, Path]) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    page.add_init_script("addEventListener('pointermove', (event) => { window.pointerY = event.clientY; }, true)")
    timeline = Timeline(page, show_file(page, files[4]))
    assert not timeline.hover("Power")
    assert timeline.hover("gemm")
    screenshot(page, "counters-of-four-devices")
    page.close()


@thorough
def test_a_page_that_asks_for_windows_shows_the_same_values(open_notebook: Callable[..., Lab], tmp_path: Path) -> None:
    write_counter_trace(tmp_path / "counters.json")
    notebook = write_notebook(tmp_path / "counters.ipynb", SHOW, SHOW_WINDOWED)
    lab = open_notebook(notebook)
    lab.run_all()
    for index, name in enumerate(("whole", "windowed")):
        timeline = Timeline(lab.page, lab.report(index))
        expect(timeline.canvas).to_have_attribute("data-tp-complete", "true")
        assert timeline.hover("SM Clock")
        expect(timeline.footer).to_contain_text("1,410 MHz")
        screenshot(timeline.report, f"counters-in-lab-{name}")
    assert lab.errors == []
