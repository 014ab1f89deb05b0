"""How torch.compile numbers what it compiles: ``3/1`` is the second compilation of the fourth function."""

from __future__ import annotations

import re

# Compiled autograd writes `!0/3/1`, and an attempt after the first `3/1_1`.
_REGION = re.compile(r"^(?P<frame>!?(?:[0-9]+/)?[0-9]+)/(?P<times>[0-9]+)(?:_[0-9]+)?$")


def region_of(compile_id: str) -> str:
    """Return a number as traces have it, without the attempt; empty for a text that is none."""
    match = _REGION.match(compile_id)
    return f"{match['frame']}/{match['times']}" if match else ""


def frame_of(region: str) -> str:
    """Return the number of the function; empty if it is not known."""
    match = _REGION.match(region)
    return match["frame"] if match else ""


def times_before(region: str) -> int:
    """Return how often the function had been compiled before."""
    match = _REGION.match(region)
    return int(match["times"]) if match else 0
