"""In an HTML file, a click on a kernel of torch.compile shows the code that was generated for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from driver import open_tab, show_file
from playwright.sync_api import Browser, expect
from support import make_trace, recording, span

from torchprof_magic.model.recording import FxCall, FxGraph, FxNode
from torchprof_magic.report.trace_report import Report
from torchprof_magic.run.fx_nodes import with_fx_nodes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LINES = [f"# line {number}" for number in range(1, 200)]
LINES[149] = "cpp_fused_relu_0 = async_compile.cpp_pybinding([], '<img src=x onerror=document.title=1>')"


def test_a_click_shows_the_code_at_the_kernel_as_text_although_the_file_is_gone(
    browser: Browser, tmp_path: Path
) -> None:
    code = tmp_path / "generated.py"
    code.write_text("\n".join(LINES))
    node = FxNode(name="relu", does="relu", stack='  File "net.py", line 3, in forward\n    y = relu(x)\n')
    graph = FxGraph(name="k", code=str(code), calls=(FxCall(kernel="cpp_fused_relu_0", nodes=(node,)),))
    events = span("## Call CompiledFxGraph k ##", 0, 90), span("graph_0_cpp_fused_relu_0", 10, 60)
    trace = with_fx_nodes(make_trace(*events), replace(recording(tmp_path), fx_graphs=(graph,)))
    file = Report(trace).to_html(tmp_path / "report.html")
    code.unlink()

    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    report = show_file(page, file)
    open_tab(report, "timeline")
    report.locator("input[type=text]").fill("relu")
    report.locator("input[type=text]").press("Enter")
    row = report.locator('[data-tp-detail="generated code"] button')
    expect(row).to_have_text("generated.py:150")
    expect(report.locator('[data-tp-detail="full name"]')).to_contain_text("graph_0_cpp_fused_relu_0")
    row.click()
    shown = report.locator(".tp-side-code")
    expect(shown.locator("mark")).to_have_text(LINES[149])
    expect(shown.locator("mark")).to_be_in_viewport()
    assert shown.inner_text() == "\n".join(LINES)
    assert page.title() != "1"
    row.click()
    expect(shown).to_have_count(0)
    page.close()
