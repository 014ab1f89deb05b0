"""How near the limit of its device work is: the time that it would take at the roof, and the time above that.

The roof of a piece of work is the longer of two times: that of its operations at the peak of their type, and that of
its bytes at the bandwidth of the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.ops.op_work import timed_work
from torchprof_magic.facts.shared import device_numbers, device_rows, in_category, once_per_trace
from torchprof_magic.model.dtypes import KINDS
from torchprof_magic.model.peaks import CPU, Peak, peak_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

    Floats = npt.NDArray[np.float64]

_NS = 1e9


class Roofline(NamedTuple):
    """Pieces of recorded time with known work, one per kernel, or per op on the host.

    ``row`` is the event and ``op`` that of its op. ``roof_ns`` is how long the work takes at the roof, nan where the
    peak of the device or the bytes are not known; ``is_compute`` is set where its operations take longer than its
    bytes. ``flops`` and ``bytes`` are nan where they are not known. ``share`` is the part of its call that a piece is.
    """

    row: IntArray
    op: IntArray
    start_ns: IntArray
    dur_ns: IntArray
    flops: Floats
    bytes: Floats
    roof_ns: Floats
    is_compute: BoolArray
    kind: IntArray
    is_matrix: BoolArray
    share: Floats

    def at_roof(self) -> Floats:
        """Return the share of each piece that the work would take at the roof, at most 1; nan if it is not known."""
        return np.minimum(self.roof_ns / np.maximum(self.dur_ns, 1), 1.0)


def device_name(trace: Trace, device: int) -> str:
    """Return the name of a device, the only one that the machine has if it is not known which; of the CPU without."""
    meta = trace.meta
    if not trace.has_device:
        return meta.cpu_model or CPU
    named = dict(meta.devices).get(device, "")
    if peak_of(named) is None and len(meta.device_names) == 1:
        return meta.device_names[0]
    return named


def peak_of_device(trace: Trace, device: int) -> Peak | None:
    """Return the peak of a device of a trace, by its number, or of the processor; None if it is not known."""
    return peak_of(device_name(trace, device))


@once_per_trace
def roofline(trace: Trace) -> Roofline:
    """Return all time with known work, and how long that takes at the roof."""
    work = timed_work(trace)
    device = device_numbers(trace)[work.row].astype(np.int64)
    rate, bandwidth = _rates(trace, device, work.kind, work.is_matrix)
    with np.errstate(divide="ignore", invalid="ignore"):
        compute_ns = np.where((work.flops > 0) & (rate > 0), work.flops / rate * _NS, np.nan)
        memory_ns = np.where(bandwidth > 0, work.bytes / bandwidth * _NS, np.nan)
    # Which of both is longer is not known without the bytes, nor for a product without the peak of its type.
    is_unknown = np.isnan(memory_ns) | (work.is_matrix & (work.flops > 0) & np.isnan(compute_ns))
    roof_ns = np.where(is_unknown, np.nan, np.fmax(compute_ns, memory_ns))
    start, dur = (trace.events[name].to_numpy()[work.row] for name in ("start_ns", "dur_ns"))
    return Roofline(
        row=work.row,
        op=work.op,
        start_ns=start,
        dur_ns=dur,
        flops=work.flops,
        bytes=work.bytes,
        roof_ns=roof_ns,
        is_compute=~is_unknown & (np.nan_to_num(compute_ns) > np.nan_to_num(memory_ns)),
        kind=work.kind,
        is_matrix=work.is_matrix,
        share=work.share,
    )


def _rates(trace: Trace, device: IntArray, kind: IntArray, is_matrix: BoolArray) -> tuple[Floats, Floats]:
    """Return the operations and bytes a second at the peak for each piece of work, 0 where that is not known."""
    rate, bandwidth, kinds = np.zeros(len(device)), np.zeros(len(device)), [*KINDS]
    for number in np.unique(device).tolist():
        peak = peak_of_device(trace, number)
        if peak is None:
            continue
        here = device == number
        bandwidth[here] = peak.bytes_per_s
        for each, matrix in {*zip(kind[here].tolist(), is_matrix[here].tolist(), strict=True)}:
            chosen = here & (kind == each) & (is_matrix == matrix)
            rate[chosen] = peak.flops_per_s(kinds[each] if each >= 0 else "", is_matrix=matrix)
    return rate, bandwidth


def known_ratio(trace: Trace) -> float | None:
    """Return the share of time whose work is known, of all device work or else of all ops; None if none is.

    Without a device it is a share of the self CPU time of ops.
    """
    pieces = roofline(trace)
    if len(pieces.row) == 0:
        return None
    if trace.has_device:
        whole = trace.events["dur_ns"].to_numpy()[device_rows(trace)].sum()
    else:
        ops = op_rows(trace)
        whole = ops.self_cpu_ns[in_category(trace, "cpu_op")[ops.row]].sum()
    return min(float(pieces.dur_ns.sum()) / max(float(whole), 1.0), 1.0)


class WorkSums(NamedTuple):
    """Sums of known work by group: its time in ns, operations and bytes, and the same at and above the roof.

    ``bytes_known`` is how many pieces of work of a group have known bytes. ``rated_ns`` is the part of the time whose
    roof is known, ``compute_ns`` the part of ``roof_ns`` whose operations take longer than its bytes.
    """

    timed_ns: IntArray
    flops: IntArray
    bytes: IntArray
    bytes_known: IntArray
    rated_ns: IntArray
    roof_ns: IntArray
    compute_ns: IntArray
    above_ns: IntArray


def sums_of_work(trace: Trace, part: TimeRange, group: IntArray, count: int) -> WorkSums:
    """Return the sums of the known work that lies in a part, by the group of each piece of ``roofline``, -1 for none.

    Of a piece that is cut, so much counts as of its time lies inside.
    """
    pieces = roofline(trace)
    _, dur = part.cut(pieces.start_ns, pieces.dur_ns)
    touches = part.touches(pieces.start_ns, pieces.dur_ns) & (group >= 0)
    inside = np.where(pieces.dur_ns > 0, dur / np.maximum(pieces.dur_ns, 1), 1.0) * touches
    is_rated = ~np.isnan(pieces.roof_ns)
    roof = np.nan_to_num(pieces.roof_ns) * inside
    group = np.where(group >= 0, group, 0)
    above = np.maximum(dur - roof, 0) * is_rated * touches

    def total(values: Floats | IntArray) -> IntArray:
        sums = np.bincount(group, weights=values, minlength=count)
        return np.clip(np.rint(sums), 0, 2.0**62).astype(np.int64)

    has_bytes = (~np.isnan(pieces.bytes) & touches).astype(np.float64)
    return WorkSums(
        timed_ns=total(dur * touches),
        flops=total(np.nan_to_num(pieces.flops) * inside),
        bytes=total(np.nan_to_num(pieces.bytes) * inside),
        bytes_known=total(has_bytes),
        rated_ns=total(dur * is_rated * touches),
        roof_ns=total(roof),
        compute_ns=total(roof * pieces.is_compute),
        above_ns=total(above),
    )
