"""Links between events: launches, backward ops, steps, and the op around an allocation."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.ingest.chrome.nesting import named_like
from torchprof_magic.ingest.chrome.shared_numbers import nearest_calls
from torchprof_magic.ingest.chrome.spans import BACKWARD_ARROW
from torchprof_magic.model.distinct import codes_of
from torchprof_magic.model.intervals import NO_PARENT, IntArray, innermost_at, interval_at
from torchprof_magic.model.rows import (
    are_in,
    are_known,
    filled,
    frame_of,
    in_categories,
    row_keys,
    row_numbers,
    rows_by_number,
    rows_where,
    values_at,
)
from torchprof_magic.model.server_ranges import ends_of_steps, ranges_of_steps
from torchprof_magic.model.serving import PATTERN
from torchprof_magic.model.trace import (
    ARROWS_SCHEMA,
    DEVICE_CATEGORIES,
    FLOWS_SCHEMA,
    MEMORY_SCHEMA,
    STEPS_SCHEMA,
    no_rows,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.ingest.findings import Findings

    # The number of the category of each event.
    Categories = npt.NDArray[np.uint8]

# The category of torch's arrows from calls to the work that they launch. Their ids are correlations.
LAUNCH_ARROW = "ac2g"


def launch_flows(events: pl.DataFrame, category: Categories, lanes: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return the links from runtime calls to device events, by correlation.

    One call can start many kernels (graph replay). ``External id`` is not used: in many traces it equals the
    correlation and matches a wrong op. Of calls with the same correlation, the nearest is taken.
    """
    is_work = in_categories(category, *DEVICE_CATEGORIES)
    if not is_work.any():
        return no_rows("flows")
    is_call = in_categories(category, "runtime", "cpu_op")  # ops have correlations in old exports of autograd only
    is_numbered = are_known(events["correlation"])
    calls, work = np.flatnonzero(is_call & is_numbered), np.flatnonzero(is_work & is_numbered)
    rows = np.concatenate((calls, work))
    number = row_numbers(events["cycle"].to_numpy()[rows], filled(events["correlation"], 0)[rows])
    of_calls, of_work, count = number[: len(calls)], number[len(calls) :], int(number.max(initial=0)) + 1
    first = rows_by_number(of_calls[::-1], calls[::-1], count)
    is_repeated = first[of_calls] != calls
    if is_repeated.any():
        has_work = rows_by_number(of_work, work, count) >= 0
        findings.add("chrome.repeated_launch", int(has_work[of_calls[is_repeated]].sum()))
        source, target = _nearest_calls(events, calls, np.flatnonzero(is_work), lanes)
    else:
        source = first[of_work]
        source, target = source[source >= 0], work[source >= 0]
    findings.add("chrome.no_launch", int(is_work.sum()) - len(target))
    return _flows("launch", source, target)


def _nearest_calls(
    events: pl.DataFrame, calls: IntArray, work: IntArray, lanes: pl.DataFrame
) -> tuple[IntArray, IntArray]:
    """Return the calls, of which several have the same correlation, and the work that each launched."""
    rows = events.select("cycle", "correlation", "lane", "start_ns", "device").with_row_index("row")
    pairs = nearest_calls(rows[work], rows[calls], lanes)
    return pairs["row_call"].to_numpy(), pairs["row"].to_numpy()


def find_lost_launches(events: pl.DataFrame, arrows: pl.DataFrame, findings: Findings) -> None:
    """Count the arrows from launches to their work of which neither end is in the file, by their correlation.

    In files whose arrows mostly have other ids than events have correlations, they tell nothing.
    """
    is_begun = (arrows["cat"] == LAUNCH_ARROW).to_numpy() & arrows["is_start"].to_numpy() & are_known(arrows["id"])
    if not is_begun.any():
        return
    is_numbered, begun = are_known(events["correlation"]), int(is_begun.sum())
    cycles, ids = (
        np.concatenate((filled(arrows[arrow], 0)[is_begun], filled(events[event], 0)[is_numbered]))
        for arrow, event in (("cycle", "cycle"), ("id", "correlation"))
    )
    number = row_numbers(cycles, ids)
    is_arrow, is_known = np.zeros((2, int(number.max()) + 1), np.bool_)
    is_arrow[number[:begun]] = True
    is_known[number[begun:]] = True
    lost = int((is_arrow & ~is_known).sum())
    if 2 * lost < int(is_arrow.sum()):
        findings.add("chrome.lost_launch", lost)


def annotation_flows(events: pl.DataFrame, category: Categories) -> pl.DataFrame:
    """Return the links from ranges to their spans on a device: one for every stream that the range launched work on."""
    if not in_categories(category, "gpu_user_annotation").any():
        return no_rows("flows")
    rows = events.select("category", "cycle", "correlation", "name").with_row_index("row")
    spans = rows.filter((pl.col("category") == "gpu_user_annotation") & pl.col("correlation").is_not_null())
    ranges = rows.filter((pl.col("category") == "user_annotation") & pl.col("correlation").is_not_null())
    key = ["cycle", "correlation", "name"]
    pairs = spans.join(ranges.unique(key, keep="first", maintain_order=True), on=key, maintain_order="left")
    return _flows("annotation", pairs["row_right"].to_numpy(), pairs["row"].to_numpy())


def backward_flows(
    events: pl.DataFrame, category: Categories, lanes: pl.DataFrame, arrows: pl.DataFrame
) -> pl.DataFrame:
    """Return the links from forward to backward ops, by the ``fwdbwd`` arrows with both ends and by sequence numbers.

    A sequence number belongs to one autograd node. If nested ops share it, the innermost one is linked: in the forward
    pass that op creates the node, in the backward pass it is the node. torch uses the same rule for its arrows. Older
    files and truncated ones have only the numbers.
    """
    thread = filled(events["fwd_thread"], 0)
    if not (thread > 0).any():  # as where no backward pass was recorded
        return no_rows("flows")
    sequence = filled(events["sequence"], NO_PARENT)
    rows = np.flatnonzero(in_categories(category, "cpu_op") & (sequence >= 0))
    cycle, lane, start_ns = (events[name].to_numpy()[rows] for name in ("cycle", "lane", "start_ns"))
    ops = _Ops(rows, cycle, lane, start_ns, sequence[rows], thread[rows])
    if not (ops.thread > 0).any():
        return no_rows("flows")
    pointed, numbered = _pointed(ops, lanes, arrows), _numbered(ops)
    is_new = ~np.isin(numbered[1], pointed[1])
    return _flows(
        "backward", *(np.concatenate((one, other[is_new])) for one, other in zip(pointed, numbered, strict=True))
    )


class _Ops(NamedTuple):
    """Ops of autograd: their rows in nesting order, their numbers, and for backward ops that of the forward thread."""

    row: IntArray
    cycle: IntArray
    lane: IntArray
    start_ns: IntArray
    sequence: IntArray
    thread: IntArray


def _numbered(ops: _Ops) -> tuple[IntArray, IntArray]:
    """Return the pairs of ops by sequence number."""
    is_backward = ops.thread > 0
    number = row_numbers(ops.cycle, ops.sequence)
    node = row_numbers(number, np.maximum(ops.thread, 0))
    # The innermost op is the last one of its number; a forward op that begins together with a backward op is its own.
    order = np.lexsort((is_backward, ops.start_ns, number))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(is_backward[order], NO_PARENT, np.arange(len(order))))
    by_time = np.argsort(ops.start_ns, kind="stable")
    nodes = by_time[is_backward[by_time]]
    nodes = nodes[rows_by_number(node[nodes], nodes, int(node.max()) + 1)[node[nodes]] == nodes]
    at = latest[place[nodes]]
    is_found = (at >= 0) & (number[order[at]] == number[nodes])
    return ops.row[order[at[is_found]]], ops.row[nodes[is_found]]


def _pointed(ops: _Ops, lanes: pl.DataFrame, arrows: pl.DataFrame) -> tuple[IntArray, IntArray]:
    """Return the pairs of ops by the arrows between them in the file."""
    ends = rows_where(arrows, are_in(arrows["cat"], (BACKWARD_ARROW,)) & are_known(arrows["id"]))
    lane = _threads_of(ends, lanes)
    ends, lane = rows_where(ends, lane >= 0), lane[lane >= 0]
    if ends.height == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    cycle, time_ns = (ends[name].to_numpy() for name in ("cycle", "time_ns"))
    moments = ((ops.cycle, cycle), (ops.lane, lane), (ops.start_ns, time_ns))
    moment = row_numbers(*(np.concatenate(each) for each in moments))
    # Of ops that start in the same ns, the innermost launched the backward op; rows are in nesting order.
    op = rows_by_number(moment[: len(ops.row)], ops.row, int(moment.max()) + 1)[moment[len(ops.row) :]]
    number = row_numbers(cycle, ends["id"].to_numpy())
    is_start = ends["is_start"].to_numpy()
    # Of several arrows with one id, the one at the last op counts.
    by_op = np.argsort(op, kind="stable")[int((op < 0).sum()) :]
    starts, targets = (by_op[which[by_op]] for which in (is_start, ~is_start))
    last, target = (rows_by_number(number[rows], rows, int(number.max()) + 1) for rows in (starts, targets))
    starts = starts[(last[number[starts]] == starts) & (target[number[starts]] >= 0)]
    return op[starts], op[target[number[starts]]]


def _threads_of(ends: pl.DataFrame, lanes: pl.DataFrame) -> IntArray:
    """Return the lane of the thread of each end of an arrow, or -1."""
    columns = (lanes[name].to_list() for name in ("kind", "pid", "tid"))
    threads = {(pid, tid): lane for lane, (kind, pid, tid) in enumerate(zip(*columns, strict=True)) if kind == "thread"}
    places = zip(ends["pid"].to_list(), ends["tid"].to_list(), strict=True)
    return np.array([threads.get(place, NO_PARENT) for place in places], np.int64)


def _flows(kind: str, source: IntArray, target: IntArray) -> pl.DataFrame:
    kinds = pl.Series("kind", [kind], dtype=FLOWS_SCHEMA["kind"]).new_from_index(0, len(source))
    ends = (
        pl.Series(name, rows.astype(np.int32), dtype=FLOWS_SCHEMA[name])
        for name, rows in (("source", source), ("target", target))
    )
    return pl.DataFrame([kinds, *ends])


def joined(*flows: pl.DataFrame) -> pl.DataFrame:
    """Return several flows as one frame."""
    some = [each for each in flows if each.height]
    return reduce(pl.DataFrame.vstack, some) if some else no_rows("flows")


def count_arrows(*arrows: pl.DataFrame) -> pl.DataFrame:
    """Return how many arrows of each category begin, end, and have both ends, by their ids within a cycle."""
    cats, cycles, ids, starts = (
        pl.concat([some[name] for some in arrows]) for name in ("cat", "cycle", "id", "is_start")
    )
    if len(cats) == 0:
        return no_rows("arrows")
    codes, is_start = codes_of(cats), starts.to_numpy()
    number = row_numbers(codes, cycles.to_numpy(), filled(ids, 0), ~are_known(ids))
    count = int(number.max()) + 1
    begun, ended = (np.bincount(number[which], minlength=count) for which in (is_start, ~is_start))
    first = rows_by_number(number, np.arange(len(cats)), count)
    used = np.flatnonzero(first >= 0)
    begun, ended = begun[used], ended[used]
    _, example, category = np.unique(codes[first[used]], return_index=True, return_inverse=True)
    sums = (
        np.bincount(category, weights=each).astype(np.int64)
        for each in (begun, ended, np.ones(len(used)), (begun > 0) & (ended > 0))
    )
    named = values_at(cats, first[used][example]).to_list()
    order = sorted(range(len(named)), key=named.__getitem__)
    ordered = ([named[row] for row in order], *(each[order] for each in sums))
    return frame_of(ARROWS_SCHEMA, dict(zip(ARROWS_SCHEMA, ordered, strict=True)))


def find_steps(events: pl.DataFrame, category: Categories, rows: IntArray, findings: Findings) -> pl.DataFrame:
    """Return the spans among some rows with names of steps, in order of time; all of them marked as complete."""
    start_ns = events["start_ns"].to_numpy()
    rows = rows[in_categories(category[rows], "user_annotation")]
    rows = rows[np.argsort(start_ns[rows], kind="stable")]
    number = np.array([int(name.rpartition("#")[2]) for name in events["name"][rows].to_list()], np.int64)
    first = np.sort(np.unique(row_keys(events["cycle"].to_numpy()[rows], number), return_index=True)[1])
    findings.add("chrome.repeated_step", len(rows) - len(first))
    rows = rows[first]
    columns = {
        "number": number[first],
        "cycle": events["cycle"].to_numpy()[rows],
        "start_ns": start_ns[rows],
        "end_ns": start_ns[rows] + events["dur_ns"].to_numpy()[rows],
        "complete": np.ones(len(rows), np.bool_),
    }
    return frame_of(STEPS_SCHEMA, columns)


def find_server_steps(events: pl.DataFrame, category: Categories) -> pl.DataFrame:
    """Return the steps of an inference server, which names them by ranges of its own, numbered from 0.

    Each lasts until the next one begins, the last one until the recording ends.
    """
    rows = np.flatnonzero(in_categories(category, "user_annotation"))
    rows = rows[named_like(events["name"].gather(rows), PATTERN)]
    rows, _ = ranges_of_steps(events, rows)
    if len(rows) == 0:
        return no_rows("steps")
    start, dur, cycle = (events[name].to_numpy() for name in ("start_ns", "dur_ns", "cycle"))
    last = int((start + dur)[cycle == cycle[rows[-1]]].max())
    columns = {
        "number": np.arange(len(rows)),
        "cycle": cycle[rows],
        "start_ns": start[rows],
        "end_ns": ends_of_steps(start[rows], (start + dur)[rows], cycle[rows], last),
        "complete": np.ones(len(rows), np.bool_),
    }
    return frame_of(STEPS_SCHEMA, columns)


def with_steps(events: pl.DataFrame, steps: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Return the events with the step they started in; device events belong to the step that launched them."""
    if steps.height == 0:
        return events.hstack([pl.Series("step", [None], dtype=pl.Int32).new_from_index(0, events.height)])
    step = _step_at(events["start_ns"].to_numpy(), steps)
    source, target = launches["source"].to_numpy(), launches["target"].to_numpy()
    step[target] = step[source]
    series = pl.Series("step", step.astype(np.int32))
    return events.hstack([series.set(series < 0, None)])


def _step_at(time_ns: np.ndarray, steps: pl.DataFrame) -> np.ndarray:
    """Return the number of the step that holds each time, or -1."""
    at = interval_at(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(), time_ns)
    return np.where(at >= 0, np.append(steps["number"].to_numpy(), -1)[at], -1)


def attribute_memory(memory: pl.DataFrame, events: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Return the allocations in order of time, each with the innermost event of its own thread around it."""
    if memory.height == 0:
        return no_rows("memory")
    threads = lanes.with_row_index("lane").filter(pl.col("kind") == "thread").select("lane", "pid", "tid")
    memory = memory.with_columns(pl.col("pid", "tid").cast(pl.String))
    memory = memory.join(threads, on=["pid", "tid"], how="left", maintain_order="left").with_columns(
        pl.col("lane").fill_null(-1).cast(pl.Int64)
    )
    lane, start, dur = (events[name].to_numpy().astype(np.int64) for name in ("lane", "start_ns", "dur_ns"))
    event = innermost_at(lane, start, dur, memory["lane"].to_numpy(), memory["time_ns"].to_numpy())
    memory = memory.with_columns(pl.Series("event", event)).sort("time_ns", maintain_order=True)
    return memory.select(MEMORY_SCHEMA.keys()).cast(MEMORY_SCHEMA)  # type: ignore[arg-type]
