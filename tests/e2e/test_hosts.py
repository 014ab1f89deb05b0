"""A report in VS Code, Colab, marimo and plain pages: theme, height, width, zoom, paper, and a tab out of sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from amount import sampled, thorough
from driver import cut_texts, open_tab, screenshot, screenshot_file, show_file
from gpu_trace import write_gpu_trace
from hosts import GROUNDS, VSCODE_GROUNDS, Host, Hosted, hosted, vscode_variables
from playwright.sync_api import Browser, Page, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

VIEWS = ("overview", "timeline", "ops", "flame", "source", "memory")
CANVASES = {"timeline": ".tp-stage-canvas", "flame": ".tp-flame-canvas", "memory": ".tp-plot canvas"}
# Each begins in one theme, and is switched to the other and back.
PLACES: tuple[tuple[Host, str], ...] = (
    ("vscode", "dark"),
    ("vscode", "light"),
    ("colab", "dark"),
    ("marimo", "dark"),
    ("plain", "light"),
)
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
  window.askForFrame ??= window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (act) => { window.framesAsked += 1; return window.askForFrame(act); };
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tp.Report:
    return tp.load(write_gpu_trace(tmp_path_factory.mktemp("trace") / "gpu.json"))


@pytest.fixture(scope="module")
def file(report: tp.Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.to_html(tmp_path_factory.mktemp("file") / "report.html")


def in_place(place: tuple[Host, str]) -> Any:
    """Return a host as a parameter; a sample has VS Code in one theme, from which it is switched to the other."""
    return pytest.param(place, id="-".join(place), marks=(thorough,) if place == ("vscode", "light") else ())


@pytest.fixture(scope="module", params=[in_place(each) for each in PLACES])
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
    return page, show_file(page, file)


@pytest.fixture(scope="module")
def opened(browser: Browser, file: Path) -> Iterator[tuple[Page, Any]]:
    """Yield the file in a dark window; tests leave it as wide as they like."""
    page, shown = open_file(browser, file, color_scheme="dark")
    yield page, shown
    page.context.close()


def settled_height(shown: Hosted) -> float:
    """Return the height of a report when it no longer changes."""
    before = -1.0
    for _ in range(40):
        now = float(shown.report.bounding_box()["height"])
        if now == before:
            return now
        before = now
        shown.page.wait_for_timeout(30)
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
        check_repainting(shown, host, theme, shown.report.locator(canvas).first)


def check_repainting(shown: Hosted, host: str, theme: str, painted: Any) -> None:
    """Check that another theme changes the colors of a canvas, and that the first theme brings them back."""
    wait_until(shown, lambda: len(main_colors(painted)) == MAIN_COLORS)
    before = main_colors(painted)
    switch_theme(shown, host, OTHER[theme])
    wait_until(shown, lambda: not main_colors(painted) & before)
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


@pytest.mark.parametrize("width", sampled([480, 500, 600, 700, 1100, 1440, 2000], 3))
def test_nothing_is_cut_at_any_width(opened: tuple[Page, Any], width: int) -> None:
    page, shown = opened
    page.set_viewport_size({"width": width, "height": 800})
    for view in VIEWS:
        open_tab(shown, view)
        own, content, window = shown.evaluate(
            "(root) => [root.clientWidth, root.scrollWidth, document.documentElement.scrollWidth]"
        )
        assert content <= own, view
        assert window <= width, view
        assert cut_texts(shown) == [], view
        if width in (480, 1100):
            screenshot(page, f"file-{view}-{width}")


ZOOMS = {
    "browser": ({"device_scale_factor": 2, "viewport": {"width": 720, "height": 500}}, ""),
    "css": ({"viewport": {"width": 1440, "height": 1000}}, "document.body.style.zoom = '2'"),
    "slides": ({"viewport": {"width": 1440, "height": 1000}}, "document.body.style.scale = '1.5 1.5'"),
}

# What is on top of each other at a fifth of the width of the flame graph.
PATH = ["ProfilerStep", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "aten::stack"]


@pytest.mark.parametrize("zoom", sampled(list(ZOOMS), 2))
def test_a_zoomed_page_is_drawn_sharp_and_hit_where_it_is_pointed_at(browser: Browser, file: Path, zoom: str) -> None:
    options, script = ZOOMS[zoom]
    page, shown = open_file(browser, file, **options)
    page.evaluate(f"document.body.style.transformOrigin = '0 0'; {script}")
    for view, canvas in CANVASES.items():
        open_tab(shown, view)
        wait_until_sharp(page, shown.locator(canvas).first)
        if view == "timeline":
            screenshot(page, f"zoom-{zoom}")
    open_tab(shown, "flame")
    # Without the mouse, for which a page of 1.5 times its size would scroll.
    shown.get_by_role("button", name="CPU", exact=True).evaluate("(button) => button.click()")
    canvas = shown.locator(".tp-flame-canvas")
    expect(canvas).to_have_attribute("data-tp-weight", "cpu_ns")
    page.wait_for_timeout(300)  # the boxes move to their new widths
    box = canvas.bounding_box()
    factor = box["width"] / canvas.evaluate("(canvas) => canvas.clientWidth")
    for row in range(len(PATH)):
        # Rows are 21 px high.
        rest(page, box["x"] + box["width"] * 0.2, box["y"] + (21 * row + 10) * factor)
        expect(shown.locator(".tp-item-name")).to_have_text(PATH[row])
    page.context.close()


def rest(page: Page, x: float, y: float) -> None:
    """Move the pointer to a place as a hand does, with a little trembling at the end."""
    page.mouse.move(x, y)
    page.wait_for_timeout(100)
    page.mouse.move(x + 1, y)
    page.mouse.move(x, y)


def wait_until_sharp(page: Page, canvas: Any) -> None:
    """Wait until a canvas has a pixel of its own for each one of the screen that it takes."""
    for _ in range(80):
        drawn, seen = canvas.evaluate(
            "(canvas) => [canvas.width, canvas.getBoundingClientRect().width * devicePixelRatio]"
        )
        if abs(drawn - seen) <= 3:
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"{drawn} pixels are drawn for {seen}")


def test_the_pointer_reads_a_chart_where_it_is_on_a_zoomed_page(browser: Browser, file: Path) -> None:
    page, shown = open_file(browser, file, viewport={"width": 1440, "height": 1000})
    open_tab(shown, "memory")
    texts = []
    for zoom in ("1", "2"):
        page.mouse.move(0, 0)
        page.evaluate("(zoom) => { document.body.style.zoom = zoom }", zoom)
        wait_until_sharp(page, shown.locator(CANVASES["memory"]))
        over = shown.locator(".u-over").bounding_box()
        rest(page, over["x"] + over["width"] * 0.5, over["y"] + 60)
        expect(shown.locator(".tp-item-facts")).to_contain_text("at ")
        texts.append(shown.locator(".tp-item-facts").inner_text())
    assert texts[0] == texts[1]
    page.context.close()


@pytest.mark.parametrize("view", sampled(["overview", *CANVASES, "ops", "source"], 2))
def test_paper_shows_the_overview_and_the_open_view_whole_and_on_white(opened: tuple[Page, Any], view: str) -> None:
    page, shown = opened
    page.set_viewport_size({"width": 1100, "height": 800})
    open_tab(shown, view)
    page.emulate_media(media="print")
    expect(shown).to_have_attribute("data-tp-printed", "")
    expect(shown).to_have_attribute("data-tp-theme", "light")
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


SCROLLED = """(root) => Array.from(root.querySelectorAll("*"))
  .filter((each) => getComputedStyle(each).overflowY !== "visible" && each.closest(".tp-aloud, .tp-spoken") === null)
  .filter((each) => each.scrollHeight > each.clientHeight + 1 || each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.className} ${each.scrollHeight} of ${each.clientHeight}`)"""


def wait_for_light(page: Page, canvas: Any) -> None:
    """Wait until a canvas is painted in the light theme's colors, of which text is #1f2328."""
    for _ in range(40):
        if canvas.evaluate(DARK_TEXT_PIXELS) > 20:
            return
        page.wait_for_timeout(25)
    raise AssertionError("the canvas is not painted for white paper")


def wait_until_painted(page: Page, canvas: Any) -> None:
    """Wait until a canvas shows boxes on its ground, in whichever theme."""
    for _ in range(200):
        if len(main_colors(canvas)) > 2:
            return
        page.wait_for_timeout(25)
    raise AssertionError("the canvas stays empty")


DARK_TEXT_PIXELS = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255 && data[at] < 100 && data[at + 1] < 110 && data[at + 2] < 120) count += 1;
  }
  return count;
}"""


# Scripts run for the last time after this event, before any other frame is drawn.
NOTE_PRINTED = f"""() => addEventListener("beforeprint", () => queueMicrotask(() => {{
  const root = document.querySelector(".tp-report");
  const canvas = root.querySelector(".tp-stage-canvas");
  window.printed = {{
    theme: root.dataset.tpTheme,
    overviews: root.querySelectorAll(".tp-overview").length,
    dark: ({DARK_TEXT_PIXELS})(canvas),
    height: canvas.clientHeight,
    content: parseFloat(canvas.parentElement.style.getPropertyValue("--tp-content")),
  }};
}}))"""


def test_a_pdf_is_made_of_what_is_painted_for_paper(opened: tuple[Page, Any], tmp_path: Path) -> None:
    page, shown = opened
    open_tab(shown, "timeline")
    wait_until_painted(page, shown.locator(".tp-stage-canvas"))
    page.evaluate(NOTE_PRINTED)
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    printed = page.evaluate("window.printed")
    assert (printed["theme"], printed["overviews"]) == ("light", 1)
    assert printed["dark"] > 20
    assert printed["height"] == printed["content"]
    pages = (tmp_path / "report.pdf").read_bytes().count(b"/Type /Page\n")
    assert pages >= 2
    expect(shown).to_have_attribute("data-tp-theme", "dark")


def test_a_report_asks_for_no_frames_while_nothing_happens(opened: tuple[Page, Any]) -> None:
    page, shown = opened
    for view in CANVASES:
        open_tab(shown, view)
        # Longer than any animation, and than the second look at a new theme.
        page.wait_for_timeout(450)
        page.evaluate(COUNT_FRAMES)
        page.wait_for_timeout(250)
        assert page.evaluate("window.framesAsked") == 0, view


def test_a_report_that_is_not_shown_paints_nothing(opened: tuple[Page, Any]) -> None:
    page, shown = opened
    page.set_viewport_size({"width": 1100, "height": 800})
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
