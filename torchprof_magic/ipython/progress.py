"""Progress bars for recording and reading, removed from the output when they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.display import display
from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook

if TYPE_CHECKING:
    from torchprof_magic.capture import Progress

LARGE_BYTES = 20 << 20  # takes half a second to read, longer when compressed
# What comes after the recorded steps.
_AFTERWARDS = ("ending", "reading", "showing")
_WORDS = {
    "wait": "waiting",
    "warmup": "warming up",
    "active": "recording",
    "ending": "ending and saving the recording",
    "reading": "reading the trace",
    "showing": "making the report",
}


class _Bar:
    """A tqdm bar, as a widget where the notebook shows widgets, that leaves nothing in the output."""

    def __init__(self, **options: Any) -> None:
        self._place: Any = None
        # With miniters above 1, tqdm's monitor thread would draw during a long recording.
        options |= {"leave": False, "miniters": 1}
        if not issubclass(tqdm, tqdm_notebook):
            self.tqdm = tqdm(**options, dynamic_ncols=True)
            return
        self.tqdm = tqdm(**options, display=False)
        self._place = display(self.tqdm.container, display_id=True)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self.tqdm.total = None  # a bar closed before its end would turn red and stay
        self.tqdm.close()
        if self._place is not None:
            # A saved notebook must not point to a widget that is gone. An output without any form takes no room.
            self._place.update({}, raw=True)
            self._forget()

    def _forget(self) -> None:
        """Close the parts of the bar too: tqdm closes their box alone, and a kernel keeps every open widget."""
        box = self.tqdm.container
        for widget in (*box.children, box):
            for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
                if part is not None:
                    part.close()


class ProgressBar:
    """A bar over the steps of the schedule, shown from the first step until the recording is done.

    After it, the bar says what the report still takes, if it is told; the conductor tells it if that takes long.
    """

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._is_closed = False

    def __call__(self, progress: Progress) -> None:
        """Show how far the recording is, or the report."""
        is_stage = progress.phase in _AFTERWARDS
        if progress.phase == "done" or (progress.phase == "showing" and not issubclass(tqdm, tqdm_notebook)):
            self.close()  # a terminal would write the report into the line of the bar
            return
        if self._is_closed and not is_stage:
            return
        if self._bar is None:
            self._bar = _Bar(bar_format="{desc}") if self._is_closed else _Bar(total=progress.total, unit="step")
        bar = self._bar.tqdm
        words = _WORDS[progress.phase]
        if not is_stage:
            bar.update(progress.step - bar.n)
        # It is drawn at once if nothing else will be drawn for a while.
        text = f"{words} ({progress.note})" if progress.note else words
        bar.set_description_str(f"torchprof: {text}", refresh=is_stage or bool(progress.note))

    def close(self) -> None:
        """Take the bar away; can be called twice."""
        self._is_closed = True
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


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
