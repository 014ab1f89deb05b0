"""How much is tried: a sample with ``make test``, where a whole takes long, and everything with ``make thorough``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

IS_WHOLE = os.environ.get("TORCHPROF_TESTS") == "whole"
# One example in so many is tried in a sample.
SAMPLE = 3


T = TypeVar("T")


def sampled(cases: Sequence[T]) -> Sequence[T]:
    """Return all cases, or the first and every third after it in a sample."""
    return cases if IS_WHOLE else cases[::SAMPLE]


def examples(count: int) -> int:
    """Return how many of so many examples to try."""
    return count if IS_WHOLE else count // SAMPLE
