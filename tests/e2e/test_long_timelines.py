"""A timeline that is too long for a page and comes in windows, beside the same one as a whole, in JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from driver import Lab, chromium, jupyter, open_tab, screenshot, write_notebook
from gpu_trace import write_gpu_trace
from playwright.sync_api import expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STEPS = 400
LIMIT = 1_000  # slices; the trace has about ten a step
WHOLE = "import torchprof_magic as tp\ntp.load('gpu.json')"
IN_WINDOWS = (
    "import torchprof_magic.analysis.slice_windows as slice_windows\n"
    f"slice_windows.WHOLE_SLICES = {LIMIT}\ntp.load('gpu.json')"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("long")
    write_gpu_trace(root / "gpu.json", STEPS)
    notebook = write_notebook(root / "long.ipynb", WHOLE, IN_WINDOWS)
    with chromium() as browser, jupyter(root) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        opened = Lab(page, address, notebook)
        opened.run_all()
        yield opened
        assert opened.errors == []
        page.close()


@pytest.fixture(params=[0, 1], ids=["whole", "in windows"])
def report(lab: Lab, request: pytest.FixtureRequest) -> Any:
    """Return a report at the window that all tests begin at: the whole recording."""
    found = lab.report(request.param)
    open_tab(found, "timeline")
    canvas = found.locator("canvas.tp-stage-canvas")
    found.locator(".tp-search:visible").fill("")
    canvas.focus()
    for _ in range(8):
        lab.page.keyboard.press("Escape")
    found.get_by_role("button", name="All", exact=True).click()
    return found


def waits_ms(report: Any) -> float:
    return float(report.locator("[data-tp-waits]").get_attribute("data-tp-waits")) / 1e6


def test_what_the_device_waited_for_adds_up_to_the_same(report: Any) -> None:
    # 3 ms before and 1 ms after the work of each step.
    expect(report.locator('[data-tp-cause="loading data"] strong')).to_have_text("1.12 s")
    assert waits_ms(report) == pytest.approx(4 * STEPS, rel=1e-3)


def test_a_search_finds_the_same_slices_and_goes_from_one_to_the_next(report: Any) -> None:
    search = report.locator(".tp-search:visible")
    search.fill("gemm")
    expect(report.locator("canvas.tp-stage-canvas")).to_have_attribute("data-tp-matches", str(STEPS))
    search.press("Enter")
    panel = report.locator(".tp-side")
    expect(panel.locator('[data-tp-detail="runs"] dd')).to_have_text("5.00 ms")
    first = panel.locator('[data-tp-detail="begins"] dd').inner_text()
    search.press("Enter")
    expect(panel.locator('[data-tp-detail="begins"] dd')).not_to_have_text(first)


def test_a_kernel_leads_to_its_op_with_shapes_and_stack(report: Any) -> None:
    search = report.locator(".tp-search:visible")
    search.fill("gemm")
    expect(report.locator("canvas.tp-stage-canvas")).to_have_attribute("data-tp-matches", str(STEPS))
    search.press("Enter")
    panel = report.locator(".tp-side")
    expect(panel.locator('[data-tp-detail="by"] dd')).to_have_text("aten::mm")
    expect(panel.locator('[data-tp-detail="shapes"] dd')).to_contain_text("[128")
    expect(panel.locator('[data-tp-detail="stack"] dd')).to_contain_text("train.py")
    panel.locator('[data-tp-detail="by"] button').click()
    expect(panel.locator("h3")).to_contain_text("aten::mm")
    screenshot(report, "long-timeline")


def test_zooming_shows_more_and_a_range_is_counted_exactly(lab: Lab, report: Any) -> None:
    canvas = report.locator("canvas.tp-stage-canvas")
    box = canvas.bounding_box()
    lab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    lab.page.keyboard.down("Control")
    for _ in range(4):
        lab.page.mouse.wheel(0, -400)
        lab.page.wait_for_timeout(100)
    lab.page.keyboard.up("Control")
    lab.page.wait_for_timeout(500)
    start, end = (float(canvas.get_attribute(f"data-tp-{edge}")) / 1e6 for edge in ("start", "end"))
    assert end - start < 10 * STEPS / 4
    lab.page.mouse.move(box["x"] + 300, box["y"] + 60)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + 900, box["y"] + 60, steps=4)
    lab.page.mouse.up()
    low, high = (float(each) / 1e6 for each in canvas.get_attribute("data-tp-range").split("-"))
    busy = report.locator(".tp-side-part p strong").first
    expect(busy).to_be_visible()
    number, unit = re.fullmatch(r"([\d.]+)\s(ms|s)", busy.inner_text()).groups()  # type: ignore[union-attr]
    # 6 of every 10 ms, but for the pieces at both ends.
    assert float(number) * (1000 if unit == "s" else 1) == pytest.approx(0.6 * (high - low), abs=8)
