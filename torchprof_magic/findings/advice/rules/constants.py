"""Advice about what every step makes anew although it does not change: copies, constants, masks and positions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.places import module_of_events
from torchprof_magic.findings.advice.kinds import Advice, Effect, Spans
from torchprof_magic.findings.advice.rules.cell_code import Constant, loop_constants
from torchprof_magic.findings.advice.times import (
    by_place,
    called_in,
    cost_of,
    cost_words,
    is_in_every_step,
    overlap,
    rows_named,
    runs_of_lines,
    spans_of,
)
from torchprof_magic.model.rows import are_in, values_at

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# With fewer steps, nothing is known to be the same in each.
LEAST_STEPS = 2
MAX_CODE = 60
COPY_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html"
MASK_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer"
_COPY = r"^aten::(_to_copy|copy_|clone|pin_memory)$"
_MAKING = (
    r"^aten::(arange|sqrt|sin|cos|exp|log|pow|sum|mean|mul|div|add|sub|repeat|flip|unsqueeze|diag|outer|ones|zeros|full|"
    r"eye|tril|triu|linspace|to|lift_fresh|detach_|empty|cat|stack|fill_)$"
)
_LISTED = re.compile(r"\b(as_)?tensor\(|\barray\(")
_FILLED = r"^aten::(ones|full|ones_like|full_like|new_ones|new_full|zeros|to|bool)$"
_SHAPING = r"^aten::(tril|triu|arange)$"


def repeated_copy(trace: Trace) -> list[Advice]:
    """Advise to convert or move a tensor once, if every step does it with a tensor that never changes."""
    return [advice for found in _in_loop(trace) if found.kind == "copy" and (advice := _about(trace, found))]


def rebuilt_constant(trace: Trace) -> list[Advice]:
    """Advise to make a tensor once, if every step makes it anew from the same values."""
    found = [advice for found in _in_loop(trace) if found.kind == "constant" and (advice := _about(trace, found))]
    known = {(advice.file, advice.line) for advice in found}
    return found + [advice for advice in _in_forward(trace) if (advice.file, advice.line) not in known]


@once_per_trace
def _in_loop(trace: Trace) -> list[Constant]:
    cell, stepping = trace.meta.cell, trace.meta.stepping
    if cell is None or stepping is None or len(counted_steps(trace).row) < LEAST_STEPS:
        return []
    return loop_constants(cell, stepping)


def _about(trace: Trace, constant: Constant) -> Advice | None:
    assert trace.meta.cell is not None
    file = trace.meta.cell.filename
    runs = runs_of_lines(trace, file).get(constant.line)
    if runs is None:
        return None
    spans = _spent(trace, constant, runs)
    if spans is None:
        return None
    cost = cost_of(trace, spans)
    code = constant.text if len(constant.text) <= MAX_CODE else f"{constant.text[:MAX_CODE]}…"
    verb = "Convert or move" if constant.kind == "copy" else "Make"
    words: Literal["copies", "makes"] = "copies" if constant.kind == "copy" else "makes"
    return Advice(
        rule="repeated_copy" if constant.kind == "copy" else "rebuilt_constant",
        title=f"{verb} the tensor once, before the loop",
        fix=f"`{code}`",
        evidence=f"Every step {words} the same tensor again, which takes {cost_words(trace, cost)}. "
        "Nothing in the loop changes what it is made of.",
        file=file,
        line=constant.line,
        op=_first_op(trace, spans),
        certainty="measured",
        link=COPY_LINK if constant.kind == "copy" else MASK_LINK,
        spans=cost.spans,
        effect=Effect(),
    )


def _spent(trace: Trace, constant: Constant, runs: Spans) -> Spans | None:
    """Return when the expression was computed; None if it copied nothing, or if its result has a gradient."""
    if constant.kind == "constant":
        # Only the conversion of a list happens outside of ops. What else a line does, such as releasing the last value
        # of the name, is no part of it.
        is_list = constant.is_whole and _LISTED.search(constant.text)
        return runs if is_list else overlap(runs, spans_of(trace, called_in(trace, _MAKING, runs)))
    copies = called_in(trace, _COPY, runs)
    if len(copies) == 0 or np.isin(_makes_nodes(trace), np.concatenate((copies, _parents(trace, copies)))).any():
        return None
    around = called_in(trace, r"^aten::(to|contiguous|pin_memory|_to_copy|clone)$", runs)
    return overlap(runs, spans_of(trace, around))


def _parents(trace: Trace, rows: IntArray) -> IntArray:
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    above = parent[rows]
    return above[above >= 0]


@once_per_trace
def _makes_nodes(trace: Trace) -> IntArray:
    return trace.flows.filter(pl.col("kind") == "backward")["source"].to_numpy().astype(np.int64)


def _first_op(trace: Trace, spans: Spans) -> str:
    rows = called_in(trace, "^aten::", spans)
    return str(trace.events["name"][int(rows[0])]) if len(rows) else ""


def _in_forward(trace: Trace) -> list[Advice]:
    """Return advice about masks and positions that functions and modules make in every step."""
    if len(counted_steps(trace).row) < LEAST_STEPS:
        return []
    rows = rows_named(trace, _SHAPING)
    rows = rows[phase_of_events(trace)[rows] == PHASES.index("forward")]
    is_op = in_category(trace, "cpu_op")
    parent = trace.events["parent"].to_numpy().astype(np.int64)
    rows = rows[~np.append(is_op, False)[parent[rows]]]
    name, before = trace.events["name"], _previous(trace, rows)
    is_arange = are_in(values_at(name, rows), ("aten::arange",))
    is_filled = np.append(is_named(trace, _FILLED), False)[before]
    rows, before, is_arange = (each_one[is_arange | is_filled] for each_one in (rows, before, is_arange))
    found = []
    for file, line, mine in by_place(trace, rows):
        if not is_in_every_step(trace, mine) or re.search(r"[/\\](site|dist)-packages[/\\]torch[/\\]", file):
            continue
        filled = before[np.isin(rows, mine) & ~is_arange]
        cost = cost_of(trace, spans_of(trace, np.concatenate((mine, filled))))
        op, module = str(name[int(mine[0])]), module_of_events(trace, mine[:1])[0] or ""
        what = "positions" if op == "aten::arange" else "a mask"
        found.append(
            Advice(
                rule="rebuilt_constant",
                title=f"Make {what} once and keep it" if what != "positions" else "Make positions once and keep them",
                fix="`register_buffer(...)` in the module, and a slice of it where sizes differ",
                evidence=f"Every step makes {what} again with `{op}`, which takes {cost_words(trace, cost)}.",
                file=file,
                line=line,
                module=module,
                op=op,
                certainty="measured",
                link=MASK_LINK,
                spans=cost.spans,
                effect=Effect(),
            )
        )
    return found


def _previous(trace: Trace, rows: IntArray) -> IntArray:
    """Return the event before each row with the same parent on its lane, -1 for none."""
    parent, lane = (trace.events[column].to_numpy() for column in ("parent", "lane"))
    row, found = rows.copy() - 1, np.full(len(rows), -1, np.int64)
    for _ in range(12):  # an op that fills a tensor calls fewer others
        inside = np.flatnonzero((row >= 0) & (found < 0))
        same = inside[(parent[row[inside]] == parent[rows[inside]]) & (lane[row[inside]] == lane[rows[inside]])]
        found[same] = row[same]
        row[inside] -= 1
    return found
