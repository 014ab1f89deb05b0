"""How far is the recording? One bar that goes through wait, warm-up and active, and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook

if TYPE_CHECKING:
    from torchprof_magic.capture import Progress

_WORDS = {"wait": "waiting", "warmup": "warming up", "active": "recording", "done": "done"}


class ProgressBar:
    """A bar over the steps of the schedule; it appears with the first step and goes when the recording is done."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._is_closed = False

    def __call__(self, progress: Progress) -> None:
        """Show how far the recording is."""
        if self._is_closed:
            return
        if progress.phase == "done":
            self.close()
            return
        if self._bar is None:
            self._bar = _new_bar(progress.total)
        self._bar.set_description_str(f"torchprof: {_WORDS[progress.phase]}", refresh=False)
        self._bar.update(progress.step - self._bar.n)

    def close(self) -> None:
        """Take the bar away; can be called twice."""
        self._is_closed = True
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _new_bar(total: int | None) -> Any:
    return tqdm(total=total, leave=False, unit="step", dynamic_ncols=not issubclass(tqdm, tqdm_notebook))
