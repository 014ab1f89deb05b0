"""How much of a step some intervals take, and how much of that could be saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.busy import device_intervals
from torchprof_magic.facts.device.graph_work import origin_links
from torchprof_magic.facts.device.idle_pieces import CAUSES, cause_numbers, idle_pieces
from torchprof_magic.facts.host.distortion import LEAST_PLAIN_STEPS, find_distortion
from torchprof_magic.facts.host.one_time import one_time_spans
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.findings.advice.kinds import Spans
from torchprof_magic.findings.verdict.accounts import device_account
from torchprof_magic.findings.verdict.decision import MOSTLY_WORK
from torchprof_magic.model.intervals import IntArray, covered_ns, interval_at, merge
from torchprof_magic.model.rows import are_in, values_at
from torchprof_magic.model.trace import HOST_CATEGORIES
from torchprof_magic.model.units import format_ns
from torchprof_magic.tables.steps import steps_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


# What recording an event takes at most, in ns, and what shapes or memory, and stacks add: benchmarks/presets.py.
RECORDING_NS = 1_200.0
DETAILS_NS = 1_200.0
# How many times longer that takes at most beside other programs and on slower machines.
BUSY_FACTOR = 10.0
# What is left of a cost at least: recording never takes more than the rest.
LEAST_LEFT = 0.4
# What counts of some time is told beside it if it is less by more than this part.
_LITTLE = 0.05


def step_ns(trace: Trace) -> float:
    """Return the mean duration of the steps that count, in ns; that of the recording without steps."""
    chosen = counted_steps(trace)
    return chosen.whole_ns / chosen.steps


def each(trace: Trace) -> str:
    """Return what times stand for: ``per step``, or ``in all`` without steps."""
    return "per step" if len(counted_steps(trace).row) else "in all"


def spans_of(trace: Trace, rows: IntArray) -> Spans:
    """Return the intervals of some rows of ``trace.events``."""
    start, dur = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    return Spans(start, start + dur)


def joined(*spans: Spans) -> Spans:
    """Return the intervals of all of them."""
    return Spans(*(np.concatenate(side) for side in zip(*spans, strict=True)))


def within_steps(trace: Trace, spans: Spans) -> Spans:
    """Return the union of the intervals, clipped to the steps that count, without work that is done only once."""
    chosen = counted_steps(trace)
    inside = overlap(spans, Spans(chosen.start_ns, chosen.end_ns))
    once = Spans(*one_time_spans(trace))
    return without(inside, once) if len(once.start_ns) else inside


def overlap(spans: Spans, other: Spans) -> Spans:
    """Return the moments that are in both, as sorted and disjoint intervals."""
    (a_start, a_end), (b_start, b_end) = merge(*spans), merge(*other)
    if len(a_start) == 0 or len(b_start) == 0:
        return Spans(np.empty(0, np.int64), np.empty(0, np.int64))
    first = np.searchsorted(b_end, a_start, side="right")
    count = np.maximum(np.searchsorted(b_start, a_end, side="left") - first, 0)
    of = np.repeat(np.arange(len(a_start)), count)
    at = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return Spans(np.maximum(a_start[of], b_start[at]), np.minimum(a_end[of], b_end[at]))


def ns_in_steps(trace: Trace, spans: Spans) -> float:
    """Return how much of a step the intervals take on average, in ns; what overlaps counts once."""
    inside = within_steps(trace, spans)
    return float((inside.end_ns - inside.start_ns).sum()) / counted_steps(trace).steps


def critical(trace: Trace, spans: Spans) -> Spans:
    """Return the part of host time that makes steps longer: where the busiest device idles for it.

    Where work is launched already, the device does not wait for the host. Without a device, all of it counts.
    """
    inside = within_steps(trace, spans)
    account = device_account(trace)
    if account is None:
        return inside
    busy = [Spans(start, end) for device, start, end in device_intervals(trace) if device == account.device]
    return without(inside, joined(*busy, _not_for_host(trace, account.device))) if busy else inside


def _not_for_host(trace: Trace, device: int | None) -> Spans:
    """Return when a device idles with work in its queue, or may be busy with work that is not in the file."""
    pieces = idle_pieces(trace)
    causes = [list(CAUSES).index(name) for name in ("queued", "missing")]
    chosen = (pieces.device == device) & np.isin(cause_numbers(trace), causes)
    return Spans(pieces.start_ns[chosen], pieces.end_ns[chosen])


def without(spans: Spans, other: Spans) -> Spans:
    """Return the moments of the first that are not in the second."""
    start, end = merge(*spans)
    if len(start) == 0:
        return Spans(start, end)
    b_start, b_end = merge(*other)
    edge = np.array([min(int(start[0]), int(b_start[0]) if len(b_start) else int(start[0])) - 1])
    last = np.array([max(int(end[-1]), int(b_end[-1]) if len(b_end) else int(end[-1])) + 1])
    return overlap(Spans(start, end), Spans(np.concatenate((edge, b_end)), np.concatenate((b_start, last))))


class Cost(NamedTuple):
    """What the intervals take of a step, in ns, less what recording adds to it; and the intervals in the steps.

    ``whole_ns`` is all that they take on average, as in the tables, and ``how`` says which part of it counts.
    """

    ns: float
    spans: Spans
    whole_ns: float
    how: str = ""

    @property
    def of_it(self) -> str:
        """Which part of all that they take counts, in words that follow it; empty if that is nearly all."""
        is_part = self.ns < (1 - _LITTLE) * self.whole_ns
        return f", {format_ns(self.ns)} of it {self.how}" if self.how and is_part else ""


def cost_words(trace: Trace, cost: Cost) -> str:
    """Return what some intervals take, as tables show it, and what counts of that: ``5 ms per step, 4 ms of it …``."""
    return f"{format_ns(cost.whole_ns)} {each(trace)}{cost.of_it}"


def cost_of(trace: Trace, spans: Spans) -> Cost:
    """Return what some host time takes of a step, less what recording the events in it takes.

    If it is in every step, the median of these counts: in some of them it may have lost the core to another program.
    """
    inside, chosen = within_steps(trace, spans), counted_steps(trace)
    each_ns = covered_ns(inside.start_ns, inside.end_ns, chosen.start_ns, chosen.end_ns)
    is_in_all = len(chosen.row) > 0 and bool((each_ns > 0).all())
    seen_ns = float(np.median(each_ns)) if is_in_all else float(each_ns.sum()) / chosen.steps
    added_ns = _events_in(trace, inside) / chosen.steps * recording_ns(trace)
    mean_ns = float(each_ns.sum()) / chosen.steps
    how = (
        "in the median step" if format_ns(seen_ns) != format_ns(mean_ns) else "",
        "without what recording adds" if added_ns else "",
    )
    cost_ns = max(seen_ns - added_ns, LEAST_LEFT * seen_ns)
    return Cost(cost_ns, inside, mean_ns, ", ".join(filter(None, how)))


def recorded_share(trace: Trace, spans: Spans, *, on_device: bool = False) -> float:
    """Return which share of some host time in the steps recording its events has added; none of that of devices."""
    inside = within_steps(trace, spans)
    whole = float((inside.end_ns - inside.start_ns).sum())
    added = 0.0 if on_device else _events_in(trace, inside) * recording_ns(trace)
    return min(added / max(whole, 1.0), 1 - LEAST_LEFT)


@once_per_trace
def recording_ns(trace: Trace) -> float:
    """Return for how many ns a step is longer for each event that it records; 0 if that is not known.

    The shortest steps are compared, because a busy machine makes steps longer, too.
    """
    chosen, plain = counted_steps(trace), trace.meta.plain_step_ns
    events = _events_in(trace, Spans(chosen.start_ns, chosen.end_ns))
    if len(plain) < LEAST_PLAIN_STEPS or events == 0 or len(chosen.row) == 0:
        return 0.0
    added_ns = float((chosen.end_ns - chosen.start_ns).min()) - min(plain)
    return min(max(added_ns * len(chosen.row) / events, 0.0), _most_recording_ns(trace))


def recording_can_add_ns(trace: Trace) -> float:
    """Return by how many ns recording its events can make a step longer at most, on a machine that is busy and slow."""
    chosen = counted_steps(trace)
    events = _events_in(trace, Spans(chosen.start_ns, chosen.end_ns)) / max(len(chosen.row), 1)
    return events * _most_recording_ns(trace) * BUSY_FACTOR


def _most_recording_ns(trace: Trace) -> float:
    details = trace.meta.has_shapes or trace.meta.has_memory
    return RECORDING_NS + DETAILS_NS * (details + trace.meta.has_stacks)


@once_per_trace
def unexplained_ratio(trace: Trace) -> float:
    """Return how many times longer timing the lines of functions made the recorded steps; 1 if it was not that.

    Python's trace function makes loops many times longer, and no event tells. What the events take is left out.
    """
    found, chosen = find_distortion(trace), counted_steps(trace)
    has_compiled = steps_table(trace).frame["compile_ns"].sum() > 0  # others may not have
    if found is None or len(chosen.row) == 0 or has_compiled or not trace.meta.has_function_lines:
        return 1.0
    events = _events_in(trace, Spans(chosen.start_ns, chosen.end_ns)) / len(chosen.row)
    return max(1.0, (found.recorded_ns - events * recording_ns(trace)) / found.plain_ns)


@once_per_trace
def _host_starts(trace: Trace) -> IntArray:
    return np.sort(trace.events["start_ns"].to_numpy()[in_category(trace, *HOST_CATEGORIES)])


def _events_in(trace: Trace, spans: Spans) -> int:
    """Return how many host events begin in the intervals, which are disjoint."""
    starts = _host_starts(trace)
    first = np.searchsorted(starts, spans.start_ns, side="left")
    return int((np.searchsorted(starts, spans.end_ns, side="left") - first).sum())


def rows_named(trace: Trace, pattern: str, *categories: str) -> IntArray:
    """Return the rows whose names match, and that begin in the steps that count; those of ops, or of some categories.

    Older versions of torch write annotations as ops.
    """
    events = trace.events
    rows = np.flatnonzero(is_named(trace, pattern))
    if len(rows) == 0:
        return rows
    rows = rows[are_in(values_at(events["category"], rows), categories or ("cpu_op",))]
    chosen, start = counted_steps(trace), events["start_ns"].to_numpy()[rows]
    return rows[interval_at(chosen.start_ns, chosen.end_ns, start) >= 0]


def called_in(trace: Trace, pattern: str, spans: Spans) -> IntArray:
    """Return the rows with matching names that begin in some intervals, whatever thread they run on."""
    rows = rows_named(trace, pattern)
    inside = interval_at(*merge(spans.start_ns, spans.end_ns), trace.events["start_ns"].to_numpy()[rows])
    return rows[inside >= 0]


def is_device_the_limit(trace: Trace) -> bool:
    """Return whether the device works, or has work queued, most of the time, so that less work makes steps shorter."""
    account = device_account(trace)
    return account is not None and account.share("compute", "memory_traffic", "queued") >= MOSTLY_WORK


def step_index(trace: Trace, rows: IntArray) -> IntArray:
    """Return which of the steps that count each row begins in, which it must."""
    start = trace.events["start_ns"].to_numpy()[rows]
    return np.searchsorted(counted_steps(trace).start_ns, start, side="right") - 1


def is_in_every_step(trace: Trace, rows: IntArray) -> bool:
    """Return whether the rows are in every step that counts, equally often."""
    if len(rows) == 0:
        return False
    counts = np.bincount(step_index(trace, rows), minlength=counted_steps(trace).steps)
    return bool(counts.min() > 0 and counts.min() == counts.max())


def by_place(trace: Trace, rows: IntArray) -> list[tuple[str, int | None, IntArray]]:
    """Return the rows of each line of the user's, the line with the most time first; one group if none is known."""
    if len(rows) == 0:
        return []
    file, line = places_of(trace, rows).columns()
    dur = trace.events["dur_ns"].gather(rows)
    frame = pl.DataFrame({"row": rows, "file": file.fill_null(""), "line": line, "ns": dur})
    groups = frame.group_by("file", "line").agg("row", pl.col("ns").sum()).sort("ns", "line", descending=[True, False])
    return [(str(row["file"]), row["line"], np.array(row["row"], np.int64)) for row in groups.iter_rows(named=True)]


def runs_of_lines(trace: Trace, file: str) -> dict[int, Spans]:
    """Return when each watched line of a file ran, within the steps that count; empty if lines were not watched."""
    sites = trace.sites.with_row_index("site").filter((pl.col("kind") == "line") & (pl.col("file") == file))
    runs = trace.scopes.join(sites.select(pl.col("site").cast(pl.Int32), "line"), on="site", how="inner")
    chosen = counted_steps(trace)
    inside = interval_at(chosen.start_ns, chosen.end_ns, runs["start_ns"].to_numpy()) >= 0
    found = {}
    for (line,), part in runs.filter(pl.Series(inside)).group_by("line"):
        start = part["start_ns"].to_numpy()
        found[int(line)] = Spans(start, start + part["dur_ns"].to_numpy())
    return found


def work_of(trace: Trace, rows: IntArray) -> Cost:
    """Return what some ops cost a step: the work that they launched on the busiest device, or else their host time."""
    account = device_account(trace)
    if account is None:
        return cost_of(trace, spans_of(trace, rows))
    work = device_work_of(trace, rows)
    ns = ns_in_steps(trace, spans_of(trace, work))
    return Cost(ns, within_steps(trace, spans_of(trace, work)), ns)


def device_work_of(trace: Trace, rows: IntArray) -> IntArray:
    """Return the device work that was launched in some host events."""
    source, target = origin_links(trace)
    spans, lanes = spans_of(trace, rows), trace.events["lane"].to_numpy()
    start = trace.events["start_ns"].to_numpy()[source]
    is_mine = np.zeros(len(source), np.bool_)
    for lane in np.unique(lanes[rows]):
        here = lanes[rows] == lane
        from_ns, to_ns = merge(spans.start_ns[here], spans.end_ns[here])
        is_mine |= (lanes[source] == lane) & (interval_at(from_ns, to_ns, start) >= 0)
    return target[is_mine]
