"""A trace as far as it can be believed: clocks set right, impossible ends cut off, steps without their work set aside.

The file and the trace that was read from it stay as they are; analyses look at the believable one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

import numpy as np
import polars as pl

from torchprof_magic.facts.device.coverage import loss_of
from torchprof_magic.facts.device.plausible import impossible_times
from torchprof_magic.model.intervals import nest
from torchprof_magic.model.rows import filled
from torchprof_magic.model.trace import DEVICE_CATEGORIES

if TYPE_CHECKING:
    from torchprof_magic.facts.device.plausible import Impossible
    from torchprof_magic.model.trace import Trace

# A believable trace keeps alive what it was made of, and is itself kept alive by nobody here.
_recorded: WeakKeyDictionary[Trace, Trace] = WeakKeyDictionary()
_believable: WeakKeyDictionary[Trace, ref[Trace]] = WeakKeyDictionary()
_ON_DEVICE = (*DEVICE_CATEGORIES, "gpu_user_annotation")


def believable(trace: Trace) -> Trace:
    """Return the trace as far as it can be believed; the same one if nothing is wrong with it.

    Rows keep their places. A step in which work of a device is missing is not complete, where another one is.
    """
    if trace in _recorded:
        return trace
    made = _believable[trace]() if trace in _believable else None
    if made is not None:
        return made
    found, lossy = impossible_times(trace), loss_of(trace).steps
    complete = trace.steps["complete"].to_numpy()
    is_lossy = np.isin(trace.steps["number"].to_numpy(), lossy) & complete
    if not (found.clocks or len(found.clipped) or is_lossy.any()):
        return trace
    events = _with_believable_times(trace.events, found)
    steps = trace.steps.with_columns(pl.Series("complete", complete & ~is_lossy))
    result = replace(trace, events=events, steps=steps)
    _recorded[result], _believable[trace] = trace, ref(result)
    return result


def as_recorded(trace: Trace) -> Trace:
    """Return the trace that a believable one was made of, as it is in the file."""
    return _recorded.get(trace, trace)


def _with_believable_times(events: pl.DataFrame, found: Impossible) -> pl.DataFrame:
    start, dur = events["start_ns"].to_numpy().copy(), events["dur_ns"].to_numpy().copy()
    dur[found.clipped] = found.end_ns - start[found.clipped]
    is_work = events["category"].is_in(_ON_DEVICE).to_numpy()
    cycle, device = events["cycle"].to_numpy(), filled(events["device"], 0)
    for clock in found.clocks:
        here = is_work & (cycle == clock.cycle) & (device == clock.device)
        start[here] = np.maximum(start[here] - clock.ahead_ns, 0)
    events = events.with_columns(pl.Series("start_ns", start), pl.Series("dur_ns", dur))
    if len(found.clipped) == 0:
        return events
    # What lay inside the part that was cut off does so no longer. Streams come after threads, each as a block of rows.
    parent, depth, overlaps = nest(events["lane"].to_numpy(), start, dur)
    return events.with_columns(
        pl.Series("parent", np.where(is_work, parent, events["parent"].to_numpy()), dtype=pl.Int32),
        pl.Series("depth", np.where(is_work, depth, events["depth"].to_numpy()), dtype=pl.Int32),
        pl.Series("overlaps", np.where(is_work, overlaps, events["overlaps"].to_numpy())),
    )
