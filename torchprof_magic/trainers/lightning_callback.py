"""The callback for the ``Trainer`` of ``lightning.pytorch``."""

from __future__ import annotations

from lightning.pytorch import Callback

from torchprof_magic.trainers.lightning_hooks import LightningHooks


class LightningCallback(LightningHooks, Callback):
    """See ``torchprof_magic.callbacks.lightning``."""
