"""Reports in a real JupyterLab: one of a large trace, whose page asks a kernel, and many in one notebook."""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from page_acts import MOVES, TIMELINE, VIEWS
from page_measure import PROBE, Spread, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from driver import Lab
    from page_memory import PeakMemory
    from playwright.sync_api import Browser

READY = '.tp-report[data-tp-ready="true"]'
LOAD_S = 600
PICTURES = 30


@contextmanager
def notebook(browser: Browser, folder: Path, *cells: str) -> Iterator[Lab]:
    """Yield a notebook of some cells in JupyterLab, in which none has run yet."""
    from driver import Lab, jupyter, write_notebook  # noqa: PLC0415 - found by the path of page_measure

    path = write_notebook(folder / "reports.ipynb", *cells)
    with jupyter(folder) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script(path=PROBE)
        yield Lab(page, address, path)
        page.close()


def measure_one(browser: Browser, trace: Path, memory: PeakMemory) -> None:
    """Print how long a live report of a trace takes to open, and its timeline to show another window."""
    with notebook(browser, trace.parent, f"import torchprof_magic as tp\ntp.load({trace.name!r})") as lab:
        began = perf_counter()
        lab.command("notebook:run-all-cells")
        lab.page.locator(READY).wait_for(timeout=LOAD_S * 1e3)
        print(f"  cell to report        {(perf_counter() - began) * 1e3:8,.0f} ms (reads the file)")
        stage = Stage(lab.page, lab.report())
        timeline = VIEWS[0]
        print(f"  timeline, first       {stage.open(timeline.tab, timeline.painted):8,.0f} ms")
        print(f"  {'window to picture, ms':21} {'p50':>7} {'p95':>7} {'max':>7}")
        for act in MOVES:
            act.prepare(stage)
            stage.settle()
            times = [window_to_picture(stage, lambda at=at, do=act.do: do(stage, at)) for at in range(PICTURES)]
            print(f"  {act.name:21} {Spread.of(times)}")
        memory.note()


def window_to_picture(stage: Stage, change: Callable[[], None]) -> float:
    """Change the window of the timeline, and return the ms until it is drawn with the slices of that window.

    The page may draw what it has at once, and again when the kernel has sent more. The time is that of the last picture
    after which the timeline is not busy, and none follows.
    """
    stage.page.evaluate(
        "([root, selector]) => __probe.watchPictures(root, selector)", [stage.root.element_handle(), TIMELINE]
    )
    change()
    return float(stage.page.evaluate("__probe.lastPicture()"))


LIMIT = "from torchprof_magic.render import widget\nwidget.OPEN_WIDGETS = {reports}\nimport torchprof_magic as tp"


def measure_many(browser: Browser, trace: Path, reports: int, memory: PeakMemory) -> None:
    """Print how usable the first and the last of many live reports in one notebook are."""
    cells = [LIMIT.format(reports=reports), *[f"tp.load({trace.name!r})"] * reports]
    with notebook(browser, trace.parent, *cells) as lab:
        stage = Stage(lab.page, lab.page.locator("body"))
        empty = stage.heap_bytes()
        lab.run_all()
        for index in (0, reports - 1):
            _measure_report(lab, index)
        canvases = lab.page.locator("canvas").count()
        script, tasks = stage.time_of(lambda: lab.page.wait_for_timeout(2_000))
        heap = f"heap {empty / 1e6:,.0f} to {stage.heap_bytes() / 1e6:,.0f} MB"
        print(f"  {heap}, {canvases} canvases, {stage.detached_nodes()} detached trees")
        print(f"  2 s without an act: {script:.1f} ms in scripts, {tasks:.1f} ms in tasks")
        memory.note()


def _measure_report(lab: Lab, index: int) -> None:
    lab.page.evaluate("(index) => jupyterapp.shell.currentWidget.content.scrollToItem(index, 'start')", index + 1)
    cell = lab.page.locator(f'.jp-Cell[data-windowed-list-index="{index + 1}"]')
    report = cell.locator(READY)
    report.wait_for(timeout=LOAD_S * 1e3)
    report.scroll_into_view_if_needed()
    stage = Stage(lab.page, report)
    timeline = VIEWS[0]
    opened = stage.open(timeline.tab, timeline.painted)
    cost = stage.measure(MOVES[0])
    print(f"  report {index + 1:3}: timeline {opened:6,.0f} ms; pan {cost.gaps} | {cost.script} | {cost.tasks}")
