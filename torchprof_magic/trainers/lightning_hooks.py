"""What Lightning's trainer tells a callback, for ``lightning.pytorch`` and ``pytorch_lightning`` alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchprof_magic.trainers.steps import TrainerSteps


class LightningHooks:
    """Makes a step of each update of the weights; see ``torchprof_magic.callbacks.lightning``."""

    def __init__(self, steps: TrainerSteps) -> None:
        self._steps = steps
        self._updates = 0
        self._has_epoch = False

    @property
    def report(self) -> Any:
        """The report of the training. Raises ``CaptureError`` before its end, or if there is none."""
        return self._steps.report()

    def stop(self) -> None:
        """End the recording of a training that has failed; does nothing if it has ended."""
        self._steps.run(self._steps.leave)

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Begin to record."""
        self._has_epoch = False
        self._steps.run(self._begin, trainer)

    def on_train_epoch_start(self, *_: Any) -> None:
        """Begin the next step after a validation, in another epoch."""
        if self._has_epoch:
            self._steps.run(self._steps.begin_epoch)
        self._has_epoch = True

    def on_train_batch_start(self, *_: Any) -> None:
        """Begin a step, if a rest has not ended before."""
        self._steps.run(self._steps.go_to_work)

    def on_train_batch_end(self, trainer: Any, module: Any, _outputs: Any, _batch: Any, number: int) -> None:
        """End a step, if the weights were updated after this batch."""
        self._steps.run(self._end_batch, trainer, module, number)

    def on_validation_start(self, trainer: Any, *_: Any) -> None:
        """End a step in which a validation begins that was not foreseen."""
        if not trainer.sanity_checking:
            self._steps.run(self._steps.rest)

    def on_validation_end(self, *_: Any) -> None:
        """Begin the next step after a validation."""
        self._steps.run(self._steps.go_to_work)

    def on_train_end(self, *_: Any) -> None:
        """End the recording, and make the report."""
        self._steps.run(self._steps.end)

    def on_exception(self, *_: Any) -> None:
        """End the recording in the middle of a step, and make the report."""
        self._steps.run(self._steps.leave)

    def _begin(self, trainer: Any) -> None:
        self._updates = trainer.global_step
        left = trainer.estimated_stepping_batches
        self._steps.begin(int(left) - self._updates if math.isfinite(left) and left > self._updates else None)

    def _end_batch(self, trainer: Any, module: Any, number: int) -> None:
        updates, self._updates = self._updates, trainer.global_step
        if updates != trainer.global_step or not module.automatic_optimization:
            self._steps.step(rests=_is_validated_next(trainer, number))


def _is_validated_next(trainer: Any, number: int) -> bool:
    """Return whether a validation follows the batch of this number, as far as the trainer's settings tell."""
    every = trainer.check_val_every_n_epoch
    if not trainer.enable_validation or (every is not None and (trainer.current_epoch + 1) % every):
        return False
    is_in_epoch = math.isfinite(trainer.val_check_batch or math.inf) and (number + 1) % trainer.val_check_batch == 0
    return bool(trainer.is_last_batch or is_in_epoch)
