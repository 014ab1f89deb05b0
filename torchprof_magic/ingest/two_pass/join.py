"""Joins a cycle of times and a cycle of details of the same steps into one recording.

Recording shapes, memory and stacks slows ops down, some more than others. So one cycle is recorded without them and
another with them. This module adds the details of the second cycle to the ops of the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.ingest.two_pass.clock import Clock
from torchprof_magic.ingest.two_pass.matching import Matches, Ops, alike_from, counterparts, matched, ops_of
from torchprof_magic.model.cycle_filter import of_cycle
from torchprof_magic.model.intervals import NO_PARENT, IntArray, innermost_at, nearest_marked
from torchprof_magic.model.outliers import are_outliers
from torchprof_magic.model.problems import problem
from torchprof_magic.model.trace import MEMORY_SCHEMA, Trace
from torchprof_magic.model.units import counted, enumerated, format_ns, format_ratio

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Meta, Problem, TwoPass

# Below this share of common ops, the details probably belong to different work.
LEAST_COMMON = 0.9
# Stacks of a step that has less than this share of those of another ended in it, or before.
LEAST_STACKS = 0.9
_DETAILS = ("shapes", "dtypes", "concrete_inputs", "overload", "script_modules")
# Steps whose ops are less alike by so much are of another kind.
_SAME_KIND = 0.02
# A share below 100 % must not be rounded to 100 %.
ALMOST_ALL = 0.999


def join_passes(trace: Trace, *, cost_too_much: bool = False) -> Trace:
    """Return the trace with the events, steps and links of the times cycle, and the details of each op.

    Steps are paired in their order, the first of one cycle with the first of the other. Where fewer steps have details,
    they are paired with those of the times that are most alike and no outliers; ops before and after have those of the
    first and the last, but their memory is not known. The same goes for stacks that ended early. A step whose
    counterpart did other work has the details of the nearest one that did the same, and the memory of its counterpart.
    An op without a counterpart keeps its times and has no details. Memory is moved to the clock of the times, and
    belongs to the innermost op around it that has a counterpart. A trace that is not of two passes stays as it is;
    where one pass is missing, the other is all there is. ``cost_too_much`` is whether details were left out for that.
    """
    passes = trace.meta.two_pass
    if passes is None:
        return trace
    times, details = (
        trace.steps.filter(pl.col("cycle") == cycle) for cycle in (passes.times_cycle, passes.details_cycle)
    )
    if not times.height or not details.height:
        return _of_one_pass(trace, passes, has_times=bool(times.height), cost_too_much=cost_too_much)
    first, second = ops_of(trace, (passes.times_cycle, passes.details_cycle))
    begin = _place_of_details(times, details, first, second)
    steps = _StepPairs(times, details, begin, min(times.height, details.height))
    second = replace(second, place=np.where(second.place >= 0, second.place + begin, NO_PARENT))
    joined = _joined(trace, first, second, steps)
    memory = _moved_memory(trace, first, second, joined.own, steps)
    tags, storages = _moved_tags(trace, memory, steps), _moved_storages(trace, memory, steps)
    numbers = tuple(steps.details["number"].head(steps.paired).to_list())
    found = replace(passes, detail_steps=numbers, details_begin=begin)
    meta = replace(trace.meta, two_pass=found, has_memory=memory.height > 0)
    problem = _told(meta, steps, joined.counterpart, _common_share(first, second, joined, steps), trace.steps.height)
    events = _with_details(trace, first, second, joined)
    kept = of_cycle(
        replace(trace, events=events, memory=memory, tags=tags, storages=storages, meta=meta), passes.times_cycle
    )
    return replace(kept, problems=(problem, *kept.problems))


class _StepPairs(NamedTuple):
    """The steps of both cycles: ``paired`` ones belong together, of the times from the one at ``begin`` on.

    Places are those of the times.
    """

    times: pl.DataFrame
    details: pl.DataFrame
    begin: int
    paired: int

    @property
    def complete(self) -> IntArray:
        """The places of the paired steps with details that are complete; that of the last one if none is."""
        complete = self.details["complete"].head(self.paired).arg_true().to_numpy().astype(np.int64)
        return self.begin + (complete if len(complete) else np.array([self.paired - 1]))

    @property
    def places(self) -> IntArray:
        """Those of the paired steps."""
        return np.arange(self.begin, self.begin + self.paired)

    @property
    def in_order(self) -> IntArray:
        """The place of the step with details that each of the times is paired with by their order."""
        return np.clip(np.arange(self.times.height), self.begin, self.complete[-1])


def _place_of_details(times: pl.DataFrame, details: pl.DataFrame, first: Ops, second: Ops) -> int:
    """Return with which step of the times the details begin; with the first unless later ones suit them better."""
    if times.height <= details.height:
        return 0
    alike = np.array(alike_from(first, second, (times.height, details.height)))
    dur_ns = (times["end_ns"] - times["start_ns"]).to_numpy().astype(np.float64)
    far = np.convolve(are_outliers(dur_ns), np.ones(details.height), "valid")
    far[alike < alike.max() - _SAME_KIND] = np.inf
    return int(np.argmin(far))


class _Joined(NamedTuple):
    """Which op of the times is which op of the details.

    ``counterpart`` has for each step of the times the place of the one whose ``details`` it has. ``stacks`` may be
    those of another one, and ``own`` has only what lies in steps at the same place.
    """

    counterpart: IntArray
    details: Matches
    stacks: Matches
    own: Matches


def _joined(trace: Trace, first: Ops, second: Ops, steps: _StepPairs) -> _Joined:
    complete, height = steps.complete, steps.times.height
    counterpart = counterparts(first, second, complete, height, steps.begin)
    details = matched(first, second, counterpart)
    last = _last_with_stacks(trace, second, int(complete[-1]))
    with_stacks = complete[complete <= last] if last in complete else np.array([last])
    of_stacks = counterparts(first, second, with_stacks, height, steps.begin)
    stacks, own = (
        details if np.array_equal(each, counterpart) else matched(first, second, each)
        for each in (of_stacks, steps.in_order)
    )
    is_own = first.place[own.first] == second.place[own.second]
    return _Joined(counterpart, details, stacks, Matches(own.first[is_own], own.second[is_own]))


def _last_with_stacks(trace: Trace, second: Ops, last: int) -> int:
    """Return the place of the last step with details, up to ``last``, that has about as many stacks as any."""
    inside = np.flatnonzero((second.place >= 0) & (second.place <= last))
    has_stack = trace.events["stack"].is_not_null().to_numpy()[second.row[inside]]
    ops, stacks = (np.bincount(second.place[inside], weights, last + 1) for weights in (None, has_stack))
    share = stacks / np.maximum(ops, 1)
    return int(np.flatnonzero(share >= LEAST_STACKS * share.max())[-1])


def _with_details(trace: Trace, first: Ops, second: Ops, joined: _Joined) -> pl.DataFrame:
    """Return all events, those of the times with the details of their counterparts.

    Calls of the runtime have the stack of the op around them, and device events that of their launch.
    """
    events = trace.events
    source, with_stack = np.full((2, events.height), NO_PARENT)
    for rows, pairs in ((source, joined.details), (with_stack, joined.stacks)):
        rows[first.row[pairs.first]] = second.row[pairs.second]
    is_op = np.zeros(events.height, np.bool_)
    is_op[first.row] = True
    op_around = nearest_marked(events["parent"].to_numpy(), events["depth"].to_numpy(), is_op)
    stack_source = np.append(with_stack, NO_PARENT)[op_around[:-1]]
    launches = trace.flows.filter(pl.col("kind") == "launch")
    stack_source[launches["target"].to_numpy()] = stack_source[launches["source"].to_numpy()]
    return events.with_columns(
        *(_taken(events[name], source) for name in _DETAILS),
        _taken(events["stack"], stack_source),
    )


def _taken(column: pl.Series, source: IntArray) -> pl.Series:
    """Return for each row the value of another, or null for -1."""
    rows = pl.Series(source, dtype=pl.Int64)
    return column.gather(rows.set(rows < 0, None)).alias(column.name)


def _moved_memory(trace: Trace, first: Ops, second: Ops, pairs: Matches, steps: _StepPairs) -> pl.DataFrame:
    """Return the allocations of the details, each within the op of the times that made it, in their order.

    Those of steps without a counterpart are left out.
    """
    memory = trace.memory.filter(pl.col("cycle") == steps.details["cycle"][0])
    memory = memory.filter(_has_counterpart(memory["time_ns"], steps))
    time, event = memory["time_ns"].to_numpy(), memory["event"].to_numpy()
    lane = np.where(event >= 0, trace.events["lane"].to_numpy()[event], NO_PARENT).astype(np.int64)
    dur = second.end_ns - second.start_ns
    inside = innermost_at(second.lane, second.start_ns, dur, lane, time, parent=second.parent)
    has_counterpart = np.zeros(len(second.row), np.bool_)
    has_counterpart[pairs.second] = True
    op = nearest_marked(second.parent, second.depth, has_counterpart)[inside]
    counterpart = np.full(len(second.row) + 1, NO_PARENT)
    counterpart[pairs.second] = pairs.first
    target = counterpart[op]
    moved = np.empty(len(time), np.int64)
    for number in np.unique(lane):
        here, of_lane = np.flatnonzero(lane == number), second.lane[pairs.second] == number
        clock = _clock(first, second, Matches(pairs.first[of_lane], pairs.second[of_lane]), steps)
        moved[here] = clock.moved(time[here])
    has_op = target >= 0
    moved[has_op] = np.clip(moved[has_op], first.start_ns[target[has_op]], first.end_ns[target[has_op]])
    # Keep the order of the allocator's totals even if the threads ran in a different order.
    moved = np.maximum.accumulate(np.maximum(moved, 0)) if len(moved) else moved
    row = np.where(has_op, first.row[target] if len(first.row) else NO_PARENT, NO_PARENT)
    cycle = pl.lit(steps.times["cycle"][0]).alias("cycle")
    return memory.with_columns(pl.Series("time_ns", moved), pl.Series("event", row), cycle).cast(MEMORY_SCHEMA)  # type: ignore[arg-type]


def _moved_tags(trace: Trace, moved: pl.DataFrame, steps: _StepPairs) -> pl.DataFrame:
    """Return the tags of the details at the time of the allocation before them, so that they tag the same blocks."""
    tags = trace.tags.filter(pl.col("cycle") == steps.details["cycle"][0])
    time = _moved_times(trace, moved, steps, tags["time_ns"].to_numpy())
    return tags.with_columns(pl.Series("time_ns", time), _cycle_of_times(steps))


def _moved_storages(trace: Trace, moved: pl.DataFrame, steps: _StepPairs) -> pl.DataFrame:
    """Return the storages of the details, gone just after the change of memory before that."""
    found = trace.storages.filter(pl.col("cycle") == steps.details["cycle"][0])
    gone = found["gone_ns"]
    time = pl.Series("gone_ns", _moved_times(trace, moved, steps, gone.fill_null(0).to_numpy()) + 1)
    return found.with_columns(pl.when(gone.is_not_null()).then(time).alias("gone_ns"), _cycle_of_times(steps))


def _moved_times(trace: Trace, moved: pl.DataFrame, steps: _StepPairs, times: IntArray) -> IntArray:
    """Return for times of the details those of the allocation before them, as moved."""
    of_details = pl.col("cycle") == steps.details["cycle"][0]
    before = trace.memory.filter(of_details)["time_ns"].head(moved.height).to_numpy()
    place = np.searchsorted(before, times, side="right")
    earliest = moved["time_ns"].to_numpy()[:1] - 1
    time = np.concatenate((earliest, moved["time_ns"].to_numpy()))[place] if moved.height else 0
    return np.broadcast_to(time, len(times)).astype(np.int64)


def _cycle_of_times(steps: _StepPairs) -> pl.Expr:
    return pl.lit(steps.times["cycle"][0], pl.Int32).alias("cycle")


def _has_counterpart(time_ns: pl.Series, steps: _StepPairs) -> pl.Series:
    """Return False from the first step on that the times do not have."""
    if steps.details.height == steps.paired:
        return time_ns.is_not_null()
    return time_ns < steps.details["start_ns"][steps.paired]


def _clock(first: Ops, second: Ops, pairs: Matches, steps: _StepPairs) -> Clock:
    """Return the clock of the times for moments of the details: those of matching ops, and of the steps, are known."""
    of_times, of_details = (
        [found[name].slice(begin, steps.paired).to_numpy() for name in ("start_ns", "end_ns")]
        for found, begin in ((steps.times, steps.begin), (steps.details, 0))
    )
    second_ns = np.concatenate((second.start_ns[pairs.second], second.end_ns[pairs.second], *of_details))
    first_ns = np.concatenate((first.start_ns[pairs.first], first.end_ns[pairs.first], *of_times))
    return Clock(second_ns, first_ns)


def _of_one_pass(trace: Trace, passes: TwoPass, *, has_times: bool, cost_too_much: bool) -> Trace:
    """Return a trace in which one pass is missing, with a problem that says so."""
    if trace.steps.height == 0:
        return trace
    is_one_step = trace.meta.stepping is not None and trace.meta.stepping.how == "cell"
    if not has_times:
        missing = problem("run.two_pass_no_times")
    else:
        missing = problem("run.two_pass_one_step") if is_one_step else problem("run.two_pass_no_details")
        if passes.is_auto:
            details = enumerated([word for word, _ in passes.asked])
            flags = enumerated([flag for _, flag in passes.asked], "or")
            missing = problem("run.auto_no_details", flags=flags)
            if is_one_step:
                missing = problem("run.auto_one_step", details=details, flags=flags)
            elif cost_too_much:
                recorded = trace.steps.filter(pl.col("cycle") == passes.times_cycle)
                missing = problem("run.auto_times", times=_steps(recorded), rest=_cost(trace.meta, recorded.height))
        if passes.line_steps:
            numbers = trace.steps.filter(pl.col("cycle") == passes.times_cycle)["number"].to_list()
            missing = problem("run.auto_lines", times=_named(numbers), lines=_named(list(passes.line_steps)))
    kept = of_cycle(trace, passes.times_cycle if has_times else passes.details_cycle)
    return replace(kept, problems=(missing, *kept.problems))


def _common_share(first: Ops, second: Ops, joined: _Joined, steps: _StepPairs) -> float:
    """Return the share of ops in paired steps that was found in both, of the pass that has more ops."""
    places = steps.places
    ours, theirs = (np.bincount(ops.place[ops.place >= 0], minlength=places[-1] + 1) for ops in (first, second))
    most = max(int(ours[places].sum()), int(theirs[joined.counterpart[places]].sum()), 1)
    return int(np.isin(first.place[joined.details.first], places).sum()) / most


def _told(meta: Meta, steps: _StepPairs, counterpart: IntArray, share: float, recorded: int) -> Problem:
    """Return a problem that says which pass the numbers come from; ``recorded`` steps are in all passes."""
    kinds = {"shapes": meta.has_shapes, "memory": meta.has_memory, "stacks": meta.has_stacks}
    names = [name for name, is_there in kinds.items() if is_there] or ["details"]
    origin = (
        f"Times are from {_steps(steps.times)}, {enumerated(names)} from {_steps(steps.details.head(steps.paired))}"
    )
    lines = meta.two_pass.line_steps if meta.two_pass is not None else ()
    origin += f", lines of your functions from {_named(list(lines))}, in proportion to the times" if lines else ""
    found = "all" if share == 1 else format_ratio(min(share, ALMOST_ALL)) + " of the"
    missing = steps.times[np.setdiff1d(np.arange(steps.times.height), steps.places)]
    what = "memory" if meta.has_memory else "step"
    has = "has no {} of its own" if missing.height == 1 else "have no {} of their own"
    rest = f" {_steps(missing).capitalize()} {has.format(what)}." if missing.height else ""
    rest += _elsewhere(meta, steps, counterpart) + _cost(meta, recorded)
    if share >= LEAST_COMMON:
        return problem("run.two_pass", origin=origin, found=found, rest=rest)
    return problem("run.two_pass_differs", origin=origin, found=found, rest=rest)


def _elsewhere(meta: Meta, steps: _StepPairs, counterpart: IntArray) -> str:
    """Return which steps have their details from another step than their memory."""
    theirs, ours = (each["number"].to_list() for each in (steps.details, steps.times))
    moved = steps.places[(counterpart != steps.in_order)[steps.places]].tolist()
    if not moved:
        return ""
    if len(moved) > 1:
        told = f" {len(moved)} steps have the details of another step that did the same work"
        return f"{told}, and the memory of the one in their order." if meta.has_memory else f"{told}."
    (place,) = moved
    other, own = (theirs[each - steps.begin] for each in (place, counterpart[place]))
    told = f" Step {other} did other work, so step {ours[place]} has the details of step {own}"
    return f"{told}, and the memory of step {other}." if meta.has_memory else f"{told}."


def _cost(meta: Meta, recorded: int) -> str:
    """Return how much longer the loop took, where nobody asked for details."""
    passes = meta.two_pass
    if passes is None or passes.cost_ns is None:
        return ""
    share = f"{recorded} of {counted(passes.steps_seen, 'step')} were recorded"
    return f" {share}, and the loop took {format_ns(passes.cost_ns)} longer in all."


def _steps(steps: pl.DataFrame) -> str:
    """Return ``step 4``, ``steps 2–4``, or ``steps 2 and 4`` for two ends of a cycle."""
    return _named(steps["number"].to_list())


def _named(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    is_run = numbers[-1] - numbers[0] == len(numbers) - 1
    return f"steps {numbers[0]}–{numbers[-1]}" if is_run else f"steps {enumerated(list(map(str, numbers)))}"
