"""The sentences of a verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from torchprof_magic.facts.budget import busiest_device, limits_of_work
from torchprof_magic.facts.counted_steps import counted_part, counted_steps
from torchprof_magic.facts.device.coverage import is_capture_alone, launches_of
from torchprof_magic.facts.device.graph_work import graph_work, origins
from torchprof_magic.facts.device.kernel_names import kernel_title
from torchprof_magic.facts.host.host_nest import host_nest
from torchprof_magic.facts.host.host_states import WRAPPER_NAME
from torchprof_magic.facts.host.transitions import transitions_ns
from torchprof_magic.facts.ops.roofline import peak_of_device
from torchprof_magic.facts.shared import (
    device_rows,
    in_category,
    is_named,
    launch_links,
    name_numbers,
    once_per_trace,
)
from torchprof_magic.facts.source.fused_titles import fused_titles
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.facts.source.shown_files import call_as_shown
from torchprof_magic.facts.source.step_places import placed_pieces
from torchprof_magic.findings.verdict.accounts import Account, Cause, counted_time, kernels_per_step, line_with_most
from torchprof_magic.findings.verdict.once import OneTime, one_time_work
from torchprof_magic.model.intervals import NO_PARENT, nearest_marked
from torchprof_magic.model.rows import values_at
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio, short_file
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL, GRAPH_LAUNCH
from torchprof_magic.tables.ops.op_table import ops_table
from torchprof_magic.tables.waiting.loaders import starved_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchprof_magic.facts.budget import LimitsOfWork
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

    Words = Callable[[Trace, Account, Cause], tuple["Span", ...]]

TITLES = {
    "compute": "Device-bound",
    "memory_traffic": "Bound by memory traffic",
    "communication": "Communication-bound",
    "data": "Data-bound",
    "waiting": "Waiting",
    "dispatch": "Bound by op dispatch",
    "python": "Python-bound",
    "compile": "Compilation",
    "initialisation": "Initialisation",
    "optimizer": "Optimizer-bound",
}
# What "compute" is called where it is known what limits most of the work of the device.
TITLES_OF_ROOFS = {"compute": "Compute-bound", "memory": "Memory-bound"}
# What they are called where no device was recorded.
HOST_TITLES = TITLES | {"compute": "Bound by CPU ops", "dispatch": "Bound by calling short ops"}
# If one launch call of a graph started this share of the device's work, it is named.
MOSTLY_GRAPHS = 0.5
# From this share of the steps on, the recording's own work beside them is told.
LOUD_RECORDING = 0.1
# Below this share of the time of kernels, what limits them is not worth a word.
LEAST_TOLD = 0.01
MAX_NAME = 64
# Shares of what a verdict names that the told line has.
_HALF = 0.5
_MOSTLY_IN = ", mostly in "
_NEARLY_ALL = 0.9
# What causes are called in a sentence, where that is not their name.
_NAMES = {
    "memory_traffic": "memory traffic",
    "compute": "computation",
    "data": "loading data",
    "waiting": "waiting in calls",
    "allocation": "reserving or freeing device memory",
    "python": "Python",
    "optimizer": "the optimizer",
    "profiler": "the profiler",
    "compile": "compilation or graph capture",
    "idle": "sleeping or waiting",
    "missing": "work that is missing in the file",
    "unknown": "what the file does not tell",
}
# Causes in the account of a device that are named after a kernel.
_DEVICE_KINDS = ("compute", "memory_traffic", "communication")
# If the short ops of a step take this share of its optimizer's time, a variant with fewer ops is named.
MOSTLY_SHORT = 0.4
# Not the point of a number, or of a name.
_SENTENCE_END = re.compile(r"\.(?=\s|$)")
# What names of C++ functions look like: template arguments, or parameters that are pointers.
_SIGNATURE = re.compile(r"\w<|\w\([^)]*\*")
_FUNCTOR = re.compile(r"(\w+)Functor\b|CUDAFunctor_(\w+)")
_IN_BACKTICKS = re.compile(r"`([^`]+)`")
_GENERIC_FUNCTORS = ("Binary", "BUnary", "AUnary", "Unary")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of text. Pieces with the style ``code`` are names.

    ``kernel`` is the full name, if it is a kernel's, and ``name`` that of anything else that may be cut.
    """

    text: str
    style: Literal["", "strong", "code"] = ""
    kernel: str = ""
    name: str = ""

    @property
    def short(self) -> str:
        """The text with a kernel called by what it does, as the views call it."""
        return kernel_title(self.kernel) if self.kernel else self.text


def _plain(text: str) -> Span:
    return Span(text=text)


def code(text: str, kernel: str = "") -> Span:
    """Return a name as a piece of text."""
    return Span(text=text, style="code", kernel=kernel)


def named(name: str) -> Span:
    """Return the name of an event, short, as a piece of text."""
    return Span(text=short_name(name), style="code", name=name)


def as_shown(trace: Trace, span: Span) -> Span:
    """Return a piece of text with the label of the cell that a Python call is in, or with what a kernel fuses."""
    if fused := fused_titles(trace).get(span.kernel or span.name):
        return replace(span, text=fused, kernel="", name="")
    shown = call_as_shown(trace, span.name) if span.name else ""
    return span if shown == span.name else replace(span, text=cut_name(shown))


def with_fused_words(trace: Trace, text: str) -> str:
    """Return a sentence in which names of generated kernels in backticks are what they fuse."""
    titles = fused_titles(trace)
    if not titles or "`" not in text:
        return text
    known = titles | {cut_name(name): title for name, title in titles.items()}
    return _IN_BACKTICKS.sub(lambda match: f"`{known.get(match[1], match[1])}`", text)


def amount(account: Account, ns: float) -> Span:
    """Return a time per step and the length of a step, ``12 ms of 30 ms``."""
    return Span(
        text=f"{format_ns(ns / account.steps)} of {format_ns(account.whole_ns / account.steps)}", style="strong"
    )


def _each(account: Account) -> str:
    """Return what times and counts stand for: a step, where there are steps."""
    return " per step" if account.has_steps else ""


def _share(account: Account, ns: float) -> str:
    """Return what times stand for and their share."""
    return f"{_each(account)}{_since(account)} ({format_ratio(ns / max(account.whole_ns, 1))})"


def _since(account: Account) -> str:
    """Return from when on a recording without steps is shared out, if its device works for long before that."""
    return " from the first op on" if account.before_ns >= LEAST_TOLD * max(account.whole_ns, 1) else ""


def whole_words(account: Account) -> tuple[Span, ...]:
    """Return from when to when the whole is without steps, if the first sentence does not say it."""
    if account.has_steps or _since(account):
        return ()
    return (_plain(f" The {format_ns(account.whole_ns)} are those from the first op to the last work."),)


def _idle_for(account: Account, cause: Cause, why: str) -> tuple[Span, ...]:
    return (
        _plain("The device waits "),
        amount(account, cause.ns),
        _plain(f"{_share(account, cause.ns)} {why}"),
    )


def _in(account: Account, cause: Cause, before: str = _MOSTLY_IN) -> tuple[Span, ...]:
    if not cause.name and cause.between:
        first, then = cause.between
        return (_plain(", above all between "), named(first), _plain(" and "), named(then))
    if not cause.name:
        return ()
    is_kernel = account.device is not None and cause.kind in _DEVICE_KINDS
    name = code(short_name(cause.name), cause.name) if is_kernel else named(cause.name)
    if before != _MOSTLY_IN or cause.name_ns >= _HALF * cause.ns:
        return (_plain(before), name)
    told = (_plain(f" ({format_ns(cause.name_ns / account.steps)})"),) if cause.name_ns else ()
    return (_plain(", above all in "), name, *told)


def first_sentence(spans: Sequence[Span]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the pieces of the first sentence, and those of what follows it."""
    for at, span in enumerate(spans):
        if not span.style and (end := _SENTENCE_END.search(span.text)):
            rest = span.text[end.end() :]
            following = (_plain(rest),) if rest else ()
            return (*spans[:at], _plain(span.text[: end.end()])), (*following, *spans[at + 1 :])
    return tuple(spans), ()


def line_words(trace: Trace, file: str, line: int | None, *, share: float = 1) -> tuple[Span, ...]:
    """Return the place of the user's line as a clause; nothing if it has less than half of what the verdict names.

    Another line can have more in all, so one that has not nearly all of that is not said to be the place.
    """
    place = place_of(trace, file, line)
    if not place or share < _HALF:
        return ()
    return (_plain(", at " if share >= _NEARLY_ALL else ", mostly at "), code(place))


def with_place(text: Sequence[Span], where: Sequence[Span]) -> tuple[Span, ...]:
    """Return sentences with the line that ``line_words`` tells in the first one, which says "mostly" once."""
    if not where:
        return tuple(text)
    (*said, end), more = first_sentence(text)
    if any(word in span.text for span in (*said, end) if not span.style for word in ("mostly", "above all")):
        where = (_plain(", at "), *where[1:])
    before = end if end.style else _plain(end.text.removesuffix("."))
    return (*said, *([before] if before.text else ()), *where, _plain("."), *more)


def cause_line_words(trace: Trace, cause: Cause) -> tuple[Span, ...]:
    """Return where the line of a cause is, unless what it names is spread over more lines."""
    share = cause.line_ns / max(cause.name_ns or cause.ns, 1)
    return line_words(trace, cause.file, cause.line, share=share)


def place_of(trace: Trace, file: str | None, line: int | None) -> str:
    """Return a line as people call it: a cell by its label, a file by the last parts of its path; empty if unknown."""
    if not file:
        return ""
    label = dict(trace.meta.cell_labels).get(file, "")
    if not label and trace.meta.cell is not None and file == trace.meta.cell.filename:
        label = trace.meta.cell.label
    if label:
        return f"{cut_name(label)}, line {line}" if line else cut_name(label)
    path = short_file(file)
    path = path if len(path) <= MAX_NAME else f"…{path[1 - MAX_NAME :]}"  # the end of a path says the most
    return f"{path}:{line}" if line else path


def once_words(trace: Trace, once: OneTime) -> str:
    """Return what most of some work that is done once is, with its name and its line."""
    named = ", ".join(filter(None, (cut_name(call_as_shown(trace, once.name)), place_of(trace, once.file, once.line))))
    return f"{once.what} ({named})" if named else once.what


def short_name(name: str) -> str:
    """Return the name of a kernel without types, namespaces and arguments, and with what it computes where it says so.

    Other names are only cut if they are very long.
    """
    if not _SIGNATURE.search(name) or name.startswith("<"):
        return cut_name(name)
    plain = re.sub(r"^(void|int|float) ", "", re.split(r"[<(]", name.replace("(anonymous namespace)::", ""))[0])
    base = cut_name(plain.rpartition("::")[2] or name)
    functors = [a or b for a, b in _FUNCTOR.findall(name.partition("<")[2]) if a not in _GENERIC_FUNCTORS]
    return f"{base} · {functors[-1]}" if functors and len(functors[-1]) < MAX_NAME else base


def cut_name(name: str) -> str:
    """Return a name that fits into a sentence: names in files can have thousands of characters."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def others_words(causes: Sequence[Cause], account: Account) -> tuple[Span, ...]:
    """Return a sentence about the other causes, the largest first."""
    spans: list[Span] = []
    for number, cause in enumerate(causes):
        takes = (
            f"{cause_name(cause)} takes"
            if number == 0
            else f"{', and' if cause is causes[-1] else ','} {cause_name(cause)}"
        )
        share = format_ratio(cause.ns / max(account.whole_ns, 1))
        spans += [_plain(f"{' Besides, ' if number == 0 else ''}{takes} {share}"), *_in(account, cause)]
    return (*spans, _plain(".")) if spans else ()


def recording_words(trace: Trace) -> tuple[Span, ...]:
    """Return a sentence about the recording's own work between the steps, if it is not small beside them."""
    chosen = counted_steps(trace)
    around_ns = int(transitions_ns(trace)[chosen.row].sum())
    if around_ns < LOUD_RECORDING * max(chosen.whole_ns, 1):
        return ()
    mean = format_ns(around_ns / chosen.steps)
    return (_plain(f" Recording takes another {mean} per step, which is in none of these figures."),)


def cause_name(cause: Cause) -> str:
    """Return what a cause is called in a sentence."""
    return _NAMES.get(cause.kind, cause.kind)


def _data(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (*_idle_for(account, cause, "for the next batch"), *_in(account, cause), _plain("."), *_workers(trace))


def _fetching(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (*_host("Fetching the next batch takes")(trace, account, cause), *_workers(trace))


def _workers(trace: Trace) -> tuple[Span, ...]:
    words = starved_words(trace)
    return (_plain(f" {words}"),) if words else ()


def _dispatch(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (
        *_idle_for(account, cause, "for op dispatch: the host launches ops one by one"),
        _plain(f", {counted(kernels_per_step(trace), 'kernel')}{_each(account)}"),
        *_in(account, cause),
        _plain("."),
        *_longest(cause),
        _plain(f" The device is busy {format_ratio(account.busy_ns / max(account.whole_ns, 1))}."),
    )


def _longest(cause: Cause) -> tuple[Span, ...]:
    if not cause.longest_name or cause.longest_name == cause.name:
        return ()
    longest = format_ns(cause.longest_ns)
    return (_plain(f" The longest wait, {longest}, is in "), named(cause.longest_name), _plain("."))


def _python(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (*_idle_for(account, cause, "for Python between ops"), *_in(account, cause), _plain("."))


def _asleep(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (*_idle_for(account, cause, "while the host sleeps or waits"), *_in(account, cause), _plain("."))


def _blocked(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    why = "while a call holds the host" if cause.kind == "waiting" else "while device memory is reserved"
    return (*_idle_for(account, cause, why), *_in(account, cause, ": "), *_inside(cause), _plain("."))


def _inside(cause: Cause) -> tuple[Span, ...]:
    return (_plain(", inside "), named(cause.around)) if cause.around else ()


def _compile(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    what = "for compilation or graph capture"
    if cause.kind == "initialisation":
        what = f"for initialisation: {one_time_work(trace).what}"
    around = (_plain(" It is inside "), named(cause.around), _plain(".")) if cause.around else ()
    return (*_idle_for(account, cause, what), *_in(account, cause), _plain("."), *around, *_captured(trace))


def _captured(trace: Trace) -> tuple[Span, ...]:
    """Return how many launches ran nothing, because they were captured."""
    launches = launches_of(trace)
    if not (captured := int(launches.is_captured.sum())):
        return ()
    ran = int((launches.events > 0).sum())
    never = " No graph was replayed: this is the recording of a capture." if is_capture_alone(trace) else ""
    return (
        _plain(
            f" {counted(captured, 'launch')} {'was' if captured == 1 else 'were'} captured into a graph, "
            f"{format_count(ran)} ran.{never}"
        ),
    )


def _communication(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (
        _plain("Collectives run alone for "),
        amount(account, cause.ns),
        _plain(f"{_share(account, cause.ns)}, with no computation to overlap with"),
        *_in(account, cause),
        _plain(". One rank cannot tell transfer from waiting for other ranks."),
    )


def _works(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    operations = top_operations(trace)
    kernels = top_kernels(trace, most=2 if operations else 3)
    by_kernel = _most_of(trace, account, " By kernel, ", kernels) if operations else ()
    return (
        _plain("The device is busy "),
        amount(account, account.busy_ns),
        _plain(_share(account, account.busy_ns)),
        *_most_and_next(trace, account, operations or kernels, _among(trace, operations), are_kernels=not operations),
        _plain(_limit_of_work(trace, cause)),
        *(by_kernel and (*by_kernel, _plain("."))),
        *_graphs(trace),
    )


def title_of_work(trace: Trace) -> str:
    """Return what the verdict of a busy device is called: by what limits most of its work, if that is known."""
    return TITLES_OF_ROOFS.get(limits_of_work(trace).most, TITLES["compute"])


def _limit_of_work(trace: Trace, cause: Cause) -> str:
    """Return a sentence on what limits the kernels, and what of that is not known.

    It is empty where copies take more than they do.
    """
    limits = limits_of_work(trace)
    if limits.most:
        return f" {_limit_of_most(limits)}."
    if cause.kind != "compute":
        return ""
    largest = sorted((("The memory", limits.memory), ("Arithmetic", limits.compute)), key=lambda each: -each[1])
    (first, first_ns), (second, second_ns) = largest
    if first_ns < LEAST_TOLD * limits.whole or first_ns == 0:
        return f" What limits the kernels is not known: {_why_unknown(trace)}."
    if limits.is_far:
        return f" At {format_ratio(limits.reached)} of the roof, neither arithmetic nor the memory limits the kernels."
    other = f", {second.lower()} {format_ratio(second_ns / limits.whole)}" if second_ns else ""
    rest = ", and of the rest it is not known" if limits.unknown else ""
    return f" {first} limits {format_ratio(first_ns / limits.whole)} of the time of kernels{other}{rest}."


def _limit_of_most(limits: LimitsOfWork) -> str:
    limit, ns, at_ns = "Arithmetic", limits.compute, limits.at_compute
    if limits.most == "memory":
        limit, ns, at_ns = "The memory", limits.memory, limits.at_memory
    unknown = limits.unknown / limits.whole
    rest = f", and of {format_ratio(unknown)} it is not known" if unknown >= LEAST_TOLD else ""
    share = format_ratio(ns / limits.whole)
    return f"{limit} limits {share} of the time of kernels, at {format_ratio(at_ns / ns)} of the roof{rest}"


def _why_unknown(trace: Trace) -> str:
    if not trace.meta.has_shapes:
        return "the recording has no shapes (--shapes)"
    if peak_of_device(trace, busiest_device(trace)) is None:
        return "the peak of this device is not known (tp.peaks.add())"
    return "the recording does not tell what most of them have to do"


def _most_and_next(
    trace: Trace, account: Account, times: Sequence[tuple[str, float]], among: str = "", *, are_kernels: bool = True
) -> tuple[Span, ...]:
    """Return the name with most of a time as the end of a sentence, and those after it as another one."""
    if not times:
        return (_plain("."),)
    most, *others = (_most_of(trace, account, "", [each], are_kernels=are_kernels) for each in times)
    following = [
        span
        for number, (_, name, _) in enumerate(others)
        for span in (
            _plain(", then " if number else " Next is "),
            name,
            _plain(f", {format_ns(times[number + 1][1] / account.steps)}"),
        )
    ]
    # The lists have all work, also what runs before the first op.
    where = "in the whole recording " if _since(account) else ""
    return (_plain(f"; {where}{among}"), *most[1:], _plain("."), *following, *([_plain(".")] * bool(others)))


def _most_of(
    trace: Trace, account: Account, before: str, times: Sequence[tuple[str, float]], *, are_kernels: bool = True
) -> tuple[Span, ...]:
    """Return the names with most of a time, with theirs as the lists have it."""
    titles, spans = fused_titles(trace), list[Span]()
    for index, (name, ns) in enumerate(times):
        spans.append(_plain(", then " if index else before))
        spans.append(code(short_name(name), name) if are_kernels else code(titles.get(name, cut_name(name))))
        spans.append(_plain(f"{'' if index else ' takes the most,'} {format_ns(ns / account.steps)}"))
    return tuple(spans)


@once_per_trace
def top_operations(trace: Trace) -> list[tuple[str, float]]:
    """Return the two ops with the most device time, as the tables have it; empty without the ops of half of it.

    An op has the work that it launched itself. Without the ops of at least half of the work, the largest would mislead.
    """
    op, ns, _ = _work_of_ops(trace)
    whole = max(int(ns.sum()), 1)
    if 2 * int(ns[op >= 0].sum()) < whole:
        return []
    return _longest_names(trace, op[op >= 0], ns[op >= 0])


def _among(trace: Trace, operations: Sequence[tuple[str, float]]) -> str:
    """Return of what the first of some ops takes the most, where more work is of none of them; else nothing."""
    op, ns, _ = _work_of_ops(trace)
    return "of the recorded ops, " if operations and ns[op < 0].sum() > operations[0][1] else ""


def _work_of_ops(trace: Trace) -> tuple[IntArray, IntArray, IntArray]:
    """Return the op of each piece of work of a device, -1 for none, its time that counts, and what launched it."""
    events = trace.events
    work = device_rows(trace)
    call = origins(trace).astype(np.int64)[work]
    is_op = in_category(trace, "cpu_op") & ~is_named(trace, WRAPPER_NAME)
    parent, depth = events["parent"].to_numpy(), events["depth"].to_numpy()
    op = np.append(nearest_marked(parent, depth, is_op), NO_PARENT)[np.append(parent, NO_PARENT)[call]]
    ns = counted_time(trace, events["start_ns"].to_numpy()[work], events["dur_ns"].to_numpy()[work])
    return np.where(call >= 0, op, NO_PARENT), ns, call


def at_top_operation(trace: Trace, cause: Cause) -> Cause:
    """Return the work of a device with the line that launches most of the op that is named; as it is without one."""
    operations = top_operations(trace)
    if not operations:
        return cause
    op, ns, call = _work_of_ops(trace)
    is_top = np.append((trace.events["name"].cast(pl.String) == operations[0][0]).to_numpy(), False)
    chosen = np.flatnonzero(is_top[op])
    return _at(cause, *line_with_most(places_of(trace, call[chosen]), ns[chosen]), name_ns=int(ns[chosen].sum()))


def at_top_op(trace: Trace, cause: Cause) -> Cause:
    """Return the work of the host with the line that has most of the op that is named; as it is without one."""
    pieces, _, places, _ = placed_pieces(trace)
    row = np.append(host_nest(trace).row, NO_PARENT)[pieces.cause]
    top = [name for name, _ in top_ops(trace)[:1]]
    if not top:
        return cause
    is_top = np.append(trace.events["name"].cast(pl.String).is_in(top).to_numpy(), False)
    chosen = np.flatnonzero(is_top[row] & np.isin(pieces.step, counted_steps(trace).row))
    dur = pieces.dur_ns[chosen]
    return _at(cause, *line_with_most(places.at(chosen), dur), name_ns=int(dur.sum()))


def _at(cause: Cause, file: str, line: int | None, line_ns: int, *, name_ns: int) -> Cause:
    return replace(cause, file=file, line=line, line_ns=line_ns, name_ns=name_ns)


def top_kernels(trace: Trace, *, most: int) -> list[tuple[str, float]]:
    """Return the names with the most device time, as the tables have it; collectives left out."""
    row = device_rows(trace)
    is_comm = is_named(trace, COLLECTIVE_KERNEL)[row]
    inside = counted_time(trace, *(trace.events[name].to_numpy()[row] for name in ("start_ns", "dur_ns")))
    return _longest_names(trace, row[~is_comm], inside[~is_comm], most)


def _longest_names(trace: Trace, row: IntArray, ns: IntArray, most: int = 2) -> list[tuple[str, float]]:
    """Return the names of events that take the most time together, with that time; equal ones in the order of names."""
    used, first, of_name = np.unique(name_numbers(trace)[row], return_index=True, return_inverse=True)
    sums = np.bincount(of_name, weights=ns, minlength=len(used))
    longest = np.flatnonzero((sums > 0) & (sums >= np.sort(sums)[-most:].min(initial=np.inf)))
    names = values_at(trace.events["name"], row[first[longest]]).to_list()
    found = sorted(zip((-sums[longest]).tolist(), names, strict=True))[:most]
    return [(name, -negative) for negative, name in found]


def _graphs(trace: Trace) -> tuple[Span, ...]:
    """Return that most work was started by launches of graphs, if so, and whose ops it has."""
    links = launch_links(trace)
    dur, is_graph = trace.events["dur_ns"].to_numpy(), is_named(trace, GRAPH_LAUNCH)
    source, target = links["source"].to_numpy(), links["target"].to_numpy()
    inside = is_graph[source]
    whole = int(dur[device_rows(trace)].sum())
    started = int(dur[target[inside]].sum())
    if not whole or started < MOSTLY_GRAPHS * whole:
        return ()
    return (
        _plain(f" {format_ratio(started / whole)} of it was launched by "),
        code(str(trace.events["name"][int(source[inside][0])])),
        _plain(_ops_of_graphs(trace)),
    )


def _ops_of_graphs(trace: Trace) -> str:
    """Return where the ops of the work of graphs are from."""
    found, dur = graph_work(trace), trace.events["dur_ns"].to_numpy()
    if not found.is_matched.any():
        return ", so its ops are not known."
    lost = int(dur[found.is_graph & ~found.is_matched].sum())
    rest = f", except for {format_ratio(lost / int(dur[device_rows(trace)].sum()))} that fit no capture" if lost else ""
    return f"; its ops are those of the capture{rest}."


DEVICE_WORDS: dict[str, Words] = {
    "compute": _works,
    "memory_traffic": _works,
    "communication": _communication,
    "data": _data,
    "waiting": _blocked,
    "allocation": _blocked,
    "compile": _compile,
    "initialisation": _compile,
    "op dispatch": _dispatch,
    "python": _python,
    "idle": _asleep,
}


def _unknown(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (
        *_idle_for(account, cause, "while the file does not say what the host does"),
        _plain("."),
        _plain("" if trace.meta.has_stacks else " Recording Python calls (--stack) would tell."),
        *_captured(trace),
    )


def _missing(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    why = "while work was launched that is not in the file, so that it may have been busy"
    return (*_idle_for(account, cause, why), _plain(". Recording again would tell."))


def _queued(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    why = "with work launched that it does not begin: it runs what is not in the file, or waits for another device"
    return (*_idle_for(account, cause, why), _plain(". Recording the whole program, and all devices, would tell."))


def no_limit_words(account: Account) -> tuple[Span, ...]:
    """Return that no cause takes enough of the time to be called its limit."""
    return (
        _plain("No cause takes a fifth of "),
        Span(text=format_ns(account.whole_ns / account.steps), style="strong"),
        _plain(f"{_each(account)}{_since(account)}; the device is busy "),
        _plain(f"{format_ratio(account.busy_ns / max(account.whole_ns, 1))} of it."),
    )


def _host(what: str, after: str = "") -> Words:
    def words(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
        return (
            _plain(f"{what} "),
            amount(account, cause.ns),
            _plain(_share(account, cause.ns)),
            *_in(account, cause),
            _plain(f".{after}"),
        )

    return words


def _ops(account: Account, cause: Cause, what: str) -> tuple[Span, ...]:
    return (
        _plain(what),
        amount(account, cause.ns),
        _plain(_share(account, cause.ns)),
        *_in(account, cause),
        _plain("."),
    )


def _cpu_ops(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (
        _plain("Ops take "),
        amount(account, cause.ns),
        _plain(_share(account, cause.ns)),
        *_most_and_next(trace, account, top_ops(trace), are_kernels=False),
    )


def top_ops(trace: Trace) -> list[tuple[str, float]]:
    """Return the two ops with the most self CPU time, as the table of ops has it."""
    ops = ops_table(trace, counted_part(trace)).frame
    own = ops.filter((ops["kind"] == "cpu_op") & (ops["self_cpu_ns"] > 0))
    return own.sort("self_cpu_ns", "name", descending=[True, False]).select("name", "self_cpu_ns").head(2).rows()


def _optimizer_host(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    words = _ops(account, cause, "The optimizer takes ")
    if account.tiny_ns < MOSTLY_SHORT * cause.ns:
        return words
    return (
        *words,
        _plain(" Many of its ops are short: "),
        code("foreach=True"),
        _plain(" or "),
        code("fused=True"),
        _plain(" calls fewer."),
    )


def _waiting_host(_: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    what = "The host sleeps or waits for " if cause.kind == "idle" else "Blocking calls hold the host for "
    return _ops(account, cause, what)


def _driving(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    return (
        _plain("Calling short ops, and the Python between them, takes "),
        amount(account, cause.ns),
        _plain(_share(account, cause.ns)),
        *_in(account, cause),
        _plain("."),
        *(_which_functions(trace, cause) if trace.meta.has_stacks or not cause.file else ()),
    )


def _dispatch_host(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    if cause.kind == "overhead":
        return _driving(trace, account, cause)
    return _ops(account, cause, "Most ops are so short that calling them costs more than their work: ops take ")


def _python_host(trace: Trace, account: Account, cause: Cause) -> tuple[Span, ...]:
    if cause.kind == "overhead":
        return _driving(trace, account, cause)
    words = _ops(account, cause, "No op runs for ")[:-1]
    return (*words, _plain(": this time goes to Python code or waiting."), *_which_functions(trace, cause))


def _which_functions(trace: Trace, cause: Cause) -> tuple[Span, ...]:
    """Return where to look for the functions that take the time."""
    meta = trace.meta
    if meta.has_stacks and meta.two_pass is not None and meta.two_pass.detail_steps:
        return (_plain(" "), code("report.ops_by('stack')"), _plain(" shows which functions call the ops."))
    if meta.has_stacks:
        return (_plain(" The flame graph shows which functions take it."),)
    if cause.file:
        return ()
    return (_plain(" Record with "), code("--stack"), _plain(" to see which functions take it."))


_silent = _host(
    "No thread has an event for",
    " The file does not tell whether that is Python, waiting, or work that was not recorded; recording Python calls "
    "(--stack) would.",
)
# What is said of causes of which the file does not tell what they are: on a device, and on the host.
HIDDEN_WORDS: dict[str, Words] = {"unknown": _unknown, "missing": _missing, "queued": _queued}
HIDDEN_ON_HOST: dict[str, Words] = {"unknown": _silent}
HOST_WORDS: dict[str, Words] = {
    "compute": _cpu_ops,
    "memory_traffic": _host("Ops, most of which only move memory, take"),
    "dispatch": _dispatch_host,
    "optimizer": _optimizer_host,
    "communication": _host("Collectives take", " One rank cannot tell transfer from waiting for other ranks."),
    "data": _fetching,
    "waiting": _waiting_host,
    "compile": _host("Compilation takes"),
    "initialisation": _host("Initialisation (imports, the first call of an op, starting workers) takes"),
    "python": _python_host,
}
