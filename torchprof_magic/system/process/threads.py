"""The main thread, the only one that receives signals."""

from __future__ import annotations

import threading


def is_main_thread() -> bool:
    """Return whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()
