"""A report by keyboard alone, for screen readers, with forced colors and reduced motion, and what axe says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from amount import sampled, thorough
from driver import open_tab, screenshot, show_file
from gpu_trace import write_gpu_trace
from hosts import Hosted, hosted
from playwright.sync_api import Browser, Page, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ("overview", "timeline", "ops", "flame", "source", "modules", "memory")
# Target size is a rule of WCAG 2.2, which axe leaves out by default.
RUN_AXE = """async () => {
  const rules = { "target-size": { enabled: true } };
  const { violations } = await axe.run(document, { rules, resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
}"""
STATIC_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title>
<style>body {{ background: {ground}; color: {text}; font: 14px system-ui; }}</style></head>
<body><main><h1>Notebook</h1>{copy}</main></body></html>"""
COLORS = {"light": ("#ffffff", "#1f2328"), "dark": ("#111111", "#dddddd")}


@pytest.fixture(scope="module")
def report() -> tp.Report:
    """Return a report that has every view."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
    with tp.profile(profile_memory=True, with_stack=True, record_shapes=True) as p:
        for _ in tp.steps(range(6)):
            model(torch.randn(8, 16)).square().mean().backward()
    return p.report


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    folder = tmp_path_factory.mktemp("page")
    loaded = tp.load(write_gpu_trace(folder / "gpu.json"))
    with hosted(browser, folder, "plain", loaded) as opened:
        yield opened


@pytest.fixture
def keys(shown: Hosted) -> Keys:
    """Return a keyboard in front of a report without a selection, a range or an open menu."""
    shown.report.evaluate("(root) => root.focus()")
    for _ in range(8):
        shown.page.keyboard.press("Escape")
    shown.page.evaluate("document.activeElement.blur()")
    found = Keys(shown)
    found.settle()
    return found


class Keys:
    """A keyboard, and what it has led to."""

    def __init__(self, shown: Hosted) -> None:
        self.page = shown.page
        self.report = shown.report

    def press(self, *names: str) -> None:
        for name in names:
            self.page.keyboard.press(name)

    def settle(self) -> None:
        """Wait for what the keys began: Esc acts a moment later, and views draw in the next frame."""
        self.page.evaluate(
            "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 20))"
        )

    def view(self, name: str) -> None:
        """Show a view with its digit."""
        self.report.evaluate("(root) => root.focus()")
        tabs = [tab.get_attribute("data-tp-tab") for tab in self.report.locator("[role=tab]").all()]
        self.press(str(tabs.index(name) + 1))
        expect(self.report).to_have_attribute("data-tp-view", name)

    def tab_to(self, selector: str, text: str = "") -> Any:
        """Press Tab until an element that matches, and has the text, has the focus."""
        wanted = self.report.locator(selector, has_text=text) if text else self.report.locator(selector)
        expect(wanted.first).to_be_visible()
        for _ in range(120):
            self.press("Tab")
            if wanted.first.evaluate("(element) => element === document.activeElement"):
                return wanted.first
        raise AssertionError(f"Tab never reaches {selector} {text}")

    def aloud(self) -> str:
        """Return what the live region of the view says."""
        return str(self.report.locator('.tp-aloud[aria-live="polite"]').first.inner_text())


@pytest.fixture
def axe_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    if not AXE.exists():
        pytest.skip("axe is not installed: run `npm ci` in js/")
    theme = request.node.callspec.params["theme"]
    # The script comes from outside of the page, which the policy of a file forbids to all others.
    context = browser.new_context(viewport={"width": 1100, "height": 900}, color_scheme=theme, bypass_csp=True)
    context.add_init_script(path=AXE)
    yield context.new_page()
    context.close()


def wait_for_tables(report: Any) -> None:
    """Wait for the table of a canvas, which comes when nothing moves any more."""
    if report.locator(".tp-spoken").count():
        report.locator(".tp-spoken tbody tr").first.wait_for(state="attached")


# A sample has each of the two themes once, as a file and live.
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=thorough)])
def test_axe_finds_nothing_in_a_file(axe_page: Page, report: tp.Report, tmp_path: Path, theme: str) -> None:
    shown = show_file(axe_page, report.to_html(tmp_path / "report.html"))
    expect(shown).to_have_attribute("data-tp-theme", theme)
    for view in VIEWS:
        open_tab(shown, view)
        wait_for_tables(shown)
        assert axe_page.evaluate(RUN_AXE) == [], view


@thorough  # a file, which has the same page, is in the sample
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_live_report(browser: Browser, report: tp.Report, tmp_path: Path, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe is not installed: run `npm ci` in js/")
    with hosted(browser, tmp_path, "plain", report, theme) as shown:
        shown.page.evaluate(AXE.read_text())
        for view in VIEWS:
            open_tab(shown.report, view)
            wait_for_tables(shown.report)
            assert shown.page.evaluate(RUN_AXE) == [], view
        # With everything open that opens.
        open_tab(shown.report, "ops")
        shown.report.get_by_role("button", name="Columns").click()
        shown.report.locator("[data-tp-row]").first.click()
        shown.report.locator('.tp-step-strip [data-tp-step="3"]').click()
        expect(shown.report.locator('[aria-busy="true"]')).to_have_count(0)
        shown.report.get_by_role("button", name="All keys").click()
        assert shown.page.evaluate(RUN_AXE) == []


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=thorough)])
def test_axe_finds_nothing_in_the_static_copy(axe_page: Page, report: tp.Report, tmp_path: Path, theme: str) -> None:
    ground, text = COLORS[theme]
    file = tmp_path / "static.html"
    file.write_text(STATIC_PAGE.format(ground=ground, text=text, copy=report._repr_html_()), encoding="utf-8")
    axe_page.goto(file.as_uri())
    assert axe_page.evaluate(RUN_AXE) == []
    screenshot(axe_page, f"static-{theme}")


# What Tab passes over, because arrow keys move to it from its neighbor or from what holds it.
BY_ARROWS = "[role=tab], .tp-step-strip button, .tp-step-columns button, .tp-fold"
MARK_TABBABLE = """(root, byArrows) => {
  let count = 0;
  for (const each of root.querySelectorAll("button, input, select, a[href], [tabindex]")) {
    const isSeen = each.checkVisibility() && !each.disabled;
    if (!isSeen || each === root || (each.tabIndex < 0 && each.matches(byArrows))) continue;
    each.dataset.wanted = "true";
    count += 1;
  }
  return count;
}"""
FOCUSED = """() => {
  const element = document.activeElement;
  const { outlineWidth, outlineStyle, outlineColor } = getComputedStyle(element);
  const isOwn = element.dataset.wanted === "true";
  element.dataset.wanted = "reached";
  const { width, height } = element.getBoundingClientRect();
  const name = `${element.tagName} ${element.className}`;
  return { isOwn, name, ring: `${outlineWidth} ${outlineStyle} ${outlineColor}`, width, height };
}"""
ACCENT = "rgb(10, 102, 194)"
# The bar over the views walks from step to step where columns are thin; scrolling boxes are as high as they are.
LEAST_TARGET_PX = 24


@pytest.mark.parametrize("view", sampled(["overview", "timeline", "ops", "flame", "source", "memory"], 2))
def test_tab_reaches_everything_and_shows_where_it_is(keys: Keys, view: str) -> None:
    keys.view(view)
    if view in ("timeline", "flame"):
        # With a selection, so that its links and buttons are there.
        keys.report.locator("canvas[tabindex]").focus()
        keys.press("ArrowRight", "ArrowDown")
        keys.settle()
    count = keys.report.evaluate(MARK_TABBABLE, BY_ARROWS)
    keys.page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(count + 3):
        keys.press("Tab")
        focused = keys.page.evaluate(FOCUSED)
        if focused["isOwn"]:
            seen.append(focused)
            assert focused["ring"] == f"2px solid {ACCENT}", focused["name"]
            assert min(focused["width"], focused["height"]) >= LEAST_TARGET_PX, focused
    left = keys.report.locator('[data-wanted="true"]').evaluate_all("(all) => all.map((each) => each.outerHTML)")
    assert left == []
    assert len(seen) == count


def test_arrow_keys_move_between_tabs_and_steps(keys: Keys) -> None:
    keys.view("timeline")
    keys.tab_to('[role=tab][data-tp-tab="timeline"]')
    keys.press("ArrowRight")
    expect(keys.report).to_have_attribute("data-tp-view", "ops")
    keys.press("End")
    expect(keys.report).to_have_attribute("data-tp-view", "roofline")
    keys.report.evaluate("(root) => root.focus()")
    keys.page.evaluate("document.activeElement.blur()")
    keys.tab_to(".tp-step-strip button")
    keys.press("ArrowRight", "ArrowRight", "Enter")
    expect(keys.report.locator(".tp-range-bar")).to_contain_text("Step 2")
    keys.tab_to('.tp-range-bar button[aria-label="Next step"]')
    keys.press("Enter")
    expect(keys.report.locator(".tp-range-bar")).to_contain_text("Step 3")


def test_a_table_is_sorted_filtered_grouped_and_opened(keys: Keys) -> None:
    keys.view("ops")
    keys.tab_to('[data-tp-column="calls"] button')
    keys.press("Enter")
    calls = keys.report.locator('[data-tp-column="calls"]')
    expect(calls).to_have_attribute("aria-sort", "descending")
    before = calls.bounding_box()["width"]
    keys.press("Shift+ArrowRight")
    assert calls.bounding_box()["width"] == pytest.approx(before + 24, abs=1)
    keys.tab_to(".tp-grid")
    keys.press("Home", "ArrowRight")
    # A row that opens: its kernel is under it.
    expect(keys.report.locator('[data-tp-row][aria-level="2"]').first).to_be_visible()
    keys.press("ArrowLeft")
    keys.press("/")
    keys.page.keyboard.type("mm")
    expect(keys.report.locator("[data-tp-rows-shown]")).to_have_attribute("data-tp-rows-shown", "1")
    keys.press("Escape")
    keys.tab_to(".tp-segmented button", "Kernel")
    keys.press("Space")
    expect(keys.report.locator("[data-tp-row]").first).to_contain_text("gemm")
    keys.page.evaluate("document.activeElement.blur()")
    keys.tab_to('.tp-segmented button[aria-pressed="false"]', "Op")
    keys.press("Space")


def test_the_menu_of_columns_opens_chooses_and_gives_the_focus_back(keys: Keys) -> None:
    keys.view("ops")
    opener = keys.tab_to(".tp-view .tp-menu-box:not(.tp-tight) > .tp-button")
    keys.press("Enter", *["ArrowDown"] * 3, "Enter")
    expect(keys.report.locator('[data-tp-column="calls"]')).to_have_count(0)
    keys.press("Enter", "Escape")
    expect(keys.report.locator('[data-tp-column="calls"]')).to_have_count(1)
    expect(keys.report.locator(".tp-menu")).to_have_count(0)
    expect(opener).to_be_focused()


def test_the_flame_graph_is_walked_and_heard(keys: Keys) -> None:
    keys.view("flame")
    keys.report.get_by_role("button", name="CPU", exact=True).click()
    canvas = keys.tab_to(".tp-flame-canvas")
    keys.press("ArrowDown", "ArrowDown")
    expect(canvas).to_have_attribute("data-tp-selected", "ProfilerStep")
    keys.press("ArrowDown")
    name = canvas.get_attribute("data-tp-selected")
    assert keys.aloud().startswith(f"{name}, CPU self")
    keys.press("Enter")
    expect(canvas).to_have_attribute("data-tp-focus", name)
    keys.press("Escape")
    expect(canvas).to_have_attribute("data-tp-focus", "all")
    keys.tab_to(".tp-flame-actions button", "Focus")
    keys.press("Enter")
    expect(canvas).to_have_attribute("data-tp-focus", name)
    keys.tab_to('[data-tp-target="ops"]')
    keys.press("Enter")
    expect(keys.report).to_have_attribute("data-tp-view", "ops")


def test_the_timeline_is_walked_heard_folded_and_gives_a_range(keys: Keys) -> None:
    keys.view("timeline")
    canvas = keys.tab_to(".tp-stage-canvas")
    keys.press("ArrowRight", "ArrowDown", "ArrowDown")
    assert keys.aloud().startswith("aten::stack, 2.50 ms, ")
    keys.press("r")
    start, end = canvas.get_attribute("data-tp-range").split("-")
    assert int(end) - int(start) == 2_500_000
    expect(keys.report.locator(".tp-range-bar")).to_contain_text("Range of 2.50 ms")
    spacer = keys.report.locator(".tp-graph-spacer")
    before = spacer.evaluate("(spacer) => spacer.offsetHeight")
    keys.press("Space")
    # The three levels of the thread are one line of 20 px.
    keys.page.wait_for_timeout(50)
    assert spacer.evaluate("(spacer) => spacer.offsetHeight") == before - 40
    keys.press("Space", "Escape")
    expect(keys.report.locator(".tp-range-bar")).to_have_count(0)


def test_the_links_of_a_selection_are_followed(keys: Keys) -> None:
    keys.view("timeline")
    keys.press("/")
    keys.page.keyboard.type("cutlass")
    keys.press("Enter")
    expect(keys.report.locator(".tp-side")).to_contain_text("cudaLaunchKernel")
    link = keys.tab_to('[data-tp-detail="by"] button')
    assert link.inner_text() == "aten::mm"
    keys.press("Enter")
    expect(keys.report.locator('[data-tp-detail="takes"] dd')).to_have_text("200 µs")
    keys.press("/", "Escape")


def test_a_chart_is_walked_heard_and_gives_a_range(keys: Keys) -> None:
    keys.view("memory")
    plot = keys.tab_to(".tp-plot")
    keys.press("Home", "ArrowRight")
    # The allocation ends 9.5 ms after the first event.
    expect(plot).to_have_attribute("data-tp-point", "1")
    assert keys.aloud() == "at 9.50 ms, Allocated 977 KiB, Other or from before 977 KiB"
    expect(keys.report.locator(".tp-item-facts")).to_contain_text("at 9.50 ms")
    keys.press("Shift+ArrowRight", "Shift+ArrowRight")
    expect(keys.report.locator(".tp-range-bar")).to_contain_text("Range of 10 ms")
    keys.press("Escape")
    expect(keys.report.locator(".tp-range-bar")).to_have_count(0)


def test_the_list_of_keys_takes_the_focus_and_gives_it_back(keys: Keys) -> None:
    keys.view("ops")
    grid = keys.tab_to(".tp-grid")
    keys.press("?")
    expect(keys.report.locator(".tp-help")).to_be_visible()
    expect(keys.report.locator(".tp-help button")).to_be_focused()
    keys.press("Escape")
    expect(keys.report.locator(".tp-help")).to_have_count(0)
    expect(grid).to_be_focused()


def test_the_window_is_filled_and_left_by_keyboard(keys: Keys) -> None:
    keys.view("ops")
    keys.tab_to(".tp-maximize")
    keys.press("Enter")
    expect(keys.report).to_have_attribute("data-tp-maximized", "true")
    keys.press("Escape")
    expect(keys.report).not_to_have_attribute("data-tp-maximized", "true")


@pytest.mark.parametrize(("view", "columns"), [("timeline", 5), ("flame", 5), ("memory", 5)])
def test_a_canvas_has_a_table_of_what_it_shows(keys: Keys, view: str, columns: int) -> None:
    keys.view(view)
    if view == "flame":
        keys.report.get_by_role("button", name="CPU", exact=True).click()
    drawing = keys.report.locator("[aria-details]")
    table = keys.report.locator(f"#{drawing.get_attribute('aria-details')} table")
    expect(table.locator("tbody tr").first).to_be_attached()
    assert table.locator("thead th").count() == columns
    text = table.inner_text()
    known = {
        "timeline": ("aten::stack", "data", "2.50 ms", "Waiting: loading data"),
        "flame": ("aten::stack", "data", "10 ms", "25 %"),
        "memory": ("4.77 MiB", "977 KiB", "peak 4.77 MiB"),
    }
    for part in known[view]:
        assert part in text, part
    hidden = keys.report.locator("canvas:not([aria-details])").evaluate_all(
        "(all) => all.filter((canvas) => canvas.closest('[aria-hidden=true], [aria-details]') === null).length"
    )
    assert hidden == 0


def test_nothing_is_told_by_color_alone(keys: Keys) -> None:
    keys.view("overview")
    for step in keys.report.locator(".tp-step > button").all():
        assert "data 2.80 ms" in step.get_attribute("aria-label")
    assert "data" in keys.report.locator(".tp-phases").inner_text()
    keys.view("flame")
    keys.report.get_by_role("button", name="CPU", exact=True).click()
    keys.report.locator(".tp-flame-canvas").focus()
    keys.press("ArrowDown", "ArrowDown", "ArrowDown")
    expect(keys.report.locator(".tp-item-facts")).to_contain_text("data · ")
    keys.view("ops")
    expect(keys.report.locator("[data-tp-row]", has_text="aten::mm").locator(".tp-aloud")).to_have_text("forward")
    for dot in keys.report.locator(".tp-dot").all():
        assert dot.get_attribute("title")


def test_reduced_motion_moves_nothing_gradually(browser: Browser, report: tp.Report, tmp_path: Path) -> None:
    # What the canvases do is decided by the same query (js/src/views/flame/flame-motion.dom.test.ts).
    file = report.to_html(tmp_path / "report.html")
    for motion, duration in (("reduce", "0s"), ("no-preference", "0.08s")):
        page = browser.new_page(reduced_motion=motion)
        tab = show_file(page, file).locator(".tp-tab").first
        assert tab.evaluate("(tab) => getComputedStyle(tab).transitionDuration") == duration
        page.close()


@pytest.mark.parametrize("theme", [pytest.param("light", marks=thorough), "dark"])
def test_forced_colors_leave_bars_text_and_choices_readable(
    browser: Browser, report: tp.Report, tmp_path: Path, theme: str
) -> None:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, color_scheme=theme, forced_colors="active")
    page = context.new_page()
    shown = show_file(page, report.to_html(tmp_path / "report.html"))
    expect(shown).to_have_attribute("data-tp-theme", theme)
    for view in ("overview", "timeline"):
        open_tab(shown, view)
        page.wait_for_timeout(100)
        screenshot(page, f"forced-{view}-{theme}")
    ground = "rgb(255, 255, 255)" if theme == "light" else "rgb(0, 0, 0)"
    open_tab(shown, "ops")
    row = shown.locator("[data-tp-row]").first
    row.click()
    looks = row.evaluate(
        """(row) => {
          const look = (selector) => getComputedStyle(row.querySelector(selector) ?? row).backgroundColor;
          return { row: getComputedStyle(row).backgroundColor, bar: look(".tp-bar"), dot: look(".tp-dot") };
        }"""
    )
    assert json.dumps(looks).count(ground) == 0
    assert shown.locator(".tp-frame").evaluate("(frame) => getComputedStyle(frame).backgroundColor") == ground
    context.close()
