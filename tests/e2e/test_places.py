"""A report in VS Code, Colab, marimo and plain pages: theme, height, width, zoom, paper, and a tab out of sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import chromium, cut_texts, open_tab, screenshot, screenshot_file
from gpu_trace import write_gpu_trace
from hosts import GROUNDS, VSCODE_GROUNDS, Host, Hosted, hosted, vscode_variables
from playwright.sync_api import Browser, Page, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

VIEWS = ("overview", "timeline", "ops", "flame", "source", "memory")
CANVASES = {"timeline": ".tp-stage-canvas", "flame": ".tp-flame-canvas", "memory": ".tp-plot canvas"}
HOSTS: tuple[Host, ...] = ("vscode", "colab", "marimo", "plain")
OTHER = {"light": "dark", "dark": "light"}
# What each host changes when its user chooses another theme.
SWITCH = {
    "vscode": """([theme, variables]) => {
      document.documentElement.style.cssText = variables;
      document.body.className = `vscode-${theme}`;
      document.body.dataset.vscodeThemeKind = `vscode-${theme}`;
    }""",
    "colab": "([theme]) => document.documentElement.setAttribute('theme', theme)",
    "marimo": """([theme]) => {
      document.body.className = `${theme} ${theme}-theme`;
      document.body.dataset.theme = theme;
    }""",
    "plain": "([, , ground]) => { document.body.style.background = ground }",
}
MAIN_COLORS = 3
COUNT_FRAMES = """() => {
  window.framesAsked = 0;
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (act) => { window.framesAsked += 1; return ask(act); };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tp.Report:
    return tp.load(write_gpu_trace(tmp_path_factory.mktemp("trace") / "gpu.json"))


@pytest.fixture(scope="module")
def file(report: tp.Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.to_html(tmp_path_factory.mktemp("file") / "report.html")


@pytest.fixture(scope="module", params=[(host, theme) for host in HOSTS for theme in ("light", "dark")])
def place(
    request: pytest.FixtureRequest, browser: Browser, report: tp.Report, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Hosted]]:
    host, theme = request.param
    with hosted(browser, tmp_path_factory.mktemp(host), host, report, theme) as shown:
        yield host, theme, shown


def ground_of(host: str, theme: str) -> str:
    """Return the color that the report's own ground has, as the browser writes it."""
    hexes = {"vscode": VSCODE_GROUNDS}.get(host, {"light": "#ffffff", "dark": "#15171b"})
    red, green, blue = (int(hexes[theme][at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def open_file(browser: Browser, file: Path, **options: Any) -> tuple[Page, Any]:
    context = browser.new_context(**({"viewport": {"width": 1100, "height": 800}} | options))
    page = context.new_page()
    page.goto(file.as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    shown.wait_for()
    return page, shown


def settled_height(shown: Hosted) -> float:
    """Return the height of a report when it no longer changes."""
    before = -1.0
    for _ in range(40):
        now = float(shown.report.bounding_box()["height"])
        if now == before:
            return now
        before = now
        shown.page.wait_for_timeout(50)
    raise AssertionError("the height never comes to rest")


def test_the_theme_and_the_ground_are_the_hosts(place: tuple[str, str, Hosted]) -> None:
    host, theme, shown = place
    expect(shown.report).to_have_attribute("data-tp-theme", theme)
    frame = shown.report.locator(".tp-frame")
    assert frame.evaluate("(frame) => getComputedStyle(frame).backgroundColor") == ground_of(host, theme)
    if host == "vscode":
        ground = shown.frame.locator(".cell-output-ipywidget-background")
        assert ground.evaluate("(box) => getComputedStyle(box).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert shown.errors == []


def test_a_report_is_as_tall_as_its_view_within_limits(place: tuple[str, str, Hosted]) -> None:
    host, _, shown = place
    window = 900
    # The height of the window is not known in a frame that may grow with its content.
    most = 640 if host in ("vscode", "colab") else 0.8 * window
    heights = {}
    for view in VIEWS:
        open_tab(shown.report, view)
        heights[view] = settled_height(shown)
        assert 420 <= heights[view] <= most, view
    assert heights["ops"] < heights["overview"]
    if host == "colab":
        told = shown.page.evaluate("window.heights")
        # A frame that follows its content and a content that follows its frame would grow for ever.
        assert len(told) <= 2 * len(VIEWS) + 4
        assert told[-1] == pytest.approx(heights[VIEWS[-1]] + 16, abs=1)
        inside = shown.frame.evaluate("[document.documentElement.scrollHeight, innerHeight]")
        assert inside[0] <= inside[1]


def test_a_click_beside_an_open_menu_closes_it(place: tuple[str, str, Hosted]) -> None:
    _, _, shown = place
    open_tab(shown.report, "ops")
    shown.report.get_by_role("button", name="Columns").click()
    expect(shown.report.locator(".tp-menu")).to_be_visible()
    shown.report.locator(".tp-title").click()
    expect(shown.report.locator(".tp-menu")).to_have_count(0)


def test_a_view_that_waits_for_the_kernel_is_shown_when_it_answers(place: tuple[str, str, Hosted]) -> None:
    _, _, shown = place
    open_tab(shown.report, "ops")
    groups = shown.report.locator(".tp-segmented", has_text="Kernel")
    groups.get_by_text("Shape", exact=True).click()
    expect(shown.report.locator("[data-tp-row]").first).to_contain_text("128×64, 64×256")
    groups.get_by_text("Op", exact=True).click()


def test_another_theme_repaints_everything_at_once(place: tuple[str, str, Hosted]) -> None:
    host, theme, shown = place
    for view, canvas in CANVASES.items():
        open_tab(shown.report, view)
        painted = shown.report.locator(canvas).first
        wait_until(shown, lambda: len(main_colors(painted)) == MAIN_COLORS)
        before = main_colors(painted)
        switch_theme(shown, host, OTHER[theme])
        wait_until(shown, lambda: not main_colors(painted) & before)
        screenshot(shown.page, f"{host}-{view}-from-{theme}")
        switch_theme(shown, host, theme)
        wait_until(shown, lambda: main_colors(painted) == before)


def switch_theme(shown: Hosted, host: str, theme: str) -> None:
    shown.frame.evaluate(SWITCH[host], [theme, vscode_variables(theme), GROUNDS[theme]])
    expect(shown.report).to_have_attribute("data-tp-theme", theme)


def wait_until(shown: Hosted, is_true: Callable[[], bool]) -> None:
    """Wait for what a report does within its second look at a theme."""
    for _ in range(40):
        if is_true():
            return
        shown.page.wait_for_timeout(25)
    raise AssertionError("this never became true")


def main_colors(canvas: Any) -> set[int]:
    """Return the opaque colors that cover most of a canvas, each as one number."""
    return set(
        canvas.evaluate(
            """(canvas, most) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const counts = new Map();
          for (const word of new Uint32Array(data.buffer)) counts.set(word, (counts.get(word) ?? 0) + 1);
          const opaque = Array.from(counts).filter(([word]) => word >>> 24 === 255);
          return opaque.sort((a, b) => b[1] - a[1]).slice(0, most).map(([word]) => word);
        }""",
            MAIN_COLORS,
        )
    )


@pytest.mark.parametrize("width", [480, 500, 600, 700, 1100, 1440, 2000])
def test_nothing_is_cut_at_any_width(browser: Browser, file: Path, width: int) -> None:
    page, shown = open_file(browser, file, viewport={"width": width, "height": 800})
    for view in VIEWS:
        open_tab(shown, view)
        own, content, window = shown.evaluate(
            "(root) => [root.clientWidth, root.scrollWidth, document.documentElement.scrollWidth]"
        )
        assert content <= own, view
        assert window <= width, view
        assert cut_texts(shown) == [], view
        screenshot(page, f"file-{view}-{width}")
    page.context.close()


ZOOMS = {
    "browser": ({"device_scale_factor": 2, "viewport": {"width": 720, "height": 500}}, ""),
    "css": ({"viewport": {"width": 1440, "height": 1000}}, "document.body.style.zoom = '2'"),
    "slides": ({"viewport": {"width": 1440, "height": 1000}}, "document.body.style.scale = '1.5 1.5'"),
}

# What is on top of each other at a fifth of the width of the flame graph.
PATH = ["ProfilerStep", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "aten::stack"]


@pytest.mark.parametrize("zoom", list(ZOOMS))
def test_a_zoomed_page_is_drawn_sharp_and_hit_where_it_is_pointed_at(browser: Browser, file: Path, zoom: str) -> None:
    options, script = ZOOMS[zoom]
    page, shown = open_file(browser, file, **options)
    page.evaluate(f"document.body.style.transformOrigin = '0 0'; {script}")
    for view, canvas in CANVASES.items():
        open_tab(shown, view)
        page.wait_for_timeout(150)
        drawn, seen = shown.locator(canvas).first.evaluate(
            "(canvas) => [canvas.width, canvas.getBoundingClientRect().width * devicePixelRatio]"
        )
        # A scaled slide has no layout of its own, so its chart keeps the size that it had.
        if (zoom, view) != ("slides", "memory"):
            assert drawn == pytest.approx(seen, abs=3), view
        screenshot(page, f"zoom-{zoom}-{view}")
    open_tab(shown, "flame")
    canvas = shown.locator(".tp-flame-canvas")
    box = canvas.bounding_box()
    factor = box["width"] / canvas.evaluate("(canvas) => canvas.clientWidth")
    names = []
    for row in range(len(PATH)):
        # Rows are 21 px high.
        page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + (21 * row + 10) * factor)
        page.wait_for_timeout(50)
        names.append(shown.locator(".tp-item-name").inner_text())
    assert names == PATH
    page.context.close()


def test_the_pointer_reads_a_chart_where_it_is_on_a_zoomed_page(browser: Browser, file: Path) -> None:
    page, shown = open_file(browser, file, viewport={"width": 1440, "height": 1000})
    open_tab(shown, "memory")
    texts = []
    for zoom in ("1", "2"):
        page.evaluate("(zoom) => { document.body.style.zoom = zoom }", zoom)
        page.wait_for_timeout(200)
        over = shown.locator(".u-over").bounding_box()
        page.mouse.move(over["x"] + over["width"] * 0.5, over["y"] + 60)
        expect(shown.locator(".tp-item-facts")).to_contain_text("at ")
        texts.append(shown.locator(".tp-item-facts").inner_text())
    assert texts[0] == texts[1]
    page.context.close()


@pytest.mark.parametrize("view", ["overview", *CANVASES, "ops", "source"])
def test_paper_shows_the_overview_and_the_open_view_whole_and_on_white(browser: Browser, file: Path, view: str) -> None:
    page, shown = open_file(browser, file, color_scheme="dark")
    open_tab(shown, view)
    page.emulate_media(media="print")
    expect(shown).to_have_attribute("data-tp-printed", "")
    expect(shown).to_have_attribute("data-tp-theme", "light")
    shown.page.wait_for_timeout(100)
    assert shown.locator(".tp-overview").count() == 1
    expect(shown.locator(".tp-overview")).to_contain_text("Why the device waits")
    assert shown.locator(".tp-tabs, .tp-footer, .tp-handle, .tp-menu").count() == 0
    assert shown.locator(".tp-frame").evaluate("(frame) => getComputedStyle(frame).backgroundColor") == ground_of(
        "plain", "light"
    )
    if view in CANVASES:
        canvas = shown.locator(CANVASES[view]).first
        wait_for_light(page, canvas)
    # Everything is laid out: nothing scrolls, and no text is cut, not even with an ellipsis.
    assert shown.evaluate(SCROLLED) == []
    assert [text for text in cut_texts(shown) if "…" not in text] == []
    width, content = shown.evaluate("(root) => [root.clientWidth, root.scrollWidth]")
    assert content <= width <= 718  # A4 without the margins of a browser
    page.screenshot(path=str(screenshot_file(f"print-{view}")), full_page=True)
    page.emulate_media(media="screen")
    expect(shown).not_to_have_attribute("data-tp-printed", "")
    expect(shown).to_have_attribute("data-tp-theme", "dark")
    page.context.close()


SCROLLED = """(root) => Array.from(root.querySelectorAll("*"))
  .filter((each) => getComputedStyle(each).overflowY !== "visible" && each.closest(".tp-aloud") === null)
  .filter((each) => each.scrollHeight > each.clientHeight + 1 || each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.className} ${each.scrollHeight} of ${each.clientHeight}`)"""


def wait_for_light(page: Page, canvas: Any) -> None:
    """Wait until a canvas is painted in the light theme's colors, of which text is #1f2328."""
    for _ in range(40):
        if canvas.evaluate(DARK_TEXT_PIXELS) > 20:
            return
        page.wait_for_timeout(25)
    raise AssertionError("the canvas is not painted for white paper")


DARK_TEXT_PIXELS = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255 && data[at] < 100 && data[at + 1] < 110 && data[at + 2] < 120) count += 1;
  }
  return count;
}"""


def test_a_pdf_is_made_of_what_is_painted_for_paper(browser: Browser, file: Path, tmp_path: Path) -> None:
    page, shown = open_file(browser, file, color_scheme="dark")
    open_tab(shown, "timeline")
    # Scripts run for the last time after this event, before any other frame is drawn.
    page.evaluate(
        """() => addEventListener("beforeprint", () => queueMicrotask(() => {
          const root = document.querySelector(".tp-report");
          const canvas = root.querySelector(".tp-stage-canvas");
          window.printed = {
            theme: root.dataset.tpTheme,
            overviews: root.querySelectorAll(".tp-overview").length,
            dark: (%s)(canvas),
            height: canvas.clientHeight,
            content: parseFloat(canvas.parentElement.style.getPropertyValue("--tp-content")),
          };
        }))"""
        % DARK_TEXT_PIXELS
    )
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    printed = page.evaluate("window.printed")
    assert (printed["theme"], printed["overviews"]) == ("light", 1)
    assert printed["dark"] > 20
    assert printed["height"] == printed["content"]
    pages = (tmp_path / "report.pdf").read_bytes().count(b"/Type /Page\n")
    assert pages >= 2
    expect(shown).to_have_attribute("data-tp-theme", "dark")
    page.context.close()


def test_a_report_asks_for_no_frames_while_nothing_happens(browser: Browser, file: Path) -> None:
    page, shown = open_file(browser, file)
    for view in VIEWS:
        open_tab(shown, view)
        page.wait_for_timeout(700)
        page.evaluate(COUNT_FRAMES)
        page.wait_for_timeout(300)
        assert page.evaluate("window.framesAsked") == 0, view
    page.context.close()


def test_a_report_that_is_not_shown_paints_nothing(browser: Browser, file: Path) -> None:
    page, shown = open_file(browser, file)
    open_tab(shown, "timeline")
    page.wait_for_timeout(200)
    canvas = shown.locator("canvas.tp-stage-canvas")
    # As JupyterLab does with a notebook behind another tab.
    page.evaluate("document.getElementById('report').style.display = 'none'")
    page.wait_for_timeout(100)
    painted = canvas.get_attribute("data-tp-painted")
    page.evaluate(COUNT_FRAMES)
    page.set_viewport_size({"width": 900, "height": 700})
    page.wait_for_timeout(400)
    assert canvas.get_attribute("data-tp-painted") == painted
    assert page.evaluate("window.framesAsked") <= len(CANVASES)
    page.evaluate("document.getElementById('report').style.display = ''")
    expect(canvas).not_to_have_attribute("data-tp-painted", painted)
    page.context.close()
