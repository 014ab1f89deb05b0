"""What did the recording not see, or see too much of, and what is to be done about it?

Looks at a trace alone, so it says the same of a live run and of a stranger's file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.analysis.distortion import find_distortion
from torchprof_magic.analysis.shared import ask_names, once_per_trace
from torchprof_magic.model.intervals import merge
from torchprof_magic.model.meta import Problem
from torchprof_magic.model.trace import DEVICE_CATEGORIES
from torchprof_magic.model.vendors import GRAPH_LAUNCH, LAUNCH
from torchprof_magic.units import counted, format_count, format_ns

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# The iterator of a DataLoader with num_workers > 0; torch wraps each fetch in a range of that name.
_WORKER_LOADER = r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter"
# torch.compile puts such ranges around everything it does.
_COMPILER_RANGE = r"\(dynamo_timed\)$"
# One launch that starts at least this many kernels, copies and fills, by its correlation alone, ran a graph.
_GRAPH_SIZE = 2
# From here on most device work has no op of its own.
GRAPH_SHARE = 0.5
# From here on the times of a report are rather those of the profiler.
LOUD_RATIO = 1.5


@once_per_trace
def all_problems(trace: Trace) -> tuple[Problem, ...]:
    """Return what recording and reading found odd, and what the trace itself shows to be."""
    return (*trace.problems, *diagnose(trace))


def diagnose(trace: Trace) -> tuple[Problem, ...]:
    """Return a problem for everything that makes the recording less, or more, than what the program usually does."""
    found = (
        _unseen_workers(trace),
        _compilation(trace),
        _no_kernels(trace),
        _graph_launches(trace),
        _distorted(trace),
    )
    return tuple(problem for problem in found if problem is not None)


def _matching(trace: Trace, pattern: str) -> pl.DataFrame:
    matches = ask_names(trace.events["name"], pl.col("name").str.contains(pattern)).astype(np.bool_)
    return trace.events.filter(pl.Series(matches))


def _unseen_workers(trace: Trace) -> Problem | None:
    fetches = _matching(trace, _WORKER_LOADER).height
    if fetches == 0:
        return None
    return Problem(
        code="run.workers_unseen",
        severity="info",
        count=fetches,
        message="A DataLoader fetched from worker processes. What they do is not recorded, only the waiting for them.",
        fix="To see their work, record a few steps with num_workers=0.",
    )


def _compilation(trace: Trace) -> Problem | None:
    ranges = _matching(trace, _COMPILER_RANGE)
    if ranges.height == 0:
        return None
    start_ns = ranges["start_ns"].to_numpy()
    start_ns, end_ns = merge(start_ns, start_ns + ranges["dur_ns"].to_numpy())
    whole = format_ns(int((end_ns - start_ns).sum()))
    return Problem(
        code="run.compiled",
        severity="warning",
        count=len(start_ns),
        message=f"torch.compile was at work while steps were recorded, for {whole}.",
        fix="Let it finish before: run the cell once more, or give it steps with --warmup or --skip-first.",
    )


def _no_kernels(trace: Trace) -> Problem | None:
    if trace.events["category"].is_in(DEVICE_CATEGORIES).any():
        return None
    calls = trace.events.filter(pl.col("category") == "runtime")
    launches = _matching(trace, LAUNCH).height if calls.height else 0
    if launches == 0:
        return None
    return Problem(
        code="run.no_kernels",
        severity="data_loss",
        count=launches,
        message="Device work was launched, and none of it was recorded.",
        fix="Another tool may hold the device's profiling interface (Nsight, DCGM), or it is not allowed here.",
    )


def _graph_launches(trace: Trace) -> Problem | None:
    """Return a note when most device work was started by launches of graphs, which says what is seen of it."""
    work = int(trace.events["category"].is_in(DEVICE_CATEGORIES).sum())
    names = trace.events["name"]
    is_graph = ask_names(names, pl.col("name").str.contains(GRAPH_LAUNCH)).astype(np.bool_)
    if not work or not is_graph.any():
        return None
    launches = trace.flows.filter(pl.col("kind") == "launch").group_by("source").len()
    graphs = launches.filter(pl.Series(is_graph[launches["source"].to_numpy()]) & (pl.col("len") >= _GRAPH_SIZE))
    inside = int(graphs["len"].sum())
    if inside < GRAPH_SHARE * work:
        return None
    return Problem(
        code="run.graph_launches",
        severity="info",
        count=graphs.height,
        message=f"{counted(inside, 'kernel')} of {format_count(work)} ran in CUDA graphs, each started by one launch. "
        "Their names, times and streams are seen; the ops that they come from are not, so their time counts for "
        "whatever stands around the launch.",
        fix="To see it op by op, record a step without the graph: call the model itself, or compile it without them.",
    )


def _less(trace: Trace) -> str:
    """Say what could be left out, if anything was recorded that can be."""
    meta = trace.meta
    if meta.two_pass is not None and meta.two_pass.detail_steps:
        return ""  # these are the steps that were recorded without
    switches = {"--stack": meta.has_stacks, "--shapes": meta.has_shapes, "--memory": meta.has_memory}
    on = [name for name, is_on in switches.items() if is_on]
    return f", or record without {' and '.join(on)}" if on else ""


def _distorted(trace: Trace) -> Problem | None:
    found = find_distortion(trace)
    if found is None or found.ratio < LOUD_RATIO:
        return None
    return Problem(
        code="run.distorted",
        severity="warning",
        count=1,
        message=f"Recorded steps took {found.ratio:.1f} times as long as others ({found.basis}).",
        fix=f"Trust shares more than times{_less(trace)}; or the recorded steps do more than the others.",
    )
