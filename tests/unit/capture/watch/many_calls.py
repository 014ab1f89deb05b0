"""A program that calls a function until its calls are no longer recorded."""

from __future__ import annotations

import sys

LIMIT = 5_000
# So many calls take far longer than the watch waits between two looks, and grow the process beyond its bound.
ENOUGH = 6_000_000


def function() -> None:
    """Be called."""


def call_until_stacks_end() -> int:
    """Call a function until Python calls are no longer recorded, and return how often."""
    for calls in range(ENOUGH):
        if sys.getprofile() is None:
            return calls
        function()
    raise AssertionError("stacks did not end")
