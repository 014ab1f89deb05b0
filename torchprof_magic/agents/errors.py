"""What a tool says when it cannot answer."""

from __future__ import annotations

from torchprof_magic.model.errors import TorchProfError


class ToolError(TorchProfError):
    """A tool cannot answer; the message says why, and what to ask instead."""
