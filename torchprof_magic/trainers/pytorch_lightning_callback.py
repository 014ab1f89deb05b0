"""The callback for the ``Trainer`` of ``pytorch_lightning``."""

from __future__ import annotations

from pytorch_lightning import Callback

from torchprof_magic.trainers.lightning_hooks import LightningHooks


class LightningCallback(LightningHooks, Callback):
    """See ``torchprof_magic.callbacks.lightning``."""
