"""Measures acts in a page: gaps between its frames, and processor time from the browser's own counters."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests"), str(ROOT / "scripts")]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from playwright.sync_api import Locator, Page

PROBE = ROOT / "js" / "bench" / "page-probe.js"
# A frame of a 60 Hz screen, and what the browser's clock adds to it.
BUDGET_MS = 1000 / 60 + 0.2
STREAM_INPUTS = 90
SINGLE_INPUTS = 20
# What else runs on a machine only ever adds, so the best of some rounds is the one to read.
ROUNDS = 2
SETTLED_MS = 250  # animations take up to 120 ms


class Spread(NamedTuple):
    """The median, the 95th percentile and the largest of some times in ms."""

    p50: float
    p95: float
    most: float

    @classmethod
    def of(cls, times: Iterable[float]) -> Spread:
        """Return the spread of some times; zeros for none."""
        ordered = sorted(times) or [0.0]
        last = len(ordered) - 1
        return cls(ordered[last // 2], ordered[round(last * 0.95)], ordered[-1])

    def __str__(self) -> str:
        return f"{self.p50:7.1f} {self.p95:7.1f} {self.most:7.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a hand does again and again in a view.

    ``do`` is called with the number of the time. A stream, such as panning, is done in every frame, and all its frames
    count. Of a single act, such as a click, only the longest gap that it causes counts.
    """

    name: str
    do: Callable[[Stage, int], None]
    prepare: Callable[[Stage], None] = lambda _: None
    finish: Callable[[Stage], None] = lambda _: None
    is_stream: bool = True
    times: int = 0

    @property
    def inputs(self) -> int:
        """How often it is done in a round."""
        return self.times or (STREAM_INPUTS if self.is_stream else SINGLE_INPUTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an act costs in ms: between two frames, in scripts, and on the page's thread with layout and painting."""

    gaps: Spread
    script: Spread
    tasks: Spread


class Stage:
    """One report, or another program, in a page, and where the pointer acts on it."""

    def __init__(self, page: Page, root: Locator) -> None:
        self.page = page
        self.root = root
        self._devtools = page.context.new_cdp_session(page)
        # Time on the processor, so that what else runs on the machine does not count.
        self._devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._devtools.send("DOM.enable")

    def point(self, selector: str, across: float, down: float) -> tuple[float, float]:
        """Return a point in the visible part of an element, by shares of its size."""
        area, size = self.root.locator(selector).first.bounding_box(), self.page.viewport_size
        assert area is not None
        assert size is not None
        top, bottom = max(0.0, area["y"]), min(float(size["height"]), area["y"] + area["height"])
        return area["x"] + area["width"] * across, top + (bottom - top) * down

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def open(self, tab: str, painted: str) -> float:
        """Click on a tab, and return the ms until an element of its view has been painted."""
        from driver import open_tab  # noqa: PLC0415 - found by the path above

        open_tab(self.root, tab)
        return self.painted(painted)

    def painted(self, selector: str) -> float:
        """Return the ms from the last press of the pointer until an element has been painted."""
        root = self.root.element_handle()
        return float(self.page.evaluate("([root, selector]) => __probe.sincePress(root, selector)", [root, selector]))

    def settle(self) -> None:
        """Wait until nothing is left to draw."""
        self.page.wait_for_timeout(SETTLED_MS)
        self.page.evaluate("__probe.afterPaint()")

    def counters(self) -> dict[str, float]:
        """Return the browser's counters by name; durations are in seconds."""
        metrics = self._devtools.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: metric["value"] for metric in metrics}

    def heap_bytes(self) -> float:
        """Return the bytes of live JavaScript objects, after a garbage collection."""
        self._devtools.send("HeapProfiler.collectGarbage")
        return self.counters()["JSHeapUsedSize"]

    def detached_nodes(self) -> int:
        """Return how many trees of nodes are in no document but kept by scripts."""
        return len(self._devtools.send("DOM.getDetachedDomNodes")["detachedNodes"])

    def long_tasks(self) -> list[float]:
        """Return the ms of the tasks over 50 ms since the last call."""
        return [float(task) for task in self.page.evaluate("__probe.takeLongTasks()")]

    def measure(self, act: Act) -> Cost:
        """Do an act some times for its frames, then some times for its processor time."""
        act.prepare(self)
        self.settle()
        rounds = [self._gaps(act, at * act.inputs) for at in range(ROUNDS)]
        gaps = min((Spread.of(gaps) for gaps in rounds), key=lambda spread: (spread.p95, spread.most))
        first = ROUNDS * act.inputs
        scripts, tasks = zip(*(self._time(act, first + at) for at in range(SINGLE_INPUTS)), strict=True)
        act.finish(self)
        return Cost(gaps=gaps, script=Spread.of(scripts), tasks=Spread.of(tasks))

    def idle_gaps(self) -> Spread:
        """Return the gaps between frames while nothing is done, which is the least that this machine can do."""
        self.page.evaluate("__probe.startFrames()")
        self.page.wait_for_timeout(1_500)
        return Spread.of(self._stop_frames())

    def time_of(self, act: Callable[[], None]) -> tuple[float, float]:
        """Return the ms of processor time that an act and its picture take: in scripts, and in all tasks."""
        before = self.counters()
        act()
        self.page.evaluate("__probe.afterPaint()")
        after = self.counters()
        script, tasks = ((after[name] - before[name]) * 1e3 for name in ("ScriptDuration", "TaskDuration"))
        return script, tasks

    def _time(self, act: Act, at: int) -> tuple[float, float]:
        return self.time_of(lambda: act.do(self, at))

    def _gaps(self, act: Act, first: int) -> Sequence[float]:
        if not act.is_stream:
            return [self._longest_gap(act, first + at) for at in range(act.inputs)]
        self.page.evaluate("__probe.startFrames()")
        for at in range(act.inputs):
            act.do(self, first + at)
        return self._stop_frames()

    def _longest_gap(self, act: Act, at: int) -> float:
        self.page.evaluate("__probe.startFrames()")
        act.do(self, at)
        # The frame after the one with the answer tells how long that one took.
        self.page.evaluate("__probe.afterPaint().then(__probe.afterPaint).then(__probe.afterPaint)")
        return max(self._stop_frames())

    def _stop_frames(self) -> list[float]:
        return [float(gap) for gap in self.page.evaluate("__probe.stopFrames()")]
