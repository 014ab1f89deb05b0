"""A run that is watched, in a real JupyterLab: its strip stands while the cell runs, and grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driver import Lab, screenshot, write_notebook
from playwright.sync_api import expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# A loop of unknown length, which sleeps in one step when the test says so, and ends when it says so.
SETUP = """\
%load_ext torchprof_magic
import itertools, pathlib, time, torch
import torchprof_magic.run.early.helper as helper
helper.gives_way = False  # the machine of a test is busy
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
TRAIN = """\
%%torchprof --watch 1 -o run
for step in itertools.count():
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if pathlib.Path("{slow}").exists():
        pathlib.Path("{slow}").unlink()
        time.sleep(0.3)
    if pathlib.Path("{go}").exists():
        break"""


def test_the_strip_of_a_watched_run_stands_while_the_cell_runs_and_names_the_slow_step(
    open_notebook: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("watch")
    go, slow = folder / "go", folder / "slow"
    lab = open_notebook(write_notebook(folder / "watch.ipynb", SETUP, TRAIN.format(go=go, slow=slow)), "lab")
    lab.command("notebook:run-all-cells")
    page = lab.page
    report = page.locator(".tp-report")
    strip = report.locator("[data-tp-run]")
    expect(strip).to_contain_text("Step time", timeout=120_000)
    expect(report.locator(".tp-progress")).to_contain_text("Still running")
    before = strip.locator(".tp-aside").inner_text()
    slow.touch()
    # The strip is made anew every 10 s, and sooner where details are recorded.
    expect(strip.locator(".tp-run-slow")).to_contain_text("time.sleep", timeout=60_000)
    assert strip.locator(".tp-aside").inner_text() != before
    strip.evaluate("found => found.scrollIntoView()")  # it may be made anew meanwhile
    screenshot(page, "watch-running")
    go.touch()
    expect(report.locator(".tp-progress")).to_have_count(0, timeout=120_000)
    lab.wait_until_idle()
    expect(strip.locator(".tp-run-slow")).to_contain_text("times the usual")
    screenshot(page, "watch-completed")
