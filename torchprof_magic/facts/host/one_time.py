"""Work that a program does only once: starting the driver, loading kernels, imports, the first call of an op.

It fills recordings that were made without a warm-up, and nothing of it is saved by making a step faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.device.launches import launching_calls
from torchprof_magic.facts.host.blocking import calls_that_block
from torchprof_magic.facts.host.host_lines import import_spans
from torchprof_magic.facts.shared import in_category, is_named, launch_links, name_numbers, once_per_trace
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import BoolArray, IntArray, merge
from torchprof_magic.model.vendors import COPY_CALL, DRIVER_CALL, LAUNCH, MEMORY_CALL, QUEUE_CALL, WAITING_CALL

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Importing a module, and fetching a batch from worker processes, whose first one waits for them to start.
IMPORT_NAME = r"<frozen importlib\._bootstrap>\([0-9]+\): _find_and_load$"
WORKER_FETCH = r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter"
# Ops that only stand around others.
_AROUND = (
    r"^(Torch-Compiled Region|CompiledFunction(Backward)?$|autograd::engine::|torch::autograd::)|Backward[0-9]*$|^## "
)
# The first of several is done once if it takes this long, and this many times as long as the others.
LONG_CALL_NS = 1_000_000
LONG_OP_NS = 10_000_000
MANY_TIMES = 20
# What an op may take for each piece of work that it launches.
LONG_LAUNCH_NS = 5_000_000
# An op whose other calls, if there are so many, mostly take at least half as long is no work that is done once.
LEAST_REPEATS = 2
# In the first of at least so many steps, an op is done once if it takes this many times as long as it usually does in
# the others, and this many times as long as the longest of them: a busy machine makes single ops longer.
LEAST_STEPS = 3
FIRST_STEP_TIMES = 10
LONGEST_TIMES = 3
# The same for an op that the process, as far as is known, had not run before.
NEW_OP_TIMES = 4
NEW_OP_LONGEST_TIMES = 2
# What is called only once has nothing to compare it with, so it must take longer.
LONG_SINGLE_NS = 100_000_000


def new_ops_ratio(trace: Trace) -> float:
    """Return the share of ops that no earlier run of the process has recorded, by their time; 0 if not known."""
    before = trace.meta.ops_before
    if before is None:
        return 0.0
    ops = trace.events.filter(pl.col("category") == "cpu_op")
    by_name = ops.group_by("name").agg(pl.col("dur_ns").sum())
    is_new = ~by_name["name"].cast(pl.String).is_in(before)
    return int(by_name["dur_ns"].filter(is_new).sum()) / max(int(by_name["dur_ns"].sum()), 1)


@once_per_trace
def one_time_spans(trace: Trace) -> tuple[IntArray, IntArray]:
    """Return the disjoint times in which some thread does work that is done once, or captures a graph."""
    rows = np.union1d(np.flatnonzero(one_time_events(trace)), _set_up(trace)).astype(np.int64)
    start, dur = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    captures, imports = captures_of(trace), import_spans(trace)
    return merge(
        np.concatenate((start, captures.start_ns, imports[0])),
        np.concatenate((start + dur, captures.end_ns, imports[1])),
    )


def _set_up(trace: Trace) -> IntArray:
    """Return the rows of the calls that set the device up."""
    calls = calls_that_block(trace)
    return calls.row[calls.meet("init")]


@once_per_trace
def one_time_events(trace: Trace) -> BoolArray:
    """Return which events are work that is done once, with everything in them.

    They are imports; launches of a kernel that take 1 ms or more the first time; calls, ops and fetches that take 20
    times as long the first time as later, ops without what they wait for; and ops of the first step that no other step
    has, or that take 10 times as long there as at the same place in others. Without steps and in the first one, so are
    ops that take 5 ms for each piece of work that they launch.
    """
    events = trace.events
    dur = events["dur_ns"].to_numpy()
    of = {name: in_category(trace, name) for name in ("runtime", "cpu_op", "user_annotation")}
    found = is_named(trace, IMPORT_NAME, "python_function")
    found |= _first_launches(trace, of["runtime"])
    others = is_named(trace, f"({LAUNCH})|({COPY_CALL})|({WAITING_CALL})|({QUEUE_CALL})", "runtime")
    calls = is_named(trace, DRIVER_CALL, "runtime") & ~others
    calls[_set_up(trace)] = False  # known as such
    is_memory = calls & is_named(trace, MEMORY_CALL, "runtime")
    found |= _much_longer_first(trace, calls & ~is_memory, dur, LONG_CALL_NS, LONG_CALL_NS)
    found |= _much_longer_first(trace, is_memory, dur, LONG_SINGLE_NS, LONG_SINGLE_NS)
    fetches = of["cpu_op"] | of["user_annotation"]
    fetches &= is_named(trace, WORKER_FETCH)
    found |= _much_longer_first(trace, fetches, dur, LONG_OP_NS, None)
    if trace.has_device:
        ops = of["cpu_op"] & ~is_named(trace, _AROUND)
        ops &= ~captures_of(trace).holds(events["cycle"].to_numpy(), events["start_ns"].to_numpy())
        found |= _much_longer_first(trace, ops, _without_waits(trace), LONG_OP_NS, LONG_SINGLE_NS)
        found |= _slow_to_launch(trace, ops)
    found |= _only_in_the_first_step(trace)
    found.flags.writeable = False
    return found


def _slow_to_launch(trace: Trace, is_op: BoolArray) -> BoolArray:
    """Return which ops, in the first step or without steps, take far longer for what they launch than calling costs.

    They look for an algorithm, or compile or load code. Ops that launch nothing compute on the host.
    """
    events, steps = trace.events, trace.steps
    found = np.zeros(events.height, np.bool_)
    host_ns = _without_waits(trace)
    end_ns = int(steps["end_ns"][0]) if steps.height else np.iinfo(np.int64).max
    start, lane = (events[name].to_numpy().astype(np.int64) for name in ("start_ns", "lane"))
    rows = np.flatnonzero(is_op & (host_ns >= LONG_OP_NS) & (start < end_ns))
    calls = launching_calls(trace).row
    for row in rows.tolist():
        inside = (lane[calls] == lane[row]) & (start[calls] >= start[row])
        launches = int((inside & (start[calls] < start[row] + events["dur_ns"][row])).sum())
        found[row] = launches > 0 and host_ns[row] >= LONG_LAUNCH_NS * launches
    return found & ~_is_repeated(trace, found, is_op, host_ns)


def _is_repeated(trace: Trace, found: BoolArray, is_op: BoolArray, host_ns: IntArray) -> BoolArray:
    """Return which ops take about as long whenever they are called: most of the other calls of their name do."""
    name = name_numbers(trace)
    repeated = np.zeros(len(found), np.bool_)
    for row in np.flatnonzero(found).tolist():
        is_other = is_op & (name == name[row])
        is_other[row] = False
        others = host_ns[is_other]
        repeated[row] = len(others) >= LEAST_REPEATS and 2 * float(np.median(others)) >= host_ns[row]
    return repeated


def _only_in_the_first_step(trace: Trace) -> BoolArray:
    """Return which of the program's ops in the first step are not, or far shorter, in the same place of the others.

    On the CPU, an op is not new that an earlier run of the process has recorded, or that all steps have if there were
    steps before the recording.
    """
    events, steps = trace.events, trace.steps
    found = np.zeros(events.height, np.bool_)
    if steps.height < LEAST_STEPS:
        return found
    is_op = in_category(trace, "cpu_op") & ~is_named(trace, _AROUND)
    parent = events["parent"].to_numpy()
    rows = np.flatnonzero(is_op & ~np.append(is_op, False)[parent])
    start, dur = events["start_ns"].to_numpy()[rows], events["dur_ns"].to_numpy()[rows]
    at = np.searchsorted(steps["start_ns"].to_numpy(), start, side="right") - 1
    inside = (at >= 0) & (start < steps["end_ns"].to_numpy()[at])
    rows, at, dur = rows[inside], at[inside], dur[inside]
    is_long = (at == 0) & (dur >= LONG_CALL_NS)
    if not is_long.any():
        return found
    name = name_numbers(trace)[rows]
    alike = np.isin(name, name[is_long])
    rows, at, dur, name = rows[alike], at[alike], dur[alike], name[alike]
    lane = events["lane"].to_numpy()[rows]
    frame = pl.DataFrame({"row": rows, "step": at, "name": name, "lane": lane, "dur": dur})
    frame = frame.with_columns(pl.int_range(pl.len()).over("step", "name", "lane").alias("place"))
    key = ["name", "lane", "place"]
    later = (
        frame.filter(pl.col("step") > 0)
        .group_by(key)
        .agg(pl.col("dur").median().alias("usual"), pl.col("dur").max().alias("most"))
    )
    first = frame.filter((pl.col("step") == 0) & (pl.col("dur") >= LONG_CALL_NS)).join(later, on=key, how="left")
    dur_ns, usual_ns, most_ns = pl.col("dur"), pl.col("usual"), pl.col("most")
    before = None if trace.has_device else trace.meta.ops_before
    known = (FIRST_STEP_TIMES, LONGEST_TIMES)
    times, longest_times = known if before is None else (NEW_OP_TIMES, NEW_OP_LONGEST_TIMES)
    is_longer = (dur_ns >= times * usual_ns) & (dur_ns >= longest_times * most_ns)
    if not trace.has_device and int(steps["number"][0] or 0) > 0:
        is_longer = pl.lit(value=False)  # the steps before, which were not recorded, have called it
    longer = first.filter(usual_ns.is_null() | is_longer)["row"].to_numpy()
    names = events["name"].gather(longer).cast(pl.String)
    found[longer[~names.is_in(before or ()).to_numpy()]] = True
    return found


def _first_launches(trace: Trace, is_call: BoolArray) -> BoolArray:
    """Return which slow launches are the first of a kernel, whose code the driver loads then."""
    found = np.zeros(trace.events.height, np.bool_)
    calls = calls_that_block(trace)
    is_slow = calls.meet("slow launch") & (calls.end_ns - calls.start_ns >= LONG_CALL_NS)
    if not is_slow.any():
        return found
    links = launch_links(trace)
    source, target = links["source"].to_numpy(), links["target"].to_numpy()
    name = name_numbers(trace).astype(np.int64)
    order = np.argsort(trace.events["start_ns"].to_numpy()[source], kind="stable")
    _, first = np.unique(name[target[order]], return_index=True)
    loads = np.zeros(trace.events.height, np.bool_)
    loads[source[order[first]]] = True
    has_work = np.zeros(trace.events.height, np.bool_)
    has_work[launching_calls(trace).row] = True
    loads |= is_call & ~has_work  # of a capture, say: what it would have run is not known
    rows = calls.row[is_slow]
    found[rows] = loads[rows]
    return found


@once_per_trace
def _without_waits(trace: Trace) -> IntArray:
    """Return how long each event lasts without the blocking calls in it."""
    events, waits = trace.events, calls_that_block(trace)
    is_wait = ~waits.meet("init", "slow launch")
    dur = events["dur_ns"].to_numpy().astype(np.int64)
    parent = events["parent"].to_numpy().astype(np.int64)
    above, ns = parent[waits.row[is_wait]], (waits.end_ns - waits.start_ns)[is_wait]
    while (above >= 0).any():
        dur = dur - sum_by(above, ns, len(dur))
        above = np.where(above >= 0, parent[above], -1)
    return dur


def _much_longer_first(
    trace: Trace, which: BoolArray, dur: IntArray, least_ns: int, single_ns: int | None
) -> BoolArray:
    """Return which events are the first of their name and take far longer than the later ones.

    Those without a later one must take ``single_ns``; by ``None`` they do not count.
    """
    found = np.zeros(len(which), np.bool_)
    long = np.flatnonzero(which & (dur >= least_ns))
    if len(long) == 0:
        return found
    name = name_numbers(trace)
    start = trace.events["start_ns"].to_numpy()
    for one in np.unique(name[long]).tolist():
        same = np.flatnonzero(which & (name == one))
        first = same[start[same].argmin()]
        rest = dur[same[same != first]]
        if len(rest) == 0:
            found[first] = single_ns is not None and dur[first] >= single_ns
        else:
            found[first] = dur[first] >= max(MANY_TIMES * float(np.median(rest)), least_ns)
    return found
