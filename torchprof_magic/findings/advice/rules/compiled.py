"""Advice about ``torch.compile``: compiling again in every step, and graphs that break."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.advice.times import (
    by_place,
    critical,
    each,
    ns_in_steps,
    rows_named,
    spans_of,
    step_index,
    step_ns,
    without,
)
from torchprof_magic.findings.verdict.words import place_of
from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.meta import GraphBreak
    from torchprof_magic.model.trace import Trace

DYNAMIC_LINK = "https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html"
BREAK_LINK = "https://docs.pytorch.org/docs/stable/torch.compiler_faq.html#graph-breaks"
# From this share of a step on, compiled regions are worth mending.
LEAST_SHARE = 0.1
_COMPILING = r"^dynamo$|^_compile\.compile_inner \(dynamo_timed\)$|^entire_frame_compile( \(dynamo_timed\))?$"
_AGAIN = r"^Torch-Compiled Region: ([0-9]+)/[1-9]"
_BACKWARD = r"^entire_backward_compile( \(dynamo_timed\))?$|^backward\._backward_impl \(dynamo_timed\)$"
# What guards of sizes say, by which a compilation for dynamic sizes would not fail.
_SIZES = re.compile(r"(size|stride) mismatch|\.size\(\)|\.shape\[|\.stride\(\)")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
# What to do about guards of sizes, and about others.
_FIXES = {
    True: "`torch.compile(..., dynamic=True)`, or pad to equal sizes",
    False: "pass what varies as a tensor, or keep it the same in all steps",
}
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_[0-9]+$")
# So many reasons are named.
MOST_NAMED = 3
_COMPILE_ID = r"compile_id=\s*!?[0-9]*/?[0-9]+/([1-9][0-9]*)|^Torch-Compiled Region: [0-9]+/([1-9][0-9]*)"
_REGION = r"^Torch-Compiled Region: ([0-9]+)/[0-9]+"


def recompiles(trace: Trace) -> list[Advice]:
    """Advise dynamic shapes, or what else keeps guards from failing, if code is compiled again in recorded steps."""
    ranges = _outermost(trace, _COMPILING)
    chosen = counted_steps(trace)
    if len(ranges) == 0 or not _compiles_again(trace):
        return []
    places = by_place(trace, ranges)
    # What compiles the backward pass runs at the line of that, but its cause is the call that was compiled again.
    backward = _outermost(trace, _BACKWARD) if len(places) == 1 else ranges[:0]
    found = []
    for file, line, rows in places:
        steps = len(np.unique(step_index(trace, rows)))
        # A single one can be the first of its kind, such as that of the last and smaller batch.
        if steps < min(2, len(chosen.row) or 2):
            continue
        inside = critical(trace, spans_of(trace, np.concatenate((rows, backward))))
        guards = _failed_guards(trace, file, line)
        are_sizes = [bool(_SIZES.search(guard)) for guard in guards] or [True]
        found.append(
            Advice(
                rule="recompiles",
                title=f"Compile once for all {'sizes' if all(are_sizes) else 'values'}",
                fix="; ".join(fix for is_of_sizes, fix in _FIXES.items() if is_of_sizes in are_sizes),
                evidence=f"`torch.compile` compiles again in {format_count(steps)} of "
                f"{counted(len(chosen.row) or 1, 'step')}, "
                f"which takes {format_ns(ns_in_steps(trace, inside))} {each(trace)}. "
                f"After 8 times (`recompile_limit`) it gives up. {_what_differs(guards)}",
                file=file,
                line=line,
                op="torch.compile",
                saving_ns=round(ns_in_steps(trace, inside)),
                certainty="measured",
                link=DYNAMIC_LINK,
                spans=inside,
            )
        )
    return found


def _outermost(trace: Trace, pattern: str) -> IntArray:
    """Return the ranges with matching names that are in no other of them."""
    rows = np.concatenate([rows_named(trace, pattern, kind) for kind in ("user_annotation", "cpu_op")])
    return rows[_is_outermost(trace, rows)]


def _failed_guards(trace: Trace, file: str, line: int | None) -> list[str]:
    """Return which guards failed of the functions that were compiled again on a line, the latest of each kind.

    If it is not known which functions these are, those of all.
    """
    regions = np.concatenate([rows_named(trace, _AGAIN, kind) for kind in ("cpu_op", "user_annotation")])
    mine = [rows for *place, rows in by_place(trace, regions) if place == [file, line]]
    names = (
        trace.events["name"].gather(np.concatenate(mine)).cast(pl.String) if mine else pl.Series([], dtype=pl.String)
    )
    frames = set(names.str.extract(_AGAIN, 1))
    known = [frame for frame in trace.meta.compiled if frame.recompiles]
    chosen = [frame for frame in known if frame.frame in frames] or known
    guards = [guard for frame in chosen for guard in reversed(frame.recompiles)]
    return list({_NUMBER.sub("#", guard): guard for guard in reversed(guards)}.values())


def _what_differs(guards: list[str]) -> str:
    """Return the first guards that failed, in a sentence, or how to see them."""
    if not guards:
        return '`TORCH_LOGS="recompiles"` says what differs.'
    more = f", and {len(guards) - MOST_NAMED} more" if len(guards) > MOST_NAMED else ""
    return f"What differed: {', '.join(f'`{guard}`' for guard in guards[:MOST_NAMED])}{more}."


def _compiles_again(trace: Trace) -> bool:
    """Return whether something is compiled that had been compiled before."""
    names = distinct(trace.events["name"]).cast(pl.String)
    return bool(names.str.contains(_COMPILE_ID).any())


def _is_outermost(trace: Trace, rows: IntArray) -> np.ndarray:
    """Return which rows begin in no other of them on their thread."""
    start, dur, lane = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns", "lane"))
    result = np.ones(len(rows), np.bool_)
    for each_lane in np.unique(lane):
        mine = np.flatnonzero(lane == each_lane)
        mine = mine[np.lexsort((-dur[mine], start[mine]))]
        reach = np.maximum.accumulate(np.concatenate(([-1], (start + dur)[mine])))[:-1]
        result[mine] = start[mine] >= reach
    return result


def graph_breaks(trace: Trace) -> list[Advice]:
    """Advise to mend graph breaks: a compiled region that runs inside another one resumes after a break."""
    regions = np.concatenate([rows_named(trace, _REGION, kind) for kind in ("cpu_op", "user_annotation")])
    if len(regions) == 0:
        return []
    outer = _region_around(trace, regions)
    broken = outer >= 0
    compiling = spans_of(trace, _outermost(trace, f"{_COMPILING}|{_BACKWARD}"))
    found = []
    for file, line, rows in by_place(trace, np.unique(outer[broken])):
        # What compiles inside is another matter, and only once.
        runs = without(spans_of(trace, rows), compiling) if len(compiling.start_ns) else spans_of(trace, rows)
        share = ns_in_steps(trace, runs) / max(step_ns(trace), 1.0)
        if share < LEAST_SHARE:
            continue
        inside = np.isin(outer, rows)
        breaks = int(inside.sum()) / max(len(rows), 1)
        found.append(
            Advice(
                rule="graph_breaks",
                title="Fix the graph breaks",
                fix="take what torch cannot trace, such as `print` and `.item()`, out of the compiled function",
                evidence=f"The compiled code takes {format_ratio(share)} of the time. Each call of it breaks "
                f"{counted(max(round(breaks), 1), 'time')} and goes on in another graph{_resumed(trace)}. "
                f"{_why_broken(trace, np.concatenate((rows, regions[inside])))}",
                file=file,
                line=line,
                op="Torch-Compiled Region",
                link=BREAK_LINK,
                certainty="guess",
            )
        )
    return found


def _why_broken(trace: Trace, regions: IntArray) -> str:
    """Return the reasons that the process knew, with their lines, or how to see them."""
    names = trace.events["name"].gather(regions).cast(pl.String)
    frames = set(names.str.extract(_REGION, 1))
    mine = [frame for frame in trace.meta.compiled if frame.frame in frames]
    functions = {(frame.file, _RESUMED.sub(r"\1", frame.name)) for frame in mine}
    known = [frame for frame in trace.meta.compiled if frame.breaks]
    of_these = [frame for frame in known if (frame.file, _RESUMED.sub(r"\1", frame.name)) in functions] or known
    breaks = list(dict.fromkeys(each_one for frame in of_these for each_one in frame.breaks))
    if not breaks:
        return '`TORCH_LOGS="graph_breaks"` says why.'
    named = [_break_words(trace, each_one) for each_one in breaks[:MOST_NAMED]]
    more = f"; and {len(breaks) - MOST_NAMED} more" if len(breaks) > MOST_NAMED else ""
    return f"Why: {'; '.join(named)}{more}."


def _break_words(trace: Trace, found: GraphBreak) -> str:
    place = place_of(trace, found.file, found.line)
    return f"{found.reason} ({place})" if place else found.reason


def _region_around(trace: Trace, regions: IntArray) -> IntArray:
    """Return the outermost region of another frame around each, -1 for none."""
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    is_region = np.zeros(trace.events.height + 1, np.bool_)
    is_region[regions] = True
    above, found = parent[regions], np.full(len(regions), -1, np.int64)
    while (above >= 0).any():  # as often as events are nested
        found = np.where((above >= 0) & is_region[above], above, found)
        above = np.append(parent, -1)[above]
    return found


def _resumed(trace: Trace) -> str:
    """Return where a recorded frame goes on after a break, as a clause; empty without frames."""
    names = trace.events.filter(pl.col("category") == "python_function")["name"].unique().cast(pl.String)
    places = sorted(
        {match[0] for name in names if (match := re.search(r"torch_dynamo_resume_in_(\w+)_at_([0-9]+)", name))}
    )
    if not places:
        return ""
    match = re.search(r"resume_in_(\w+)_at_([0-9]+)", places[0])
    assert match is not None
    return f", as after line {match[2]} of `{match[1]}`"
