"""How much is tried: a sample with ``make test``, and the whole with ``make thorough``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

IS_WHOLE = os.environ.get("TORCHPROF_TESTS") == "whole"
# One example in so many is tried in a sample.
SAMPLE = 5
# A test, or a case of one, that only `make thorough` runs. A cheaper one of the same promise is in the sample.
thorough = pytest.mark.thorough


T = TypeVar("T")


def sampled(cases: Sequence[T], one_in: int = SAMPLE) -> Sequence[T]:
    """Return all cases, or in a sample the first and every fifth (or ``one_in``) after it."""
    return cases if IS_WHOLE else cases[::one_in]


def examples(count: int) -> int:
    """Return how many of so many examples to try."""
    return count if IS_WHOLE else count // SAMPLE
