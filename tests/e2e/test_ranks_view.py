"""The ranks of a job in a real JupyterLab: a click opens the report of a rank, and leads back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driver import Lab, cut_texts, open_tab, screenshot, show_file, write_notebook
from made_ranks import write_job
from playwright.sync_api import Browser, expect

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_click_opens_the_report_of_a_rank_and_leads_back(open_notebook: Callable[..., Lab], tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    write_job(job, {2: 200.0})
    book = write_notebook(tmp_path / "ranks.ipynb", f"import torchprof_magic as tp\ntp.load({str(job)!r})")
    lab = open_notebook(book, width=1200, height=900)
    lab.run_all()
    shown = lab.report()
    expect(shown.locator(".tp-late .tp-rank-name")).to_have_text("rank 2 ▲")
    expect(shown.locator(".tp-wait-last")).to_have_count(3)
    assert cut_texts(shown) == []
    screenshot(shown, "ranks_lab")
    shown.locator('[data-tp-rank="2"] .tp-button').click()
    expect(shown.locator(".tp-title")).to_have_text("rank2.json")
    open_tab(shown, "ops")
    shown.locator("[data-tp-parent]").click()
    expect(shown.locator(".tp-title")).to_have_text("job")
    shown.locator('[data-tp-rank="1"] .tp-rank-name').press("Enter")
    expect(shown.locator(".tp-title")).to_have_text("rank1.json")
    assert lab.errors == []


def test_rows_are_sorted_and_a_file_offers_no_reports_of_ranks(browser: Browser, tmp_path: Path) -> None:
    write_job(tmp_path, {2: 200.0})
    page = browser.new_page(viewport={"width": 600, "height": 720})
    report = tp.load(tmp_path)
    shown = show_file(page, report.to_html(tmp_path / "ranks.html"))
    expect(shown.locator("[data-tp-rank]")).to_have_count(4)
    expect(shown.locator("[data-tp-rank] .tp-button")).to_have_count(0)
    shown.get_by_role("button", name="Most waited for").click()
    expect(shown.locator("[data-tp-rank]").first).to_have_attribute("data-tp-rank", "2")
    assert cut_texts(shown) == []
    open_tab(shown, "timeline")
    open_tab(shown, "collectives")
    expect(shown.locator(".tp-grid")).to_be_visible()
    page.close()
