"""A saved notebook, a web page of it, and a report whose kernel is busy or gone: each shows its best."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from driver import Lab, Server, open_tab, screenshot, show_file
from gpu_trace import write_gpu_trace
from hosts import hosted
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LOAD = "import torchprof_magic as tp\nreport = tp.load('gpu.json')\nreport"
WIDGET = "application/vnd.jupyter.widget-view+json"
# The first sentence, a step, an op and its time per step, a line with its time, all written out.
SAID = ("Device-bound.", "gpu.json · steps 0–3 recorded", "aten::mm", "5.000", "train.py:12", "loading data", "2.800")
MOST_BYTES = 200_000
OPENINGS = 4
ERRORS = re.compile(r"Error displaying|model not found|Loading widget", re.IGNORECASE)


@dataclass(frozen=True)
class Saved:
    """One run, saved in every way that a notebook is."""

    folder: Path
    with_state: Path
    without_state: Path
    untrusted: Path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("saved")
    write_gpu_trace(folder / "gpu.json")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(LOAD)], metadata={"kernelspec": kernel})
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()
    found = Saved(folder, folder / "state.ipynb", folder / "bare.ipynb", folder / "stranger.ipynb")
    nbformat.write(notebook, found.with_state)
    # JupyterLab saves no state of widgets unless it is told to.
    del notebook.metadata["widgets"]
    nbformat.write(notebook, found.without_state)
    notebook.cells.append(nbformat.v4.new_markdown_cell("Sent by someone else."))
    nbformat.write(notebook, found.untrusted)
    return found


@pytest.fixture(scope="module")
def lab_server(server: Server, saved: Saved) -> Server:
    """Return the JupyterLab, which knows two of the notebooks as the user's own."""
    server.trust(saved.with_state, saved.without_state)
    return server


@pytest.fixture(scope="module")
def lab(lab_server: Server, open_notebook: Callable[..., Lab], saved: Saved) -> Lab:  # noqa: ARG001 - it trusts it
    return open_notebook(saved.without_state)


def reopened(page: Page, server: Server, notebook: Path) -> Any:
    """Return the report of a notebook that holds the state of its widgets, opened again if its host lost that state.

    If a kernel connects while the notebook is still being read, the manager of ipywidgets takes itself for restored,
    and does not read the saved state until the page is loaded again.
    """
    for _ in range(OPENINGS - 1):
        with suppress(PlaywrightTimeoutError):
            return Lab(page, server, notebook).report(timeout_s=20)
    return Lab(page, server, notebook).report()


def outputs_of(notebook: Path) -> list[Any]:
    return list(nbformat.read(notebook, as_version=4).cells[0].outputs)


def html_of(notebook: Path) -> str:
    return next(str(output.data["text/html"]) for output in outputs_of(notebook) if "text/html" in output.data)


def check_static(static: Any) -> None:
    """Check that a static copy is there, with its sentences, numbers and images."""
    expect(static).to_be_visible()
    for part in SAID:
        expect(static).to_contain_text(part)
    widths = static.locator("img").evaluate_all("(all) => all.map((image) => image.naturalWidth)")
    assert len(widths) > 10
    assert min(widths) > 0


def test_a_run_takes_little_room_in_a_saved_notebook(saved: Saved) -> None:
    size = len(json.dumps(outputs_of(saved.without_state)))
    print(f"{size:,} bytes")
    assert size < MOST_BYTES


def test_a_strangers_notebook_shows_the_static_copy_and_no_error(
    open_notebook: Callable[..., Lab], saved: Saved
) -> None:
    page = open_notebook(saved.untrusted).page
    check_static(page.locator("details", has_text="Device-bound").first)
    expect(page.get_by_text(ERRORS)).to_have_count(0)
    screenshot(page, "reopened-untrusted")


def test_a_trusted_notebook_shows_the_static_copy_and_no_error(lab: Lab) -> None:
    check_static(lab.page.locator("[data-tp-static]"))
    expect(lab.page.get_by_text(ERRORS)).to_be_hidden()
    screenshot(lab.page, "reopened-trusted")
    lab.page.evaluate("() => { void jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}) }")
    expect(lab.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    screenshot(lab.page, "reopened-trusted-dark")
    lab.page.evaluate(
        "() => { void jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'}) }"
    )


def test_a_notebook_with_saved_widgets_shows_the_live_view_without_its_kernel(
    lab_server: Server, browser: Browser, saved: Saved
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    report = reopened(page, lab_server, saved.with_state)
    expect(page.locator("[data-tp-static]")).to_be_hidden()
    for view in ("timeline", "ops", "flame", "memory"):
        open_tab(report, view)
    open_tab(report, "ops")
    report.locator(".tp-segmented").get_by_text("Shape", exact=True).click()
    # What only the kernel has is said to be missing, at once and in its place.
    expect(report.get_by_role("alert")).to_contain_text("Run the cell again")
    expect(report.get_by_role("button", name="Retry")).to_be_visible()
    report.locator(".tp-segmented").get_by_text("Kernel", exact=True).click()
    expect(report.locator("[data-tp-row]").first).to_contain_text("gemm")
    page.close()


def test_a_report_that_is_shown_twice_is_one_and_the_same(lab: Lab) -> None:
    lab.run_all()
    first = lab.report()
    open_tab(first, "timeline")
    lab.page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 0 }")
    lab.command("notebook:create-output-view")
    both = lab.page.locator('.tp-report[data-tp-ready="true"]')
    expect(both).to_have_count(2)
    second = lab.page.locator('.jp-LinkedOutputView .tp-report[data-tp-ready="true"]')
    open_tab(second, "ops")
    second.locator("[data-tp-row]", has_text="aten::mm").click()
    # One selection and one range, but each view has its own tab.
    expect(first.locator("canvas.tp-stage-canvas")).to_have_attribute("data-tp-selected", "aten::mm")
    first.locator('.tp-step-strip [data-tp-step="2"]').click()
    expect(second.locator(".tp-range-bar")).to_contain_text("Step 2")
    assert first.get_attribute("data-tp-view") == "timeline"
    assert lab.page.locator("[data-tp-static]:visible").count() == 0
    screenshot(lab.page, "shown-twice")
    lab.page.evaluate(
        """() => {
          const all = Array.from(jupyterapp.shell.widgets("main"));
          all.find((widget) => widget.node.querySelector(".jp-LinkedOutputView") !== null).close();
        }"""
    )
    expect(both).to_have_count(1)
    first.get_by_role("button", name="Show all steps").click()
    expect(first.locator(".tp-range-bar")).to_have_count(0)
    assert lab.page.locator("[data-tp-static]:visible").count() == 0


def test_a_view_waits_for_a_busy_kernel(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    kernel = "jupyterapp.shell.currentWidget.context.sessionContext.session.kernel"
    # The lock of Python is held: JupyterLab may ask a second thread of the kernel, a subshell, which must not answer.
    code = "import ctypes, time; time.sleep(0.5); ctypes.PyDLL(None).sleep(3)"
    lab.page.evaluate(f"() => {{ void {kernel}.requestExecute({{ code: '{code}' }}) }}")
    lab.page.wait_for_function(f"() => {kernel}.status === 'busy'")
    lab.page.wait_for_timeout(700)
    report.locator(".tp-segmented").get_by_text("Type", exact=True).click()
    expect(report.get_by_role("status").filter(has_text="Loading…")).to_be_attached()
    expect(report.locator("[data-tp-row]").first).to_contain_text("float", timeout=20_000)


def test_a_view_says_when_the_kernel_was_restarted_and_the_others_stay(lab: Lab) -> None:
    report = lab.report()
    open_tab(report, "ops")
    lab.page.evaluate("() => { void jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart() }")
    lab.wait_until_idle()
    report.locator(".tp-segmented").get_by_text("Phase", exact=True).click()
    alert = report.get_by_role("alert")
    expect(alert).to_contain_text("restarted or has stopped")
    screenshot(report, "kernel-restarted")
    report.get_by_role("button", name="Retry").click()
    expect(alert).to_contain_text("Run the cell again")
    for view in ("timeline", "flame", "memory", "overview"):
        open_tab(report, view)
    open_tab(report, "ops")
    report.locator(".tp-segmented").get_by_text("Type", exact=True).click()
    expect(report.locator("[data-tp-row]").first).to_contain_text("float")
    lab.run_all()
    fresh = lab.report()
    open_tab(fresh, "ops")
    fresh.locator(".tp-segmented").get_by_text("Phase", exact=True).click()
    expect(fresh.locator("[data-tp-row]").first).to_contain_text("forward")


def test_a_kernel_that_never_answers_is_not_waited_for_in_silence(
    browser: Browser, saved: Saved, tmp_path: Path
) -> None:
    with hosted(browser, tmp_path, "plain", tp.load(saved.folder / "gpu.json")) as shown:
        shown.page.clock.install()
        shown.kernel.is_silent = True
        open_tab(shown.report, "ops")
        groups = shown.report.locator(".tp-segmented")
        groups.get_by_text("Shape", exact=True).click()
        shown.page.clock.fast_forward(10_500)
        expect(shown.report.get_by_role("alert")).to_contain_text("has not replied yet")
        expect(shown.report.get_by_text("Loading…")).to_have_count(0)
        shown.kernel.is_silent = False
        shown.report.get_by_role("button", name="Retry").click()
        expect(shown.report.locator("[data-tp-row]").first).to_contain_text("128×64")


@pytest.mark.parametrize("name", ["with_state", "without_state"])
def test_a_web_page_made_of_the_notebook_shows_the_static_copy(
    browser: Browser, saved: Saved, tmp_path: Path, name: str
) -> None:
    from nbconvert import HTMLExporter  # noqa: PLC0415 - each worker of the tests would import it

    body, _ = HTMLExporter().from_filename(str(getattr(saved, name)))
    page = offline(browser)
    (tmp_path / "page.html").write_text(body, encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri(), wait_until="domcontentloaded")
    check_static(page.locator("[data-tp-static]"))
    expect(page.get_by_text(ERRORS)).to_have_count(0)
    screenshot(page, f"nbconvert-{name}")
    page.context.close()


def offline(browser: Browser, **options: Any) -> Page:
    return browser.new_context(viewport={"width": 1100, "height": 900}, offline=True, **options).new_page()


class Sanitizer(HTMLParser):
    """Leaves only what a strict viewer of notebooks leaves: no style, no class, and no image if it is told so."""

    TAGS = frozenset(
        ["table", "thead", "tbody", "tr", "th", "td", "details", "summary", "p", "b", "small", "code", "pre", "img"]
    )
    ATTRIBUTES = frozenset(["align", "alt", "colspan", "src", "open", "width", "height"])

    def __init__(self, *, keeps_images: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.kept: list[str] = []
        self._keeps_images = keeps_images
        self._skipped = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script"):
            self._skipped = tag
        if tag not in self.TAGS or (tag == "img" and not self._keeps_images):
            return
        kept = [f' {name}="{html.escape(value or "")}"' for name, value in attrs if name in self.ATTRIBUTES]
        self.kept.append(f"<{tag}{''.join(kept)}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = ""
        if tag in self.TAGS:
            self.kept.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.kept.append(html.escape(data))


@pytest.mark.parametrize("keeps_images", [True, False])
def test_a_strict_viewer_shows_all_words_and_numbers(
    browser: Browser, saved: Saved, tmp_path: Path, *, keeps_images: bool
) -> None:
    sanitizer = Sanitizer(keeps_images=keeps_images)
    sanitizer.feed(html_of(saved.without_state))
    file = tmp_path / "page.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{''.join(sanitizer.kept)}", encoding="utf-8")
    page = offline(browser)
    page.goto(file.as_uri())
    if keeps_images:
        check_static(page.locator("details").first)
    for part in SAID:
        expect(page.locator("body")).to_contain_text(part)
    assert "jp-OutputArea" not in page.locator("body").inner_text()
    numbers = page.locator("td[align=right]").all_inner_texts()
    assert "10.00" in numbers
    screenshot(page, f"strict-viewer-{'images' if keeps_images else 'words'}")
    page.context.close()


def test_a_viewer_of_images_and_text_alone_has_the_steps_and_the_summary(saved: Saved) -> None:
    static = next(output.data for output in outputs_of(saved.without_state) if "text/html" in output.data)
    assert base64.b64decode(static["image/png"]).startswith(b"\x89PNG")
    assert "Device-bound" in static["text/plain"]
    assert "aten::mm" in static["text/plain"]
    live = next(output.data for output in outputs_of(saved.without_state) if WIDGET in output.data)
    assert "needs a running kernel" in live["text/plain"]


def test_the_static_copy_has_the_numbers_of_the_live_view(browser: Browser, saved: Saved, tmp_path: Path) -> None:
    report = tp.load(saved.folder / "gpu.json")
    page = offline(browser)
    (tmp_path / "static.html").write_text(f"<!DOCTYPE html><body>{report._repr_html_()}", encoding="utf-8")
    page.goto((tmp_path / "static.html").as_uri())
    copied = page.locator("table").evaluate_all(TABLES)
    shown = show_file(page, report.to_html(tmp_path / "report.html"))
    shown.locator(".tp-about-title").first.click()  # What is secondary is folded away.
    sections = dict(shown.locator(".tp-breakdown").evaluate_all(SECTIONS))
    assert len(sections) >= 4
    # The table of ops has more rows, and is compared below.
    for title, rows in ((title, rows) for title, rows in sections.items() if title != "Ops"):
        assert next(table[1:] for table in copied if table[0][0] == title) == rows, title
    steps = shown.locator(".tp-step-label").all_inner_texts()
    assert [row[2] for row in next(table[1:] for table in copied if table[0][0] == "Step")] == steps
    page.set_viewport_size({"width": 1400, "height": 800})  # room for all columns
    open_tab(shown, "ops")
    heads = [text.strip(" ▾▴") for text in shown.locator("[data-tp-column]").all_inner_texts()]
    cells = shown.locator("[data-tp-row]").evaluate_all(ROWS)
    assert next(table for table in copied if table[0][0] == "Op") == [heads, *cells]
    page.context.close()


TABLES = """(tables) => tables.map((table) =>
  Array.from(table.rows, (row) => Array.from(row.cells, (cell) => cell.innerText.trim().replace(/\\s+/g, " "))))"""
SECTIONS = """(sections) => sections.map((section) => {
  const rows = Array.from(section.querySelectorAll(".tp-bar-fact, .tp-phase-row"), (row) => {
    for (const aloud of row.querySelectorAll(".tp-aloud")) aloud.remove();
    const named = row.querySelector(".tp-bar-label, .tp-phase-name");
    // What is cut has the whole in its title.
    const label = (named.title || named.textContent).trim().replace(/\\s+/g, " ");
    const numbers = Array.from(row.querySelectorAll(".tp-phase-number, .tp-phase-ratio"), (each) => each.textContent);
    return [label, "", ...numbers];
  });
  return [section.querySelector("h3").firstChild.textContent, rows];
})"""
ROWS = """(rows) => rows.map((row) => Array.from(row.querySelectorAll("[role=gridcell]"), (cell) => {
  for (const other of cell.querySelectorAll(".tp-aloud, .tp-fold")) other.remove();
  return (cell.querySelector("bdi[title]")?.title || cell.innerText).trim();
}))"""


def test_a_file_shows_the_static_copy_where_scripts_do_not_run(browser: Browser, saved: Saved, tmp_path: Path) -> None:
    page = offline(browser, java_script_enabled=False)
    page.goto(tp.load(saved.folder / "gpu.json").to_html(tmp_path / "report.html").as_uri())
    text = page.locator("details").first.inner_text()
    # The policy of a file lets no images in, so the parts of a step are written out.
    for part in (*SAID, "data 2.80 ms, waiting 5.50 ms", "needs JavaScript"):
        assert part in text
    screenshot(page, "file-without-scripts")
    page.context.close()
