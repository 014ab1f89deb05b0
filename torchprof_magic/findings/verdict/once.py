"""How much of the time is no part of what the program repeats: work that is done once, and work from before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.device.coverage import work_without_launch
from torchprof_magic.facts.device.idle_pieces import LATENCY, QUEUED, idle_pieces
from torchprof_magic.facts.device.launches import launching_calls
from torchprof_magic.facts.host.blocking import calls_that_block
from torchprof_magic.facts.host.host_lines import imports_of, line_seen_in, seen_lines
from torchprof_magic.facts.host.host_states import COMPILE_NAME
from torchprof_magic.facts.host.one_time import IMPORT_NAME, WORKER_FETCH, one_time_events, one_time_spans
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.model.intervals import covered_ns, merge
from torchprof_magic.model.rows import are_known
from torchprof_magic.model.trace import DEVICE_CATEGORIES
from torchprof_magic.model.vendors import LAUNCH, SETUP_CALL

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# A device that does nothing, with work queued for this long, is busy with work that is not in the file.
LEAST_HIDDEN_NS = 1_000_000
CAPTURE = "compilation or graph capture"
IMPORTS = "imports"
# What an event that is done once is called, by its name and category.
_KINDS = (
    (IMPORT_NAME, "python_function", IMPORTS),
    (WORKER_FETCH, "", "starting worker processes"),
    (COMPILE_NAME, "", CAPTURE),
    (LAUNCH, "runtime", "loading kernels at their first launch"),
    (SETUP_CALL, "runtime", "loading code for the device"),
    ("", "runtime", "starting the driver"),
    ("", "", "the first call of an op"),
)


class OneTime(NamedTuple):
    """How much of the steps that count, or of the recording, is done once; what most of it is, its name and its line.

    ``file`` is empty and ``line`` None where the line is not known.
    """

    ns: int
    ratio: float
    what: str = ""
    name: str = ""
    file: str = ""
    line: int | None = None


@once_per_trace
def one_time_work(trace: Trace) -> OneTime:
    """Return how much of the steps that count goes to work that is done once, compilation and the capture of graphs."""
    chosen = counted_steps(trace)
    return one_time_within(trace, chosen.start_ns, chosen.end_ns)


def one_time_within(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> OneTime:
    """Return how much of some disjoint intervals goes to such work."""
    events, whole_ns = trace.events, max(int((end_ns - start_ns).sum()), 1)
    is_host = ~in_category(trace, *DEVICE_CATEGORIES, "runtime")
    named = is_host & is_named(trace, COMPILE_NAME)
    named |= one_time_events(trace)
    calls = calls_that_block(trace)
    named[calls.row[calls.meet("init")]] = True
    rows = np.flatnonzero(named)
    start, dur = (events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    once = one_time_spans(trace)
    from_ns, to_ns = merge(np.append(once[0], start), np.append(once[1], start + dur))
    ns = int(covered_ns(from_ns, to_ns, start_ns, end_ns).sum())
    if ns == 0:
        return OneTime(0, 0.0)
    captures = captures_of(trace)
    inside = covered_ns(start_ns, end_ns, start, start + dur)
    captured = covered_ns(start_ns, end_ns, captures.start_ns, captures.end_ns)
    longest_ns = max(int(inside.max(initial=0)), int(captured.max(initial=0)))
    imports = _imports_within(trace, start_ns, end_ns)
    if imports.height and imports["ns"].sum() >= longest_ns:
        top = imports.sort("ns", descending=True).row(0, named=True)
        return OneTime(ns, ns / whole_ns, IMPORTS, f"import {top['module']}", top["file"] or "", top["line"])
    if inside.max(initial=0) <= captured.max(initial=0):
        row, what = int(captures.row[captured.argmax()]), CAPTURE
    else:
        row = _longest(trace, rows, inside)
        what = kind_of(trace, row)
    return OneTime(ns, ns / whole_ns, what, str(events["name"][row]), *_line_of(trace, row, named))


def _imports_within(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> pl.DataFrame:
    """Return the imports that are done once, with how much of each lies in some disjoint intervals, in ``ns``."""
    found = trace.host_lines[imports_of(trace).tolist()]
    from_ns = found["start_ns"].to_numpy()
    inside = covered_ns(start_ns, end_ns, from_ns, from_ns + found["dur_ns"].to_numpy())
    return found.with_columns(pl.Series("ns", inside)).filter(pl.col("ns") > 0)


def _line_of(trace: Trace, row: int, is_once: BoolArray) -> tuple[str, int | None]:
    """Return the user's line of work that is done once, or one that was seen to run within it: its file and number.

    That is one seen within an event, or else within the outermost such work around it.
    """
    files, lines = places_of(trace, np.array([row])).columns()
    if files[0] is not None:
        return str(files[0]), lines[0]
    parent, around = trace.events["parent"].to_numpy(), [row]
    while (above := int(parent[around[-1]])) >= 0:
        around.append(above)
    at = np.array([row, max((each for each in around if is_once[each]), key=around.index, default=row)])
    start = trace.events["start_ns"].to_numpy()[at]
    found = line_seen_in(trace, start, start + trace.events["dur_ns"].to_numpy()[at])
    if not (found >= 0).any():
        return "", None
    seen, first = seen_lines(trace), int(found[found >= 0][0])
    return str(seen.file[first]), int(seen.line[first])


def _longest(trace: Trace, rows: IntArray, ns: IntArray) -> int:
    """Return the innermost event with at least half the time of the longest one: what that consists of."""
    most = np.flatnonzero(2 * ns >= ns.max())
    depth = trace.events["depth"].to_numpy()[rows[most]]
    inner = most[depth == depth.max()]
    return int(rows[inner[ns[inner].argmax()]])


def kind_of(trace: Trace, row: int) -> str:
    """Return what kind of work that is done once an event is."""
    category = str(trace.events["category"][row])
    return next(
        what
        for pattern, wanted, what in _KINDS
        if wanted in ("", category) and (not pattern or is_named(trace, pattern)[row])
    )


class Before(NamedTuple):
    """How long the device ran work that was queued before the recording, and whether that is in the file."""

    ns: int
    ratio: float
    is_recorded: bool


@once_per_trace
def work_from_before(trace: Trace) -> Before:
    """Return how much of the steps that count, or of the recording, goes to work from before it.

    It is work without a launch in the file, before any with one; or else the time for which work waited on a
    device that had, by the file, nothing to do.
    """
    chosen, calls = counted_steps(trace), launching_calls(trace)
    first_ns = int(calls.work_start_ns.min(initial=np.iinfo(np.int64).max))
    rows = work_without_launch(trace)
    rows = rows[are_known(trace.events["correlation"])[rows]]  # without a number, a launch is not known
    start, dur = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    early = start < first_ns
    from_ns, to_ns = merge(start[early], start[early] + dur[early])
    is_recorded = len(from_ns) > 0
    if not is_recorded:
        pieces = idle_pieces(trace)
        waits = np.isin(pieces.detail, (LATENCY, QUEUED)) & (pieces.end_ns - pieces.start_ns >= LEAST_HIDDEN_NS)
        from_ns, to_ns = merge(pieces.start_ns[waits], pieces.end_ns[waits])
    ns = int(covered_ns(from_ns, to_ns, chosen.start_ns, chosen.end_ns).sum())
    return Before(ns, ns / max(chosen.whole_ns, 1), is_recorded)
