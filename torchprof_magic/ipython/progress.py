"""Progress bars for recording and reading, removed from the output when they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.display import display
from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook

if TYPE_CHECKING:
    from torchprof_magic.capture import Progress

LARGE_BYTES = 20 << 20  # takes half a second to read, longer when compressed
_WORDS = {"wait": "waiting", "warmup": "warming up", "active": "recording", "done": "done"}


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
    """A bar over the steps of the schedule, shown from the first step until the recording is done."""

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._is_closed = False

    def __call__(self, progress: Progress) -> None:
        """Show how far the recording is."""
        if self._is_closed:
            return
        if progress.phase == "done":
            self.close()
            return
        if self._bar is None:
            self._bar = _Bar(total=progress.total, unit="step")
        bar = self._bar.tqdm
        bar.set_description_str(f"torchprof: {_WORDS[progress.phase]}", refresh=False)
        bar.update(progress.step - bar.n)

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
