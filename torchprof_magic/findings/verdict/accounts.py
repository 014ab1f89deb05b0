"""Where the time of a typical step goes: an account of the device that limits it, or of the host if there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import CountedSteps, counted_part, counted_steps, has_counted_steps
from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.device.idle_pieces import CAUSES, cause_numbers, idle_pieces
from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.facts.host.host_lines import import_at, line_seen_in, seen_lines
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import (
    Pieces,
    pieces_of,
)
from torchprof_magic.facts.host.host_waits import wait_timelines
from torchprof_magic.facts.host.lanes_of_steps import lanes_of_steps
from torchprof_magic.facts.host.pauses import longest_pause
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.host.seen_waits import stands_for_all
from torchprof_magic.facts.host.silence import are_silent
from torchprof_magic.facts.host.step_pieces import StepPieces, step_pieces
from torchprof_magic.facts.host.unseen_waits import idle_of_steps
from torchprof_magic.facts.shared import is_named, name_numbers, once_per_trace
from torchprof_magic.facts.source.places import Places, places_of
from torchprof_magic.facts.source.step_places import called, placed_pieces
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.model.intervals import NO_PARENT, BoolArray, IntArray, covered_ns
from torchprof_magic.model.line_calls import call_of_line
from torchprof_magic.model.rows import keys_of
from torchprof_magic.model.trace import DEVICE_CATEGORIES, STEP_PATTERN
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Ops that only move or fill memory.
MOVING_OP = (
    r"^aten::(copy_|clone|contiguous|_to_copy|cat|stack|fill_|zero_|zeros|full|repeat|index_copy_|_cat|roll|flip|"
    r"new_zeros|zeros_like|ones|empty|empty_like|empty_strided|resize_|_reshape_alias|pad|constant_pad_nd)$"
)
# An op that the program calls and that lasts less than this mostly costs its call.
TINY_OP_NS = 20_000
MOST_DISTORTION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One thing that a step spends time on, in ns over all chosen steps, and what stands for most of it.

    ``name`` is the op, call, range or kernel with the most of it, ``around`` the annotation around that. ``file`` and
    ``line`` are the user's line with the most of it. ``longest_name`` is what took the most of a single idle gap. If
    more of it has no name than any name has, ``name`` is empty; ``between`` are the events before and after most of it.
    """

    kind: str
    ns: int
    name: str = ""
    name_ns: int = 0
    around: str = ""
    file: str = ""
    line: int | None = None
    line_ns: int = 0
    longest_name: str = ""
    longest_ns: int = 0
    between: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the time of the chosen steps went; the causes add up to ``whole_ns``.

    ``exposed_ns`` is the part of communication in which only collectives ran on the device. ``tiny_ns`` is the part of
    the ops that called ones of less than 20 us take; ``overhead`` is this and Python together, what it costs to drive
    the ops. ``moving_ns`` is the part of ops that only move memory. ``device`` is the number of the device, or ``None``
    for the host's account. ``before_ns`` is the work of the device before the first op of a recording without steps.
    """

    whole_ns: int
    steps: int
    causes: dict[str, Cause]
    device: int | None = None
    busy_ns: int = 0
    exposed_ns: int = 0
    tiny_ns: int = 0
    overhead: Cause | None = None
    moving_ns: int = 0
    has_steps: bool = True
    optimizer_ns: int = 0
    before_ns: int = 0

    def share(self, *kinds: str) -> float:
        """Return the share of these causes together."""
        return sum(self.causes[kind].ns for kind in kinds if kind in self.causes) / max(self.whole_ns, 1)


@once_per_trace
def device_account(trace: Trace) -> Account | None:
    """Return the account of the busiest device, ``None`` if no device worked in the recording."""
    if not trace.has_device:
        return None
    work = trace.events.with_row_index("row").filter(pl.col("category").is_in(DEVICE_CATEGORIES))
    work = work.with_columns(pl.col("device").fill_null(0))
    accounts = [_of_device(trace, int(device), rows) for (device,), rows in sorted(work.group_by("device"))]
    return max(accounts, key=lambda account: account.busy_ns, default=None)


def kernels_per_step(trace: Trace) -> float:
    """Return how many kernels begin in a step that counts, on average; in the windows of a recording without steps."""
    chosen = counted_steps(trace)
    start = np.sort(trace.events.filter(pl.col("category") == "kernel")["start_ns"].to_numpy())
    inside = np.searchsorted(start, chosen.end_ns) - np.searchsorted(start, chosen.start_ns)
    return int(inside.sum()) / chosen.steps


@once_per_trace
def host_account(trace: Trace) -> Account:
    """Return the account of the thread that runs the steps, by phase."""
    chosen, (pieces, named, places, _) = counted_steps(trace), placed_pieces(trace)
    ns = np.where(np.isin(pieces.step, chosen.row), pieces.dur_ns, 0)
    is_once = np.isin(pieces.phase, [PHASES.index(name) for name in ("compile", "initialisation")])
    parts = _Parts(
        named=named,
        ns=ns,
        places=_with_seen_lines(trace, places, named, pieces.start_ns, pieces.end_ns, is_once),
        gap=np.full(len(ns), NO_PARENT),
    )
    causes = {phase: _cause_of(trace, phase, parts, pieces.phase == number) for number, phase in enumerate(PHASES)}
    is_silent = are_silent(trace, pieces.start_ns, pieces.end_ns)
    is_python = pieces.phase == PHASES.index("python")
    if (is_python & is_silent).any():
        causes["python"] = _cause_of(trace, "python", parts, is_python & ~is_silent)
        causes["unknown"] = _cause_of(trace, "unknown", parts, is_python & is_silent)
    for phase in ("python", "idle"):
        is_phase = (pieces.phase == PHASES.index(phase)) & ~is_silent
        causes[phase] = _with_call(trace, causes[phase], pieces.wait, np.where(is_phase, ns, 0))
    causes["python"] = _with_pause(trace, causes["python"], pieces, ns)
    causes["initialisation"] = _with_module(trace, causes["initialisation"], pieces.start_ns, np.where(is_once, ns, 0))
    causes = _with_imports(trace, _with_measured_idle(trace, causes))
    nest = host_nest(trace)
    is_ops = np.isin(pieces.phase, [PHASES.index(name) for name in ("forward", "backward", "optimizer")])
    tiny_ns = _tiny_op_ns(trace)
    length = np.append(nest.end_ns - nest.start_ns, tiny_ns)[named]
    moves = is_named(trace, MOVING_OP)
    is_moving = np.append(moves[nest.row], False)[pieces.cause]
    is_tiny = is_ops & (length < tiny_ns)
    drives = is_tiny | (pieces.phase == PHASES.index("python"))
    overhead = _cause_of(trace, "overhead", parts, drives)
    return Account(
        whole_ns=chosen.whole_ns,
        steps=chosen.steps,
        has_steps=len(chosen.row) > 0,
        causes=causes,
        tiny_ns=int(ns[is_tiny].sum()),
        overhead=replace(overhead, ns=int(ns[is_tiny].sum()) + causes["python"].ns),
        moving_ns=int(ns[is_ops & is_moving].sum()),
        optimizer_ns=causes["optimizer"].ns,
    )


def _with_call(trace: Trace, cause: Cause, wait: IntArray, ns: IntArray) -> Cause:
    """Return a cause with what the user's lines called in most of it, where that is known, and the line of that."""
    known = np.flatnonzero((wait >= 0) & (ns > 0))
    if len(known) == 0:
        return cause
    calls = trace.waits[wait[known].tolist()].select("call", "file", "line").with_columns(pl.Series("ns", ns[known]))
    by_call = calls.with_columns(pl.col("ns").sum().over("call").alias("call_ns"))
    lines = by_call.group_by("call", "file", "line", "call_ns").agg(pl.col("ns").sum())
    call, file, line, call_ns, line_ns = lines.sort("call_ns", "ns", descending=True).row(0)
    if 2 * call_ns < cause.ns and call_ns < max(cause.name_ns, cause.ns - int(ns[known].sum())):
        return cause
    found = replace(cause, name=str(call or ""), name_ns=int(call_ns), around="")
    return found if file is None else replace(found, file=str(file), line=line, line_ns=int(line_ns))


def _with_pause(trace: Trace, python: Cause, pieces: StepPieces, ns: IntArray) -> Cause:
    """Return the Python of the steps with where in them it is, if neither an event nor a line tells."""
    if python.name or python.file or python.ns == 0:
        return python
    row = np.append(host_nest(trace).row, NO_PARENT)[pieces.cause]
    is_bare = (pieces.phase == PHASES.index("python")) & (ns > 0) & ((row < 0) | _is_step(trace)[row])
    lane = int(np.bincount(lanes_of_steps(trace).clip(min=0)).argmax())
    return replace(python, between=longest_pause(trace, lane, pieces.start_ns[is_bare], pieces.end_ns[is_bare]))


def named_pieces(trace: Trace, chosen: IntArray | None = None) -> pl.DataFrame:
    """Return the pieces of all steps, or those that are chosen by their number, with what names each, and its line.

    The columns are ``step`` (a row of ``trace.steps``), ``phase``, ``name``, ``file``, ``line`` and ``dur_ns``.
    """
    pieces, named, places, _ = placed_pieces(trace)
    chosen = np.arange(len(step_pieces(trace).step)) if chosen is None else chosen
    pieces = StepPieces(*(column[chosen] for column in pieces))
    row = np.append(host_nest(trace).row, NO_PARENT)[named[chosen]]
    at = pl.Series(np.where(_is_step(trace)[row], NO_PARENT, row))
    file, line = places.at(chosen).columns()
    return pl.DataFrame(
        {
            "step": pieces.step,
            "phase": pl.Series(list(PHASES)).gather(pieces.phase),
            "name": trace.events["name"].gather(at.set(at < 0, None)).cast(pl.String),
            "file": file,
            "line": line,
            "dur_ns": pieces.dur_ns,
        }
    )


def _tiny_op_ns(trace: Trace) -> int:
    """Return below which recorded length an op is short: recording makes short ops longer, as it does steps."""
    found = find_distortion(trace)
    return int(TINY_OP_NS * (1 if found is None else min(max(found.ratio, 1), MOST_DISTORTION)))


def _with_measured_idle(trace: Trace, causes: dict[str, Cause]) -> dict[str, Cause]:
    """Return the causes with the part of Python in which its thread used no CPU as idle time."""
    asleep_ns = int(idle_of_steps(trace)[counted_steps(trace).row].sum())
    python, idle = causes["python"], causes["idle"]
    is_named = stands_for_all(idle.ns, asleep_ns) if trace.waits.height else idle.ns > asleep_ns
    larger = idle if is_named else replace(python, kind="idle", name=python.name or _call_in_source(trace, python))
    return causes | {
        "python": replace(python, ns=python.ns - asleep_ns),
        "idle": replace(larger, ns=idle.ns + asleep_ns),
    }


def _call_in_source(trace: Trace, cause: Cause) -> str:
    """Return what the line of a cause calls, if only one of its calls may wait; by the source of watched lines."""
    if not cause.file or cause.line is None or 2 * cause.line_ns < cause.ns:
        return ""
    is_line = (pl.col("kind") == "line") & (pl.col("file") == cause.file) & (pl.col("line") == cause.line)
    text = trace.sites.filter(is_line)["name"]
    return call_of_line(str(text[0])) if len(text) else ""


def _with_seen_lines(
    trace: Trace, places: Places, named: IntArray, start_ns: IntArray, end_ns: IntArray, is_once: BoolArray
) -> Places:
    """Return the places with those of imports; and with a line that was seen within other work that is done once.

    That counts for the event that names a piece, where its line is not known otherwise.
    """
    nest, lines = host_nest(trace), seen_lines(trace)
    asked = np.flatnonzero(is_once & ((import_at(trace, start_ns) >= 0) | (places.file < 0)))
    is_event = named[asked] >= 0
    from_ns = np.where(is_event, np.append(nest.start_ns, 0)[named[asked]], start_ns[asked])
    to_ns = np.where(is_event, np.append(nest.end_ns, 0)[named[asked]], end_ns[asked])
    found = line_seen_in(trace, from_ns, to_ns)
    asked, found = asked[found >= 0], found[found >= 0]
    file, line = places.file.copy(), places.line.copy()
    file[asked], line[asked] = found + len(places.files), lines.line[found]
    return Places(pl.concat([places.files.cast(pl.String), lines.file]), file, line)


def _with_module(trace: Trace, cause: Cause, start_ns: IntArray, ns: IntArray) -> Cause:
    """Return initialisation named after the module whose import takes the most of it, unless an event takes more."""
    row = np.where(ns > 0, import_at(trace, start_ns), NO_PARENT)
    if not (row >= 0).any():
        return cause
    modules = (
        trace.host_lines[row[row >= 0].tolist()].select("module", "line").with_columns(pl.Series("ns", ns[row >= 0]))
    )
    sums = modules.group_by("module").agg(pl.col("ns").sum()).sort("ns", "module", descending=[True, False])
    module, module_ns = sums.row(0)
    if module_ns < cause.name_ns:
        return cause
    at_line = modules.filter((pl.col("module") == module) & (pl.col("line") == cause.line))["ns"].sum()
    return replace(cause, name=f"import {module}", name_ns=int(module_ns), line_ns=int(at_line), around="")


def _with_imports(trace: Trace, causes: dict[str, Cause]) -> dict[str, Cause]:
    """Return the causes with the part of Python in which modules were imported, where only its length is known."""
    if trace.host_lines["module"].is_not_null().any():
        return causes
    numbers = set(keys_of(trace.steps[counted_steps(trace).row.tolist()]))
    marks = [mark for mark in trace.meta.recorded_steps if mark.import_ns and (mark.cycle, mark.number) in numbers]
    if not marks:
        return causes
    # A thread that reads a slow disk sleeps meanwhile.
    python, idle, import_ns = causes["python"], causes["idle"], sum(mark.import_ns for mark in marks)
    of_python = min(import_ns, python.ns)
    of_idle = min(import_ns - of_python, idle.ns)
    name = max(marks, key=lambda mark: mark.import_ns).imports
    imports = Cause(kind="initialisation", ns=of_python + of_idle, name=name[0] if name else "")
    known = causes["initialisation"]
    larger = imports if imports.ns >= known.ns else known
    return causes | {
        "python": replace(python, ns=python.ns - of_python),
        "idle": replace(idle, ns=idle.ns - of_idle),
        "initialisation": replace(larger, ns=imports.ns + known.ns),
    }


def _of_device(trace: Trace, device: int, work: pl.DataFrame) -> Account:
    chosen = counted_steps(trace)
    row = work["row"].to_numpy().astype(np.int64)
    start = work["start_ns"].to_numpy()
    end = start + work["dur_ns"].to_numpy()
    is_kernel = (work["category"] == "kernel").to_numpy()
    is_collective = is_named(trace, COLLECTIVE_KERNEL)
    is_comm = is_kernel & is_collective[row]
    busy = _covered(start, end, chosen)
    computes = is_kernel & ~is_comm
    compute_ns = _covered(start[computes], end[computes], chosen)
    kernels_ns = _covered(start[is_kernel], end[is_kernel], chosen)
    comm_ns = kernels_ns - compute_ns
    inside = _clipped(start, end, chosen)
    works = {
        "communication": (is_comm, comm_ns),
        "memory_traffic": (~is_kernel, busy - kernels_ns),
        "compute": (computes, compute_ns),
    }
    causes = {
        kind: replace(_top_work(trace, kind, row[which], inside[which]), ns=ns) for kind, (which, ns) in works.items()
    }
    idle = _idle_of(trace, device)
    on_host, on_device = idle.pop("communication"), causes["communication"]
    larger = max(on_device, on_host, key=lambda cause: cause.ns)
    causes["communication"] = replace(larger, ns=on_device.ns + on_host.ns)
    is_optimizer = phase_of_events(trace)[row] == PHASES.index("optimizer")
    return Account(
        whole_ns=chosen.whole_ns,
        steps=chosen.steps,
        has_steps=len(chosen.row) > 0,
        causes=causes | idle,
        device=device,
        busy_ns=busy,
        exposed_ns=comm_ns,
        optimizer_ns=_covered(start[is_optimizer], end[is_optimizer], chosen),
        before_ns=0 if has_counted_steps(trace) else int((end - start - inside).sum()),
    )


def counted_time(trace: Trace, start_ns: IntArray, dur_ns: IntArray) -> IntArray:
    """Return how much of each interval counts, in ns: as in the tables, also what runs outside of steps."""
    return counted_part(trace).cut(start_ns, dur_ns)[1]


def _covered(start: IntArray, end: IntArray, chosen: CountedSteps) -> int:
    return int(covered_ns(start, end, chosen.start_ns, chosen.end_ns).sum())


def _clipped(start: IntArray, end: IntArray, chosen: CountedSteps) -> IntArray:
    """Return how much of each interval lies in the chosen steps."""
    if len(chosen.start_ns) == 0:
        return np.zeros(len(start), np.int64)
    return covered_ns(chosen.start_ns, chosen.end_ns, start, end)


def _top_work(trace: Trace, kind: str, row: IntArray, ns: IntArray) -> Cause:
    """Return a cause with the work that has the most time, and the line that launched the most."""
    if len(row) == 0:
        return Cause(kind=kind, ns=0)
    call = origins(trace).astype(np.int64)[row]
    return _most(trace, kind, row, ns, places_of(trace, call))


class _Parts(NamedTuple):
    """Pieces of time: the event of the host nest that names each, their lengths, and their lines.

    ``gap`` is the number of the idle gap that each belongs to, -1 where there is none.
    """

    named: IntArray
    ns: IntArray
    places: Places
    gap: IntArray


def _idle_of(trace: Trace, device: int) -> dict[str, Cause]:
    """Return the idle time of a device in the chosen steps, by cause."""
    pieces = idle_pieces(trace)
    here = np.flatnonzero(pieces.device == device)
    named = called(trace, pieces.cause[here], pieces.detail[here])
    start, end = pieces.start_ns[here], pieces.end_ns[here]
    numbers = cause_numbers(trace)[here]
    is_once = np.isin(numbers, [[*CAUSES].index(name) for name in ("compile", "initialisation")])
    places = places_of(trace, np.append(host_nest(trace).row, NO_PARENT)[named], start)
    parts = _Parts(
        named=named,
        ns=_clipped(start, end, counted_steps(trace)),
        places=_with_seen_lines(trace, places, named, start, end, is_once),
        gap=pieces.gap[here],
    )
    causes = {cause: _cause_of(trace, cause, parts, numbers == number) for number, cause in enumerate(CAUSES)}
    causes["initialisation"] = _with_module(trace, causes["initialisation"], start, np.where(is_once, parts.ns, 0))
    python = here[numbers == [*CAUSES].index("python")]
    wait, ns = _waits_within(trace, pieces.start_ns[python], pieces.end_ns[python])
    found = _with_call(trace, causes["python"], wait, ns)
    waited_ns = int(ns[np.append((trace.waits["kind"] == "wait").to_numpy(), False)[wait]].sum())
    return causes | {"python": replace(found, kind="idle") if 2 * waited_ns >= max(found.ns, 1) else found}


def _waits_within(trace: Trace, start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the waits of the host in some intervals, rows of ``trace.waits``, and their time in the chosen steps."""
    lines = list(wait_timelines(trace).values())
    parts = [pieces_of(line, start_ns, end_ns) for line in lines]
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    found = Pieces(*map(np.concatenate, zip(*parts, strict=True)))
    return found.cause, _clipped(found.start_ns, found.end_ns, counted_steps(trace))


def _cause_of(trace: Trace, kind: str, parts: _Parts, is_part: BoolArray) -> Cause:
    """Return a cause that consists of some of the parts, with the event and the line that have the most of it."""
    chosen = np.flatnonzero(is_part & (parts.ns > 0))
    if len(chosen) == 0:
        return Cause(kind=kind, ns=0)
    index, ns = parts.named[chosen], parts.ns[chosen]
    row = np.append(host_nest(trace).row, NO_PARENT)[index]
    row = np.where(_is_step(trace)[row], NO_PARENT, row)
    cause = _most(trace, kind, row, ns, parts.places.at(chosen))
    cause = _with_longest(trace, cause, row, ns, parts.gap[chosen])
    if not cause.name:
        return cause
    codes = _name_codes(trace, row)
    names, sums = _sums(codes, ns)
    same = np.flatnonzero(codes == names[sums.argmax()])
    return replace(cause, around=_annotation_around(trace, int(index[same[ns[same].argmax()]])))


@once_per_trace
def _is_step(trace: Trace) -> BoolArray:
    """Return which events are ranges of steps; with one more entry for event -1."""
    return np.append(is_named(trace, STEP_PATTERN), False)


def _name_codes(trace: Trace, row: IntArray) -> IntArray:
    """Return a number for the name of each event row, -1 for none."""
    return _all_codes(trace)[row]


@once_per_trace
def _all_codes(trace: Trace) -> IntArray:
    """Return a number for the name of each event, and -1 at the end."""
    return np.append(name_numbers(trace).astype(np.int64), NO_PARENT)


def _most(trace: Trace, kind: str, row: IntArray, ns: IntArray, places: Places) -> Cause:
    """Return the cause of all rows, with the name that has the most ``ns``, and the line that has the most of that."""
    names, sums = _sums(_name_codes(trace, row), ns)
    name, name_ns, file, line, line_ns = "", 0, "", None, 0
    unnamed_ns = int(ns.sum()) - int(sums.sum())
    if len(names) and sums.max() > 0 and sums.max() >= unnamed_ns:
        code, name_ns = int(names[sums.argmax()]), int(sums.max())
        same = np.flatnonzero(_name_codes(trace, row) == code)
        name = str(trace.events["name"][int(row[same[0]])])
        file, line, line_ns = line_with_most(places.at(same), ns[same])
    if not file:
        file, line, line_ns = line_with_most(places, ns)
    return Cause(kind=kind, ns=int(ns.sum()), name=name, name_ns=name_ns, file=file, line=line, line_ns=line_ns)


def line_with_most(places: Places, ns: IntArray) -> tuple[str, int | None, int]:
    """Return the file and the number of the line that has the most ``ns``, and how much; an empty file if none has."""
    width = int(places.line.max(initial=0)) + 1
    lines, sums = _sums(np.where(places.file >= 0, places.file * width + places.line, NO_PARENT), ns)
    if len(lines) == 0 or sums.max() <= 0:
        return "", None, 0
    place = int(lines[sums.argmax()])
    return str(places.files[place // width]), place % width or None, int(sums.max())


def _sums(keys: IntArray, ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct keys >= 0, and the sum of each."""
    known = keys >= 0
    keys, ns = (keys, ns) if known.all() else (keys[known], ns[known])
    if int(keys.max(initial=0)) < len(keys):  # no need to sort
        distinct = np.flatnonzero(np.bincount(keys))
        return distinct, sum_by(keys, ns, len(keys))[distinct]
    distinct, group = np.unique(keys, return_inverse=True)
    return distinct, sum_by(group, ns, len(distinct))


def _with_longest(trace: Trace, cause: Cause, row: IntArray, ns: IntArray, gap: IntArray) -> Cause:
    """Return the cause with what took the most of a single gap."""
    codes = _name_codes(trace, row)
    width = int(codes.max(initial=0)) + 1
    keys, sums = _sums(np.where((gap >= 0) & (codes >= 0), gap * width + codes, NO_PARENT), ns)
    if len(keys) == 0:
        return cause
    code = int(keys[sums.argmax()]) % width
    name = str(trace.events["name"][int(row[np.flatnonzero(codes == code)[0]])])
    return replace(cause, longest_name=name, longest_ns=int(sums.max()))


def _annotation_around(trace: Trace, index: int) -> str:
    """Return the name of the innermost annotation around an event of the host nest, other than a step."""
    nest, events = host_nest(trace), trace.events
    above = int(nest.parent[index]) if index >= 0 else NO_PARENT
    while above >= 0:
        row = int(nest.row[above])
        name = str(events["name"][row])
        if events["category"][row] == "user_annotation" and not name.startswith("ProfilerStep#"):
            return name
        above = int(nest.parent[above])
    return ""
