"""Advice about loops that take a tensor apart, element by element."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.facts.source.own_lines import is_in_own_code
from torchprof_magic.findings.advice.kinds import Advice, Effect, Spans
from torchprof_magic.findings.advice.times import (
    by_place,
    called_in,
    cost_of,
    each,
    joined,
    rows_named,
    runs_of_lines,
    spans_of,
    without,
)
from torchprof_magic.findings.verdict.accounts import TINY_OP_NS
from torchprof_magic.model.units import format_count, format_ns

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# A loop that takes fewer elements out of a tensor in a step is not worth a rewrite.
LEAST_TURNS = 48
# What one op on the whole tensor costs, in turns of the loop.
TURNS_LEFT = 2
# What a line calls that writes the elements of a tensor as text.
_PRINTS = re.compile(
    r"\b(?:print|pprint|display)\(|\b(?:str|repr)\([A-Za-z_][\w.]*\)|"
    r"\blog(?:ger|ging)?\.(?:debug|info|warning|error|exception|critical)\("
)
LINK = "https://docs.pytorch.org/docs/stable/notes/broadcasting.html"
_INDEXING = r"^aten::(select|slice|item|narrow|index|index_put_|_local_scalar_dense|select_scatter)$"
# A loop with such work in it is no loop over elements: a recurrent network, or one over blocks.
_WORKING = (
    r"^aten::(mm|addmm|bmm|baddbmm|mv|addmv|linear|matmul|convolution|conv[0-9]d|lstm|gru|rnn_\w+|einsum|sort|topk|"
    r"\w*attention\w*)$|^autograd::engine"
)


class _Words(NamedTuple):
    """What to do about a loop, how, and what is left of its time."""

    title: str
    fix: str
    rest: str


_LOOPING = _Words(
    "Replace a loop over elements by ops on whole tensors",
    "index with a slice or a tensor, and let one op do all elements",
    f"One op on the whole tensor takes about as long as {TURNS_LEFT} turns.",
)
_PRINTING = _Words(
    "Print numbers in place of tensors",
    "print what you ask of the tensor, such as its norm, or print less often",
    f"A single number takes about as long as {TURNS_LEFT} of them.",
)


def python_loop(trace: Trace) -> list[Advice]:
    """Advise one op on a whole tensor in place of a loop over its elements."""
    rows = rows_named(trace, _INDEXING)
    rows = rows[(phase_of_events(trace)[rows] == PHASES.index("forward")) | is_in_own_code(trace)[rows]]
    rows = rows[~np.isin(trace.events["parent"].to_numpy()[rows], rows)]  # `item` calls another one of them
    found: list[Advice] = []
    seen: set[tuple[str, int]] = set()
    for file, line, mine in by_place(trace, rows):
        turns = len(mine) / counted_steps(trace).steps
        if line is None or turns < LEAST_TURNS or (file, line) in seen:
            continue
        lines, spans = _loop_around(trace, file, line)
        seen |= {(file, each_line) for each_line in lines}
        advice = _advice(trace, file, line, spans if lines else spans_of(trace, mine), mine)
        found += [advice] if advice else []
    return found


def _loop_around(trace: Trace, file: str, line: int) -> tuple[list[int], Spans]:
    """Return the lines next to one that run as often, the header of the loop among them, and when they ran."""
    runs = runs_of_lines(trace, file)
    if line not in runs:
        return [], Spans(np.empty(0, np.int64), np.empty(0, np.int64))
    often = len(runs[line].start_ns)
    lines = [line]
    if often >= LEAST_TURNS * counted_steps(trace).steps:
        for way in (-1, 1):
            at = line + way
            while at in runs and often / 2 <= len(runs[at].start_ns) <= often * 2:
                lines.append(at)
                at += way
    return lines, joined(*(runs[each_line] for each_line in lines))


def _advice(trace: Trace, file: str, line: int, spans: Spans, rows: IntArray) -> Advice | None:
    """Return advice about a loop, unless its turns do real work; long ops would be needed without it, too."""
    if len(called_in(trace, _WORKING, spans)):
        return None
    turns = len(rows) / counted_steps(trace).steps
    cost = cost_of(trace, spans)
    taken = (
        f"Elements are taken out of a tensor {format_count(turns)} times {each(trace)}, which takes "
        f"{format_ns(cost.whole_ns)}{cost.of_it}: {format_ns(cost.ns / turns)} each time, mostly for Python and for "
        "calling ops. "
    )
    words = _PRINTING if _PRINTS.search(_text_of(trace, file, line)) else _LOOPING
    return Advice(
        rule="python_loop",
        title=words.title,
        fix=words.fix,
        evidence=f"{taken}{words.rest}",
        file=file,
        line=line,
        op=str(trace.events["name"][int(rows[0])]),
        certainty="estimated",
        link=LINK,
        spans=without(cost.spans, spans_of(trace, _long_ops(trace))),
        effect=Effect(rows=rows, left=TURNS_LEFT / turns),
    )


def _text_of(trace: Trace, file: str, line: int) -> str:
    """Return the text of a watched line; empty for others."""
    is_it = (pl.col("kind") == "line") & (pl.col("file") == file) & (pl.col("line") == line)
    return str(next(iter(trace.sites.filter(is_it)["name"]), ""))


@once_per_trace
def _long_ops(trace: Trace) -> IntArray:
    """Return the calls of ops that usually do more than cost their call."""
    rows = rows_named(trace, "^aten::")
    calls = trace.events[rows.tolist()].select("name", "dur_ns")
    usual = calls.select(pl.col("dur_ns").median().over("name"))["dur_ns"].to_numpy()
    return rows[usual > 2 * TINY_OP_NS]
