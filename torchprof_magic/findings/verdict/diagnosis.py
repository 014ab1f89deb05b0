"""Problems of a recording: work that it missed, or overhead that it contains, and what to do about it.

Only the trace is examined, so the result is the same for a live run and for a file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.device.believable import as_recorded
from torchprof_magic.facts.device.coverage import is_capture_alone, launches_of, loss_of
from torchprof_magic.facts.device.graph_captures import captured_graphs
from torchprof_magic.facts.device.graph_work import graph_work
from torchprof_magic.facts.device.plausible import impossible_times
from torchprof_magic.facts.device.unlaunched import unlaunched
from torchprof_magic.facts.device.unrecorded import signs_of_device
from torchprof_magic.facts.host.distortion import find_distortion
from torchprof_magic.facts.shared import device_rows, is_named, launch_links, name_numbers, once_per_trace
from torchprof_magic.findings.verdict.compiled_names import unnamed_code
from torchprof_magic.model.intervals import IntArray, merge
from torchprof_magic.model.problems import problem
from torchprof_magic.model.rows import are_known, filled, row_keys, row_numbers
from torchprof_magic.model.trace import COLLECTIVE_KEYS
from torchprof_magic.model.units import counted, enumerated, format_count, format_ns, format_ratio
from torchprof_magic.model.vendors import GRAPH_LAUNCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.facts.device.unrecorded import DeviceSigns
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace

# The iterator of a DataLoader with num_workers > 0. torch wraps each fetch in a range of this name.
_WORKER_LOADER = r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter"
# torch.compile puts such ranges around all of its work.
_COMPILER_RANGE = r"\(dynamo_timed\)$"
# The ranges of autograd around its nodes.
_NODE = r"^autograd::engine::evaluate_function: "
# What each collective must say: its name, elements in and out, their type, and the size of its group.
_NEEDED = tuple(COLLECTIVE_KEYS.index(key) for key in (*COLLECTIVE_KEYS[:4], "Group size"))
# A launch that starts at least this many kernels, copies and fills ran a graph.
_GRAPH_SIZE = 2
# From this share on, the note about graphs is shown.
GRAPH_SHARE = 0.5
# From this ratio on, the overhead of the profiler dominates the times of a report.
LOUD_RATIO = 1.5
# Up to so many steps are named one by one.
_MAX_STEPS_NAMED = 4


@once_per_trace
def all_problems(trace: Trace) -> tuple[Problem, ...]:
    """Return the problems of recording and reading, and those found in the trace itself."""
    return (*trace.problems, *diagnose(trace))


def diagnose(trace: Trace) -> tuple[Problem, ...]:
    """Return a problem for everything in which the recording differs from what the program usually does."""
    found = (
        _unseen_workers(trace),
        _compilation(trace),
        *unnamed_code(trace),
        _no_kernels(trace),
        *_losses(trace),
        *_impossible(trace),
        *_odd_numbers(trace),
        _graph_launches(trace),
        *_graphs(trace),
        _distorted(trace),
    )
    return tuple(problem for problem in found if problem is not None)


def _unseen_workers(trace: Trace) -> Problem | None:
    fetches = int(is_named(trace, _WORKER_LOADER).sum())
    if fetches == 0:
        return None
    return problem("run.workers_unseen", count=fetches)


def _compilation(trace: Trace) -> Problem | None:
    ranges = np.flatnonzero(is_named(trace, _COMPILER_RANGE))
    if len(ranges) == 0:
        return None
    start_ns, dur_ns = (trace.events[name].to_numpy()[ranges] for name in ("start_ns", "dur_ns"))
    start_ns, end_ns = merge(start_ns, start_ns + dur_ns)
    whole = format_ns(int((end_ns - start_ns).sum()))
    return problem("run.compiled", count=len(start_ns), duration=whole)


def _no_kernels(trace: Trace) -> Problem | None:
    signs = signs_of_device(trace)
    if signs is None:
        return None
    return problem("run.no_kernels", count=max(signs.launches, signs.ops, 1), signs=words_of_signs(signs))


def words_of_signs(signs: DeviceSigns) -> str:
    """Return what tells that the program worked on a device whose work was not recorded."""
    if signs.launches:
        return f"the host made {counted(signs.launches, 'launch')}"
    if signs.ops:
        return f"{counted(signs.ops, 'op')} ran that only a GPU runs"
    return "memory of a GPU was allocated" if signs.memory else "the cell moves its work to one"


def _losses(trace: Trace) -> Iterator[Problem]:
    """Yield what says that work of the device is missing."""
    if not trace.has_device:
        return
    found, launches = loss_of(trace), launches_of(trace)
    where = in_steps(trace, found.steps)
    if found.missing:
        yield problem(
            "run.work_missing",
            count=found.missing,
            launches=f"{format_count(found.missing)} of {counted(found.launches, 'launch')}",
            have="has" if found.missing == 1 else "have",
            steps=where,
        )
    if found.short:
        are = "is" if found.short == 1 else "are"
        kernels = counted(found.short, "kernel")
        yield problem("run.graph_work_missing", count=found.short, kernels=kernels, are=are, steps=where)
    if (lack := unlaunched(trace)).launches:
        few = f"{format_count(lack.launches)} of {counted(lack.of, 'launch')}"
        yield problem("run.launches_missing", count=lack.launches, launches=few, steps=in_steps(trace, lack.steps))
    if late := int(launches.is_pending.sum()):
        yield problem("run.work_after_end", count=late, launches=counted(late, "launch"))


def launches_without_work(trace: Trace) -> str:
    """Return how many launches have no work in the file, of how many: ``6 of 1,200 launches have no work``."""
    found = loss_of(trace)
    have = "has" if found.missing == 1 else "have"
    return f"{format_count(found.missing)} of {counted(found.launches, 'launch')} {have} no work"


def in_steps(trace: Trace, numbers: IntArray) -> str:
    """Return ``, in step 3`` or ``, in 3 of 5 steps``; empty for none."""
    if len(numbers) == 0:
        return ""
    if len(numbers) == 1:
        return f", in step {numbers[0]}"
    if len(numbers) <= _MAX_STEPS_NAMED:
        *others, last = map(str, numbers.tolist())
        return f", in steps {', '.join(others)} and {last}"
    return f", in {format_count(len(numbers))} of {counted(trace.steps.height, 'step')}"


def _odd_numbers(trace: Trace) -> Iterator[Problem]:
    """Yield what does not fit together in the numbers of autograd and of collectives."""
    if shared := _shared_sequences(trace):
        yield problem("run.shared_sequence", count=shared)
    known = trace.events["collective"].filter(pl.Series(is_named(trace, r"^record_param_comms$"))).cast(pl.String)
    if known.null_count() == len(known):  # files of older versions have none
        return
    if count := sum(text is None or _lacks_some(text) for text in known):
        yield problem("run.collective_unnamed", count=count)


def _shared_sequences(trace: Trace) -> int:
    """Return how many numbers of autograd belong to several nodes."""
    is_node = is_named(trace, _NODE)
    if not is_node.any():
        return 0
    numbers = (trace.events[name] for name in ("cycle", "fwd_thread", "sequence"))
    rows = np.flatnonzero(is_node & are_known(trace.events["sequence"]))
    of_thread = ~are_known(trace.events["fwd_thread"])[rows]
    node = row_numbers(*(filled(each, 0)[rows] for each in numbers), of_thread)
    first = np.unique(row_keys(node, name_numbers(trace)[rows]), return_index=True)[1]
    return int((np.bincount(node[first]) > 1).sum())


def _lacks_some(collective: str) -> bool:
    values = json.loads(collective)
    return any(values[at] is None for at in _NEEDED)


def _impossible(trace: Trace) -> Iterator[Problem]:
    """Yield what cannot be in the times of devices, as they are in the file."""
    found = impossible_times(as_recorded(trace))
    for clock in found.clocks:
        yield problem(
            "run.clock",
            count=clock.works,
            device=clock.device,
            is_off="is ahead of" if clock.ahead_ns > 0 else "is behind",
            amount=format_ns(abs(clock.ahead_ns)),
            works=counted(clock.works, "piece"),
        )
    for code, broken in (
        ("run.before_launch", found.before_launch),
        ("run.after_wait", found.after_wait),
        ("run.over_next", found.over_next),
        ("run.over_steps", found.over_steps),
    ):
        if broken.works:
            yield problem(code, count=broken.works, amount=format_ns(broken.most_ns))


def _graph_launches(trace: Trace) -> Problem | None:
    """Return a note if most device work was started by graph launches whose capture is not known: so are its ops."""
    work = len(device_rows(trace))
    is_graph = is_named(trace, GRAPH_LAUNCH)
    if not work or not is_graph.any() or graph_work(trace).is_matched.any():
        return None
    launches = launch_links(trace).group_by("source").len()
    graphs = launches.filter(pl.Series(is_graph[launches["source"].to_numpy()]) & (pl.col("len") >= _GRAPH_SIZE))
    inside = int(graphs["len"].sum())
    if inside < GRAPH_SHARE * work:
        return None
    return problem(
        "run.graph_launches", count=graphs.height, kernels=counted(inside, "kernel"), work=format_count(work)
    )


def _graphs(trace: Trace) -> Iterator[Problem]:
    """Yield what is not known of graphs although captures are, and that nothing but a capture was recorded."""
    found = graph_work(trace)
    if (unmatched := unmatched_share(trace)) is not None:
        kernels, share = unmatched
        yield problem(
            "run.graph_unmatched", count=kernels, kernels=counted(kernels, "kernel"), share=format_ratio(share)
        )
    if found.unsure:
        yield problem("run.graph_unsure", count=found.unsure, replays=counted(found.unsure, "replay"))
    if found.by_order:
        yield problem("run.graph_by_order", count=found.by_order, replays=counted(found.by_order, "replay"))
    with_capture = {capture.file for capture in trace.meta.graph_captures}
    for file in trace.meta.captures_from:
        if file not in with_capture:
            yield problem("run.no_capture", file=file)
    if is_capture_alone(trace):
        captured = int(launches_of(trace).is_captured.sum())
        yield problem("run.capture_only", launches=counted(captured, "launch"))


def unmatched_share(trace: Trace) -> tuple[int, float] | None:
    """Return how many kernels of graphs fit no capture, and their share of the device time; None if none or no capture.

    Of several devices, the time is that of all of them.
    """
    found = graph_work(trace)
    lost = found.is_graph & ~found.is_matched
    if not captured_graphs(trace) or not lost.any():
        return None
    dur = trace.events["dur_ns"].to_numpy()
    return int(lost.sum()), int(dur[lost].sum()) / max(int(dur[device_rows(trace)].sum()), 1)


def _less(trace: Trace) -> str:
    """Return advice on which recorded details to leave out, if there are any."""
    meta = trace.meta
    if meta.watched is not None or (meta.two_pass is not None and meta.two_pass.detail_steps):
        return ""  # these are the steps that were recorded without
    switches = {"--stack": meta.has_stacks, "--shapes": meta.has_shapes, "--memory": meta.has_memory}
    on = [name for name, is_on in switches.items() if is_on]
    return f", or record without {enumerated(on)}" if on else ""


def _distorted(trace: Trace) -> Problem | None:
    found = find_distortion(trace)
    if found is None or found.ratio < LOUD_RATIO:
        return None
    return problem("run.distorted", ratio=format_count(found.ratio), basis=found.basis, advice=_less(trace))
