"""The handler with which ``accelerator.profile()`` of Accelerate makes a ``profile()`` of ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accelerate.utils import ProfileKwargs

from torchprof_magic.capture import live_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.trainers.steps import TrainerSteps


class AccelerateHandler(ProfileKwargs):
    """See ``torchprof_magic.callbacks.accelerate``."""

    def __init__(self, steps: TrainerSteps) -> None:
        super().__init__()
        self._steps = steps

    def build(self) -> Any:
        """Return the profiler of a block: a ``profile()``, or what makes the steps of a recording that runs already."""
        return self._steps.own_profile() if live_session() is None else _joined(self._steps)

    @property
    def report(self) -> Any:
        """The report of the block. Raises ``CaptureError`` before its end, or if there is none."""
        return self._steps.report()


class _Steps:
    """What a block gets whose steps are those of a recording that runs already."""

    def __init__(self, steps: TrainerSteps) -> None:
        self._steps = steps

    def step(self) -> None:
        """End a step; the first call begins the steps."""
        steps = self._steps
        steps.run(steps.step if steps.is_active else lambda: steps.begin(None))


@contextmanager
def _joined(steps: TrainerSteps) -> Iterator[_Steps]:
    yield _Steps(steps)
    if steps.is_active:
        steps.run(steps.end)
