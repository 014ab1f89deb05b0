"""What changed from one run to another: ops, kernels, lines, modules, phases, waits and memory, before and after."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, strictly_counted
from torchprof_magic.facts.device.idle_pieces import CAUSE_TITLES
from torchprof_magic.facts.host.phases import PHASES, with_one_wait
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.fused_titles import with_fused_names
from torchprof_magic.facts.source.methods import FORWARD_OF
from torchprof_magic.model.meta import source_lines
from torchprof_magic.model.shapes import Column
from torchprof_magic.model.units import counted, enumerated, printable, short_file
from torchprof_magic.tables.memory.in_use import memory_frame
from torchprof_magic.tables.ops.kernels import kernels_table
from torchprof_magic.tables.ops.op_groups import is_scope
from torchprof_magic.tables.ops.op_table import NO_OP, ops_table
from torchprof_magic.tables.source.lines import lines_table
from torchprof_magic.tables.source.modules import OUTSIDE, modules_table
from torchprof_magic.tables.steps import counted_rows
from torchprof_magic.tables.waiting.idle import idle_table
from torchprof_magic.tables.waiting.waits import waits_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.shapes import Unit
    from torchprof_magic.model.trace import Trace

# From more lines on, those that differ are counted rather than named.
_MOST_NAMED = 2
_MOST_CHARS = 60
STATUS = ("both", "new", "gone")
# What each run has per step of an op, a kernel, a module or a line.
_VALUES = ("calls", "cpu_ns", "device_ns")
TIMES = ("before_ns", "after_ns", "delta_ns")
DEVICE_TIMES = ("device_before_ns", "device_after_ns", "device_delta_ns")
_SIZES = ("before_bytes", "after_bytes", "delta_bytes")


def change_columns(what: str, names: tuple[str, str, str] = TIMES, on: str = "") -> tuple[Column, ...]:
    """Return the columns of something in both runs and of its change, in the unit that ends their names."""
    titles = ("Before", "After", "Change") if not on else (f"{on} before", f"{on} after", f"{on} change")
    texts = (f"{what} in the run before.", "The same in the run after.", "After minus before.")
    unit: Unit = "bytes" if names[0].endswith("_bytes") else "ns"
    return tuple(
        Column(name=name, title=title, unit=unit, definition=text, is_change=name == names[2])
        for name, title, text in zip(names, titles, texts, strict=True)
    )


CALLS = (
    Column(name="calls_before", title="Calls before", unit="count", definition="Calls in a typical step before.",
           is_minor=True),
    Column(name="calls_after", title="Calls after", unit="count", definition="Calls in a typical step after.",
           is_minor=True),
)  # fmt: skip
IN = Column(
    name="status",
    title="Runs",
    unit="text",
    definition="Which of the runs it ran in. both: in both. new: only after. gone: only before.",
    is_minor=True,
)
TIME_COLUMNS = (
    *change_columns("Own host time in a typical step"),
    *change_columns("Time in a typical step of the work that it launched on a device", DEVICE_TIMES, "Device"),
    *CALLS,
    IN,
)
KERNEL_COLUMNS = (*change_columns("Time on the device in a typical step"), *CALLS, IN)
STEP_COLUMNS = change_columns("Time in a typical step")
SIZE_COLUMNS = change_columns("Bytes in use at the peak", _SIZES)


class Runs(NamedTuple):
    """Two runs."""

    before: Trace
    after: Trace

    @property
    def has_device(self) -> bool:
        """Whether a device was recorded in both."""
        return self.before.has_device and self.after.has_device


def changed_ops(runs: Runs) -> pl.DataFrame:
    """Return one row per op or annotation, by its name."""
    return _joined(runs, _ops, ["name"])


def changed_kernels(runs: Runs) -> pl.DataFrame:
    """Return one row per name of a kernel, copy or fill; times are those on the device."""
    frame = _joined(runs, _kernels, ["name"])
    if not runs.has_device:
        return frame.clear()
    times = {name: pl.col(f"device_{name}") for name in TIMES}
    return frame.with_columns(**times).drop(*DEVICE_TIMES)


def changed_modules(runs: Runs) -> pl.DataFrame:
    """Return one row per module, by its path and class, with its backward and without the modules inside it."""
    return _joined(runs, _modules, ["path", "class_name"])


def changed_lines(runs: Runs) -> pl.DataFrame:
    """Return one row per line: those of two cells by the differences of their texts, others by file, text and order.

    ``line`` is the number after, or before for a line that went. Where only one run saw lines beyond those of its cell,
    their times count at the lines of the cell that called them, as in the other.
    """
    sees_more = [_sees_beyond_cell(trace) for trace in runs]
    is_alike = sees_more[0] == sees_more[1]
    lines = [
        _lines(_of_cell_only(trace) if sees and not is_alike else trace)
        for trace, sees in zip(runs, sees_more, strict=True)
    ]
    keyed = [
        each.with_columns(place=pl.Series(place, dtype=pl.String))
        for each, place in zip(lines, _same_places(runs, lines), strict=True)
    ]
    texts = pl.concat([each.select("file", "line", "source", "place") for each in reversed(keyed)])
    texts = texts.unique("place", keep="first", maintain_order=True)
    before, after = (each.select("place", *_VALUES) for each in keyed)
    frame = _joined_frames(runs, before, after, ["place"])
    return frame.join(texts, on="place", how="left", maintain_order="left").select(
        "file", "line", "source", pl.exclude("file", "line", "source", "place")
    )


def changed_phases(runs: Runs) -> pl.DataFrame:
    """Return one row per phase, in ns per step; the rows add up to the typical step."""
    return _by_name(*(with_one_wait({phase: _mean_of(trace, f"{phase}_ns") for phase in PHASES}) for trace in runs))


def changed_waits(runs: Runs) -> pl.DataFrame:
    """Return one row per blocking call and its op, or per call of the host's waits, in ns per step."""
    sums = []
    for trace in runs:
        frame = waits_table(trace, counted_part(trace)).frame
        frame = frame.with_columns(pl.col("call").fill_null(pl.col("rule").cast(pl.String)))
        sums.append(_summed_a_step(trace, frame, ["call", "op"], "total_ns"))
    return _by_name(*sums)


def changed_idle(runs: Runs) -> pl.DataFrame:
    """Return one row per cause for which a device idled, named as in the views, in ns per step."""
    named = pl.col("cause").replace_strict(CAUSE_TITLES, return_dtype=pl.String)
    frames = [(trace, idle_table(trace, strictly_counted(trace)).frame.with_columns(named)) for trace in runs]
    return _by_name(*(_summed_a_step(trace, frame, ["cause"], "idle_ns") for trace, frame in frames))


def changed_memory(runs: Runs) -> pl.DataFrame:
    """Return the peak of each device in bytes, and what is in use at it by category; empty unless both recorded it."""
    schema = {"device": pl.String, "name": pl.String, **dict.fromkeys(_SIZES, pl.Int64)}
    if not (runs.before.memory.height and runs.after.memory.height):
        return pl.DataFrame(schema=schema)
    peaks = [_peaks(trace) for trace in runs]
    both = peaks[0].join(peaks[1], on=["device", "name"], how="full", coalesce=True, suffix="_after")
    before, after, delta = _SIZES
    both = both.rename({"bytes": before, "bytes_after": after}).with_columns(pl.col(before, after).fill_null(0))
    both = both.with_columns((pl.col(after) - pl.col(before)).alias(delta))
    is_peak = (pl.col("name") == "peak").alias("is_peak")
    return both.sort(pl.col(delta).abs(), is_peak, "device", "name", descending=[True, True, False, False]).select(
        schema.keys()
    )


def _joined(runs: Runs, of: Callable[[Trace], pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    return _joined_frames(runs, of(runs.before), of(runs.after), keys)


def _joined_frames(runs: Runs, before: pl.DataFrame, after: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the typical step of both, one row per key, the largest change first."""
    frames = [_of_side(each, keys, side) for each, side in ((before, "before"), (after, "after"))]
    both = frames[0].join(frames[1], on=keys, how="full", coalesce=True, nulls_equal=True)
    status = pl.when(pl.col("before_ns").is_null()).then(1).when(pl.col("after_ns").is_null()).then(2).otherwise(0)
    both = both.with_columns(status.replace_strict(dict(enumerate(STATUS)), return_dtype=pl.String).alias("status"))
    numbers = [name for name in both.columns if name not in (*keys, "status")]
    both = both.with_columns(pl.col(numbers).fill_null(0))
    both = both.with_columns(
        (pl.col("after_ns") - pl.col("before_ns")).alias("delta_ns"),
        (pl.col("device_after_ns") - pl.col("device_before_ns")).alias("device_delta_ns"),
    )
    absent = () if runs.has_device else DEVICE_TIMES
    found = both.select(*keys, *(column.name for column in TIME_COLUMNS if column.name not in absent))
    return found.sort(pl.col(sorted_by(found)).abs(), *keys, descending=[True, *(False for _ in keys)])


def sorted_by(frame: pl.DataFrame) -> str:
    """Return the column of changes that the rows of a frame are sorted by: that with the largest change."""
    there = [name for name in ("delta_ns", "device_delta_ns") if name in frame.columns]
    return max(there, key=lambda name: frame[name].abs().max() or 0)


def _of_side(frame: pl.DataFrame, keys: list[str], side: str) -> pl.DataFrame:
    """Return the calls and times per step of each key, with the names that they have in a comparison."""
    names = dict(zip(_VALUES, (f"calls_{side}", f"{side}_ns", f"device_{side}_ns"), strict=True))
    return frame.group_by(keys, maintain_order=True).agg(pl.col(*_VALUES).sum()).rename(names)


def _per_step(trace: Trace, frame: pl.DataFrame, calls: str, cpu_ns: pl.Expr, device_ns: pl.Expr) -> pl.DataFrame:
    """Return the frame with ``_VALUES`` per step; times are whole ns."""
    steps = counted_steps(trace).steps
    return frame.with_columns(
        (pl.col(calls) / steps).alias("calls"),
        (cpu_ns.fill_null(0) / steps).round().cast(pl.Int64).alias("cpu_ns"),
        (device_ns.fill_null(0) / steps).round().cast(pl.Int64).alias("device_ns"),
    )


def _ops(trace: Trace) -> pl.DataFrame:
    frame = ops_table(trace, counted_part(trace)).frame
    # What a range waits for stands in the rows of the threads that it waits for.
    only_waits = is_scope() & (pl.col("phase") == "waiting").fill_null(value=False)
    frame = frame.filter((pl.col("kind") != NO_OP) & ~only_waits)
    device_ns = pl.col("self_device_ns") if trace.has_device else pl.lit(0)
    frame = with_fused_names(trace, frame)
    return _per_step(trace, frame, "calls", pl.col("self_cpu_ns"), device_ns).select("name", *_VALUES)


def _kernels(trace: Trace) -> pl.DataFrame:
    frame = with_fused_names(trace, kernels_table(trace, counted_part(trace)).frame)
    return _per_step(trace, frame, "calls", pl.lit(0), pl.col("sum_ns")).select("name", *_VALUES)


def _modules(trace: Trace) -> pl.DataFrame:
    frame = modules_table(trace, counted_part(trace)).frame.filter(pl.col("path") != OUTSIDE)
    host_ns = pl.col("self_cpu_ns") + pl.col("self_backward_cpu_ns")
    return _per_step(trace, frame, "calls", host_ns, pl.col("self_device_ns")).select("path", "class_name", *_VALUES)


def _sees_beyond_cell(trace: Trace) -> bool:
    """Return whether lines of other files than the cell were watched, or stacks were recorded."""
    lines = trace.sites.filter(pl.col("kind") == "line")
    cell = trace.meta.cell.filename if trace.meta.cell else ""
    return trace.meta.has_stacks or bool((lines["file"] != cell).any())


@once_per_trace
def _of_cell_only(trace: Trace) -> Trace:
    """Return a recording as it were if only the lines of its cell had been watched."""
    cell = trace.meta.cell.filename if trace.meta.cell else ""
    is_other = (pl.col("kind") == "line") & (pl.col("file") != cell)
    other = trace.sites.with_row_index("site").filter(is_other)["site"]
    return replace(
        trace,
        scopes=trace.scopes.filter(~pl.col("site").is_in(other.implode())),
        events=trace.events.with_columns(stack=pl.lit(None, trace.events.schema["stack"])),
        meta=replace(trace.meta, has_stacks=False),
    )


def _lines(trace: Trace) -> pl.DataFrame:
    """Return the lines with the names of files that users know."""
    device_ns = pl.col("device_ns") + pl.col("backward_device_ns")
    did_anything = (pl.col("hits") > 0) | (pl.col("cpu_ns") > 0) | (device_ns > 0)
    frame = lines_table(trace, counted_part(trace)).frame.filter(did_anything)
    labels = dict(trace.meta.cell_labels)
    if trace.meta.cell is not None:
        labels[trace.meta.cell.filename] = "cell"
    files = [labels.get(file) or short_file(file or "") for file in frame["file"].to_list()]
    frame = frame.with_columns(file=pl.Series(files, dtype=pl.String))
    return _per_step(trace, frame, "hits", pl.col("cpu_ns"), device_ns).select("file", "line", "source", *_VALUES)


def _same_places(runs: Runs, lines: list[pl.DataFrame]) -> list[list[str]]:
    """Return a name for the place of each line of both runs, equal where it is the same line."""
    moved = _moved_lines(runs)
    places: list[list[str]] = []
    for side, each in enumerate(lines):
        seen: dict[tuple[object, ...], int] = {}
        named = []
        for file, line, source in each.select("file", "line", "source").iter_rows():
            if file == "cell":
                number = moved.get(line, f"{line} before") if side == 0 else line
                named.append(f"cell {number}")
                continue
            name = FORWARD_OF.sub("forward", source or "")  # without stacks, the class is not known
            turn = seen[file, name] = seen.get((file, name), 0) + 1
            named.append(f"{file}\n{name}\n{turn}")
        places.append(named)
    return places


def _moved_lines(runs: Runs) -> dict[int, int]:
    """Return the line after for each line of the cell before that is still there."""
    texts = [source_lines(trace.meta.cell.source) if trace.meta.cell else [] for trace in runs]
    blocks = SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes()
    moved: dict[int, int] = {}
    for tag, low, high, new_low, new_high in blocks:
        # A line that was edited in place is the same line.
        if tag == "equal" or (tag == "replace" and high - low == new_high - new_low):
            moved |= {low + at + 1: new_low + at + 1 for at in range(high - low)}
    return moved


def cell_diff(runs: Runs) -> pl.DataFrame:
    """Return the lines of both cells in order: ``sign`` is ``+``, ``-`` or empty; numbers are null where it is not."""
    texts = [source_lines(trace.meta.cell.source) if trace.meta.cell else [] for trace in runs]
    rows: list[tuple[str, int | None, int | None, str]] = []
    for tag, low, high, new_low, new_high in SequenceMatcher(None, texts[0], texts[1], autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [("", low + at + 1, new_low + at + 1, texts[0][low + at]) for at in range(high - low)]
            continue
        rows += [("-", at + 1, None, texts[0][at]) for at in range(low, high)]
        rows += [("+", None, at + 1, texts[1][at]) for at in range(new_low, new_high)]
    schema = {"sign": pl.String, "line_before": pl.Int32, "line_after": pl.Int32, "source": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def code_change(runs: Runs) -> str:
    """Return how the cells differ, in words; empty if they do not.

    Two lines at most are named, with their texts as code: ``added line 9 `time.sleep(0.003)```. More are counted:
    ``1 line changed and 2 lines added``.
    """
    # Its magic is no code: what it asks for stands among the flags.
    diff = cell_diff(runs).filter(~pl.col("source").str.starts_with("%%"))
    named = _named_lines(diff)
    if len(named) <= _MOST_NAMED:
        return enumerated(named)
    signs = diff["sign"].to_list()
    removed, added = signs.count("-"), signs.count("+")
    changed = min(removed, added)
    counts = {"changed": changed, "added": added - changed, "removed": removed - changed}
    return enumerated([f"{counted(count, 'line')} {what}" for what, count in counts.items() if count])


def _named_lines(diff: pl.DataFrame) -> list[str]:
    """Return each line that differs in words; one removed where another was added is one that changed."""
    named = []
    for _, lines in diff.group_by(pl.col("sign").eq("").rle_id(), maintain_order=True):
        gone = lines.filter(pl.col("sign") == "-").select("line_before", "source").rows()
        new = lines.filter(pl.col("sign") == "+").select("line_after", "source").rows()
        both = min(len(gone), len(new))
        named += [f"changed line {line} to{_as_code(text) or ' nothing'}" for line, text in new[:both]]
        named += [f"added line {line}{_as_code(text)}" for line, text in new[both:]]
        named += [f"removed line {line}{_as_code(text)}" for line, text in gone[both:]]
    return named


def _as_code(text: str) -> str:
    """Return the text of a line as code in a sentence, after a space; empty for an empty line."""
    text = text.strip()
    cut = text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
    return f" `{printable(cut).replace('`', chr(39))}`" if cut else ""


def _mean_of(trace: Trace, column: str) -> float:
    values = counted_rows(trace)[column]
    return float(values.mean() or 0.0) if len(values) else 0.0  # type: ignore[arg-type]


def _summed_a_step(trace: Trace, frame: pl.DataFrame, keys: list[str], value: str) -> dict[str, float]:
    sums = frame.group_by(
        pl.concat_str([pl.col(key).cast(pl.String) for key in keys], separator=" in ", ignore_nulls=True).alias("name")
    ).agg(pl.col(value).sum())
    return {name: total / counted_steps(trace).steps for name, total in sums.iter_rows()}


def _by_name(before: dict[str, float], after: dict[str, float]) -> pl.DataFrame:
    names = list(dict.fromkeys((*before, *after)))
    rows = [(name, round(before.get(name, 0)), round(after.get(name, 0))) for name in names]
    frame = pl.DataFrame(rows, schema={"name": pl.String, "before_ns": pl.Int64, "after_ns": pl.Int64}, orient="row")
    frame = frame.with_columns((pl.col("after_ns") - pl.col("before_ns")).alias("delta_ns"))
    return frame.sort(pl.col("delta_ns").abs(), "name", descending=[True, False])


def _peaks(trace: Trace) -> pl.DataFrame:
    frame = memory_frame(trace)
    peaks = frame.sort("total_bytes", descending=True).unique("device", keep="first", maintain_order=True)
    parts = [name for name in frame.columns if name.endswith("_bytes") and name != "total_bytes"]
    long = peaks.rename({"total_bytes": "peak"}).unpivot(
        ["peak", *parts], index="device", variable_name="name", value_name="bytes"
    )
    long = long.with_columns(pl.col("name").str.strip_suffix("_bytes"))
    return long.filter((pl.col("bytes") != 0) | (pl.col("name") == "peak"))
