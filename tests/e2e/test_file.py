"""The HTML file and the static copy, opened from disk without a network, with hostile names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from amount import sampled, thorough
from driver import open_tab, screenshot, show_file, walk_by_keys
from gpu_trace import GEMM, gpu_events
from playwright.sync_api import Browser, Page, expect
from support import chrome
from torch.profiler import record_function

import torchprof_magic as tp
from torchprof_magic.render import arrow

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

HOSTILE = (
    "<img src=x onerror=window.__pwned=1>",
    "</script><script>window.__pwned=1</script>",
    "__proto__",
    "constructor",
    'a "quoted" name',
    "right\u202eto left",
    "javascript:window.__pwned=1",
)


@pytest.fixture(scope="module")
def report() -> tp.Report:
    model = torch.nn.Linear(16, 16)
    with tp.profile(profile_memory=True) as p:
        for _ in tp.steps(range(6)):
            for name in HOSTILE:
                with record_function(name):
                    model(torch.randn(8, 16)).sum().backward()
    return p.report


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1100, "height": 760}, offline=True)
    yield context.new_page()
    context.close()


def test_the_file_works_from_disk_without_a_network(report: tp.Report, page: Page, tmp_path: Path) -> None:
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.to_html(tmp_path / "report.html").as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    shown.wait_for()
    for view in ("overview", "timeline", "ops", "flame", "memory"):
        open_tab(shown, view)
        screenshot(page, f"file-{view}")
    open_tab(shown, "ops")
    shown.locator('[data-tp-column="calls"]').click()
    expect(shown.locator("[data-tp-rows-shown]")).to_have_attribute("data-tp-rows-shown", str(report.ops.height))
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "blob:"))] == []


def test_an_execution_trace_opens_at_its_calls_and_has_its_tensors(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    with tp.profile(execution_trace=path):
        torch.nn.Linear(16, 4)(torch.randn(8, 16)).sum().backward()
    graph = tp.load(path)
    page.goto(graph.to_html(tmp_path / "report.html").as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    shown.wait_for()
    expect(shown).to_have_attribute("data-tp-view", "graph_ops")
    expect(shown.locator("[data-tp-rows-shown]")).to_have_attribute("data-tp-rows-shown", str(graph.graph_ops.height))
    screenshot(page, "graph-calls")
    open_tab(shown, "graph_tensors")
    expect(shown.locator("[data-tp-rows-shown]")).to_have_attribute(
        "data-tp-rows-shown", str(graph.graph_tensors.height)
    )
    screenshot(page, "graph-tensors")


def test_keys_alone_lead_through_all_views_from_the_first_moment(report: tp.Report, page: Page, tmp_path: Path) -> None:
    walk_by_keys(page, show_file(page, report.to_html(tmp_path / "keys.html")))


def test_views_that_are_too_large_to_open_with_the_file_are_read_on_a_click(
    report: tp.Report, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "EMBEDDED_ROWS", 1)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(report.to_html(tmp_path / "report.html").as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    open_tab(shown, "ops")
    expect(shown.locator("[data-tp-rows-shown]")).to_have_attribute("data-tp-rows-shown", str(report.ops.height))
    for view, canvas in (("timeline", ".tp-stage-canvas"), ("flame", ".tp-flame-canvas")):
        open_tab(shown, view)
        expect(shown.locator(f"{canvas}[data-tp-painted]")).to_be_visible()
    assert complaints == []


def test_a_step_of_which_work_is_missing_is_marked_and_the_time_is_hatched(page: Page, tmp_path: Path) -> None:
    lost = [event for event in gpu_events() if not (event["name"] == GEMM and 20_000 < event["ts"] < 30_000)]
    trace = tmp_path / "lossy.json"
    trace.write_bytes(chrome(*lost))
    page.goto(tp.load(trace).to_html(tmp_path / "report.html").as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    shown.wait_for()
    expect(shown.locator(".tp-notice")).to_contain_text("1 of 8 launches has no work of the device in the file")
    marked = shown.locator(".tp-step.tp-lossy")
    expect(marked).to_have_count(1)
    expect(marked).to_have_attribute("data-tp-step", "2")
    expect(marked.locator("button")).to_have_attribute(
        "aria-label", re.compile(r"^Step 2, incomplete: .*1 launch without work")
    )
    screenshot(page, "file-lossy-overview")
    open_tab(shown, "timeline")
    expect(shown.locator(".tp-step-button .tp-loss-mark")).to_have_count(1)
    shown.locator('.tp-step-button[data-tp-step="2"]').click()
    expect(shown).to_contain_text("missing events")
    screenshot(page, "file-lossy-timeline")


@thorough  # test_hostile_pages.py has many more names
def test_hostile_names_are_text_in_the_file(report: tp.Report, page: Page, tmp_path: Path) -> None:
    assert set(HOSTILE) <= set(report.ops["name"])
    page.goto(report.to_html(tmp_path / "report.html").as_uri())
    shown = page.locator('.tp-report[data-tp-ready="true"]')
    shown.wait_for()
    open_tab(shown, "ops")
    for name in sampled(list(HOSTILE), 3):
        shown.locator(".tp-search:visible").fill(name)
        expect(shown.locator("[data-tp-row]").first).to_be_visible()
        shown.locator("[data-tp-row]").first.click()
        shown.locator('[data-tp-target="flame"]').click()
        expect(shown.locator("canvas[data-tp-zoom]")).to_have_attribute("data-tp-selected", name)
        open_tab(shown, "ops")
    assert page.evaluate("window.__pwned") is None
    assert page.evaluate("Object.keys(Object.prototype).length") == 0
    assert page.locator("main img").count() == 0


@thorough  # test_hostile_pages.py has many more names
def test_hostile_names_are_text_in_the_static_copy(report: tp.Report, page: Page, tmp_path: Path) -> None:
    file = tmp_path / "static.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{report._repr_html_()}", encoding="utf-8")
    page.goto(file.as_uri())
    assert page.evaluate("window.__pwned") is None
    assert page.locator("script").count() == 0
    assert all(
        src.startswith("data:image/png") for src in page.eval_on_selector_all("img", "all => all.map(i => i.src)")
    )
    expect(page.locator("details").first).to_contain_text("Op")
    screenshot(page, "static-copy")
