"""A report as plain text, for terminals and saved notebooks."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.device.busy import has_any_device
from torchprof_magic.facts.device.graph_captures import on_captured_lanes
from torchprof_magic.facts.host.phases import PHASES, with_one_wait
from torchprof_magic.model.units import (
    column_format,
    counted,
    format_count,
    format_ns,
    format_ratio,
    printable,
    saving_words,
)
from torchprof_magic.tables.execution_trace import graph_tensors_table, has_graph
from torchprof_magic.tables.memory.in_use import memory_peaks
from torchprof_magic.tables.ops.op_groups import without_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchprof_magic.findings.verdict.decision import Verdict
    from torchprof_magic.model.meta import Meta, Problem
    from torchprof_magic.model.shapes import Card, Column, Mark, Series, Table
    from torchprof_magic.model.trace import Trace

TOP_ROWS = 10
NAME_WIDTH = 44
MIN_CELL_WIDTH = 18
CELL_GAP = 2
# The units of the columns that are shown.
# The unit that a title has itself.
_OWN_UNIT = re.compile(r"\bFLOPs?(?=$|/)|\bBytes(?=/)")
_UNITS = ("ns", "bytes", "flop", "count")
# What torch puts before the names of all its ops, and of all its backward nodes.
_COMMON = re.compile(r"^(?:autograd::engine::evaluate_function: )?(?:aten::)?(?=\w)")
MOST_DEVICES = 4  # kinds of devices that are named; a file can name a thousand


def steps_sentence(meta: Meta, steps: pl.DataFrame) -> str:
    """Return which steps were recorded and what ended them: ``steps 4–6 recorded, stepped by line 3``.

    With several passes, the steps of the others are added: ``steps 2–4 recorded, details from 7–9, lines of functions
    from 11``.
    """
    if steps.height == 0:
        return "no steps recorded"
    if meta.stepping and meta.stepping.how == "cell":
        return "recorded as one step"
    numbers = steps["number"].to_list()
    which = f"step {numbers[0]}" if len(numbers) == 1 else f"steps {_ranges(numbers)}"
    details = meta.two_pass.detail_steps if meta.two_pass is not None else ()
    lines = meta.two_pass.line_steps if meta.two_pass is not None else ()
    others = f", details from {_ranges(list(details))}" if details else ""
    others += f", lines of functions from {_ranges(list(lines))}" if lines else ""
    return f"{which} recorded{others}{_stepped_by(meta)}"


def machine_of(trace: Trace) -> str:
    """Return what ``machine_sentence`` says of a trace; of an execution trace, which names no machine, its contents."""
    if not has_graph(trace):
        has_device = has_any_device(trace)
        if trace.events.height == 0 and trace.memory.height > 0:
            return machine_sentence(trace.meta, counted(trace.memory.height, "memory event"), has_device=has_device)
        return machine_sentence(
            trace.meta, counted(int((~on_captured_lanes(trace)).sum()), "event"), has_device=has_device
        )
    tensors = graph_tensors_table(trace).frame.height
    return f"{counted(trace.graph_ops.height, 'call')} · {counted(tensors, 'tensor')}"


def machine_sentence(meta: Meta, size: str, *, has_device: bool) -> str:
    """Return the machine, torch and ``size`` of the recording, such as ``A100 · torch 2.13.0 · 40,573 events``."""
    names = tuple(meta.device_names or dict.fromkeys(name for _, name in meta.devices))
    more = (counted(len(names) - MOST_DEVICES, "other device"),) if len(names) > MOST_DEVICES else ()
    device = ", ".join((*names[:MOST_DEVICES], *more)) or ("unnamed accelerator" if has_device else "CPU")
    torch = f"torch {meta.torch_version}" if meta.torch_version else ""
    rank = f"rank {meta.rank} of {meta.world_size}" if meta.rank is not None and (meta.world_size or 0) > 1 else ""
    return " · ".join(part for part in (device, rank, torch, size) if part)


def text_summary(
    meta: Meta,
    verdict: Verdict,
    ops: Table,
    steps: Table,
    memory: Series,
    problems: Sequence[Problem],
    machine: str,
    cards: Sequence[Card] = (),
    peak_note: Callable[[str], str] = lambda _device: "",
    watched: Sequence[str] = (),
) -> str:
    """Return the report as one screen of text: verdict, doubts, what to change, steps, ops, memory peaks, problems.

    ``peak_note`` says what the peak of a device does not count. ``watched`` are lines about the whole run, if it was
    watched.
    """
    title = " — ".join(part for part in (meta.title, steps_sentence(meta, steps.frame)) if part)
    parts = [printable(title), printable(machine), "", verdict.statement, *doubt_lines(verdict.doubts)]
    parts += map(printable, watched)
    parts += card_lines(cards)
    parts += _phase_lines(steps.frame)
    parts += _op_lines(ops, steps.frame)
    parts += [_memory_line(mark, peak_note(mark.lane)) for mark in memory_peaks(memory)]
    parts += [problem_line(problem) for problem in problems]
    return "\n".join(parts)


def doubt_lines(doubts: Sequence[str]) -> list[str]:
    """Return what makes a verdict doubtful, a line each, in the words of the page."""
    return [printable(f"▲ {doubt}") for doubt in doubts]


def card_lines(cards: Sequence[Card]) -> list[str]:
    """Return what to change, a line each, below a title; nothing without advice."""
    if not cards:
        return []
    lines = ["What to change:"]
    for number, card in enumerate(cards, 1):
        change = f"{card.title}: {card.fix}" if card.fix and not card.is_whole else card.title
        lines.append(
            printable(f"  {number}. {change}{place_words(card, card.place)} [{sure_words(card)}]".replace("`", ""))
        )
        for changed in card.changes:
            lines += [f"     {changed.line} − {changed.before}", f"     {changed.line} + {changed.after}"]
    return lines


def place_words(card: Card, place: str) -> str:
    """Return where to change something, such as `` (train.py:12)``; ``place`` is the line as it is to be written."""
    at = card.at.strip("; ")
    return f" ({'' if at == 'in' else f'{at} '}{place})" if card.place else ""


def sure_words(card: Card) -> str:
    """Return what a change saves and how sure that is, such as ``saves up to 5.83 ms, measured``."""
    saving = saving_words(card.saving_ns, card.saving_bytes, card.certainty, card.per)
    return ", ".join(filter(None, (saving and f"saves {saving}", card.certainty)))


def _memory_line(mark: Mark, note: str) -> str:
    more = f", {note}" if note else ""
    return printable(f"Memory on {mark.lane}: {mark.label} at {format_ns(mark.time_ns)}{more}")


def problem_line(problem: Problem) -> str:
    """Return a problem as one line of text."""
    word = {"info": "Note", "warning": "Warning", "data_loss": "Data lost"}[problem.severity]
    count = f" ({format_count(problem.count)} times)" if problem.count > 1 else ""
    return printable(f"{word}: {problem.message}{count} {problem.fix}".rstrip())


def _stepped_by(meta: Meta) -> str:
    stepping = meta.stepping
    if stepping is None:
        return ""
    if stepping.how == "loop":
        return f", stepped by line {stepping.line}"
    if stepping.how == "optimizer":
        return f", one per call of optimizer.step(){f' in {stepping.code}()' if stepping.code else ''}"
    if stepping.how == "model":
        return f", one per call of {stepping.code}"
    return f", stepped by {stepping.code or 'step'}()" if stepping.how == "manual" else ""


def _ranges(numbers: list[int]) -> str:
    """Return ``2–4, 8`` for ``[2, 3, 4, 8]``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _counted(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the steps that count."""
    return steps.filter(pl.col("left_out") == "")


def _phase_lines(steps: pl.DataFrame) -> list[str]:
    """Return the typical step and its phases, the longest first."""
    if steps.height == 0:
        return []
    counts = _counted(steps)
    mean, *times = (float(counts[f"{name}_ns"].mean() or 0) for name in ("dur", *PHASES))  # type: ignore[arg-type]
    shown = with_one_wait(dict(zip(PHASES, times, strict=True)))
    phases = sorted(((ns, phase) for phase, ns in shown.items()), key=lambda phase: -phase[0])
    split = ", ".join(
        f"{phase} {format_ns(ns)} ({format_ratio(ns / max(mean, 1))})"
        for ns, phase in phases
        if ns >= 0.0005 * mean > 0  # shown as 0.1 %
    )
    left_out = steps.height - counts.height
    without = f" ({counted(left_out, 'step')} left out)" if left_out else ""
    return [f"Mean step {format_ns(mean)}{without}: {split}"]


def _op_lines(ops: Table, steps: pl.DataFrame) -> list[str]:
    """Return the first ops, without the annotations around others; sums are given per step, where there are steps."""
    frame = without_scopes(ops)
    if frame.height == 0:
        return []
    shown = [column for column in ops.columns if column.unit in _UNITS and not column.is_minor]
    looks = [column_text(column, frame, max(_counted(steps).height, 1)) for column in shown]
    top = frame.head(TOP_ROWS)
    names = ["Op, per step" if steps.height else "Op", *map(_shortened, top["name"].cast(pl.String).to_list())]
    columns = [
        [title, *_aligned([write(value) for value in top[column.name].to_list()])]
        for column, (title, write) in zip(shown, looks, strict=True)
    ]
    widths = [max(MIN_CELL_WIDTH, *(len(cell) + CELL_GAP for cell in column)) for column in columns]
    padded = [[f"{cell:>{width}}" for cell in column] for column, width in zip(columns, widths, strict=True)]
    rows = zip(*padded, strict=True)
    lines = ["", *(f"{name:<{NAME_WIDTH}}{''.join(cells)}".rstrip() for name, cells in zip(names, rows, strict=True))]
    hidden = frame.height - TOP_ROWS
    lines.append(f"and {counted(hidden, 'more op')}" if hidden > 0 else "")
    return lines


def column_text(column: Column, frame: pl.DataFrame, steps: float) -> tuple[str, Callable[[float | None], str]]:
    """Return the title of a column with its unit, and how its numbers are written: sums a step, as the page does."""
    divisor = max(steps * column.share, 1) if column.is_sum else 1
    values = frame[column.name].cast(pl.Float64).fill_nan(None).abs()
    largest = float(values.max() or 0)  # type: ignore[arg-type]
    look = column_format(column.unit, largest / divisor)
    is_titled = look.suffix == "" or column.title.endswith(look.suffix)
    title = column.title if is_titled else f"{column.title} {look.suffix}"
    if _OWN_UNIT.search(column.title):  # "Backward GFLOP" rather than "Backward FLOPs GFLOP", and "GFLOP/s"
        title = _OWN_UNIT.sub(look.suffix, column.title)
    return title, lambda value: look.format(math.nan if value is None else value / divisor)


def _aligned(cells: list[str]) -> list[str]:
    """Return numbers of a column with their points below each other, when they end at the same place."""
    tails = [len(cell) - cell.index(".") if "." in cell else 0 for cell in cells]
    return [cell + " " * (max(tails, default=0) - tail) for cell, tail in zip(cells, tails, strict=True)]


def _shortened(name: str) -> str:
    """Return a name that fits into its column: what all ops begin with goes first, then the middle."""
    name = printable(name)
    if len(name) >= NAME_WIDTH:
        name = _COMMON.sub("", name)
    return name if len(name) < NAME_WIDTH else f"{name[: NAME_WIDTH - 14]}…{name[-11:]}"
