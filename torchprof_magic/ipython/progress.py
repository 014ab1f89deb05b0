"""Progress bars for recording and reading, removed from the output when they are done."""

from __future__ import annotations

import math
import time
from _thread import allocate_lock
from html import escape
from typing import TYPE_CHECKING, Any, Final, Protocol

from IPython import get_ipython
from IPython.display import display
from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook

from torchprof_magic.capture import STAGES

if TYPE_CHECKING:
    from torchprof_magic.capture import Progress

LARGE_BYTES = 20 << 20  # takes half a second to read, longer when compressed
_WORDS = {
    "wait": "waiting",
    "warmup": "warming up",
    "active": "recording",
    "ending": "ending the recording",
    "saving": "saving the trace",
    "checking": "checking the trace",
    "reading": "reading the trace",
    "showing": "analysing the trace and making the report",
}
# What a report says of itself while the cell still runs.
_GOES_ON = "Still running; the report is completed when the loop ends"
_MORE_TO_COME = "Still running; more will be recorded"
_SAID_OF_STEPS = {"wait": _MORE_TO_COME, "warmup": _MORE_TO_COME, "active": "Still running; more is being recorded"}
# What is done within this time is not mentioned. Between two stages pass at most so many seconds.
_QUIET_S: Final = 0.3
_APART_S: Final = 0.2
# As far from the edge as printed lines are in JupyterLab.
_INSET_PX: Final = 8
# As high as a bar.
_BETWEEN: Final = '<div style="min-height: 28px"></div>'
# Longest wait until a kernel has sent a message.
_SENDING_S: Final = 0.1


class Teller(Protocol):
    """A live view that says what of it is still to come."""

    def tell(self, progress: str) -> None:
        """Say it; nothing if the report is complete."""


class _Bar:
    """A tqdm bar, as a widget where the notebook shows widgets, that leaves nothing in the output."""

    def __init__(self, **options: Any) -> None:
        self.place: Any = None
        # With miniters above 1, tqdm's monitor thread would draw during a long recording.
        options |= {"leave": False, "miniters": 1}
        if not issubclass(tqdm, tqdm_notebook):
            self.tqdm = tqdm(**options, dynamic_ncols=True)
            return
        self.tqdm = tqdm(**options, display=False)
        self.place = display(self.tqdm.container, display_id=True)  # type: ignore[no-untyped-call]

    def close(self, *, is_replaced: bool = False) -> None:
        """Take the bar away; ``is_replaced``: something else is in its place by now."""
        self.tqdm.total = None  # a bar closed before its end would turn red and stay
        self.tqdm.close()
        if self.place is not None:
            # A saved notebook must not point to a widget that is gone.
            if not is_replaced:
                _empty(self.place)
            self._forget()

    def _forget(self) -> None:
        """Close the parts of the bar too: tqdm closes their box alone, and a kernel keeps every open widget."""
        box = self.tqdm.container
        for widget in (*box.children, box):
            for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
                if part is not None:
                    part.close()


class _AfterLoop:
    """The time since the loop ended: since the first stage, but for stages between which the loop went on."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        self._left_s = -math.inf

    def enter(self) -> float:
        """Return the time in seconds at the beginning of a stage."""
        now_s = time.monotonic()
        if self._began_s is None or now_s - self._left_s > _APART_S:
            self._began_s = now_s
        self._left_s = math.inf
        return now_s - self._began_s

    def leave(self) -> None:
        """Be done with the stages so far."""
        self._left_s = min(self._left_s, time.monotonic())


class _Stage:
    """What is being done after the loop, in the place of the bar; it appears when that has taken 0.3 s.

    torch lets no other thread run while it ends and exports a recording, so no timer could show it meanwhile: the front
    end gets the text before, and has it appear later.
    """

    def __init__(self, place: Any) -> None:
        self.is_shown = False
        self._place = place

    def show(self, text: str, left_s: float) -> None:
        """Replace what is in the place by ``text``, which appears after ``left_s``, at once if that is over."""
        self.is_shown = True
        left_ms = max(round(left_s * 1000), 0)
        late = f"visibility: hidden; animation: torchprof-late 0s linear {left_ms}ms forwards"
        html = (
            "<style>@keyframes torchprof-late { to { visibility: visible } }</style>"
            f'<div style="padding-left: {_INSET_PX}px; {late if left_ms else ""}">{escape(text)}</div>'
        )
        self._place.update({"text/plain": text, "text/html": html}, raw=True)
        _send()

    def clear(self) -> None:
        """Take it away; can be called twice."""
        if self.is_shown:
            self.is_shown = False
            _empty(self._place)


def _empty(place: Any) -> None:
    """Leave nothing in an output: without any form it takes no room."""
    place.update({}, raw=True)


def _send() -> None:
    """Wait until the kernel has sent its messages, for which it has a thread."""
    thread = getattr(getattr(get_ipython(), "kernel", None), "iopub_thread", None)
    if thread is not None:
        is_sent = allocate_lock()
        is_sent.acquire()
        thread.schedule(is_sent.release)
        is_sent.acquire(timeout=_SENDING_S)


class ProgressBar:
    """A bar over the steps of the schedule, shown from the first step until the recording is done.

    After it, the output says what is being done until the report is there, and how far that is, once it has taken
    0.3 s. A terminal says it where that is known to take long, or has taken so long. A report that is there while the
    cell still runs takes the place of the bar, and says these things itself.
    """

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._place: Any = None
        self._stage: _Stage | None = None
        self._after = _AfterLoop()
        self._is_closed = self._is_shown = False
        self._report: Teller | None = None
        self._said = ""
        # A report takes the place from another thread.
        self._lock = allocate_lock()

    def __call__(self, progress: Progress) -> None:
        """Show how far the recording is, or the report."""
        with self._lock:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        if progress.phase == "done":
            self._close()
            self._say("" if self._is_shown else _GOES_ON)
        elif progress.phase in STAGES:
            self._show_stage(progress)
        elif not self._is_closed:
            self._show_step(progress)

    def give_place_to(self, report: Teller) -> bool:
        """Show a live view in the place of the bar; returns False where there is none. Called on another thread."""
        with self._lock:
            if self._place is None:
                return False
            report.tell(self._said)
            # JupyterLab shows two widgets in turn in one box, and hides it when the first is closed: so not in turn.
            self._place.update({"text/plain": "", "text/html": _BETWEEN}, raw=True)
            self._place.update(report)
            self._report, self._stage = report, None
            return True

    def lose_place(self) -> None:
        """The cell has cleared its output."""
        with self._lock:
            self._report = self._place = self._stage = None

    def _say(self, text: str) -> None:
        """Have the report say how far it is, if there is one; later ones begin with it."""
        self._said = text
        if self._report is not None:
            self._report.tell(text)

    def _show_step(self, progress: Progress) -> None:
        self._say(_SAID_OF_STEPS[progress.phase])
        if self._bar is None:
            self._bar = _Bar(total=progress.total, unit="step")
            self._place = self._bar.place
            self._stage = None if self._place is None else _Stage(self._place)
        bar = self._bar.tqdm
        bar.update(progress.step - bar.n)
        # It is drawn at once if nothing else will be drawn for a while.
        bar.set_description_str(f"torchprof: {_text_of(progress)}", refresh=bool(progress.note))

    def _show_stage(self, progress: Progress) -> None:
        text = f"{_text_of(progress)}, {STAGES.index(progress.phase) + 1} of {len(STAGES)}"
        left_s = _QUIET_S - self._after.enter()
        self._is_shown = progress.phase == STAGES[-1]
        if self._report is not None:
            self._say(text[:1].upper() + text[1:])
            _send()
        elif self._stage is not None:
            self._stage.show(f"torchprof: {text}", left_s)
        elif progress.phase == "showing":
            self._close()  # a terminal would write the report into the line of the bar
        elif progress.is_long or left_s <= 0:
            self._bar = self._bar or _Bar(bar_format="{desc}")
            self._bar.tqdm.set_description_str(f"torchprof: {text}", refresh=True)

    def end(self) -> None:
        """Take the bar away, and leave what is said of the report; can be called twice."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Take everything away but the report; can be called twice."""
        with self._lock:
            self._close()
            self._say("")

    def _end(self) -> None:
        self._is_closed = True
        bar, self._bar = self._bar, None
        if bar is not None:
            is_replaced = self._report is not None or (self._stage is not None and self._stage.is_shown)
            bar.close(is_replaced=is_replaced)

    def _close(self) -> None:
        self._after.leave()
        try:
            self._end()
        finally:
            if self._stage is not None:
                self._stage.clear()


def _text_of(progress: Progress) -> str:
    words = _WORDS[progress.phase]
    return f"{words} ({progress.note})" if progress.note else words


class ReadingBar:
    """A bar over the bytes of a file that is being read; shown only for large files."""

    def __init__(self) -> None:
        self._bar: _Bar | None = None

    def __call__(self, read_bytes: int, total_bytes: int) -> None:
        """Show how far the reading is."""
        if total_bytes < LARGE_BYTES:
            return
        if self._bar is None:
            self._bar = _Bar(total=total_bytes, unit="B", unit_scale=True, desc="torchprof: reading")
        self._bar.tqdm.update(read_bytes - self._bar.tqdm.n)

    def close(self) -> None:
        """Take the bar away; can be called twice."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()
