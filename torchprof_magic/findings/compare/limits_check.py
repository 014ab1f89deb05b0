"""Which limits a run breaks, for tests that must fail when a program becomes slow or large."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.facts.counted_steps import step_ns_of
from torchprof_magic.facts.device.coverage import loss_of
from torchprof_magic.findings.verdict.diagnosis import launches_without_work
from torchprof_magic.model.units import (
    counted,
    format_bytes,
    format_change,
    format_ns,
    format_ratio,
    printable,
)
from torchprof_magic.tables.memory.in_use import memory_frame
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchprof_magic.findings.compare.run_change import RunChange
    from torchprof_magic.model.trace import Trace

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30,
          "tib": 2**40}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


class Broken(NamedTuple):
    """One limit that a run breaks, as text."""

    what: str
    limit: str
    found: str


def bytes_of(size: float | str) -> float:
    """Return a size in bytes: a number, or a text such as ``2 GB``. Raises ``ValueError`` for anything else."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None or match[2].lower() not in _SIZES:
            raise ValueError(f"max_peak must be a number of bytes or a size such as '2 GB' (got {size!r})")
        return float(match[1]) * _SIZES[match[2].lower()]
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not size >= 0:
        raise ValueError(f"max_peak must be a number of bytes or a size such as '2 GB' (got {size!r})")
    return float(size)


def broken_step_limit(trace: Trace, step_ms: float) -> list[Broken]:
    """Return the limit of the typical step, if it is broken or if there is no complete step."""
    limit, found = f"at most {format_ns(step_ms * 1e6)}", step_ns_of(trace)
    if math.isnan(found):
        lost = f", {launches_without_work(trace)}" if loss_of(trace).missing else ""
        return [Broken("step", limit, f"no complete step{lost}")]
    return [Broken("step", limit, format_ns(found))] if found > step_ms * 1e6 else []


def broken_peak_limit(trace: Trace, max_peak: float | str) -> list[Broken]:
    """Return the devices whose peak is above the limit; or that memory was not recorded, so that it cannot be known."""
    most = bytes_of(max_peak)
    limit = f"at most {format_bytes(most)}"
    if trace.memory.height == 0:
        return [Broken("memory peak", limit, "not recorded (profile_memory=True)")]
    peaks = memory_frame(trace).group_by("device").agg(pl.col("total_bytes").max()).sort("device")
    return [Broken(f"memory peak {name}", limit, format_bytes(peak)) for name, peak in peaks.iter_rows() if peak > most]


def broken_bans(trace: Trace, names: Sequence[str]) -> list[Broken]:
    """Return the ops and ranges that must not run, and did."""
    calls = dict(ops_table(trace).frame.group_by("name").agg(pl.col("calls").sum()).iter_rows())
    return [
        Broken(printable(name), "no calls", counted(int(calls[name]), "call"))
        for name in names
        if calls.get(name, 0) > 0
    ]


def broken_baseline(change: RunChange, tolerance: float) -> list[Broken]:
    """Return the baseline if the steps are slower by more than the tolerance, and not by chance."""
    if change.certainty == "too few steps":
        return [
            Broken("step against baseline", "at least 4 steps in both", f"{change.before_steps}, {change.after_steps}")
        ]
    if change.kind != "slower" or change.ratio <= 1 + tolerance:
        return []
    low, high = change.interval
    found = (
        f"{format_change(change.ratio - 1)}, {change.certainty} ({format_change(low - 1)} to {format_change(high - 1)})"
    )
    return [Broken("step against baseline", f"at most +{format_ratio(tolerance)}", found)]


def broken_table(broken: Sequence[Broken]) -> str:
    """Return the limits that are broken as a table of text."""
    rows = [Broken("What", "Limit", "Found"), *broken]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(["The profile breaks its limits:", *lines])
