"""Advice about ``torch.compile``: compiling again in every step, and graphs that break."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.graph_gaps import graph_gaps
from torchprof_magic.findings.advice.kinds import Advice, Effect, Spans
from torchprof_magic.findings.advice.rules.compile_causes import causes_of, change_for, fix_of_break
from torchprof_magic.findings.advice.times import (
    by_place,
    critical,
    each,
    ns_in_steps,
    rows_named,
    spans_of,
    step_index,
    step_ns,
    within_steps,
    without,
)
from torchprof_magic.findings.verdict.words import place_of
from torchprof_magic.model.compile_ids import times_before
from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.guards import failed_guard
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio

if TYPE_CHECKING:
    from torchprof_magic.model.guards import Cause
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
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(?P<line>[0-9]{1,9})$")
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
        compiling = np.concatenate((rows, backward))
        causes = _causes(trace, compiling)
        if causes is None:
            causes = [_by_guards(trace, file, line, compiling)]
        found += [_recompiles(trace, file, line, each_one) for each_one in causes]
    return found


class _Compiled(NamedTuple):
    """Compilations of one cause: their ranges, the guards that failed, their cause, and the functions.

    ``own`` are the guards of functions that are called; those of the rest of one, after a break, are about its locals.
    """

    rows: IntArray
    guards: list[str]
    cause: Cause
    own: list[str]
    functions: tuple[str, ...] = ()


def _recompiles(trace: Trace, file: str, line: int | None, found: _Compiled) -> Advice:
    """Return the advice about one cause on one line."""
    steps = len(np.unique(step_index(trace, found.rows)))
    compiling = spans_of(trace, found.rows)
    change = change_for(found.cause, found.own)
    functions = f" {', '.join(f'`{name}`' for name in found.functions[:MOST_NAMED])}" if found.functions else ""
    return Advice(
        rule="recompiles",
        title=change.title,
        fix=change.fix,
        evidence=f"`torch.compile` compiles{functions} again in {format_count(steps)} of "
        f"{counted(len(counted_steps(trace).row) or 1, 'step')}, "
        f"which takes {format_ns(ns_in_steps(trace, critical(trace, compiling)))} {each(trace)}. "
        f"After 8 times (`recompile_limit`) it gives up. {_what_differs(_distinct(found.guards))}",
        file=file,
        line=line,
        op="torch.compile",
        certainty="measured",
        link=DYNAMIC_LINK,
        spans=within_steps(trace, compiling),
        effect=Effect(),
    )


def _causes(trace: Trace, rows: IntArray) -> list[_Compiled] | None:
    """Return the ranges of what was compiled again by the cause, the largest first; None where the run does not tell.

    What a run tells of a compilation lies in its range. A backward pass is compiled for the cause of its forward pass.
    """
    is_told = False
    spans = spans_of(trace, rows)
    known: dict[str, tuple[Cause, str, str]] = {}
    groups: dict[Cause, list[tuple[int, str, str]]] = {}
    for told in trace.meta.compilations:
        if not told.is_backward:  # the numbers begin again when the compiler is reset
            known.pop(told.region, None)
        if times_before(told.region) and not told.is_backward:
            guard = failed_guard(told.reason)
            text = f"{guard.text}: {guard.value}" if guard.value else guard.text
            known[told.region] = guard.cause, text, told.name
        start_ns = told.start_unix_ns - trace.meta.start_unix_ns
        at = np.flatnonzero((spans.start_ns <= start_ns) & (start_ns < spans.end_ns))
        is_told = is_told or len(at) > 0
        if len(at) and told.region in known:
            cause, text, name = known[told.region]
            groups.setdefault(cause, []).append((int(rows[at[0]]), text, name))
    found = [
        _Compiled(
            np.unique([row for row, _, _ in group]),
            [text for _, text, _ in reversed(group) if text],
            cause,
            [text for _, text, name in group if not _RESUMED.match(name)],
            tuple(dict.fromkeys(_RESUMED.sub(r"\1", name) for _, _, name in group if name)),
        )
        for cause, group in groups.items()
    ]
    if not is_told:
        return None
    return sorted(found, key=lambda each_one: -trace.events["dur_ns"].gather(each_one.rows).sum())


def _by_guards(trace: Trace, file: str, line: int | None, rows: IntArray) -> _Compiled:
    """Return all ranges as one group, whose guards the process knew in the end; of sizes if none is known."""
    guards = _failed_guards(trace, file, line)
    causes = list(causes_of(guards))
    return _Compiled(rows, guards, causes[0] if len(causes) == 1 else "other" if causes else "size", guards)


def _distinct(guards: list[str]) -> list[str]:
    """Return one guard of each kind: those that differ in numbers only are alike."""
    return list({_NUMBER.sub("#", guard): guard for guard in reversed(guards)}.values())


def _outermost(trace: Trace, pattern: str) -> IntArray:
    """Return the ranges with matching names that are in no other of them."""
    rows = np.concatenate([rows_named(trace, pattern, kind) for kind in ("user_annotation", "cpu_op")])
    return rows[_is_outermost(trace, rows)]


def _failed_guards(trace: Trace, file: str, line: int | None) -> list[str]:
    """Return which guards failed of the functions that were compiled again on a line, the latest first.

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
    return [guard for frame in chosen for guard in reversed(frame.recompiles)]


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
        known = _known_breaks(trace, np.concatenate((rows, regions[inside])))
        evidence = (
            f"The compiled code takes {format_ratio(share)} of the time. Each call of it breaks "
            f"{counted(max(round(breaks), 1), 'time')} and goes on in another graph{_resumed(trace)}."
        )
        placed = [each_one for each_one in known if each_one.file and each_one.line is not None]
        lines = list(dict.fromkeys((each_one.file, each_one.line) for each_one in placed))
        lines = lines if len(placed) == len(known) and len(lines) <= MOST_NAMED else []
        for place in lines:
            here = [each_one for each_one in placed if (each_one.file, each_one.line) == place]
            cost = _cost_of_break(trace, regions[inside], here[0], is_only=len(lines) == 1)
            words = f"{evidence}{cost} {_why_broken(trace, here)}"
            found.append(_graph_break(words, *place, here[0].reason))
        if not lines:
            found.append(_graph_break(f"{evidence} {_why_broken(trace, known)}", file, line))
    return found


def _graph_break(evidence: str, file: str, line: int | None, reason: str = "") -> Advice:
    """Return the advice about a line that breaks a graph, or about code whose graphs break somewhere."""
    return Advice(
        rule="graph_breaks",
        title="Fix the graph breaks",
        fix=fix_of_break(reason),
        evidence=evidence,
        file=file,
        line=line,
        op="Torch-Compiled Region",
        link=BREAK_LINK,
        certainty="guess",
    )


def _cost_of_break(trace: Trace, regions: IntArray, found: GraphBreak, *, is_only: bool) -> str:
    """Return how long the host takes from graph to graph where code goes on after a line, as a sentence.

    Empty where that is not known: a break in a function that another one calls has the line of the call.
    """
    goes_on = {
        frame.frame
        for frame in trace.meta.compiled
        if (match := _RESUMED.match(frame.name)) is not None
        and (is_only or (frame.file == found.file and int(match["line"]) == found.line))
    }
    names = trace.events["name"].gather(regions).cast(pl.String).str.extract(_REGION, 1)
    mine = regions[names.is_in(list(goes_on)).fill_null(value=False).to_numpy()]
    if len(mine) == 0:
        return ""
    gaps = Spans(*graph_gaps(trace, mine))
    compiling = spans_of(trace, _outermost(trace, f"{_COMPILING}|{_BACKWARD}"))
    host_ns = ns_in_steps(trace, without(gaps, compiling) if len(compiling.start_ns) else gaps)
    return f" From graph to graph the host takes {format_ns(host_ns)} {each(trace)} here." if host_ns >= 1 else ""


def _known_breaks(trace: Trace, regions: IntArray) -> list[GraphBreak]:
    """Return the breaks that the process knew of the functions of some regions, or of all where these have none."""
    names = trace.events["name"].gather(regions).cast(pl.String)
    frames = set(names.str.extract(_REGION, 1))
    mine = [frame for frame in trace.meta.compiled if frame.frame in frames]
    functions = {(frame.file, _RESUMED.sub(r"\1", frame.name)) for frame in mine}
    known = [frame for frame in trace.meta.compiled if frame.breaks]
    of_these = [frame for frame in known if (frame.file, _RESUMED.sub(r"\1", frame.name)) in functions] or known
    return list(dict.fromkeys(each_one for frame in of_these for each_one in frame.breaks))


def _why_broken(trace: Trace, breaks: list[GraphBreak]) -> str:
    """Return the reasons with their lines, or how to see them."""
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
