"""Writes collapsed stacks, one line per stack, for other flame graph tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.exporters.exact_text import translated
from torchprof_magic.model.intervals import NO_PARENT, IntArray, levels, merge_paths, self_time
from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

# torch calls the metrics of export_stacks by these longer names.
METRICS = {
    "self_cpu_time": "self_cpu_time",
    "self_device_time": "self_device_time",
    "self_cpu_time_total": "self_cpu_time",
    "self_cuda_time_total": "self_device_time",
    "self_device_time_total": "self_device_time",
}
# As in torch, spaces and characters that end a frame, a stack or a line are replaced by underscores.
_REPLACED = str.maketrans(dict.fromkeys(" ;\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "_"))
_NS_PER_US = 1000


def write_collapsed(trace: Trace, path: Path, metric: str = "self_cpu_time") -> Path:
    """Write ``outer;inner;op µs`` for every stack that took at least 1 µs, and return the path.

    A stack consists of an event and the events around it on its thread: Python frames, ops and annotations. Its time is
    the self time of the event (``self_cpu_time``), or the device work that it launched (``self_device_time``).
    """
    return write_text(path, (f"{line}\n" for line in collapsed_lines(trace, METRICS[metric])))


def collapsed_lines(trace: Trace, metric: str) -> Iterator[str]:
    """Yield the lines, callers first; equal stacks are one line, in whole µs as torch writes them."""
    lanes = trace.events["lane"].to_numpy()
    on_host = (trace.lanes["kind"] == "thread").to_numpy()[lanes]
    values = _self_ns(trace, on_host) if metric == "self_cpu_time" else _launched_ns(trace)
    values[~on_host] = 0
    text = translated(trace.events["name"], lambda name: name.translate(_REPLACED) or "_").fill_null("_")
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    path, first = merge_paths(parent, text.rank("dense").to_numpy().astype(np.int64))
    total_us = np.bincount(path, weights=values, minlength=len(first)).astype(np.int64) // _NS_PER_US
    above = np.where(parent[first] >= 0, path[parent[first]], NO_PARENT).tolist()
    names = text[first].to_list()
    for row in np.flatnonzero(total_us > 0).tolist():  # one iteration per distinct stack
        yield f"{';'.join(_stack(row, names, above))} {total_us[row]}"


def _stack(row: int, names: list[str], above: list[int]) -> list[str]:
    stack = []
    while row >= 0:
        stack.append(names[row])
        row = above[row]
    return stack[::-1]


def _self_ns(trace: Trace, on_host: np.ndarray) -> IntArray:
    dur_ns = np.where(on_host, trace.events["dur_ns"].to_numpy(), 0)
    return self_time(trace.events["parent"].to_numpy().astype(np.int64), dur_ns)


def _launched_ns(trace: Trace) -> IntArray:
    """Return for each event the summed ns of the device work whose launch call is directly inside it."""
    launches = trace.flows.filter(pl.col("kind") == "launch")
    source, target = launches["source"].to_numpy(), launches["target"].to_numpy()
    launched = np.zeros(trace.events.height, np.int64)
    np.add.at(launched, _callers(trace)[source], trace.events["dur_ns"].to_numpy()[target])
    return launched


def _callers(trace: Trace) -> IntArray:
    """Return for each event its own row; for runtime calls that of the closest event around that is not one, if any."""
    caller = np.arange(trace.events.height)
    is_call = (trace.events["category"] == "runtime").to_numpy()
    parent = trace.events["parent"].to_numpy()
    for rows in levels(trace.events["depth"].to_numpy().astype(np.int64))[1:]:
        calls = rows[is_call[rows]]
        caller[calls] = caller[parent[calls]]
    return caller
