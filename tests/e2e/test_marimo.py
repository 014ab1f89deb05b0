"""A report as the last expression of a cell in a real marimo."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from amount import thorough
from driver import START_S, cut_texts, free_port, open_tab, screenshot, stop, wait_for
from playwright.sync_api import Browser, Page, expect

# In a sample, the stand-in of test_hosts.py is all of marimo.
pytestmark = [pytest.mark.e2e, pytest.mark.slow, thorough]

NOTEBOOK = """\
import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import torch
    import torchprof_magic as tp

    with tp.profile(record_shapes=True) as p:
        for _ in tp.steps(range(6)):
            torch.ones(8).sum()
    p.report
    return (p,)


@app.cell
def _(p):
    f"STEPS {p.report.steps['number'].to_list()}"
"""
PRIVATE_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


@contextmanager
def marimo(notebook: Path, mode: str) -> Iterator[str]:
    """Yield the URL of a marimo that shows one notebook as an app (``run``) or to edit it (``edit``)."""
    with tempfile.TemporaryDirectory(prefix="marimo-") as private:
        port, log = free_port(), Path(private) / "server.log"
        flags = ["--headless", "--no-token", "--port", str(port)]
        flags += ["--skip-update-check"] if mode == "edit" else []
        env = os.environ | dict.fromkeys(PRIVATE_FOLDERS, private)
        with log.open("wb") as sink:
            server = subprocess.Popen(
                [sys.executable, "-m", "marimo", mode, str(notebook), *flags],
                env=env,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(f"{address}/health", server, log)
            yield address
        finally:
            stop(server)


@pytest.fixture(scope="module", params=["run", "edit"])
def page(request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    notebook = tmp_path_factory.mktemp("marimo") / "train.py"
    notebook.write_text(NOTEBOOK)
    with marimo(notebook, request.param) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(f"{error.message}\n{error.stack}"))
        page.goto(address)
        if request.param == "edit":
            run_every_cell(page)
        yield page
        page.close()


def run_every_cell(page: Page) -> None:
    """Run all cells, which marimo does not do by itself when a notebook is opened to edit it."""
    # Each cell has such a button, too; that of the notebook comes last.
    page.get_by_test_id("run-button").nth(4).click(timeout=START_S * 1000)


def test_a_report_as_the_last_expression_is_live(page: Page) -> None:
    report = page.locator('.tp-report[data-tp-ready="true"]')
    report.wait_for(timeout=START_S * 1000)
    open_tab(report, "ops")
    expect(report.locator("[data-tp-row]", has_text="aten::sum").first).to_be_visible()
    # This view waits for the kernel's answer.
    report.locator(".tp-segmented", has_text="Shape").get_by_text("Shape", exact=True).click()
    expect(report.locator("[data-tp-row]", has_text="8, –").first).to_be_visible()
    assert cut_texts(report) == []
    expect(page.get_by_text("STEPS [2, 3, 4]").first).to_be_visible()
    screenshot(page, "marimo")
    assert page.errors == []
