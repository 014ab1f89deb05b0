"""Puts steps back where they began: torch 2.5 moves them behind their ops when it records Python calls.

There a ``ProfilerStep#N`` keeps its end, but begins with its last Python call. ``step()`` ends a step and begins the
next one, so that a step begins where the one before it ended. Around a single step of a file, it cannot be told whether
other ops belong to it; in a live run of that torch they do, because its recording begins with the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.rows import are_in, row_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.ingest.findings import Findings
    from torchprof_magic.model.intervals import BoolArray, IntArray

_LEAST_STEPS = 2
_MOVING_TORCH = "2.5."


def with_steps_moved_back(
    spans: pl.DataFrame, places: pl.DataFrame, is_step: BoolArray, findings: Findings, *, torch_version: str = ""
) -> pl.DataFrame:
    """Return the spans, in which steps begin where those before them ended if most of their ops lie between them.

    Only files with Python calls are looked at. ``places`` has the lanes. ``torch_version`` is that of a live run.
    """
    least = 1 if torch_version.startswith(_MOVING_TORCH) else _LEAST_STEPS
    if np.count_nonzero(is_step) < least or not (places["category"] == "python_function").any():
        return spans
    rows, begins = [], []
    for found, start_ns, end_ns, ops_ns in _steps_and_ops(spans, places, is_step):
        began = _begins(start_ns, end_ns, ops_ns, least)
        if began is not None:
            rows.append(found)
            begins.append(began)
    if not rows:
        return spans
    row, began = np.concatenate(rows), np.concatenate(begins)
    start_ns = spans["start_ns"].to_numpy().copy()
    end_ns = start_ns + spans["dur_ns"].to_numpy()
    findings.add("chrome.moved_step", int((began != start_ns[row]).sum()))
    start_ns[row] = began
    return spans.with_columns(pl.Series("start_ns", start_ns), pl.Series("dur_ns", end_ns - start_ns))


def _steps_and_ops(
    spans: pl.DataFrame, places: pl.DataFrame, is_step: BoolArray
) -> Iterator[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Yield the steps of each thread and cycle: rows, begins and ends in order; and when its ops began, sorted."""
    place = spans["place"].to_numpy()
    is_op = are_in(places["category"], ("cpu_op",))[place] & ~is_step
    start_ns, dur_ns = spans["start_ns"].to_numpy(), spans["dur_ns"].to_numpy()
    of_thread = row_keys(places["lane"].to_numpy()[place], spans["cycle"].to_numpy())
    for thread in np.unique(of_thread[is_step]).tolist():
        row = np.flatnonzero(is_step & (of_thread == thread))
        row = row[np.argsort(start_ns[row], kind="stable")]
        yield row, start_ns[row], start_ns[row] + dur_ns[row], np.sort(start_ns[is_op & (of_thread == thread)])


def _begins(start_ns: IntArray, end_ns: IntArray, ops_ns: IntArray, least: int) -> IntArray | None:
    """Return when steps really began; None if their ops are in them, or if it cannot be told."""
    if len(start_ns) < least or (start_ns[1:] < end_ns[:-1]).any():
        return None
    counted = [np.searchsorted(ops_ns, times) for times in (start_ns, end_ns)]
    inside = int((counted[1] - counted[0]).sum())
    if 2 * inside >= counted[1][-1]:  # ops after the last step belong to none
        return None
    return np.append(min(ops_ns[0], start_ns[0]), end_ns[:-1])
