"""Advice about the number of threads that ops on the CPU use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.advice.times import by_place, each, ns_in_steps, rows_named, spans_of, step_ns
from torchprof_magic.model.units import counted, format_ns, format_ratio

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

LEAST_SHARE = 0.3
# Ops that last less are not divided among threads, or gain nothing from it.
LEAST_OP_NS = 200_000
LINK = "https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html"
_OPS = r"^aten::"


def oversubscribed_threads(trace: Trace) -> Advice | None:
    """Advise fewer threads if ops on the CPU use more than there are cores."""
    cores, threads = trace.meta.cpu_cores, trace.meta.cpu_threads
    if trace.has_device or not cores or not threads or threads <= cores:
        return None
    spent = ns_in_steps(trace, spans_of(trace, rows_named(trace, _OPS)))
    if spent < LEAST_SHARE * step_ns(trace):
        return None
    return Advice(
        rule="oversubscribed_threads",
        title="Use no more threads than there are cores",
        fix=f"`torch.set_num_threads({cores})`",
        evidence=f"Ops are divided among {counted(threads, 'thread')}, and the process may use "
        f"{counted(cores, 'core')}, so "
        f"threads wait for one another. Ops take {format_ns(spent)} {each(trace)}.",
        op="torch.set_num_threads",
        certainty="guess",
        link=LINK,
    )


def undersubscribed_threads(trace: Trace) -> Advice | None:
    """Advise more threads if long ops on the CPU leave cores without work."""
    cores, threads = trace.meta.cpu_cores, trace.meta.cpu_threads
    if trace.has_device or not cores or not threads or threads >= cores:
        return None
    rows = rows_named(trace, _OPS)
    rows = rows[trace.events["dur_ns"].to_numpy()[rows] >= LEAST_OP_NS]
    spent = ns_in_steps(trace, spans_of(trace, rows))
    if len(rows) == 0 or spent < LEAST_SHARE * step_ns(trace):
        return None
    file, line, _ = by_place(trace, rows)[0]
    return Advice(
        rule="undersubscribed_threads",
        title="Use all cores",
        fix=f"`torch.set_num_threads({cores})`",
        evidence=f"Ops that last long enough to be divided take {format_ns(spent)} {each(trace)}, "
        f"{format_ratio(spent / step_ns(trace))} of it, on {counted(threads, 'thread')}. The process may use "
        f"{counted(cores, 'core')}.",
        file=file,
        line=line,
        op="torch.set_num_threads",
        certainty="guess",
        link=LINK,
    )
