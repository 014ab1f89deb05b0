"""Whether a run keeps to limits, for tests and checks that must fail when a program becomes slow or large."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, step_ns_of
from torchprof_magic.facts.device.coverage import loss_of
from torchprof_magic.facts.host.blocking import RULES, calls_that_block
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

Status = Literal["passed", "failed", "unclear"]

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30,
          "tib": 2**40}  # fmt: skip
_TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)
_MORE = re.compile(r"\s*\+\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
ENOUGH_STEPS = "at least 4 steps in both"
# Words for kinds of calls that must not run, besides names of ops and ranges: rules of blocking calls.
BANNED_KINDS = tuple(rule for rule in RULES if rule != "profiler")


class Checked(NamedTuple):
    """One limit, what was found, and whether the run keeps to it, as text.

    It is ``unclear`` if a difference may be chance, or there are too few steps to tell.
    """

    what: str
    limit: str
    found: str
    status: Status


def bytes_of(size: float | str) -> float:
    """Return a size in bytes: a number, or a text such as ``2 GB``. Raises ``ValueError`` for anything else."""
    return _amount(size, _SIZES, "max_peak must be a number of bytes or a size such as '2 GB'")


def ns_of(time: float | str) -> float:
    """Return a time in ns: a number of ms, or a text such as ``50 ms``. Raises ``ValueError`` for anything else."""
    words = "max_step must be a number of ms, a time such as '50 ms', or a share of another run such as '+5%'"
    found = _amount(time, _TIMES, words) * (1 if isinstance(time, str) else 1e6)
    if not found > 0:
        raise ValueError(f"{words} (got {time!r})")
    return found


def share_of(limit: float | str | None) -> float | None:
    """Return 0.05 for ``+5%``; None for a limit that is no share of another run."""
    match = _MORE.fullmatch(limit) if isinstance(limit, str) else None
    return None if match is None else float(match[1]) / 100


def _amount(value: float | str, units: dict[str, float] | dict[str, int], words: str) -> float:
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if match is None or match[2].lower() not in units:
            raise ValueError(f"{words} (got {value!r})")
        return float(match[1]) * units[match[2].lower()]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError(f"{words} (got {value!r})")
    return float(value)


def check_step(trace: Trace, most_ns: float) -> list[Checked]:
    """Return whether the typical step is at most so long; a run without a complete step fails."""
    limit, found = f"at most {format_ns(most_ns)}", step_ns_of(trace)
    if math.isnan(found):
        lost = f", {launches_without_work(trace)}" if loss_of(trace).missing else ""
        return [Checked("step", limit, f"no complete step{lost}", "failed")]
    return [Checked("step", limit, format_ns(found), "failed" if found > most_ns else "passed")]


def check_peak(trace: Trace, max_peak: float | str) -> list[Checked]:
    """Return whether the peak of each device is at most so high; a run without memory fails, as it cannot be known."""
    most_bytes = bytes_of(max_peak)
    limit = f"at most {_as_given(max_peak, format_bytes(most_bytes))}"
    if trace.memory.height == 0:
        return [Checked("memory peak", limit, "not recorded (profile_memory=True)", "failed")]
    return [
        Checked(
            f"memory peak {printable(name)}", limit, format_bytes(peak), "failed" if peak > most_bytes else "passed"
        )
        for name, peak in _peaks(trace)
    ]


def _as_given(size: float | str, shown: str) -> str:
    """Return a limit as it was written, with what peaks are compared with where that is in other units."""
    is_other = isinstance(size, str) and size.replace(" ", "").lower() != shown.replace(" ", "").lower()
    return f"{str(size).strip()} ({shown})" if is_other else shown


def check_higher_peak(before: Trace, after: Trace, tolerance: float) -> list[Checked]:
    """Return whether the peak of each device is higher than in another run by at most ``tolerance``, such as 0.1."""
    limit = f"at most +{format_ratio(tolerance)}"
    if 0 in (before.memory.height, after.memory.height):
        return [Checked("memory peak", limit, "not recorded in both (profile_memory=True)", "failed")]
    earlier = dict(_peaks(before))
    found = []
    for name, peak in _peaks(after):
        was = earlier.get(name, 0)
        is_higher = peak > was * (1 + tolerance)
        change = f"{format_bytes(was)} → {format_bytes(peak)}"
        found.append(Checked(f"memory peak {printable(name)}", limit, change, "failed" if is_higher else "passed"))
    return found


def check_bans(trace: Trace, names: Sequence[str]) -> list[Checked]:
    """Return whether ops, ranges and kinds of blocking calls (``BANNED_KINDS``) do not run, with how often they do.

    Raises ``ValueError`` for a word that is nearly that of a kind.
    """
    for name in names:
        _check_word(name)
    calls = dict(ops_table(trace).frame.group_by("name").agg(pl.col("calls").sum()).iter_rows())
    found = []
    for name in names:
        count = _blocking(trace, name) if name in BANNED_KINDS else int(calls.get(name, 0))
        what = f"{name} calls" if name in BANNED_KINDS else printable(name)
        found.append(Checked(what, "no calls", counted(count, "call"), "failed" if count else "passed"))
    return found


def _check_word(name: str) -> None:
    """Refuse a word that looks like a kind of call, but is none: no op is called like that, so it would never fail."""
    if name.isidentifier() and name not in BANNED_KINDS and (close := get_close_matches(name, BANNED_KINDS, n=1)):
        raise ValueError(f"no op is called {name!r}; did you mean {close[0]!r}? Kinds are: {', '.join(BANNED_KINDS)}")


def check_slower(change: RunChange, tolerance: float | None) -> list[Checked]:
    """Return whether the steps are slower than those of another run by at most ``tolerance``, such as 0.05.

    It is unclear if they look slower by more, but that may be chance; and with fewer than four steps in a run. Without
    a tolerance, they must not be slower by more than chance.
    """
    what, limit = "step against baseline", "not slower" if tolerance is None else f"at most +{format_ratio(tolerance)}"
    if change.certainty == "too few steps":
        steps = f"{change.before_steps}, {change.after_steps}"
        return [Checked(what, ENOUGH_STEPS, steps, "unclear")]
    low, high = change.interval
    found = (
        f"{format_change(change.ratio - 1)}, {change.certainty} ({format_change(low - 1)} to {format_change(high - 1)})"
    )
    if change.kind == "slower":
        return [Checked(what, limit, found, "failed" if change.ratio > 1 + (tolerance or 0) else "passed")]
    return [Checked(what, limit, found, "passed" if tolerance is None or change.ratio <= 1 + tolerance else "unclear")]


def status_of(checked: Sequence[Checked]) -> Status:
    """Return what all limits together say: the first of failed, unclear and passed that one is."""
    found = {each.status for each in checked}
    return "failed" if "failed" in found else "unclear" if "unclear" in found else "passed"


def broken_table(broken: Sequence[Checked]) -> str:
    """Return the limits that are broken as a table of text."""
    rows = [each[:3] for each in broken]
    return "\n".join(["The profile breaks its limits:", *columns_of([("What", "Limit", "Found"), *rows])])


def columns_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines of text, with their cells below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _peaks(trace: Trace) -> list[tuple[str, int]]:
    peaks = memory_frame(trace).group_by("device").agg(pl.col("total_bytes").max()).sort("device")
    return [(str(name), int(peak)) for name, peak in peaks.iter_rows()]


def _blocking(trace: Trace, rule: str) -> int:
    """Return how many blocking calls of a rule begin in the steps that count."""
    calls = calls_that_block(trace)
    return int(np.count_nonzero(calls.meet(rule) & counted_part(trace).holds(calls.start_ns)))
