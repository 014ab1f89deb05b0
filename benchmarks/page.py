"""How fast the page of a report is: opening, the first picture of each view, and every act of the hand in it.

All of it runs in headless Chromium without a GPU, so pictures are drawn by the processor. The browser shows 60 frames a
second: 16.7 ms between two of them is the least there is, and also the most that an act may cost (95th percentile).
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import page_live
import page_speedscope
from make_training_trace import write_training_trace
from page_acts import FLAME, SELECTED, TIMELINE, TURNS, VIEWS, on, zoom
from page_files import make_files
from page_measure import BUDGET_MS, PROBE, Act, Cost, Stage
from page_memory import PeakMemory

if TYPE_CHECKING:
    from page_acts import View
    from page_files import Files
    from page_speedscope import Rival
    from playwright.sync_api import Browser

OVERVIEW, OVERVIEW_PAINTED = "overview", ".tp-overview"
MEDIUM = 50_000  # slices of each of many reports
HEAD = f"{'p50':>7} {'p95':>7} {'max':>7}"


def main() -> None:
    """Measure reports in files, beside speedscope, and live ones in JupyterLab."""
    from driver import chromium  # noqa: PLC0415 - found by the path of page_measure

    options = _options()
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        folder, memory = Path(temporary), PeakMemory()
        print(f"{_machine()}; Chromium {browser.version}, headless, without a GPU")
        app = _speedscope(folder) if options.slices and not options.no_speedscope else None
        for slices in options.slices:
            files = make_files(folder / f"{slices}", slices)
            opened_ms, costs = measure_file(browser, files, options.views, options.redraws, memory)
            if app is not None:
                compare(opened_ms, costs, page_speedscope.measure(browser, app, files.speedscope))
        for slices in options.live:
            measure_live(browser, folder / f"live-{slices}", slices, memory)
        if options.reports:
            files = make_files(folder / "many", MEDIUM)
            print(
                f"{options.reports} live reports of it in one notebook: first picture, then gaps | scripts | tasks, ms"
            )
            page_live.measure_many(browser, files.trace, options.reports, memory)
        print(f"peak memory of all processes together: at most {memory.mb:,.0f} MB; load {os.getloadavg()[0]:.1f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, nargs="*", default=[100_000, 1_000_000], help="sizes of HTML files")
    parser.add_argument("--live", type=int, nargs="*", default=[100_000], help="sizes of traces in JupyterLab")
    parser.add_argument("--reports", type=int, default=50, help="live reports in one notebook; 0 for none")
    parser.add_argument("--redraws", type=int, default=1_000, help="after which the heap is measured; 0 for none")
    parser.add_argument("--views", nargs="*", default=[view.tab for view in VIEWS], help="tabs to measure")
    parser.add_argument("--no-speedscope", action="store_true", help="do not install speedscope to compare with it")
    return parser.parse_args()


def _speedscope(folder: Path) -> Path | None:
    """Return the folder of speedscope's page, or None where it cannot be installed."""
    try:
        return page_speedscope.install(folder / "speedscope")
    except (OSError, subprocess.CalledProcessError) as exc:
        print(f"speedscope cannot be installed, and is not compared with: {exc}")
        return None


def _machine() -> str:
    """Return the processor, its cores, and how busy they are with other things."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    load = os.getloadavg()[0]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, load {load:.1f}"


def measure_file(
    browser: Browser, files: Files, tabs: list[str], redraws: int, memory: PeakMemory
) -> tuple[float, dict[str, Cost]]:
    """Print what opening an HTML file and every act in it cost; return the ms to open, and the costs of acts."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(path=PROBE)
    page.goto(files.report.as_uri())
    opened = float(page.evaluate("__probe.sinceStart('.tp-report[data-tp-ready]')"))
    stage = Stage(page, page.locator(".tp-report"))
    tasks = stage.long_tasks()
    blocked = f"{len(tasks)} long tasks, the longest {max(tasks, default=0):,.0f} ms"
    print(f"  {'open':21} {opened:7,.0f} ms, {blocked}")
    views = [view for view in VIEWS if view.tab in tabs]
    measure_opening(stage, views)
    print(f"  {'ms':21} | {'between frames':^23} | {'scripts':^23} | {'all tasks':^23}")
    print(f"  {'':21} | {HEAD} | {HEAD} | {HEAD}")
    print(f"  {'nothing':21} | {stage.idle_gaps()} |")
    costs: dict[str, Cost] = {}
    for view in views:
        stage.open(view.tab, view.painted)
        for act in view.acts:
            cost = costs[f"{view.tab} {act.name}"] = stage.measure(act)
            mark = " over" if cost.gaps.p95 > BUDGET_MS else ""
            print(f"  {view.tab:8} {act.name:12} | {cost.gaps} | {cost.script} | {cost.tasks}{mark}", flush=True)
    if redraws:
        measure_growth(stage, redraws)
    memory.note()
    page.close()
    return opened, costs


def measure_opening(stage: Stage, views: list[View]) -> None:
    """Print the ms from a click to the first picture of each view, and of the shapes of the flame graph."""
    print(f"  {'first picture, ms':21} {'first':>7} {'again':>7}")
    for view in views:
        first = stage.open(view.tab, view.painted)
        if view.tab == "timeline":
            stage.page.mouse.click(*stage.point(TIMELINE, 0.5, 0.07))
            print(f"  {'timeline, selection':21} {stage.painted(SELECTED):7,.0f}")
            stage.press("Escape")
        stage.open(OVERVIEW, OVERVIEW_PAINTED)
        print(f"  {view.tab:21} {first:7,.0f} {stage.open(view.tab, view.painted):7,.0f}")
        for turn in TURNS if view.tab == "flame" else ():
            stage.root.get_by_role("button", name=turn.button, exact=True).click()
            print(f"  {'flame, ' + turn.button.lower():21} {stage.painted(turn.painted):7,.0f}")
            stage.root.get_by_role("button", name="Merged", exact=True).click()


def measure_growth(stage: Stage, redraws: int) -> None:
    """Print by how much many pictures of the timeline and of the flame graph make the heap grow."""
    for tab, canvas in (("timeline", TIMELINE), ("flame", FLAME)):
        stage.open(tab, f"{canvas}[data-tp-painted]")
        on(canvas, Act(name="", do=zoom)).prepare(stage)
        before, nodes = stage.heap_bytes(), stage.detached_nodes()
        drawn = _redraw(stage, canvas, redraws)
        after = stage.heap_bytes()
        grown = f"{before / 1e6:.1f} to {after / 1e6:.1f} MB"
        print(f"  {drawn:,} pictures of {tab}: heap {grown}, detached trees {nodes} to {stage.detached_nodes()}")


def _redraw(stage: Stage, canvas: str, pictures: int) -> int:
    """Zoom in and out until a canvas has been painted so many times; return how many times it was."""
    element = stage.root.locator(canvas)
    first = int(element.get_attribute("data-tp-painted") or 0)
    drawn = at = 0
    while drawn < pictures:
        for _ in range(60):
            zoom(stage, at)
            at += 1
        drawn = int(element.get_attribute("data-tp-painted") or 0) - first
    return drawn


def compare(ours: float, costs: dict[str, Cost], rival: Rival) -> None:
    """Print speedscope's times beside ours, and how many times ours they are."""
    print(f"  {'speedscope beside':21} {'ours':>9} {'speedscope':>11} {'ratio':>6}")
    print(f"  {'open until drawn':21} {ours:6,.0f} ms {rival.open_ms:8,.0f} ms {rival.open_ms / ours:6.1f}")
    for name, act, gaps in (("pan", "timeline pan half", rival.pan), ("zoom", "timeline zoom", rival.zoom)):
        if (cost := costs.get(act)) is not None:
            pairs = zip(("p50", "p95", "max"), cost.gaps, gaps, strict=True)
            for what, own, other in pairs:
                print(f"  {f'{name}, {what}':21} {own:6.1f} ms {other:8.1f} ms {other / own:6.1f}")


def measure_live(browser: Browser, folder: Path, slices: int, memory: PeakMemory) -> None:
    """Print the times of a report in JupyterLab, of a trace that is written first."""
    folder.mkdir()
    trace = folder / "trace.json"
    write_training_trace(trace, slices)
    print(f"\nlive in JupyterLab, about {slices:,} slices")
    page_live.measure_one(browser, trace, memory)


if __name__ == "__main__":
    main()
