"""Changes of the program, and what each does to the graph of the steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.one_time import one_time_events
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.facts.step_graph.edges import LAUNCH, WAIT, WORKERS
from torchprof_magic.facts.step_graph.graph import step_graph
from torchprof_magic.findings.what_if.selection import share_of, with_all_inside
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.model.intervals import covered_ns
from torchprof_magic.model.meta import shortened
from torchprof_magic.model.rows import keys_of
from torchprof_magic.model.units import counted, format_count
from torchprof_magic.model.vendors import COLLECTIVE_KERNEL, HOST_COLLECTIVE
from torchprof_magic.tables.waiting.loaders import fetch_rows, has_workers

if TYPE_CHECKING:
    from torchprof_magic.facts.step_graph.replay import FloatArray
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace

# A batch that a worker has made is handed to the program in less.
HAND_OVER_NS = 500_000
# What a call of an op takes whatever the size of its tensors.
PER_CALL_NS = 5_000
# Ops on the CPU that last less are not divided among threads, or gain nothing from it.
LEAST_DIVIDED_NS = 200_000
# One launch of a whole graph.
GRAPH_LAUNCH_NS = 10_000
# By how much anything can be faster or larger.
MOST = 1e6
MOST_CHARS = 100
OVERLAPS = ("communication",)
_GRAPH_PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What would be different; see ``Report.what_if``."""

    faster: Mapping[Any, float] = field(default_factory=dict)
    without: tuple[object, ...] = ()
    no_sync: bool = False
    graphs: bool = False
    workers: int | None = None
    overlap: str | None = None
    batch: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no change, in words that say what would be one; raises ``OptionsError``."""
        if not isinstance(self.faster, Mapping):
            raise OptionsError(f'faster must be a dict such as {{"aten::mm": 2}} (got {self.faster!r})')
        for what, factor in self.faster.items():
            _check_faster(what, factor, self.without)
        for name in ("no_sync", "graphs"):
            if not isinstance(getattr(self, name), bool):
                raise OptionsError(f"{name} must be True or False (got {getattr(self, name)!r})")
        for name in ("workers", "threads"):
            number = getattr(self, name)
            if number is not None and (not _is_number(number) or not 1 <= number <= MOST or number % 1):
                raise OptionsError(f"{name} must be a whole number of at least 1 (got {number!r})")
        if self.overlap is not None and self.overlap not in OVERLAPS:
            raise OptionsError(f"overlap must be one of {', '.join(map(repr, OVERLAPS))} (got {self.overlap!r})")
        if self.batch is not None and (not _is_number(self.batch) or not 1 / MOST <= self.batch <= MOST):
            raise OptionsError(f"batch must be how many times as large a batch is, such as 2 (got {self.batch!r})")
        if not self.words:
            ways = "faster, without, no_sync, graphs, workers, overlap, batch or threads"
            raise OptionsError(f"nothing would be different; give {ways}")

    @property
    def words(self) -> str:
        """What would be different, in words."""
        parts = [f"{_title(what)} {format_count(factor)} times as fast" for what, factor in self.faster.items()]
        parts += [f"without {_title(what)}" for what in self.without]
        parts += ["without waits for the device"] * self.no_sync + ["as CUDA graphs"] * self.graphs
        parts += [counted(self.workers, "worker")] if self.workers else []
        parts += [f"{self.overlap} beside other work"] if self.overlap else []
        parts += [f"a batch {format_count(self.batch)} times as large"] if self.batch else []
        parts += [f"ops on {counted(self.threads, 'thread')}"] if self.threads else []
        return ", ".join(parts)


def as_several(what: object) -> tuple[object, ...]:
    """Return one thing or several as a tuple; a pair of times is one."""
    if what is None:
        return ()
    is_one = isinstance(what, str | int) or (isinstance(what, tuple) and all(isinstance(each, int) for each in what))
    return (what,) if is_one or not isinstance(what, Iterable) else tuple(what)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _check_faster(what: object, factor: object, without: tuple[object, ...]) -> None:
    shown = shortened(repr(what), MOST_CHARS)
    if not _is_number(factor) or not 1 / MOST <= float(str(factor)) <= MOST:
        raise OptionsError(f"{shown} must be faster by a number above 0, such as 2 (got {factor!r}); at most a million")
    if what in without:
        raise OptionsError(f"{shown} cannot be faster and gone at once; give faster or without")


def _title(what: object) -> str:
    if isinstance(what, int):
        return f"line {what}"
    return "the range" if isinstance(what, tuple) else str(what)


class Changed(NamedTuple):
    """The graph with changes: what each piece takes, how long each edge is at least, and the shortest step.

    ``floor_ns`` is what a step takes at least for a reason that is not in the graph, and ``floor`` says which. ``low``
    and ``high`` are by how much what the step saves may be less or more than the graph says, as shares of it. ``notes``
    say what the answer rests on.
    """

    own_ns: FloatArray
    delay_ns: FloatArray
    floor_ns: float = 0.0
    floor: str = ""
    uncertain: float = 0.0
    notes: tuple[str, ...] = ()


def changed_graph(trace: Trace, changes: Changes) -> Changed:
    """Return what the changes make of the graph of a trace."""
    graph = step_graph(trace)
    now = Changed(graph.own_ns.astype(np.float64), graph.edges.delay_ns.astype(np.float64))
    for what, factor in changes.faster.items():
        now = _faster(trace, now, share_of(trace, what), 1 / factor)
    for what in changes.without:
        now = _faster(trace, now, share_of(trace, what, with_backward=True), 0.0)
    if changes.no_sync:
        now = _without_waits(trace, now)
    if changes.graphs:
        now = _as_graphs(trace, now)
    if changes.workers:
        now = _with_workers(trace, now, int(changes.workers))
    if changes.overlap:
        now = _beside(trace, now)
    if changes.batch:
        now = _with_batch(trace, now, changes.batch)
    if changes.threads:
        now = _with_threads(trace, now, int(changes.threads))
    return now


def _scaled(now: Changed, share: FloatArray, factor: float) -> Changed:
    return now._replace(own_ns=now.own_ns * (1 - share * (1 - factor)))


def _noted(now: Changed, note: str, uncertain: float) -> Changed:
    return now._replace(notes=(*now.notes, note), uncertain=max(now.uncertain, uncertain))


def _without_edges(trace: Trace, now: Changed, kind: int) -> Changed:
    gone = np.where(step_graph(trace).edges.kind == kind, -np.inf, now.delay_ns)
    return now._replace(delay_ns=gone)


def _faster(trace: Trace, now: Changed, share: FloatArray, factor: float) -> Changed:
    """Let pieces take a share of their time, and workers of theirs for the batches that are fetched in them."""
    edges = step_graph(trace).edges
    fetched = np.where(edges.kind == WORKERS, share[edges.target - 1], 0.0)
    return _scaled(now, share, factor)._replace(delay_ns=now.delay_ns * (1 - fetched * (1 - factor)))


def _without_waits(trace: Trace, now: Changed) -> Changed:
    """Let calls return without waiting; a step then lasts as long as the device is busy with it, or the host."""
    if not step_graph(trace).count(WAIT):
        raise OptionsError("no call of this recording waits for a device, so there is no wait to leave out")
    return _without_edges(trace, now, WAIT)


def _as_graphs(trace: Trace, now: Changed) -> Changed:
    """Take the host's ops and launches out of forward, backward and optimizer, but for one launch in each step.

    What is done only once, such as the setup of a device, is done before a graph as well.
    """
    graph = step_graph(trace)
    if not graph.pieces.is_work.any():
        raise OptionsError("graphs replay work of a device, and this recording has none")
    phases = np.append(phase_of_events(trace), -1)
    is_call = np.append(in_category(trace, "cpu_op", "runtime"), False)[graph.pieces.row] & ~graph.pieces.is_work
    is_call &= np.isin(phases[graph.pieces.row], [PHASES.index(name) for name in _GRAPH_PHASES])
    is_call &= ~np.append(one_time_events(trace), False)[graph.pieces.row]
    held = np.zeros(len(is_call), np.bool_)
    held[graph.edges.target[graph.edges.kind == WAIT] - 1] = True
    now = _scaled(now, (is_call & ~held).astype(np.float64), 0.0)
    is_launch = graph.edges.kind == LAUNCH
    delay = np.where(is_launch, np.minimum(now.delay_ns, GRAPH_LAUNCH_NS), now.delay_ns)
    note = "Python of the model would be gone as well, where its shapes and its control flow stay the same"
    return _noted(now._replace(delay_ns=delay), note, 0.15)


def _with_workers(trace: Trace, now: Changed, workers: int) -> Changed:
    """Let worker processes load: a step takes as long as without fetching, or a share of the fetch."""
    rows = fetch_rows(trace)
    parallel = has_workers(trace, rows)
    if len(rows) == 0:
        raise OptionsError("no DataLoader fetched a batch in this recording")
    if parallel.any():
        raise OptionsError('its workers load already, and the file does not say how many; ask faster={"data": 2}')
    now = _scaled(now, pieces_of_rows(trace, rows).astype(np.float64), left_of_fetches(trace, rows))
    floor, word = floor_of_workers(trace, rows, workers)
    return _noted(now._replace(floor_ns=max(now.floor_ns, floor), floor=word), "workers load evenly", 0.1)


def pieces_of_rows(trace: Trace, rows: IntArray) -> BoolArray:
    """Return which pieces of threads are of some events, or inside of them."""
    chosen = np.zeros(trace.events.height, np.bool_)
    chosen[rows] = True
    pieces = step_graph(trace).pieces
    found: BoolArray = np.append(with_all_inside(trace, chosen), False)[pieces.row] & ~pieces.is_work
    return found


def left_of_fetches(trace: Trace, rows: IntArray) -> float:
    """Return which share of some fetches is left if workers load: that of handing the batches over."""
    fetch_ns = _ns_in_steps(trace, rows)
    return min(HAND_OVER_NS * len(rows) / max(counted_steps(trace).steps, 1) / max(fetch_ns, 1.0), 1.0)


def floor_of_workers(trace: Trace, rows: IntArray, workers: int) -> tuple[float, str]:
    """Return how long a step is at least if workers load what some fetches do, in ns, and what decides that."""
    by_workers, cores = _ns_in_steps(trace, rows) / workers, trace.meta.cpu_cores
    by_cores = cpu_ns_of_steps(trace) / min(cores, workers + 1) if cores else 0.0
    return max(by_workers, by_cores), "the cores" if by_cores > by_workers else "the workers"


def _ns_in_steps(trace: Trace, rows: IntArray) -> float:
    """Return how long some events take in a step on average, in ns; what overlaps counts once."""
    start, dur = (trace.events[name].to_numpy()[rows] for name in ("start_ns", "dur_ns"))
    counted = counted_steps(trace)
    return float(covered_ns(start, start + dur, counted.start_ns, counted.end_ns).sum()) / counted.steps


def cpu_ns_of_steps(trace: Trace) -> float:
    """Return how much of a step its thread used a core, in ns; 0 if that was not measured.

    What it only waits for, such as a file, workers can wait for side by side.
    """
    chosen = set(keys_of(trace.steps[counted_steps(trace).row.tolist()]))
    marks = [mark.cpu_ns for mark in trace.meta.recorded_steps if (mark.cycle, mark.number) in chosen]
    known = [cpu_ns for cpu_ns in marks if cpu_ns is not None]
    return sum(known) / len(known) if known else 0.0


def _beside(trace: Trace, now: Changed) -> Changed:
    """Let communication run beside all other work, as long as it takes."""
    graph = step_graph(trace)
    is_collective = is_named(trace, COLLECTIVE_KERNEL, "kernel")
    on_host = is_named(trace, HOST_COLLECTIVE, "user_annotation")
    if not (is_collective.any() or on_host.any()):
        raise OptionsError("no communication was recorded that could run beside other work")
    rows = np.flatnonzero(is_collective | on_host)
    row = graph.pieces.row
    chosen = np.append(with_all_inside(trace, is_collective | on_host), False)[row]
    floor = _ns_in_steps(trace, rows)
    now = _scaled(now, chosen.astype(np.float64), 0.0)
    now = now._replace(floor_ns=max(now.floor_ns, floor), floor="collectives")
    return _noted(now, "nothing needs the results of communication before its end", 0.1)


def _with_batch(trace: Trace, now: Changed, batch: float) -> Changed:
    """Let kernels, ops on the CPU and fetches take so many times as long, without what each call takes anyway.

    The optimizer and Python do not depend on the batch.
    """
    graph = step_graph(trace)
    pieces = graph.pieces
    phase = np.append(phase_of_events(trace), -1)[pieces.row]
    scales = pieces.is_work.copy()
    if not pieces.is_work.any():
        scales |= np.append(in_category(trace, "cpu_op"), False)[pieces.row]
    scales |= ~pieces.is_work & (phase == PHASES.index("data"))
    scales &= ~np.isin(phase, [PHASES.index(name) for name in ("optimizer", "communication")])
    least = np.minimum(now.own_ns, PER_CALL_NS)
    own = np.where(scales, least + (now.own_ns - least) * batch, now.own_ns)
    note = "it takes work to grow with the batch; kernels that do not fill the device grow less"
    return _noted(now._replace(own_ns=own), note, 0.3)


def _with_threads(trace: Trace, now: Changed, threads: int) -> Changed:
    """Divide long ops on the CPU among other threads, evenly; no more of them run at once than there are cores."""
    was, cores = trace.meta.cpu_threads, trace.meta.cpu_cores
    if not was:
        raise OptionsError("the recording does not say how many threads ops on the CPU used; a live run does")
    row = step_graph(trace).pieces.row
    is_long = in_category(trace, "cpu_op") & (trace.events["dur_ns"].to_numpy() >= LEAST_DIVIDED_NS)
    divided = np.append(is_long, False)[row]
    if not divided.any():
        raise OptionsError("no op of this recording lasts long enough on the CPU to be divided among threads")
    at_once = [min(number, cores or number) for number in (was, threads)]
    note = "it takes ops of at least 200 µs to be divided evenly among threads; others stay as they are"
    return _noted(_scaled(now, divided.astype(np.float64), at_once[0] / at_once[1]), note, 0.3)
