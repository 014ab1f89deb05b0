"""Drops events without a plausible time and corrects impossible durations; every case is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.ingest.chrome.async_ranges import with_async_ranges
from torchprof_magic.ingest.findings import example_of, value_text
from torchprof_magic.ingest.json.schema import MAX_TIME_NS
from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.meta import MAX_TEXT
from torchprof_magic.model.trace import MAX_JSON_CHARS, MAX_NAME_CHARS, MAX_SUM, TEXT

if TYPE_CHECKING:
    from torchprof_magic.ingest.chrome.spans import Columns
    from torchprof_magic.ingest.findings import Findings

# No profile lasts a month. Longer times come from wrong clocks, and one such event would ruin every time axis.
LONGEST_NS = 30 * 24 * 3600 * 10**9
# No machine has a petabyte of memory. Larger sizes are errors of the program that wrote the file.
LARGEST_BYTES = 2**50
# Process and thread ids, names of threads and kinds of arrows; a lane is shown as "thread" and its id.
MAX_LABEL_CHARS = MAX_TEXT - len("thread ")
# Events at the time 0 begin a recording only if others follow within this time.
ZERO_GAP_NS = 1_000_000
_JSON_COLUMNS = (
    "shapes", "dtypes", "concrete_inputs", "call_stack", "launch_config", "collective", "script_modules", "annotation",
)  # fmt: skip
_LABELS = {
    "places": ("pid", "tid", "cat"),
    "thread_names": ("pid", "tid", "name"),
    "process_names": ("pid", "tid", "name"),
    "memory": ("pid", "tid"),
    "arrows": ("pid", "tid", "cat"),
    "counters": ("pid",),
    "other_arrows": ("cat",),
}
_CAN_LAST = pl.col("dur_ns").is_between(0, LONGEST_NS)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONTROL = r"[\x08\x0c\n\r\t]"


def cleaned(columns: Columns, findings: Findings) -> Columns:
    """Return the columns of one file without implausible events, with B and E events paired into spans."""
    middle_ns = _middle_ns(columns)
    columns = columns._replace(spans=_without_lost_times(columns.spans, findings))
    spans = _believable(columns.spans, "start_ns", middle_ns, findings)
    bounds = _believable(columns.bounds, "start_ns", middle_ns, findings)
    memory = _believable(columns.memory, "time_ns", middle_ns, findings)
    counters = _believable(columns.counters, "time_ns", middle_ns, findings)
    if counters.height:
        counters = _with_short_texts(counters, {"name": MAX_NAME_CHARS}, findings)
    if bounds.height:
        spans = pl.concat([spans, _closed(bounds, columns.places, _last_ns(spans), findings).select(spans.columns)])
    ranges = _believable(columns.async_bounds, "start_ns", middle_ns, findings)
    columns = columns._replace(spans=spans, async_bounds=ranges)
    if ranges.height:
        columns = with_async_ranges(columns, _last_ns(spans), findings)
    spans = _with_sizes(_with_durations(columns.spans, findings), ("bytes",), findings)
    memory = _with_sizes(memory, ("delta_bytes", "allocated_bytes", "reserved_bytes"), findings)
    memory = _kept(memory, pl.col("delta_bytes").is_not_null(), "memory.no_size", findings)
    spans = _with_backslashes(spans, findings)
    columns = columns._replace(spans=spans, bounds=bounds.clear(), memory=memory, counters=counters)
    return _without_long_texts(columns, findings)


def _without_long_texts(columns: Columns, findings: Findings) -> Columns:
    """Return the columns with long texts cut off, and without very long JSON."""
    limits = {
        "spans": {"name": MAX_NAME_CHARS, "kernel": MAX_NAME_CHARS} | dict.fromkeys(_JSON_COLUMNS, MAX_JSON_CHARS)
    }
    limits |= {name: dict.fromkeys(labels, MAX_LABEL_CHARS) for name, labels in _LABELS.items()}
    frames: dict[str, pl.DataFrame] = {}
    for name, longer in _longer_in_bytes(columns, limits).items():
        texts = {column: most for column, most in longer.items() if column not in _JSON_COLUMNS}
        frames[name] = _with_short_texts(getattr(columns, name), texts, findings)
        frames[name] = _without_long_json(frames[name], [each for each in longer if each in _JSON_COLUMNS], findings)
    return columns._replace(**frames)


def _longer_in_bytes(columns: Columns, limits: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the frames and columns in which a text has more bytes than there may be characters, as in few files.

    The number of bytes is stored with a text, the number of characters is not.
    """
    asked = [(name, column) for name, limit in limits.items() for column in limit if _has_texts(columns, name, column)]
    longest = pl.DataFrame().select_seq(
        _bytes(getattr(columns, name)[column]).max().alias(f"{name}.{column}") for name, column in asked
    )
    found: dict[str, dict[str, int]] = {}
    for (name, column), most_bytes in zip(asked, longest.row(0) if asked else (), strict=True):
        if most_bytes > limits[name][column]:
            found.setdefault(name, {})[column] = limits[name][column]
    return found


def _has_texts(columns: Columns, name: str, column: str) -> bool:
    frame: pl.DataFrame = getattr(columns, name)
    return frame[column].null_count() < frame.height


def _bytes(texts: pl.Series) -> pl.Expr:
    return pl.lit(texts).cat.len_bytes() if texts.dtype == TEXT else pl.lit(texts).str.len_bytes()


def _without_lost_times(spans: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return the spans without those at the time 0 that last 0, where everything else is far later.

    Profilers write zeros for times that were lost. Left in, they would begin the recording and look like work.
    """
    is_zero = (spans["start_ns"] == 0) & (spans["dur_ns"] == 0)
    if not is_zero.any():
        return spans
    first = spans["start_ns"].filter(~is_zero).min()
    if not isinstance(first, int) or first < ZERO_GAP_NS:
        return spans
    return _kept(spans, pl.lit((~is_zero).fill_null(value=True)), "chrome.zero_time", findings)


def _middle_ns(columns: Columns) -> int | None:
    """Return a time that is typical for the file: of the events, or else of the allocations, or of the counters."""
    starts = pl.concat([frame["start_ns"] for frame in (columns.spans, columns.bounds, columns.async_bounds)])
    found = (starts, columns.memory["time_ns"], columns.counters["time_ns"])
    times = next((each for each in found if each.null_count() < len(each)), starts)
    # Take a time that occurs, not the mean of two: if the times form two distant groups, one of them must stay.
    known = times.drop_nulls().to_numpy()
    known = known[(known >= -MAX_TIME_NS) & (known <= MAX_TIME_NS)]
    middle = max(len(known) - 1, 0) // 2
    return int(np.partition(known, middle)[middle]) if len(known) else None


def _last_ns(spans: pl.DataFrame) -> int:
    """Return the last moment of the events with a plausible duration."""
    dur = pl.when(_CAN_LAST).then("dur_ns").otherwise(0)
    return spans.select((pl.col("start_ns") + dur).max()).item() or 0


def _closed(bounds: pl.DataFrame, places: pl.DataFrame, last_ns: int, findings: Findings) -> pl.DataFrame:
    """Return the B and E events paired into spans: each E ends the last open B of its thread.

    A B without an E ends at ``last_ns``, the last moment of the file; an E without a B is left out.
    """
    threads = places.select(pl.struct("pid", "tid").rank("dense").alias("thread")).with_row_index("place")
    threads = threads.with_columns(pl.col("place").cast(pl.Int32))
    ordered = bounds.join(threads, on="place", how="left").sort("start_ns", "position")
    open_rows: dict[tuple[object, object], list[int]] = {}
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
    return spans.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))


def _with_backslashes(spans: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    r"""Return the spans with names such as ``torch\nn`` restored, which unescaped backslashes turned into a line feed.

    Only in files in which other names prove that backslashes were not escaped.
    """
    if "json.bad_escape" not in findings.counts:
        return spans
    names = distinct(spans["name"])
    broken = names.filter(names.cast(pl.String).str.contains(_CONTROL))
    if len(broken) == 0:
        return spans
    text = broken.cast(pl.String)
    for letter, control in _ESCAPED.items():
        text = text.str.replace_all(control, f"\\{letter}", literal=True)
    findings.add("json.bad_escape", len(broken))
    return spans.with_columns(pl.col("name").replace(broken, text.cast(broken.dtype)))


def _with_short_texts(frame: pl.DataFrame, max_chars: dict[str, int], findings: Findings) -> pl.DataFrame:
    """Return the rows with long texts cut off, and an ellipsis in their place."""
    for name, texts in _long_texts(frame, max_chars).items():
        findings.add("chrome.long_text", len(texts))
        short = (texts.cast(pl.String).str.head(max_chars[name] - 1) + "…").cast(texts.dtype)
        frame = frame.with_columns(pl.col(name).replace(texts, short))
    return frame


def _without_long_json(frame: pl.DataFrame, columns: list[str], findings: Findings) -> pl.DataFrame:
    """Return the rows without very long values, of which a part would be of no use."""
    for name, long in _long_texts(frame, dict.fromkeys(columns, MAX_JSON_CHARS)).items():
        is_long = frame[name].is_in(long.implode()).fill_null(value=False)
        event = frame["name"].cast(pl.String)[int(is_long.arg_true()[0])]
        findings.add("chrome.odd_value", int(is_long.sum()), example=example_of(name, long.cast(pl.String)[0], event))
        frame = frame.with_columns(frame[name].set(is_long, None))
    return frame


def _long_texts(frame: pl.DataFrame, max_chars: dict[str, int]) -> dict[str, pl.Series]:
    """Return for each column with texts that are too long these texts, each once."""
    once = {name: distinct(frame[name]) for name in max_chars}
    long = {name: texts.filter(texts.cast(pl.String).str.len_chars() > max_chars[name]) for name, texts in once.items()}
    return {name: texts for name, texts in long.items() if len(texts)}


def _believable(frame: pl.DataFrame, column: str, middle_ns: int | None, findings: Findings) -> pl.DataFrame:
    """Return the rows whose time is known and close to that of the others."""
    if _are_close(frame[column], middle_ns):
        return frame
    time = pl.col(column)
    timed = _kept(frame, time.is_between(-MAX_TIME_NS, MAX_TIME_NS).fill_null(value=False), "chrome.no_time", findings)
    if middle_ns is None:
        return timed
    return _kept(timed, (time - middle_ns).abs() <= LONGEST_NS, "chrome.stray_time", findings)


def _are_close(times: pl.Series, middle_ns: int | None) -> bool:
    """Return whether all times are known and close to that of the others, as in most files."""
    if len(times) == 0:
        return True
    low, high = times.min(), times.max()
    if times.null_count() or not isinstance(low, int) or not isinstance(high, int):
        return False
    is_close = middle_ns is None or (low >= middle_ns - LONGEST_NS and high <= middle_ns + LONGEST_NS)
    return low >= -MAX_TIME_NS and high <= MAX_TIME_NS and is_close


def _with_durations(spans: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return the events with implausible durations set to 0."""
    if spans.height == 0:
        return spans
    dur = pl.col("dur_ns")
    longest_ns = _largest(spans["dur_ns"], LONGEST_NS)
    if _are_within(spans["dur_ns"], 0, longest_ns) and not spans["dur_ns"].null_count():
        return spans
    counts = spans.select(
        dur.is_null().sum().alias("chrome.no_duration"),
        (dur < 0).sum().alias("chrome.negative_duration"),
        (dur > longest_ns).sum().alias("chrome.absurd_duration"),
    ).row(0, named=True)
    for code, count in counts.items():
        findings.add(code, count)
    if not any(counts.values()):
        return spans
    return spans.with_columns(pl.when(dur.is_between(0, longest_ns)).then(dur).otherwise(0).alias("dur_ns"))


def _with_sizes(frame: pl.DataFrame, columns: tuple[str, ...], findings: Findings) -> pl.DataFrame:
    """Return the rows with implausible sizes set to null."""
    for name in columns:
        size = frame[name]
        if size.null_count() == len(size):
            continue
        largest = _largest(size, LARGEST_BYTES)
        if not _are_within(size, -largest, largest):
            is_absurd = (size > largest) | (size < -largest)  # the least int64 has no absolute value
            row = int(is_absurd.arg_true()[0])
            event = str(frame["name"][row]) if "name" in frame.columns else ""
            findings.add("chrome.odd_value", int(is_absurd.sum()), example=example_of(name, size[row], event))
            frame = frame.with_columns(size.set(is_absurd, None))
    return frame


def _largest(values: pl.Series, usual: int) -> int:
    """Return the largest plausible value: ``usual``, or less if the sum of so many values would not fit into int64."""
    if _are_within(values, -usual, usual) and _are_within(values, -MAX_SUM // len(values), MAX_SUM // len(values)):
        return usual
    believed = values.cast(pl.Float64).abs()
    total = believed.filter(believed <= usual).sum()
    return usual if total < MAX_SUM else MAX_SUM // len(values)


def _are_within(values: pl.Series, least: int, most: int) -> bool:
    """Return whether all known values are in a range, of which there must be one."""
    low, high = values.min(), values.max()
    return isinstance(low, int) and isinstance(high, int) and least <= low and high <= most


def _kept(frame: pl.DataFrame, is_good: pl.Expr, code: str, findings: Findings) -> pl.DataFrame:
    if frame.height == 0:
        return frame
    good = frame.select(is_good.alias("good"))["good"]
    if good.all():
        return frame
    event = str(frame["name"][int((~good).arg_true()[0])]) if "name" in frame.columns else ""
    findings.add(code, int((~good).sum()), example=f"the event {value_text(event)}" if event else "")
    return frame.filter(good)
