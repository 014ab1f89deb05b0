"""What can go wrong when a trace is stored?"""

from __future__ import annotations

from torchprof_magic.errors import TorchProfError


class StoreError(TorchProfError):
    """A trace could not be stored or uploaded; the file it was to come from is still there."""
