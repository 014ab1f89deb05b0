"""The tab of the example in docs/architecture.md, in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from driver import open_tab, show_file
from examples import copy_with, run_in
from playwright.sync_api import Browser, expect
from support import chrome, span

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_tab_that_is_added_in_python_alone_shows_its_table(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(chrome(span("aten::mm", 0, 5), span("aten::add", 10, 20)))
    code = "import json; import torchprof_magic as tp; print(json.dumps(str(tp.load('trace').to_html('report.html'))))"
    copy = copy_with(tmp_path, "table", "tab")
    report = show_file(browser.new_page(), copy / run_in(copy, code))
    expect(report.get_by_role("tab", name="Longest")).to_be_visible()
    open_tab(report, "longest")
    table = report.get_by_role("grid")
    expect(table.get_by_role("columnheader")).to_contain_text(["Name", "Duration"])
    expect(table.get_by_role("row", name="aten::add")).to_contain_text("20.00")
