"""Which times can be believed? Events without one are left out, impossible durations closed; all are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.ingest.schema import MAX_TIME_NS

if TYPE_CHECKING:
    from torchprof_magic.ingest.findings import Findings

# No profile lasts a month: what claims to comes from a broken clock, and one such event would ruin every scale.
LONGEST_NS = 30 * 24 * 3600 * 10**9
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONTROL = r"[\x08\x0c\n\r\t]"


def close_bounds(bounds: pl.DataFrame, last_ns: int, findings: Findings) -> pl.DataFrame:
    """Return the B and E events paired into spans: each E ends the last open B of its thread.

    What stays open ends at ``last_ns``, the last moment of the file; an E without a B is left out.
    """
    open_rows: dict[tuple[object, object], list[int]] = {}
    ordered = bounds.drop_nulls("start_ns").sort("start_ns", maintain_order=True)
    ends: dict[int, int] = {}
    strays = 0
    rows = ordered.select("ph", "thread", "start_ns").iter_rows()
    for row, (phase, thread, time_ns) in enumerate(rows):
        stack = open_rows.setdefault((thread, None), [])
        if phase == "B":
            stack.append(row)
        elif stack:
            ends[stack.pop()] = time_ns
        else:
            strays += 1
    begun = ordered["ph"] == "B"
    unclosed = int(begun.sum()) - len(ends)
    findings.add("chrome.end_without_begin", strays)
    findings.add("chrome.unclosed_event", unclosed)
    last_ns = max(last_ns, ordered["start_ns"].max() or 0)  # type: ignore[assignment]
    end_ns = pl.Series("end_ns", [ends.get(row, last_ns) for row in range(ordered.height)], dtype=pl.Int64)
    spans = ordered.with_columns(end_ns).filter(begun)
    return spans.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")).drop("ph", "thread", "end_ns")


def with_backslashes(spans: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    r"""Return the spans with ``torch\nn`` for what unescaped backslashes made of it: a name with a line feed.

    Only in files of which other names prove that their writer escaped nothing.
    """
    if "json.bad_escape" not in findings.counts:
        return spans
    names = spans["name"].unique()
    broken = names.filter(names.cast(pl.String).str.contains(_CONTROL))
    if len(broken) == 0:
        return spans
    text = broken.cast(pl.String)
    for letter, control in _ESCAPED.items():
        text = text.str.replace_all(control, f"\\{letter}", literal=True)
    findings.add("json.bad_escape", len(broken))
    return spans.with_columns(pl.col("name").replace(broken, text.cast(broken.dtype)))


def believable(spans: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return the events whose time is known and near that of the others, with durations that can be."""
    start, dur = pl.col("start_ns"), pl.col("dur_ns")
    is_timed = start.is_not_null() & (start.abs() < MAX_TIME_NS)
    timed = _kept(spans, is_timed, "chrome.no_time", findings)
    middle = timed["start_ns"].median()
    if isinstance(middle, float):
        timed = _kept(timed, (start - int(middle)).abs() <= LONGEST_NS, "chrome.stray_time", findings)
    counts = timed.select(
        dur.is_null().sum().alias("chrome.no_duration"),
        (dur < 0).sum().alias("chrome.negative_duration"),
        (dur > LONGEST_NS).sum().alias("chrome.absurd_duration"),
    ).row(0, named=True)
    for code, count in counts.items():
        findings.add(code, count)
    if not any(counts.values()):
        return timed
    return timed.with_columns(pl.when((dur >= 0) & (dur <= LONGEST_NS)).then(dur).otherwise(0).alias("dur_ns"))


def _kept(frame: pl.DataFrame, is_good: pl.Expr, code: str, findings: Findings) -> pl.DataFrame:
    good = frame.select(is_good.alias("good"))["good"]
    if good.all():
        return frame
    findings.add(code, int((~good).sum()))
    return frame.filter(good)
