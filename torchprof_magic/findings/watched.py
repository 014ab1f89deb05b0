"""What is said of a run that was watched as a whole: its strip, and its slow steps with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.source.shown_files import spot_of
from torchprof_magic.findings.verdict.words import place_of
from torchprof_magic.model.intervals import each_from
from torchprof_magic.model.shapes import Fact, Lane, Section
from torchprof_magic.model.units import counted, format_count, format_ns, format_ratio
from torchprof_magic.tables.watched import slow_steps_table, strip_table

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.shapes import Unit
    from torchprof_magic.model.trace import Trace

# Parts of a strip: as many as can be told apart on a narrow page.
PARTS = 240
_MOST_SLOW = 6
_LANES: tuple[tuple[str, str, str, Unit], ...] = (
    ("Step time", "longest_ns", "longest_ns", "ns"),
    ("Device busy", "device_busy_ratio", "device_busy_ratio", "ratio"),
    ("Data wait", "data_ns", "data_ns", "ns"),
    ("Memory", "memory_bytes", "memory_bytes", "bytes"),
)


def watched_run(trace: Trace) -> Section:
    """Return the strip of the whole run, and its slowest steps with the lines that ran in them; empty if there is none.

    Each part of a lane has the largest value of the steps that begin in it or run in most of it.
    """
    watched = trace.meta.watched
    if watched is None or not watched.stretches:
        return Section(title="The whole run", facts=())
    whole = strip_table(trace).frame
    row, part, parts = _parts(whole)
    frame = whole[row]
    lanes = tuple(
        Lane(title=title, unit=unit, values=_largest(frame[column], part, parts), most=float(frame[most].max() or 0))  # type: ignore[arg-type]
        for title, column, most, unit in _LANES
        if frame[column].null_count() < frame.height and (frame[column].max() or 0)
    )
    marks = tuple(sorted(set(part[frame["recorded"].to_numpy() > 0].tolist())))
    slow = slow_steps_table(trace).frame.sort("step_ns", descending=True).head(_MOST_SLOW)
    return Section(
        title="The whole run",
        facts=tuple(_slow_step(trace, row) for row in slow.iter_rows(named=True)),
        kind="strip",
        aside=run_words(trace),
        lanes=lanes,
        marks=marks,
    )


def run_words(trace: Trace) -> str:
    """Return how long the run was, and what of it was recorded at which cost, as one line; empty without one."""
    watched = trace.meta.watched
    if watched is None or not watched.stretches:
        return ""
    last = watched.stretches[-1]
    whole_ns = last.start_ns + last.sum_ns
    cost = format_ratio(watched.cost_ns / max(whole_ns, 1))
    return (
        f"{counted(watched.steps, 'step')} in {format_ns(whole_ns)}, {format_count(watched.recorded)} recorded, which "
        f"took {format_ns(watched.cost_ns)} ({cost})"
    )


def slow_lines(trace: Trace) -> list[str]:
    """Return a sentence about each of the slowest steps, the slowest first."""
    slow = slow_steps_table(trace).frame.sort("step_ns", descending=True).head(_MOST_SLOW)
    return [_sentence(trace, row) for row in slow.iter_rows(named=True)]


def _sentence(trace: Trace, row: dict[str, object]) -> str:
    times = format_count(_float(row["step_ns"]) / max(_float(row["usual_ns"]), 1))
    place = _place(trace, row)
    where = f", mostly in {place}" if place else ""
    took, usual = format_ns(_float(row["step_ns"])), format_ns(_float(row["usual_ns"]))
    return f"Step {row['step']} took {took}, {times} times the usual {usual}{where}."


def _slow_step(trace: Trace, row: dict[str, object]) -> Fact:
    file, line = row["file"], row["line"]
    # Only lines of the cell are sure to be in the table of lines.
    is_known = trace.meta.cell is not None and file == trace.meta.cell.filename
    times = format_count(_float(row["step_ns"]) / max(_float(row["usual_ns"]), 1))
    place = _place(trace, row)
    return Fact(
        label=f"Step {row['step']}",
        value=_float(row["step_ns"]),
        unit="ns",
        note=", ".join(filter(None, (f"{times} times the usual {format_ns(_float(row['usual_ns']))}", place))),
        view="source" if is_known else "",
        spot=spot_of(trace, str(file), int(str(line))) if is_known else "",
    )


def _place(trace: Trace, row: dict[str, object]) -> str:
    file, line = row["file"], row["line"]
    place = place_of(trace, file, line) if isinstance(file, str) and isinstance(line, int) else ""
    call = str(row["call"] or "")
    return f"{place} ({call})" if place and call else place


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _parts(frame: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return pairs of a stretch and a part of the strip that it is shown in, and how many parts there are."""
    start, lasted = (column.to_numpy() for column in frame.select("start_ns", pl.col("step_ns") * pl.col("steps")))
    whole = max(int(start[-1] + lasted[-1]), 1)
    parts = min(PARTS, frame.height)
    first = np.minimum(start * parts // whole, parts - 1)
    last = np.maximum(((start + lasted) * (2 * parts) // whole - 1) // 2, first)  # a part that it runs in half of
    return *each_from(first, np.minimum(last, parts - 1) - first + 1), parts


def _largest(values: pl.Series, part: npt.NDArray[np.int64], parts: int) -> tuple[float | None, ...]:
    """Return the largest of the values in each part; None where there is none."""
    rows = pl.DataFrame({"part": part, "value": values}).group_by("part").agg(pl.col("value").max())
    found = dict(rows.iter_rows())
    return tuple(None if (value := found.get(at)) is None else float(value) for at in range(parts))
