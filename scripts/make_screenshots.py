"""Take the pictures of docs/images: reports of recordings in tests/data and of small loops, in headless Chromium.

The first picture of the README is that of a cell in JupyterLab; the others are of files.

Run it with `make screenshots` after the page has changed how it looks, and look at what it took.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import sync_playwright

import torchprof_magic as tp

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Page

    from torchprof_magic.report.trace_report import Report

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
GPU = ROOT / "tests" / "data" / "gpu"
WIDTH_PX = 1040
COLORS = 160  # a palette of so many makes a file a third as large, and nobody sees the difference
SETTLED_MS = 1_200
LOOP = """
for batch in loader:
    x = batch * 2
    for _ in range(200):
        x = x + 1
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# The cell in JupyterLab.
LAB, LAB_WIDTH_PX, LAB_HEIGHT_PX = "report-light", 1280, 1060
TRAINING = """\
import torch
from torch import nn
%load_ext torchprof_magic

torch.manual_seed(0)
torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.randn(640, 3, 48, 48), torch.randint(0, 10, (640,)))
loader = torch.utils.data.DataLoader(data, batch_size=32)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
    nn.Flatten(), nn.Linear(1024, 10),
)
optimizer = torch.optim.AdamW(model.parameters())"""
# JupyterLab shows only what is in sight, so the cell is scrolled up again and again until its report is there.
IS_SHOWN = """() => {
  document.querySelectorAll('.jp-InputArea-editor')[1]?.scrollIntoView();
  const reports = [...document.querySelectorAll('.tp-report[data-tp-ready="true"]')];
  return reports.some((report) => report.offsetHeight > 0);
}"""
TRAINING_LOOP = """\
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()"""


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One picture: its name, the report, the tab, what is done there first, and how high the window is."""

    name: str
    report: Callable[[], Report]
    tab: str
    act: Callable[[Page], object] = lambda _page: None
    height_px: int = 560


def main() -> int:
    """Take all pictures, or those that are named."""
    wanted = sys.argv[1:]
    if not wanted or LAB in wanted:
        _keep(LAB, _taken_in_lab())
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shot in SHOTS:
            if not wanted or shot.name in wanted:
                _keep(shot.name, _taken(browser, shot, Path(folder)))
        browser.close()
    return 0


def _keep(name: str, png: bytes) -> None:
    target = IMAGES / f"{name}.png"
    target.write_bytes(_small(png))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e3:.0f} kB")


def _taken_in_lab() -> bytes:
    """Return a picture of a cell of JupyterLab that has recorded a training loop."""
    sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests")]
    from driver import Lab, chromium, jupyter, write_notebook  # noqa: PLC0415 - needs what the tests need

    with tempfile.TemporaryDirectory() as folder, chromium() as browser, jupyter(Path(folder)) as server:
        notebook = write_notebook(Path(folder) / "train.ipynb", TRAINING, f"%%torchprof\n{TRAINING_LOOP}")
        page = browser.new_page(viewport={"width": LAB_WIDTH_PX, "height": LAB_HEIGHT_PX})
        lab = Lab(page, server, notebook)
        lab.run_all()
        page.wait_for_function(IS_SHOWN, polling=500)
        page.wait_for_timeout(SETTLED_MS)
        return page.screenshot()


def _taken(browser: Browser, shot: Shot, folder: Path) -> bytes:
    file = shot.report().to_html(folder / f"{shot.name}.html")
    page = browser.new_page(viewport={"width": WIDTH_PX, "height": shot.height_px}, device_scale_factor=1.5)
    page.goto(file.as_uri())
    page.get_by_role("tab", name=shot.tab).first.click()
    page.wait_for_timeout(SETTLED_MS)
    shot.act(page)
    page.wait_for_timeout(SETTLED_MS)
    return page.screenshot()


def _small(png: bytes) -> bytes:
    file = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLORS).save(file, "PNG", optimize=True)
    return file.getvalue()


def _recorded_loop() -> Report:
    """Return the report of a cell with a loop, as the magic records it."""
    import torch  # noqa: PLC0415 - only for this picture
    from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    names = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=1e-3),
        "loader": [torch.randn(64, 64) for _ in range(14)],
    }
    shell = InteractiveShell(user_ns=names)
    shell.extension_manager.load_extension("torchprof_magic")
    shell.run_cell(f"%%torchprof -o run -q --active 4{LOOP}", store_history=True).raise_error()
    report: Report = names["run"]  # type: ignore[assignment]
    return report


def _at_idle_time(page: Page) -> None:
    """Choose the longest pause of the device, as its entry beside the timeline does."""
    page.locator(".tp-gaps .tp-link").first.click()


SHOTS = (
    Shot(
        name="timeline-idle", report=partial(tp.load, GPU / "train_memory.json.gz"), tab="Timeline", act=_at_idle_time
    ),
    Shot(name="memory", report=partial(tp.load, GPU / "train_memory.json.gz"), tab="Memory"),
    Shot(name="source", report=_recorded_loop, tab="Source", height_px=440),
)

if __name__ == "__main__":
    sys.exit(main())
