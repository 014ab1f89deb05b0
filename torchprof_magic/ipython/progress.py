"""How far is the recording? One bar that goes through wait, warm-up and active, and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.display import display
from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook

if TYPE_CHECKING:
    from torchprof_magic.capture import Progress

_WORDS = {"wait": "waiting", "warmup": "warming up", "active": "recording", "done": "done"}


class ProgressBar:
    """A bar over the steps of the schedule; it appears with the first step and goes when the recording is done."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._place: Any = None
        self._is_closed = False

    def __call__(self, progress: Progress) -> None:
        """Show how far the recording is."""
        if self._is_closed:
            return
        if progress.phase == "done":
            self.close()
            return
        if self._bar is None:
            self._show(progress.total)
        self._bar.set_description_str(f"torchprof: {_WORDS[progress.phase]}", refresh=False)
        self._bar.update(progress.step - self._bar.n)

    def close(self) -> None:
        """Take the bar away; can be called twice."""
        self._is_closed = True
        bar, self._bar = self._bar, None
        if bar is None:
            return
        bar.total = None  # a bar closed before its end would turn red and stay
        bar.close()
        if self._place is not None:
            # A saved notebook must not point to a widget that is gone.
            self._place.update({"text/plain": ""}, raw=True)

    def _show(self, total: int | None) -> None:
        options = {"total": total, "leave": False, "unit": "step"}
        if not issubclass(tqdm, tqdm_notebook):
            self._bar = tqdm(**options, dynamic_ncols=True)
            return
        self._bar = tqdm(**options, display=False)
        self._place = display(self._bar.container, display_id=True)  # type: ignore[no-untyped-call]
