"""How busy other programs keep the machine while this one runs, which makes its steps longer."""

from __future__ import annotations

from typing import NamedTuple

import psutil

# The system counts in ticks of 10 ms. Below ten of them on every core, chance decides.
_LEAST_S = 0.1
# Time of guests is in that of the programs that run them; what else a system names is time that a core works.
_NOT_WORK = ("idle", "iowait", "guest", "guest_nice")


class OtherPrograms:
    """Measures, from its creation on, what other programs take of all cores of the machine."""

    def __init__(self) -> None:
        self._begin = _cpu_seconds()

    def share(self) -> float | None:
        """Return the part of the time of all cores that other programs took, 0 to 1, or ``None`` if it is not known.

        Processes that this one started count as its own. Less than 0.1 s is too short to tell.
        """
        begin, end = self._begin, _cpu_seconds()
        if begin is None or end is None:
            return None
        machine = end.machine - begin.machine
        if machine < _LEAST_S * (psutil.cpu_count() or 1):
            return None
        others = (end.busy - begin.busy) - (end.own - begin.own)
        return min(1.0, max(0.0, others / machine))


class _CpuSeconds(NamedTuple):
    """Seconds that the machine's cores have been there, that they worked, and that they worked for this process."""

    machine: float
    busy: float
    own: float


def _cpu_seconds() -> _CpuSeconds | None:
    try:
        times = psutil.cpu_times()._asdict()
        own = _own_seconds()
    except (psutil.Error, OSError):
        return None
    busy = sum(seconds for name, seconds in times.items() if name not in _NOT_WORK)
    return _CpuSeconds(busy + times.get("idle", 0.0) + times.get("iowait", 0.0), busy, own)


def _own_seconds() -> float:
    process = psutil.Process()
    # Those of children that have ended are in the times of their parent.
    total = sum(process.cpu_times()[:4])
    for child in process.children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.Error:  # it ended meanwhile
            continue
    return float(total)
