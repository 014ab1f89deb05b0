"""Turns what a live run noted about its lines and modules into the frames ``sites`` and ``scopes`` of its trace."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.model.intervals import NO_PARENT, nesting_order
from torchprof_magic.model.meta import source_lines
from torchprof_magic.model.trace import LANES_SCHEMA, MAX_NAME_CHARS, SCOPES_SCHEMA, SITES_SCHEMA, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.meta import CellSource
    from torchprof_magic.model.recording import LineSite, ModuleSite, ProgramMarks, Recording
    from torchprof_magic.model.trace import Trace

# Times of perf_counter_ns are above this, and line numbers below it, so that the two can be told apart.
_LEAST_TIME = 2**31
_CALLED, _RETURNED, _ENDED = -1, -2, -3


class _Runs(NamedTuple):
    """Single runs of lines or modules by our own clock; ``thread`` is a native id, -1 for the thread of the steps."""

    site: IntArray
    thread: IntArray
    start_ns: IntArray
    end_ns: IntArray


def with_scopes(
    trace: Trace, recording: Recording, cell: CellSource | None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the frames ``sites``, ``scopes`` and ``lanes`` of a trace with what was noted about the program.

    Only what lies within the recorded steps is kept. A cycle whose clock cannot be compared with that of the trace has
    no scopes. Lines of functions that were timed in a cycle of their own are left to ``with_function_lines``.
    """
    own = _line_sites(cell)
    passes = recording.two_pass
    of_lines = None if passes is None else passes.lines_cycle
    functions, rows = _function_sites(recording.function_lines, cell, own.height)
    lines = pl.concat([own, functions])
    sites = _with_short_texts(pl.concat([lines, _module_sites(recording.modules, lines.height)]))
    lanes, parts = trace.lanes, []
    for marks in recording.program:
        shift_ns = clock_shift_ns(trace, marks)
        steps = trace.steps.filter(pl.col("cycle") == marks.cycle)
        if shift_ns is None or steps.height == 0:
            continue
        for runs in (_line_runs(marks, own.height), _module_runs(marks, lines.height)):
            frame, lanes = _scopes(trace, runs, marks.cycle, shift_ns, lanes)
            parts.append(within(frame, steps))
        if marks.cycle != of_lines:
            frame, lanes = _scopes(trace, _function_runs(marks, rows), marks.cycle, shift_ns, lanes)
            parts.append(_in_each_step(frame, steps))
    scopes = pl.concat([pl.DataFrame(schema=SCOPES_SCHEMA), *parts])
    start, dur, lane = (scopes[name].to_numpy() for name in ("start_ns", "dur_ns", "lane"))
    order = nesting_order(lane, start, dur)
    return sites, scopes[order], lanes


def function_scopes(trace: Trace, recording: Recording, cell: CellSource | None, cycle: int) -> pl.DataFrame:
    """Return the scopes of the lines of functions in one cycle, between its first and its last step.

    They are rows of the ``sites`` that ``with_scopes`` returns.
    """
    steps = trace.steps.filter(pl.col("cycle") == cycle)
    parts = [pl.DataFrame(schema=SCOPES_SCHEMA)]
    _, rows = _function_sites(recording.function_lines, cell, _line_sites(cell).height)
    for marks in recording.program:
        shift_ns = clock_shift_ns(trace, marks) if marks.cycle == cycle else None
        if shift_ns is not None and steps.height and lane_of_steps(trace) is not None:
            frame, _ = _scopes(trace, _function_runs(marks, rows), cycle, shift_ns, trace.lanes)
            parts.append(_in_each_step(frame, steps))
    return pl.concat(parts)


def _with_short_texts(sites: pl.DataFrame) -> pl.DataFrame:
    """Return the sites with texts as long as a trace may have: a line can hold a whole file as text."""
    texts = [name for name, dtype in SITES_SCHEMA.items() if dtype == TEXT]
    return sites.with_columns(pl.col(*texts).cast(pl.String).str.head(MAX_NAME_CHARS).cast(TEXT))


def _line_sites(cell: CellSource | None) -> pl.DataFrame:
    """Return a site for every line of the cell, in their order."""
    texts = source_lines(cell.source) if cell is not None else []
    return pl.DataFrame(
        {
            "kind": ["line"] * len(texts),
            "parent": [-1] * len(texts),
            "name": texts,
            "file": [cell.filename if cell is not None else ""] * len(texts),
            "line": range(1, len(texts) + 1),
            "class_name": [None] * len(texts),
            "parameters": [None] * len(texts),
            "bytes": [None] * len(texts),
            "inputs": [None] * len(texts),
            "outputs": [None] * len(texts),
        },
        schema=SITES_SCHEMA,
    )


def _function_sites(watched: Sequence[LineSite], cell: CellSource | None, before: int) -> tuple[pl.DataFrame, IntArray]:
    """Return sites for the lines of all watched functions, whole, and the site of each watched line.

    A function of the cell itself stands in the cell. The lines of one that was left out have none.
    """
    cell_file, cell_lines = (cell.filename, len(source_lines(cell.source))) if cell is not None else ("", 0)
    place: dict[tuple[str, int], int] = {(cell_file, line): line - 1 for line in range(1, cell_lines + 1)}
    rows: list[dict[str, object]] = []
    kept = [site for site in watched if not site.is_left_out]
    for file, first in dict.fromkeys((site.file, site.first_line) for site in kept):
        last = max(site.line for site in kept if (site.file, site.first_line) == (file, first))
        for line in range(max(first, 1), last + 1):  # the code of a cell begins at line 0 in some versions of Python
            if (file, line) not in place:
                place[file, line] = before + len(rows)
                text = linecache.getline(file, line).rstrip("\n")
                rows.append({"kind": "line", "parent": -1, "name": text, "file": file, "line": line})
    found = (NO_PARENT if site.is_left_out else place.get((site.file, site.line), NO_PARENT) for site in watched)
    return pl.DataFrame(rows, schema=SITES_SCHEMA), np.array([*found], np.int64)


def _function_runs(marks: ProgramMarks, site_of: IntArray) -> _Runs:
    """Return the runs of the lines of functions: each lasts until the next line of its call, or the return.

    Lines that go on as the cycle ends last until then, such as that in which an optimizer ends the last step; those
    that go on when there were too many marks, until the last of these.
    """
    numbers = np.frombuffer(marks.functions, np.int64) if len(marks.functions) else np.empty(0, np.int64)
    found: list[tuple[int, int, int]] = []
    calls: list[tuple[int, int]] = []  # the line that each open call is in, and when it began
    time_ns = 0
    for time_ns, mark in numbers.reshape(-1, 2).tolist():
        if mark == _CALLED:
            calls.append((0, time_ns))
            continue
        if mark == _ENDED:
            found += [(line, began_ns, time_ns) for line, began_ns in calls if line]
            calls.clear()
            continue
        line, began_ns = calls.pop() if calls else (0, time_ns)
        if line:
            found.append((line, began_ns, time_ns))
        if mark != _RETURNED:
            calls.append((mark, time_ns))
    until_ns = max((time_ns, *(ended_ns for _, _, ended_ns in marks.steps)))
    found += [(line, began_ns, until_ns) for line, began_ns in calls if line]
    table = np.array(found, np.int64).reshape(-1, 3)
    site = np.append(site_of, NO_PARENT)[np.minimum(table[:, 0] - 1, len(site_of))]
    known = np.flatnonzero((site >= 0) & (table[:, 2] > table[:, 1]))
    table = table[known]
    return _Runs(site[known], np.full(len(table), -1, np.int64), table[:, 1], table[:, 2])


def _module_sites(modules: Sequence[ModuleSite], before: int) -> pl.DataFrame:
    rows = [
        {
            "kind": "module",
            "parent": module.parent + before if module.parent >= 0 else -1,
            "name": path,
            "class_name": module.class_name,
            "parameters": module.parameters,
            "bytes": module.size_bytes,
            "inputs": module.inputs,
            "outputs": module.outputs,
        }
        for module, path in zip(modules, _paths(modules), strict=True)
    ]
    return pl.DataFrame(rows, schema=SITES_SCHEMA)


def _paths(modules: Sequence[ModuleSite]) -> list[str]:
    """Return the path of each module.

    Where several roots contain modules, as a compiled one does, paths begin with the variable or the class of their
    root, or those of two models would be the same.
    """
    roots = [_root(modules, number) for number in range(len(modules))]
    containing = {root for number, root in enumerate(roots) if root != number or modules[root].is_compiled}
    titles = _distinct([modules[root].path or modules[root].class_name for root in roots], roots)
    paths = []
    for number, (root, title, module) in enumerate(zip(roots, titles, modules, strict=True)):
        is_only_model = len(containing) == 1 and root in containing
        if number == root:
            paths.append("" if is_only_model else title)
        else:
            paths.append(module.path if is_only_model else f"{title}.{module.path}")
    return paths


def _distinct(names: list[str], roots: list[int]) -> list[str]:
    """Return the name of each root, with a number where several have the same."""
    numbers: dict[str, list[int]] = {}
    for name, root in zip(names, roots, strict=True):
        known = numbers.setdefault(name, [])
        if root not in known:
            known.append(root)
    return [
        f"{name}_{numbers[name].index(root)}" if len(numbers[name]) > 1 else name
        for name, root in zip(names, roots, strict=True)
    ]


def _root(modules: Sequence[ModuleSite], number: int) -> int:
    while modules[number].parent >= 0:
        number = modules[number].parent
    return number


def has_moved_steps(trace: Trace) -> bool:
    """Return whether torch has moved steps behind their ops, and the reader has put them back as far as it can."""
    return any(each.code == "chrome.moved_step" for each in trace.problems)


def clock_shift_ns(trace: Trace, marks: ProgramMarks) -> int | None:
    """Return what to add to our clock to get the trace's.

    Torch's range of each step began between two moments of ours, and their intersection over all steps holds the
    answer. The first range of a process takes torch a fraction of a millisecond, which is longer than most modules run.
    So the time since 1970 decides, which torch writes too; an old torch wrote another one, and is held to the moments.
    A step that the reader has put back to its first op began before that.
    """
    steps = trace.steps.filter(pl.col("cycle") == marks.cycle)
    starts = dict(steps.select("number", "start_ns").rows())
    bounds = [(starts[step] - after, starts[step] - before) for step, before, after in marks.clock if step in starts]
    if not bounds:
        return None
    least, most = max(low for low, _ in bounds), min(high for _, high in bounds)
    told = None if marks.unix_ns is None else marks.unix_ns - trace.meta.start_unix_ns
    if told is not None and told < least and has_moved_steps(trace):
        return told
    if told is None or least > most:
        return (least + most) // 2
    return min(max(told, least), most)


def _line_runs(marks: ProgramMarks, line_count: int) -> _Runs:
    """Return the runs of lines: each lasts until the next line begins."""
    numbers = np.frombuffer(marks.lines, np.int64) if len(marks.lines) else np.empty(0, np.int64)
    is_time = numbers > _LEAST_TIME
    is_pair = np.zeros(len(numbers), np.bool_)
    is_pair[:-1] = is_time[:-1] & ~is_time[1:]  # a mark that was interrupted lacks its line
    at = np.flatnonzero(is_pair)
    start, line = numbers[at], numbers[at + 1]
    end = np.append(start[1:], start[-1:])
    known = np.flatnonzero((line > 0) & (line <= line_count) & (end > start))
    thread = np.full(len(known), -1, np.int64)
    return _Runs(line[known] - 1, thread, start[known], end[known])


def _module_runs(marks: ProgramMarks, before: int) -> _Runs:
    """Return the calls of modules; one that did not end is left out."""
    calls = np.frombuffer(marks.calls, np.int64).reshape(-1, 3) if len(marks.calls) else np.empty((0, 3), np.int64)
    open_calls: dict[int, list[tuple[int, int]]] = {}
    found: list[tuple[int, int, int, int]] = []
    for time_ns, thread, number in calls.tolist():
        stack = open_calls.setdefault(thread, [])
        if number >= 0:
            stack.append((number, time_ns))
        elif stack and stack[-1][0] == -number - 1:
            found.append((number, thread, stack.pop()[1], time_ns))
        else:
            stack.clear()
    table = np.array(found, np.int64).reshape(-1, 4)
    return _Runs(before - table[:, 0] - 1, table[:, 1], table[:, 2], table[:, 3])


def _scopes(
    trace: Trace, runs: _Runs, cycle: int, shift_ns: int, lanes: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the runs on the clock and the lanes of the trace, and the lanes with those that were not in it."""
    threads = np.unique(runs.thread)
    lane_of: dict[int, int] = {}
    for thread in threads.tolist():
        known = _lane(trace, lanes, thread)
        if known is None:
            new = {"kind": "thread", "pid": "", "tid": str(thread), "name": f"thread {thread}"}
            known = lanes.height
            lanes = pl.concat([lanes, pl.DataFrame([new], schema=LANES_SCHEMA)])
        lane_of[thread] = known
    numbers = np.array([lane_of[thread] for thread in threads.tolist()], np.int64)
    lane = numbers[np.searchsorted(threads, runs.thread)] if len(threads) else np.empty(0, np.int64)
    frame = pl.DataFrame(
        {
            "site": runs.site,
            "lane": lane,
            "start_ns": runs.start_ns + shift_ns,
            "dur_ns": runs.end_ns - runs.start_ns,
            "cycle": np.full(len(runs.site), cycle),
        }
    )
    return frame.cast(SCOPES_SCHEMA), lanes  # type: ignore[arg-type]


def _lane(trace: Trace, lanes: pl.DataFrame, thread: int) -> int | None:
    """Return the row of the lane of a thread; -1 is the thread on which the steps ran."""
    rows = lanes.with_row_index("lane").filter(pl.col("kind") == "thread")
    if thread >= 0:
        found = rows.filter(pl.col("tid") == str(thread))["lane"]
        return int(found[0]) if len(found) else None
    return lane_of_steps(trace)


def lane_of_steps(trace: Trace) -> int | None:
    """Return the row of the lane of the thread on which the steps ran."""
    steps = trace.events.filter(trace.events["category"] == "user_annotation")
    steps = steps.filter(pl.col("name").cast(pl.String).str.starts_with("ProfilerStep#"))
    return int(steps["lane"][0]) if steps.height else None


def _in_each_step(scopes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of some intervals that lie in recorded steps.

    The line that calls a loop goes on over all steps of it. It has a part in each, so that none of them is inside it.
    """
    first, last = (steps[name].sort().to_numpy() for name in ("start_ns", "end_ns"))
    start = scopes["start_ns"].to_numpy()
    end = start + scopes["dur_ns"].to_numpy()
    low, high = np.searchsorted(last, start, side="right"), np.searchsorted(first, end, side="left")
    count = np.maximum(high - low, 0)
    of = np.repeat(np.arange(len(count)), count)
    step = low[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    began, ended = np.maximum(start[of], first[step]), np.minimum(end[of], last[step])
    cut = scopes[of].with_columns(pl.Series("start_ns", began), pl.Series("dur_ns", ended - began))
    return cut.filter(pl.col("dur_ns") > 0)


def within(scopes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of some intervals that lie between the first and the last recorded step."""
    first, last = max(0, *steps["start_ns"].head(1)), max(steps["end_ns"].to_list())
    end = (pl.col("start_ns") + pl.col("dur_ns")).clip(upper_bound=last)
    start = pl.col("start_ns").clip(lower_bound=first)
    cut = scopes.with_columns(start.alias("start_ns"), (end - start).alias("dur_ns"))
    return cut.filter(pl.col("dur_ns") > 0)
