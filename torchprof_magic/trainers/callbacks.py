"""``torchprof_magic.callbacks``: makes the callbacks of trainers, and imports their libraries only then."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torchprof_magic.system.process.imports import import_whole
from torchprof_magic.trainers.steps import TrainerSteps

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torchprof_magic.options import Keywords

__all__ = ["accelerate", "hf", "lightning"]

_ROOM = __name__.rpartition(".")[0]


def hf(**options: Unpack[Keywords]) -> Any:
    """Return a callback of Transformers that records a training: ``Trainer(..., callbacks=[tp.callbacks.hf()])``.

    Each update of the weights is a step: with gradient accumulation, a step has several batches. Evaluation is in no
    step. The recording ends with the training; ``callback.report`` is its report. Inside ``%%torchprof``, or in the
    block of a ``profile()``, the callback makes the steps of that recording, and ``options`` are not used.

    A training that fails is reported until there when its cell ends, when ``callback.report`` or ``callback.stop()`` is
    asked for, or when the next recording begins. An error in the callback is a message, and the training goes on.

    Args:
        **options: Those of ``profile()``.

    Raises:
        ImportError: Transformers is not installed.
        OptionsError: A value is out of range.

    """
    made = _library("transformers", "transformers_callback", "pip install 'transformers[torch]'")
    return made.TransformersCallback(TrainerSteps("hf", options))


def lightning(**options: Unpack[Keywords]) -> Any:
    """Return a ``Callback`` of Lightning that records a training: ``Trainer(callbacks=[tp.callbacks.lightning()])``.

    It is one of ``lightning.pytorch``, or of ``pytorch_lightning`` where only that is installed or imported. Each batch
    after which the weights were updated ends a step: with ``accumulate_grad_batches``, a step has several batches.
    With manual optimization, each batch is a step. The sanity check and validation are in no step. All else is as for
    ``hf()``, but a training that fails is reported at once.

    Args:
        **options: Those of ``profile()``.

    Raises:
        ImportError: Lightning is not installed.
        OptionsError: A value is out of range.

    """
    steps = TrainerSteps("lightning", options)
    names = ["lightning", "pytorch_lightning"]
    if names[1] in sys.modules and "lightning.pytorch" not in sys.modules:
        names.reverse()
    try:
        made = _library(names[0], f"{names[0]}_callback", _LIGHTNING)
    except ImportError as missing:
        try:
            made = _library(names[1], f"{names[1]}_callback", _LIGHTNING)
        except ImportError:
            raise missing from None
    return made.LightningCallback(steps)


_LIGHTNING = "pip install lightning"


def accelerate(**options: Unpack[Keywords]) -> Any:
    """Return a ``ProfileKwargs`` of Accelerate: ``with accelerator.profile(tp.callbacks.accelerate()) as p:``.

    Accelerate has no trainer and no callbacks: the loop is your own, and ``p`` is a ``profile()``. Call ``p.step()`` at
    the end of each iteration, or loop over ``p.steps(...)``. ``Accelerator(kwargs_handlers=...)`` takes no handlers
    of other classes than its own. ``p.report``, or that of what is returned here, is the report. Inside
    ``%%torchprof``, ``p.step()`` makes the steps of that recording.

    Args:
        **options: Those of ``profile()``.

    Raises:
        ImportError: Accelerate is not installed.
        OptionsError: A value is out of range.

    """
    made = _library("accelerate", "accelerate_handler", "pip install accelerate")
    return made.AccelerateHandler(TrainerSteps("accelerate", options))


def _library(name: str, module: str, install: str) -> Any:
    """Return the module that makes something of a library; raises ``ImportError`` that says what to install."""
    try:
        return import_whole(f"{_ROOM}.{module}")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != name:
            raise
        raise ImportError(f"{name} is not installed. Install it with: {install}", name=name) from exc
