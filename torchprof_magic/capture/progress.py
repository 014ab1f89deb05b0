"""How far a running session is, as values."""

from __future__ import annotations

from dataclasses import dataclass

# What is done from the end of the loop to the report, in this order.
STAGES = ("ending", "saving", "checking", "reading", "showing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a running session is. ``total`` is the number of steps until the last cycle is complete, if known.

    ``phase`` is that of the recording, then one of ``STAGES``, and ``done``. ``note`` says more about it, if there is
    something to say; ``is_long`` is true where its size tells that it will take longer than 0.3 s.
    """

    phase: str
    step: int
    total: int | None
    note: str = ""
    is_long: bool = False
