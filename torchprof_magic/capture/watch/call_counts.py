"""How many Python calls a recording holds: from torch's own lists, as Python's monitoring counts them, or from memory.

The best way that works here is taken. torch's lists are exact and cost nothing, but are found on Linux only, and only
as long as torch lays them out as it does. ``sys.monitoring`` (Python 3.12) counts exactly and adds 60 to 130 ns to a
call. Else it is known how much the process has grown, and so how many calls there are at most.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol

from torchprof_magic.capture.torch_api.python_tracer import PythonCalls, is_traced
from torchprof_magic.model.units import counted, format_file_size
from torchprof_magic.system.process.memory import Growth

# torch keeps 24 bytes for each call while it records.
CALL_BYTES: Final = 24
# A program grows by itself, too. Below this, its growth does not tell that it made many calls.
LEAST_GROWTH_BYTES: Final = 16_000_000
NO_LIMIT: Final = "Stacks have no limit."
_TOOL_IDS: Final = range(5, -1, -1)  # debuggers, coverage and profilers take the first
_TOOL_NAME: Final = "torchprof"


class CallCount(Protocol):
    """Counts the Python calls of one recording."""

    def count(self) -> int | None:
        """Return how many calls there were; None where that is not known. It can be asked on any thread."""

    def close(self) -> None:
        """Count no more; can be called twice."""


class MonitoredCalls:
    """Counts calls with ``sys.monitoring``: those of all threads, of functions and of builtins.

    Python calls what counts for each of them, so it is made of C functions alone: they are in no recording.
    Raises ``LookupError`` where Python has no monitoring, or other tools use all of it.
    """

    def __init__(self) -> None:
        self._monitoring: Any = getattr(sys, "monitoring", None)
        if self._monitoring is None:
            raise LookupError("this Python has no sys.monitoring")
        free = [number for number in _TOOL_IDS if self._monitoring.get_tool(number) is None]
        if not free:
            raise LookupError("other tools use all of sys.monitoring")
        self._id = free[0]
        # Counts its calls, and takes any arguments.
        self._counter = lru_cache(maxsize=0)("".format)
        self._monitoring.use_tool_id(self._id, _TOOL_NAME)
        events = self._monitoring.events
        for event in (events.PY_START, events.PY_RESUME, events.C_RETURN, events.C_RAISE):
            self._monitoring.register_callback(self._id, event, self._counter)
        # Python tells of returns from C only with its calls.
        self._monitoring.set_events(self._id, events.PY_START | events.PY_RESUME | events.CALL)

    def count(self) -> int:
        """Return how many calls there were."""
        return self._counter.cache_info().misses

    def close(self) -> None:
        """Count no more; can be called twice."""
        monitoring, self._monitoring = self._monitoring, None
        if monitoring is not None:
            monitoring.set_events(self._id, 0)
            monitoring.free_tool_id(self._id)


class CallsByMemory:
    """Counts how many calls there are at most, by how much the process has grown; none while it has grown a little."""

    def __init__(self) -> None:
        self._growth = Growth()
        self._growth.begin()

    def count(self) -> int:
        """Return how many calls there were at most."""
        grown_bytes = self._growth.grown_bytes()
        return grown_bytes // CALL_BYTES if grown_bytes >= LEAST_GROWTH_BYTES else 0

    def close(self) -> None:
        """Count no more; can be called twice."""
        self._growth.end()


class Counting(NamedTuple):
    """How calls are counted, None if they are not.

    ``lack`` says why they cannot be counted exactly, empty if they are, and ``instead`` what limits stacks then.
    ``bound`` comes before the count: empty if it is exact, else "at least" or "up to".
    """

    calls: CallCount | None
    lack: str = ""
    instead: str = ""
    bound: Literal["", "at least ", "up to "] = ""


def count_calls(limit: int, threads: int) -> Counting:
    """Begin to count the Python calls that torch records on ``threads``, until there are ``limit`` of them."""
    if not is_traced():
        return Counting(None, lack="torch's tracer of Python calls was not found", instead=NO_LIMIT)
    own = PythonCalls()
    if own.is_known and own.threads >= threads:
        return Counting(own)
    lack = "torch's own count is read on Linux only" if sys.platform != "linux" else "torch's own count was not found"
    if own.is_known:
        lack = f"torch's own count was found of {own.threads} of {counted(threads, 'thread')} only"
    try:
        monitored = MonitoredCalls()
    except LookupError as exc:
        if own.is_known:
            return Counting(
                own, lack=f"{lack}, and {exc}", instead="Those of the others do not count.", bound="at least "
            )
        own.close()
        most_bytes = max(limit * CALL_BYTES, LEAST_GROWTH_BYTES)
        return Counting(
            CallsByMemory(),
            lack=f"{lack}, and {exc}",
            instead=f"Stacks end when the process has grown by {format_file_size(most_bytes)}, not after {limit:,} "
            "calls.",
            bound="up to ",
        )
    own.close()
    return Counting(monitored)
