"""Advice about loading data: worker processes, and workers that do not keep up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.findings.advice.kinds import Advice, Edit, Effect
from torchprof_magic.findings.advice.savings import saving_of
from torchprof_magic.findings.advice.times import by_place, critical, each, ns_in_steps, spans_of, step_ns, within_steps
from torchprof_magic.model.units import counted, format_count, format_ns
from torchprof_magic.tables.waiting.loaders import MOSTLY_LATE, fetch_rows, has_workers

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# Handing a batch from a worker to the program takes up to this long, so shorter fetches gain nothing.
LEAST_FETCH_NS = 2_000_000
MOST_WORKERS = 8
# Of the fetches. On one core, loading in a worker only moves the work.
LEAST_SAVED = 0.1
LINK = "https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading"


def dataloader_workers(trace: Trace) -> list[Advice]:
    """Advise workers for a loader whose batches the program loads itself, or more of them if they do not keep up."""
    rows = fetch_rows(trace)
    parallel = has_workers(trace, rows)
    found = [_without_workers(trace, *place) for place in by_place(trace, rows[~parallel])]
    found += [_starved(trace, *place) for place in by_place(trace, rows[parallel])]
    return [advice for advice in found if advice is not None]


def _without_workers(trace: Trace, file: str, line: int | None, rows: IntArray) -> Advice | None:
    """Return advice if fetches are long, with as many workers as hide them, but no more than there are cores."""
    spans = spans_of(trace, rows)
    if np.median(spans.end_ns - spans.start_ns) < LEAST_FETCH_NS:
        return None
    fetch_ns = ns_in_steps(trace, spans)
    rest_ns = max(step_ns(trace) - fetch_ns, 1.0)
    most = min(trace.meta.cpu_cores or MOST_WORKERS, MOST_WORKERS)
    workers = min(max(math.ceil(fetch_ns / rest_ns), 2), most)
    most_ns = ns_in_steps(trace, critical(trace, spans))
    waits = f", and the device waits {format_ns(most_ns)} of it" if trace.has_device else ""
    cores = f" The process may use {counted(most, 'core')}." if most < MOST_WORKERS else ""
    advice = Advice(
        rule="dataloader_workers",
        title="Load the data in worker processes",
        fix=f"`num_workers={workers}` in the DataLoader",
        evidence=f"The program loads its batches itself: {format_ns(fetch_ns)} {each(trace)}{waits}.{cores}",
        file=file,
        line=line,
        op="DataLoader",
        certainty="measured",
        link=LINK,
        spans=within_steps(trace, spans),
        effect=Effect(rows=rows, workers=workers),
        edits=(Edit(("DataLoader",), "num_workers", str(workers), position=5),),
    )
    saving_ns = saving_of(trace, advice)
    if saving_ns < LEAST_SAVED * fetch_ns:
        return None
    left_ns = max(round(most_ns) - saving_ns, 0)
    left = f" With {counted(workers, 'worker')} {format_ns(left_ns)} would remain." if left_ns else ""
    return replace(advice, evidence=f"{advice.evidence}{left}")


def _starved(trace: Trace, file: str, line: int | None, rows: IntArray) -> Advice | None:
    late = rows[trace.events["dur_ns"].to_numpy()[rows] >= LEAST_FETCH_NS]
    if len(late) < MOSTLY_LATE * len(rows):
        return None
    cores = trace.meta.cpu_cores
    most = f", of at most {cores}" if cores else ""
    may = f" The process may use {counted(cores, 'core')}." if cores else ""
    return Advice(
        rule="dataloader_workers",
        title="Use more workers, or give them less to do",
        fix=f"a larger `num_workers`{most}, or less work for each sample",
        evidence=f"The workers do not keep up: no batch was ready {format_count(len(late))} of "
        f"{counted(len(rows), 'time')}.{may}",
        file=file,
        line=line,
        op="DataLoader",
        certainty="measured",
        link=LINK,
        spans=within_steps(trace, spans_of(trace, late)),
        effect=Effect(rows=late),
    )
