"""Choosing the run to compare with in the page, in a real JupyterLab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driver import Lab, cut_texts, open_tab, screenshot, write_notebook
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETUP = "%load_ext torchprof_magic\nimport torch\nx = torch.randn(256, 256)"
LOOP = "%%torchprof --active 12\nfor batch in range(16):\n    y = torch.tanh(x @ x)"
MORE = f"{LOOP}\n    z = torch.softmax(y, 1)" + "\n    z = torch.softmax(z, 1)" * 9
WITHIN_MS = 60_000


@pytest.fixture(scope="module")
def lab(open_notebook: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Lab:
    root = tmp_path_factory.mktemp("compare")
    notebook = write_notebook(root / "two.ipynb", SETUP, LOOP, MORE)
    opened = open_notebook(notebook)
    opened.run_all()
    return opened


def runs_shown(report: Any) -> Any:
    return report.locator(".tp-dots-names")


def test_a_chosen_run_opens_the_comparison_and_x_exchanges_both(lab: Lab) -> None:
    report = lab.report(1)
    open_tab(report, "flame")
    report.get_by_role("button", name="Compare", exact=False).first.click()
    entry = report.locator(".tp-compare .tp-menu button", has_text="In [2]")
    expect(entry).to_have_count(1, timeout=WITHIN_MS)
    screenshot(report, "compare_menu")
    entry.click()
    expect(report).to_have_attribute("data-tp-view", "compare", timeout=WITHIN_MS)
    expect(runs_shown(report)).to_contain_text("In [2]", timeout=WITHIN_MS)
    expect(report.locator(".tp-change h2")).to_contain_text("▲", timeout=WITHIN_MS)
    screenshot(report, "compare_chosen")
    # Where the change is long, the machine stands only in "About this run".
    assert [text for text in cut_texts(report) if not text.startswith("tp-machine")] == []
    lab.page.keyboard.press("x")
    expect(report.locator(".tp-change h2")).to_contain_text("▼", timeout=WITHIN_MS)
    lab.page.keyboard.press("X")
    expect(report.locator(".tp-change h2")).to_contain_text("▲", timeout=WITHIN_MS)
    report.get_by_role("button", name="Swap").click()
    expect(report.locator(".tp-change h2")).to_contain_text("▼", timeout=WITHIN_MS)
    # The other tabs are those of the run, and the other report stays as it is.
    open_tab(report, "ops")
    assert lab.report(0).locator('[data-tp-tab="compare"]').count() == 0
    assert lab.errors == []


def test_the_comparison_fits_a_narrow_cell(lab: Lab) -> None:
    report = lab.report(1)
    if report.locator('[data-tp-tab="compare"]').count() == 0:
        report.get_by_role("button", name="Compare", exact=False).first.click()
        report.locator(".tp-compare .tp-menu button", has_text="In [2]").click(timeout=WITHIN_MS)
    open_tab(report, "compare")
    lab.page.set_viewport_size({"width": 760, "height": 900})
    screenshot(report, "compare_narrow")
    assert cut_texts(report) == []
    report.get_by_role("button", name="Compare", exact=False).first.click()
    expect(report.locator(".tp-compare .tp-menu button", has_text="In [2]")).to_be_visible(timeout=WITHIN_MS)
    box = report.locator(".tp-compare .tp-menu").bounding_box()
    frame = report.bounding_box()
    assert box is not None
    assert frame is not None
    assert frame["x"] <= box["x"] < box["x"] + box["width"] <= frame["x"] + frame["width"]
    screenshot(report, "compare_menu_narrow")
