"""How much is tried: a sample with ``make test``, where a whole takes long, and everything with ``make thorough``."""

from __future__ import annotations

import os

IS_WHOLE = os.environ.get("TORCHPROF_TESTS") == "whole"
# One example in so many is tried in a sample.
SAMPLE = 3


def examples(count: int) -> int:
    """Return how many of so many examples to try."""
    return count if IS_WHOLE else count // SAMPLE
