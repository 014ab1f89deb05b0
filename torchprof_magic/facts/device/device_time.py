"""How the summed time of device work comes about: from busy time, work at the same time, and work outside of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.counted_steps import counted_part, has_counted_steps, strictly_counted
from torchprof_magic.facts.device.busy import device_intervals
from torchprof_magic.facts.shared import once_for_the_whole
from torchprof_magic.model.intervals import union_ns
from torchprof_magic.model.shapes import DeviceTime

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace


@once_for_the_whole
def device_time(trace: Trace, part: TimeRange) -> DeviceTime | None:
    """Return of what the summed time of device work in a part consists; None without any.

    Of the part that holds the steps that count, what runs outside of these steps is apart. Busy time is that of all
    devices together.
    """
    strict = strictly_counted(trace) if part == counted_part(trace) else part
    busy_ns, inside_ns, whole_ns, devices = 0, 0, 0, 0
    for _, start, end in device_intervals(trace):
        begin, dur = strict.cut(start, end - start)
        of_part = int(part.cut(start, end - start)[1].sum())
        devices += of_part > 0
        whole_ns += of_part
        inside_ns += int(dur.sum())
        busy_ns += union_ns(begin, begin + dur)
    if whole_ns == 0:
        return None
    return DeviceTime(
        devices=devices,
        busy_ns=busy_ns,
        overlap_ns=inside_ns - busy_ns,
        outside_ns=whole_ns - inside_ns,
        has_steps=has_counted_steps(trace),
    )
