"""How the installed torch counts, read from its source: importing it takes seconds, and a report does without."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from functools import cache
from pathlib import Path

_COUNTS = Path("autograd", "profiler_util.py")


@cache
def counts_python_functions() -> bool:
    """Return whether ``key_averages()`` has rows of Python functions where nobody asks for them.

    Newer versions of torch leave them out, and have an argument for them. Without a torch whose source can be read, the
    answer is that of those versions.
    """
    with suppress(OSError, ValueError, ImportError):
        found = importlib.util.find_spec("torch")
        if found is not None and found.origin is not None:
            source = Path(found.origin).parent / _COUNTS
            return "include_python_functions" not in source.read_text(encoding="utf-8")
    return False
