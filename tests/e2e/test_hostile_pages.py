"""More than 500 hostile texts through every view of the page, through its files, and through a converted notebook.

The pages have no policy here, so that nothing but the page itself keeps a text from becoming more than a text.
"""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from amount import thorough
from driver import open_tab, screenshot
from hostile.recordings import encodable, report_about, report_of, report_with_call_stacks
from hostile.texts import TEXTS, in_parts, sample
from playwright.sync_api import Browser, Locator, Route, expect

from torchprof_magic.model.meta import MAX_TEXT, shortened
from torchprof_magic.model.units import printable
from torchprof_magic.render.front_end import built
from torchprof_magic.render.static_html import NAME_CHARS
from torchprof_magic.report.trace_report import Report

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
FORMULA = re.compile(r"[=+\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
ROWS_IN_SIGHT = 12
TABS = ("overview", "timeline", "ops", "flame", "source", "memory")
# Right-to-left marks must end with the element that they are in.
NOT_ISOLATED = r"""() => {
  const found = [];
  const texts = document.createTreeWalker(document.querySelector(".tp-report"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    if (!/[\u202a-\u202e\u2066-\u2069]/.test(texts.currentNode.data)) continue;
    const style = getComputedStyle(texts.currentNode.parentElement);
    if (style.display === "inline" && style.unicodeBidi === "normal") found.push(texts.currentNode.data);
  }
  return found;
}"""
UNTOUCHED = """() => [
  window.__pwned, Object.keys(Object.prototype).length, Object.keys(Array.prototype).length,
  {}.a, [].a, typeof {}.toString, document.querySelectorAll("iframe, object, base, form, video, template").length,
  document.baseURI === location.href,
]"""
ALL_UNTOUCHED = [None, 0, 0, None, None, "function", 0, True]


class Watched:
    """A page without a policy, with everything that it complained about and would have asked for."""

    def __init__(self, browser: Browser) -> None:
        self.context = browser.new_context(viewport={"width": 1100, "height": 760})
        self.requests: list[str] = []
        self.context.route(re.compile("^(?!file:|blob:|data:)"), self._stop)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(f"{error.message}\n{error.stack}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def _stop(self, route: Route) -> None:
        self.requests.append(route.request.url)
        route.abort()

    def open(self, file: Path) -> Locator:
        self.page.goto(file.as_uri())
        shown = self.page.locator('.tp-report[data-tp-ready="true"]')
        shown.wait_for()
        return shown

    def check(self) -> None:
        """Check that every text has stayed a text."""
        assert self.page.evaluate(UNTOUCHED) == ALL_UNTOUCHED
        assert self.complaints == []
        assert self.requests == []
        assert len(self.context.pages) == 1


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    found = Watched(browser)
    yield found
    found.context.close()


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(TEXTS)


@pytest.fixture(scope="module")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_policy(report, tmp_path_factory.mktemp("hostile") / "report.html")


def without_policy(report: Report, path: Path) -> Path:
    text = report.to_html(path, perfetto=True).read_text("utf-8")
    path.write_text(POLICY.sub("", text, count=1), "utf-8")
    return path


def test_every_view_shows_every_text_as_a_text(watched: Watched, file: Path) -> None:
    shown = watched.open(file)
    assert set(TABS) <= set(tabs_of(shown))
    for tab in tabs_of(shown):
        open_tab(shown, tab)
        screenshot(watched.page, f"hostile-{tab}")
        if tab == "overview":
            shown.get_by_text("About this run").click()
        elif tab == "timeline":
            use_timeline(shown)
        elif tab == "flame":
            use_flame(shown)
        elif tab == "memory":
            lanes = shown.get_by_role("group", name="Lane").get_by_role("button")
            for lane in lanes.all()[:5]:
                lane.click()
        else:
            use_table(shown)
        assert watched.page.evaluate(NOT_ISOLATED) == []
    watched.check()


@pytest.fixture(params=[pytest.param(each, marks=thorough) for each in ("frames", "call stacks")])
def grouped(request: pytest.FixtureRequest, file: Path, tmp_path: Path) -> Path:
    if request.param == "frames":
        return file
    return without_policy(report_with_call_stacks(sample(3)), tmp_path / "report.html")


def test_every_grouping_shows_every_text_as_a_text(watched: Watched, grouped: Path) -> None:
    shown = watched.open(grouped)
    open_tab(shown, "ops")
    groupings = shown.get_by_role("group", name="Group by").get_by_role("button")
    assert groupings.count() == 10
    for grouping in groupings.all():
        grouping.click()
        use_table(shown)
    assert watched.page.evaluate(NOT_ISOLATED) == []
    assert shown.locator("[role=alert]").count() == 0
    watched.check()


def tabs_of(shown: Locator) -> list[str]:
    return shown.page.eval_on_selector_all("[data-tp-tab]", "all => all.map((tab) => tab.dataset.tpTab)")


def use_table(shown: Locator) -> None:
    """Point at rows, select them, and open the first that holds others."""
    expect(shown.locator("[data-tp-rows-shown]")).not_to_have_attribute("data-tp-rows-shown", "0")
    rows = shown.locator("[data-tp-row]")
    rows.last.hover()
    rows.first.click()
    shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("ArrowDown")
    expect(shown.locator(".tp-footer .tp-item")).to_have_count(1)


def use_timeline(shown: Locator) -> None:
    canvas = shown.locator("canvas.tp-stage-canvas")
    box = canvas.bounding_box()
    assert box
    for across, down in ((0.3, 0.05), (0.5, 0.15), (0.6, 0.25), (0.7, 0.4)):
        shown.page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
        shown.page.mouse.down()
        shown.page.mouse.up()
    for layer in ("Lines, modules", "Python", "Ops"):
        button = shown.get_by_role("button", name=layer, exact=True)
        if button.count():
            button.click()
    canvas.focus()
    for key in ("ArrowRight", "ArrowDown", "w", "w", "d", "0", "?", "Escape"):
        shown.page.keyboard.press(key)


def use_flame(shown: Locator) -> None:
    canvas = shown.locator("canvas[data-tp-zoom]")
    box = canvas.bounding_box()
    assert box
    for across, row in ((0.2, 1), (0.5, 2), (0.8, 3)):
        shown.page.mouse.move(box["x"] + box["width"] * across, box["y"] + 21 * row + 10)
        shown.page.mouse.dblclick(box["x"] + box["width"] * across, box["y"] + 21 * row + 10)
        canvas.focus()
        shown.page.keyboard.press("Escape")


@thorough  # that every view shows every text as a text is in the sample
def test_a_search_for_any_text_finds_it_and_breaks_nothing(report: Report, watched: Watched, file: Path) -> None:
    shown = watched.open(file)
    texts = [text for text in sample(1) if len(text) < MAX_TEXT]
    names = set(report.ops["name"])
    found = 0
    for tab in ("timeline", "flame", "ops"):
        open_tab(shown, tab)
        search = shown.locator(".tp-search:visible")
        for text in texts:
            search.fill(text)
            if tab == "ops" and text in names and is_plain_word(text) and rows_shown(shown) <= ROWS_IN_SIGHT:
                assert text in words_of(shown)
                found += 1
    assert found > len(texts) / 4
    watched.check()


def is_plain_word(text: str) -> bool:
    """Return whether a text is searched for as it is: it has no condition, no quote and no space of its own."""
    return re.fullmatch(r"[^\s\"-][^\s\"]*", text) is not None and not re.search(r"[<>=:]", text)


def rows_shown(shown: Locator) -> int:
    return int(shown.locator("[data-tp-rows-shown]").get_attribute("data-tp-rows-shown") or 0)


def words_of(shown: Locator) -> list[str]:
    """Return the names of the rows that are in the page, in full."""
    return shown.locator("[data-tp-row] bdi").evaluate_all("all => all.map((name) => name.title || name.textContent)")


def test_copied_rows_and_files_have_every_text_and_no_formula(
    report: Report, watched: Watched, file: Path, tmp_path: Path
) -> None:
    shown = watched.open(file)
    for tab in ("ops", "source", "modules"):
        open_tab(shown, tab)
        shown.get_by_role("button", name="Columns").click()
        with watched.page.expect_download() as download:
            shown.get_by_text("Save as CSV").click()
        download.value.save_as(tmp_path / f"{tab}.csv")
        with (tmp_path / f"{tab}.csv").open(encoding="utf-8", newline="") as saved:
            _, *rows = csv.reader(saved)
        assert not [cell for row in rows for cell in row if FORMULA.match(cell) and not re.fullmatch(r"-\d+", cell)]
        if tab == "ops":
            # Decoders of text take a byte order mark in front of a name for one of the name's encoding.
            names = {name.removeprefix("\ufeff") for name in report.ops["name"]}
            assert {f"'{name}" if FORMULA.match(name) else name for name in names} <= {row[0] for row in rows}
        shown.get_by_role("button", name="Columns").click()
        shown.get_by_text("Copy the rows").click()
        expect(shown.locator(".tp-tools")).to_contain_text("copied")
    watched.check()


def test_what_a_report_has_once_is_shown_as_a_text(watched: Watched) -> None:
    """Title, cell, machine, metadata and problems: one small report after the other, all in one page."""
    bundle, css = built()
    watched.page.goto("about:blank")
    watched.page.set_content("<!DOCTYPE html><main></main>")
    watched.page.add_style_tag(content=css)
    watched.page.evaluate(
        "async (text) => { const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));"
        " window.report = (await import(url)).default; }",
        bundle,
    )
    for text in sample(1):
        report = report_about(text)
        data = base64.b64encode(report._forms.page.data).decode()
        found = watched.page.evaluate(SHOW, [report._forms.page.header, data])
        assert found["title"] == report.trace.meta.title
        assert found["code"] == report.trace.meta.stepping.code
        assert all(name in found["machine"] for name in report.trace.meta.device_names)
        assert report.metadata.keys() <= set(found["labels"])
        assert found["notes"] == [report.problems[0].message]
    watched.check()


SHOW = """async ([header, data]) => {
  const main = document.querySelector("main");
  const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
  const traits = { _standalone: true, _header: header, _data: new DataView(bytes.buffer) };
  const model = { get: (name) => traits[name], set() {}, save_changes() {}, on() {}, off() {} };
  const unmount = await report.render({ model, el: main });
  const settle = () => new Promise((resolve) => setTimeout(resolve, 20));
  await settle();
  const about = [...main.querySelectorAll("button")].find((each) => each.textContent.includes("About this run"));
  about?.click();
  await settle();
  const text = (selector) => main.querySelector(selector)?.textContent;
  const found = {
    title: text(".tp-title"),
    code: text(".tp-subtitle code") ?? "",
    machine: text(".tp-machine"),
    labels: [...main.querySelectorAll("dt")].map((each) => each.textContent),
    notes: [...main.querySelectorAll(".tp-note-message")].map((each) => each.firstChild.data),
  };
  unmount();
  if (main.childElementCount > 0) throw new Error("the report left something behind");
  return found;
}"""


def test_the_static_copy_and_a_converted_notebook_show_texts_and_run_nothing(watched: Watched, tmp_path: Path) -> None:
    parts = in_parts(sample(1), 8)
    reports = [report_of(part) for part in parts]
    outputs: list[dict[str, Any]] = [
        {"text/html": each._repr_html_(), "text/plain": each.summary()} for each in reports
    ]
    outputs += [{"text/plain": each.summary()} for each in reports]
    page = tmp_path / "static.html"
    page.write_text(
        "<!DOCTYPE html><meta charset=utf-8>" + "".join(each["text/html"] for each in outputs[: len(parts)])
    )
    watched.page.goto(page.as_uri())
    names = watched.page.locator("td bdi").all_text_contents()
    texts = {printable(shortened(text, NAME_CHARS)) for part in parts for text in part if encodable(text) == text}
    assert texts - set(names) <= {"ProfilerStep#1"}  # a range of this name is a step
    watched.check()
    watched.page.goto(converted(outputs, tmp_path).as_uri())
    expect(watched.page.locator("[data-tp-static]")).to_have_count(len(parts))
    assert watched.page.evaluate("window.__pwned") is None
    # The page of nbconvert itself wants two libraries from a network.
    assert {url.split("/")[2] for url in watched.requests} <= {"cdnjs.cloudflare.com"}
    assert watched.page.locator("[data-tp-static] :is(script, iframe, object, form, base, a)").count() == 0


def converted(outputs: list[dict[str, Any]], folder: Path) -> Path:
    """Return a notebook with these outputs as HTML."""
    displayed = [nbformat.v4.new_output("display_data", data=data) for data in outputs]
    cell = nbformat.v4.new_code_cell("%%torchprof", outputs=displayed, execution_count=1)
    from nbconvert import HTMLExporter  # noqa: PLC0415 - each worker of the tests would import it

    text, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    path = folder / "notebook.html"
    path.write_text(text, "utf-8")
    return path
