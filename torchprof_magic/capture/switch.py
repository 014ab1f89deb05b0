"""Switching off every profiler of this process, whoever started it."""

from __future__ import annotations

from torchprof_magic.capture import registry
from torchprof_magic.capture.interrupts.guard import protected
from torchprof_magic.capture.torch_api import compat


@protected
def switch_off() -> bool:
    """Stop our session and any torch profiler of this thread, and discard their data; return whether one was on."""
    had_session = registry.reclaim_live()
    had_other = compat.switch_off()
    return had_session or had_other
