"""The lines as they are shown: the cell as it is written, its functions below, and what belongs to no line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, counted_steps
from torchprof_magic.facts.device.device_time import device_time
from torchprof_magic.facts.device.graph_work import origins
from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.shared import device_rows, in_category, once_for_the_whole
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.facts.source.fx_nodes import has_fx_nodes
from torchprof_magic.facts.source.line_times import OWN_PHASES, called_lines, line_times, moved_backward, times_at
from torchprof_magic.facts.source.methods import with_forward_classes
from torchprof_magic.facts.source.places import call_tree
from torchprof_magic.facts.source.shown_files import files_as_shown
from torchprof_magic.facts.source.step_places import functions_of_pieces
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.model.shapes import BarPart, Column, Outline, Table
from torchprof_magic.model.units import enumerated, format_ns
from torchprof_magic.tables.source.lines import COLUMNS, CPU_PARTS, FUNCTION, SCHEMA, lines_by_phase

if TYPE_CHECKING:
    from torchprof_magic.facts.time_range import TimeRange
    from torchprof_magic.model.trace import Trace

OUTSIDE = "outside of these lines"
FUNCTION_TITLE = "Function"
LINES_FUNCTION_TITLE = "Source function"
FUNCTIONS = "functions that these lines call, counted above"
_DEVICE = ("device_ns", "backward_device_ns")
_BOTH_DEVICE = Column(
    name="both_device_ns",
    title="Device",
    unit="ns",
    definition="Summed time of kernels, copies and fills that the line and its backward pass launched. All lines, and "
    "what belongs to none, add up to the work of all devices.",
    has_bar=True,
    is_sum=True,
    # What a line launches itself has the hue of the line, such as that of the optimizer.
    parts=(BarPart(column="device_ns", phase=""), BarPart(column="backward_device_ns", phase="backward")),
)
# The parts of the host's bar, in the order of the phases in all pictures.
_CPU_BAR = tuple(
    BarPart(column={"backward": "backward_cpu_ns", "waiting": "wait_ns", **OWN_PHASES}[phase], phase=phase)
    for phase in PHASES
    if phase != "idle"
)
_TITLES = {"device_ns": "Forward device"}
# A remark names so many lines.
MOST_NAMED = 3
_NEARLY_ALL = 0.99
# Cells of so many lines are shown as they are; in others, runs of at least so many quiet lines are folded.
UNFOLDED = 16
LEAST_FOLDED = 4


@once_for_the_whole
def source_view(trace: Trace, part: TimeRange) -> Table:
    """Return the lines as they are shown: cells by their labels, and files by the last parts of their paths.

    The lines of the cell keep their order; functions of other cells and files stand below, the one with the most time
    first, and then what belongs to no line. Many lines without numbers in a row are folded into one that opens.
    Functions that are known from recorded stacks alone are sorted by their time. Columns without any number or text,
    and the file where there is only one, are absent.
    """
    table = lines_by_phase(trace, part)
    if table.frame.height == 0:
        return table
    is_watched = bool((trace.sites["kind"] == "line").any())
    frame = _hottest_below(trace, table.frame) if is_watched else table.frame
    frame = frame.with_columns(files_as_shown(trace, frame["file"]), _notes(trace, frame, part))
    frame = pl.concat([frame, _rest(trace, table.frame, part)], how="diagonal_relaxed")
    is_rest = pl.col("line").is_null() & (pl.col("source") == OUTSIDE)
    frame = frame.with_columns(pl.sum_horizontal(_DEVICE).alias("both_device_ns"), is_rest.alias("is_rest"))
    table = replace(table, device=device_time(trace, part) if frame["both_device_ns"].sum() else None)
    shown = replace(_with_columns(table, frame), note="note" if frame["note"].is_not_null().any() else None)
    if not is_watched:
        # Where stacks were written at ops alone, they have the line that ran, and not that of the definition.
        title = FUNCTION_TITLE if in_category(trace, "python_function").any() else LINES_FUNCTION_TITLE
        of_functions = tuple(_of_function(each, title) for each in shown.columns)
        columns = shown.columns if has_fx_nodes(trace) else of_functions
        return replace(shown, sort_by="cpu_ns", columns=columns)
    return _with_functions(_folded(shown), _functions(trace, table.frame, part))


def _hottest_below(trace: Trace, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the lines of the cell, and below them the functions elsewhere, the one with the most time first."""
    cell = trace.meta.cell.filename if trace.meta.cell is not None else None
    is_cell = pl.col("file").eq_missing(pl.lit(cell))
    ranked = frame.with_columns(_block(), is_cell.alias("is_cell"))
    ranked = ranked.with_columns(pl.col("cpu_ns").sum().over("block").alias("heat"))
    order = ranked.sort("is_cell", "heat", "block", descending=[True, True, False], maintain_order=True)
    first = ranked.filter("is_cell")
    return pl.concat([first, order.filter(~pl.col("is_cell"))]).select(frame.columns)


def _block() -> pl.Expr:
    """Return a number for each block of lines that follow one another in a file, such as a function."""
    is_next = (pl.col("line").diff() == 1) & pl.col("file").eq_missing(pl.col("file").shift())
    return (~is_next).fill_null(value=True).cum_sum().alias("block")


def _notes(trace: Trace, frame: pl.DataFrame, part: TimeRange) -> pl.Series:
    """Return where the time of a line stands that is not its own: the work that it called, or its backward pass."""
    own_ns = {(file, line): ns for file, line, ns in frame.select("file", "line", "cpu_ns").rows()}
    steps = counted_steps(trace).steps
    is_per_step = trace.steps.height > 0 and part in (WHOLE, counted_part(trace))
    notes = {}
    for (file, line), rows in called_lines(trace, part).group_by("file", "line", maintain_order=True):
        ns = int(rows["ns"].sum())
        # A line that does most of its work itself needs no hint.
        if ns > own_ns.get((file, line), 0):
            time = f"{format_ns(ns / steps)}/step" if is_per_step else format_ns(ns)
            where = _lines_in_words(trace, str(file), rows.select("called_file", "called_line").rows(), in_order=False)
            notes[file, line] = f"{time} in {where}"
    for (file, line), rows in moved_backward(trace).group_by("file", "line", maintain_order=True):
        places = rows.select("forward_file", "forward_line").rows()
        called = notes.get((file, line))
        moved = f"its backward is shown at {_lines_in_words(trace, str(file), places)}"
        notes[file, line] = f"{moved}; {called}" if called else moved
    return pl.Series("note", [notes.get(place) for place in frame.select("file", "line").rows()], dtype=pl.String)


def _lines_in_words(trace: Trace, file: str, places: list[tuple[str, int]], *, in_order: bool = True) -> str:
    """Return the first of some lines, in the order of the file or as they are: ``lines 3, 4 and 9``.

    Those of another file are named by it.
    """
    named = places[:MOST_NAMED]
    if in_order:
        named = sorted(named, key=lambda place: (place[0] != file, place))
    shown = files_as_shown(trace, pl.Series([place[0] for place in named]))
    words = [str(line) if of == file else f"{name}:{line}" for (of, line), name in zip(named, shown, strict=True)]
    if more := len(places) - len(named):
        words.append(f"{more} more")
    joined = enumerated(words)
    own = sum(of == file for of, _ in named)
    are_lines = own > 1 or (own == len(named) and more > 0)
    return f"line{'s' if are_lines else ''} {joined}" if named[0][0] == file else joined


def _rest(trace: Trace, frame: pl.DataFrame, part: TimeRange) -> pl.DataFrame:
    """Return a row with what belongs to no line, so that the rows add up to the steps; none if nothing is left."""
    names = (*CPU_PARTS, *OWN_PHASES.values())
    whole = line_times(trace, part).select(names).sum().row(0)
    rest = {name: ns - frame[name].sum() for name, ns in zip(names, whole, strict=True)}
    work = device_rows(trace)
    _, work_ns = part.cut(*(trace.events[name].to_numpy()[work] for name in ("start_ns", "dur_ns")))
    is_backward = forward_of_events(trace)[work] >= 0
    for name, counts in zip(_DEVICE, (~is_backward, is_backward), strict=True):
        rest[name] = int(work_ns[counts].sum()) - frame[name].sum()
    if frame["bytes"].is_not_null().any():
        inside = trace.memory.filter(pl.Series(part.holds(trace.memory["time_ns"].to_numpy())))
        rest["bytes"] = int(inside["delta_bytes"].sum()) - int(frame["bytes"].sum())
    unknown_ns = int(work_ns[origins(trace)[work] < 0].sum())
    steps = counted_steps(trace).steps if part in (WHOLE, counted_part(trace)) else 0
    note = _of_unknown(unknown_ns, sum(rest[name] for name in _DEVICE), steps or 1)
    row = {"source": OUTSIDE, "note": note, "phase": "", "cpu_ns": sum(rest[name] for name in CPU_PARTS), **rest}
    schema = {name: pl.String if name == "note" else SCHEMA.get(name, pl.Int64) for name in row}
    return pl.DataFrame([row] if any(rest.values()) else [], schema)


def _of_unknown(unknown_ns: int, device_ns: int, steps: float) -> str | None:
    """Return how much of the work of no line has no launch in the recording, such as what was launched before it."""
    if unknown_ns == 0:
        return None
    is_all = unknown_ns > _NEARLY_ALL * device_ns
    return "without a recorded launch" if is_all else f"{format_ns(unknown_ns / steps)} without a recorded launch"


def _with_columns(table: Table, frame: pl.DataFrame) -> Table:
    """Return the view of a table with the bar of both passes, and without columns that say nothing."""
    columns = []
    for column in table.columns:
        if column.name == "device_ns":
            columns.append(_BOTH_DEVICE)
        parts = column.parts
        if column.name == "cpu_ns":
            parts = tuple(each for each in _CPU_BAR if each.column in CPU_PARTS or _says_something(frame[each.column]))
        title = _TITLES.get(column.name, column.title)
        is_half = column.name in _DEVICE
        shown = replace(column, title=title, has_bar=False, is_minor=True) if is_half else column
        columns.append(replace(shown, parts=parts))
    is_single = frame["file"].drop_nulls().n_unique() <= 1
    # What has no file or no text is named after its line.
    has_text = bool((frame["source"] != OUTSIDE).any()) and bool((frame["source"].fill_null("") != "").any())
    gone = {"file"} if is_single and has_text else set()
    columns = [column for column in columns if column.name not in gone and _says_something(frame[column.name])]
    hidden = [part.column for column in columns for part in column.parts]
    names = list(dict.fromkeys(("file", *(column.name for column in columns), *hidden, "note", "is_rest")))
    return replace(table, frame=frame.select(names), columns=tuple(columns), rest="is_rest")


def _of_function(column: Column, title: str) -> Column:
    """Return the column of the texts of lines as that of the names of functions."""
    if column.name != "source":
        return column
    return replace(column, title=title, definition="Name of the function of the line.")


def _says_something(values: pl.Series) -> bool:
    """Return whether any of the texts or numbers is neither empty nor 0."""
    known = values.drop_nulls()
    return bool((known != ("" if values.dtype == pl.String else 0)).any())


def _folded(table: Table) -> Table:
    """Return the lines with a row for each run of many lines that have no numbers; it opens."""
    frame = table.frame
    if frame["line"].drop_nulls().len() <= UNFOLDED:
        return table
    numbers = [name for name, dtype in frame.schema.items() if dtype.is_numeric() and name != "line"]
    is_quiet = ~frame.select(pl.any_horizontal(pl.col(numbers).fill_null(0) != 0)).to_series()
    # Functions stand in the order of their time, and two files can have one short name.
    part = (pl.col("line").diff() != 1).fill_null(value=False).cum_sum().alias("part")
    run = frame.select(pl.struct(is_quiet.alias("quiet"), part, *_of_file(frame)).rle_id()).to_series()
    rows = frame.with_columns(is_quiet.alias("quiet"), run.alias("run")).with_row_index("row")
    rows = rows.with_columns((pl.col("quiet") & (pl.len().over("run") >= LEAST_FOLDED)).alias("folded"))
    text = pl.format("lines {}–{}: nothing of them in the recorded steps", pl.col("line").min(), pl.col("line").max())
    folds = (
        rows.filter("folded")
        .group_by("run", maintain_order=True)
        .agg(pl.col("row").min(), text.alias("source"), *_of_file(frame, first=True))
    )
    fold_id = pl.format("lines {}", "run")
    folds = folds.with_columns(fold_id.alias("id"), pl.lit("").alias("above"), pl.lit(value=True).alias("is_fold"))
    rows = rows.with_columns(
        pl.format("line {}", "row").alias("id"),
        pl.when("folded").then(fold_id).otherwise(pl.lit("")).alias("above"),
        pl.lit(value=False).alias("is_fold"),
    )
    both = pl.concat([folds, rows], how="diagonal_relaxed").sort("row", "is_fold", descending=[False, True])
    outline = Outline(id="id", parent="above", open_levels=1, closed="is_fold", extra="is_fold")
    return replace(table, frame=both.select("id", "above", "is_fold", *frame.columns), outline=outline)


def _functions(trace: Trace, lines: pl.DataFrame, part: TimeRange) -> pl.DataFrame:
    """Return the functions in files without watched lines, where frames were recorded, the most time first."""
    if not in_category(trace, "python_function").any():
        return pl.DataFrame()
    names = call_tree(trace)
    named = pl.DataFrame({"file": names.file, "line": names.line, "source": names.name.str.extract(FUNCTION)})
    times = times_at(trace, part, functions_of_pieces(trace)).drop_nulls("file")
    times = times.join(named.unique(["file", "line"], keep="first"), on=["file", "line"], how="left")
    times = with_forward_classes(trace, times.filter(~pl.col("file").is_in(lines["file"].unique().implode())))
    times = times.with_columns(pl.sum_horizontal(CPU_PARTS).alias("cpu_ns"), files_as_shown(trace, times["file"]))
    return times.filter(pl.col("cpu_ns") > 0).sort("cpu_ns", "file", "line", descending=[True, False, False])


def _with_functions(table: Table, functions: pl.DataFrame) -> Table:
    """Return the view with functions below a row of their own; what they take is in the lines above."""
    if functions.height == 0:
        return table
    outline = table.outline or Outline(id="id", parent="above", open_levels=1, closed="is_fold", extra="is_fold")
    frame = table.frame
    if table.outline is None:
        number = pl.format("line {}", pl.int_range(pl.len()))
        frame = frame.with_columns(number.alias("id"), pl.lit("").alias("above"), pl.lit(value=False).alias("is_fold"))
    head = pl.DataFrame({"id": ["functions"], "above": [""], "is_fold": [False], "source": [FUNCTIONS]})
    below = functions.with_columns(
        pl.format("function {}", pl.int_range(pl.len())).alias("id"),
        pl.lit("functions").alias("above"),
        pl.lit(value=False).alias("is_fold"),
        pl.lit(value=True).alias("is_aside"),
    )
    rows = pl.concat([frame.with_columns(pl.lit(value=False).alias("is_aside")), head, below], how="diagonal_relaxed")
    rows = rows.with_columns(pl.col("is_aside").fill_null(value=False)).select(*frame.columns, "is_aside")
    return replace(table, frame=rows, outline=replace(outline, aside="is_aside"), columns=_with_file(table.columns))


def _with_file(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns with that of the file, which functions have."""
    return columns if columns[0].name == "file" else (COLUMNS[0], *columns)


def _of_file(frame: pl.DataFrame, *, first: bool = False) -> list[pl.Expr]:
    """Return the column of the file, where there is one."""
    column = pl.col("file").first() if first else pl.col("file")
    return [column] if "file" in frame.columns else []
