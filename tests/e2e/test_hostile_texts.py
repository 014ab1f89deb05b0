"""More than 500 hostile texts in every field of a recording, through every view of the HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import chromium, open_tab, screenshot
from hostile.recordings import report_about, report_of
from hostile.texts import TEXTS, sample
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# Each is a name that a page could take for something else.
SEARCHED = ("<img src=x onerror=", "__proto__", "constructor", "</script>")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Watched:
    """A page that notes whatever a hostile text could make it do."""

    def __init__(self, browser: Browser, file: Path) -> None:
        self.page: Page = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
        self.events: list[str] = []
        self.page.on("pageerror", lambda error: self.events.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.events.append(f"dialog: {dialog.message}"))
        self.page.on("console", lambda text: self.events.append(text.text) if text.type == "error" else None)
        self.page.on("request", self._note_request)
        self.page.goto(file.as_uri())
        self.report: Any = self.page.locator('.tp-report[data-tp-ready="true"]')
        self.report.wait_for()

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "blob:")):
            self.events.append(f"request: {request.url}")

    def check(self) -> None:
        """Fail if any text was more than text."""
        assert self.events == []
        assert self.page.evaluate("Object.keys(window).filter((key) => key.startsWith('__pwned'))") == []
        assert self.page.evaluate("[Object.keys(Object.prototype).length, typeof ({}).polluted]") == [0, "undefined"]
        assert self.page.locator(".tp-report img, .tp-report iframe, .tp-report script, .tp-report object").count() == 0
        self.page.context.close()


def test_hostile_texts_are_text_in_every_view(browser: Browser, tmp_path: Path) -> None:
    watched = Watched(browser, report_of(TEXTS).to_html(tmp_path / "report.html"))
    report = watched.report
    for view in ("overview", "timeline", "ops", "flame", "source", "modules", "memory"):
        open_tab(report, view)
        expect(report.locator(".tp-panel > *").first).to_be_visible()
        screenshot(watched.page, f"hostile-{view}")
    open_tab(report, "ops")
    for title in report.locator('fieldset[aria-label="Group by"] button').all_inner_texts():
        report.locator('fieldset[aria-label="Group by"]').get_by_role("button", name=title, exact=True).click()
        expect(report.locator("[data-tp-row]").first).to_be_visible()
    watched.check()


def test_hostile_texts_are_found_selected_and_followed_as_they_are(browser: Browser, tmp_path: Path) -> None:
    watched = Watched(browser, report_of(TEXTS).to_html(tmp_path / "report.html"))
    report = watched.report
    for part in SEARCHED:
        open_tab(report, "ops")
        report.locator(".tp-search:visible").fill(f'"{part}"' if " " in part else part)
        row = report.locator("[data-tp-row]").first
        row.click()
        name = row.locator(".tp-name").get_attribute("title")
        assert name in TEXTS
        report.locator('[data-tp-target="flame"]').click()
        expect(report.locator("canvas[data-tp-zoom]")).to_have_attribute("data-tp-selected", name)
        open_tab(report, "timeline")
        report.locator(".tp-search:visible").fill(part)
        report.locator(".tp-search:visible").press("Enter")
        expect(report.locator(".tp-side-part h3")).not_to_be_empty()
    watched.check()


@pytest.mark.parametrize("text", sample(1)[:12])
def test_hostile_texts_are_text_where_a_report_has_one(browser: Browser, tmp_path: Path, text: str) -> None:
    watched = Watched(browser, report_about(text).to_html(tmp_path / "report.html"))
    watched.report.locator("[data-tp-about]").click()
    for view in ("timeline", "ops", "flame"):
        open_tab(watched.report, view)
    watched.check()
