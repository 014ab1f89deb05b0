"""The callback for the ``Trainer`` of Transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from torchprof_magic.trainers.steps import TrainerSteps


class TransformersCallback(TrainerCallback):
    """Makes a step of each update of the weights; see ``torchprof_magic.callbacks.hf``."""

    def __init__(self, steps: TrainerSteps) -> None:
        self._steps = steps
        self._has_begun = False

    @property
    def report(self) -> Any:
        """The report of the training. Raises ``CaptureError`` before its end, or if there is none."""
        return self._steps.report()

    def stop(self) -> None:
        """End the recording of a training that has failed; does nothing if it has ended."""
        self._steps.run(self._steps.leave)

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Note that a training begins; an evaluation may come before its first step."""
        self._has_begun = False

    def on_epoch_begin(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Begin to record, or begin the next step after an evaluation."""
        if self._has_begun:
            self._steps.run(self._steps.begin_epoch)
        else:
            self._has_begun = True
            self._steps.run(lambda: self._steps.begin(_steps_left(state)))

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Begin a step, if a rest has not ended before."""
        self._steps.run(self._steps.go_to_work)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a step. Gradients of all its batches were accumulated, and the optimizer has stepped."""
        self._steps.run(lambda: self._steps.step(rests=_is_evaluated_next(args, state, control)))

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        """End a step in which an evaluation begins that was not announced."""
        self._steps.run(self._steps.rest)

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        """Begin the next step after an evaluation."""
        self._steps.run(self._steps.go_to_work)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End the recording, and make the report."""
        self._steps.run(self._steps.end)


def _steps_left(state: Any) -> int | None:
    left = int(state.max_steps) - int(state.global_step)
    return left if left > 0 else None


def _is_evaluated_next(args: Any, state: Any, control: Any) -> bool:
    """Return whether the trainer evaluates before it trains on: it has said so, or does so after each epoch."""
    strategy = getattr(args, "eval_strategy", "no")
    is_each_epoch = str(getattr(strategy, "value", strategy)) == "epoch"
    return bool(control.should_evaluate) or (is_each_epoch and float(state.epoch or 0.5).is_integer())
