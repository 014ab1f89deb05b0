"""Advice about what only training needs, where nothing is trained: a graph of autograd, and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.shared import in_category, is_named, once_per_trace
from torchprof_magic.facts.source.forward_of import forward_of_events
from torchprof_magic.findings.advice.kinds import DEVICES, THREADS, Advice, Effect
from torchprof_magic.findings.advice.times import (
    by_place,
    cost_of,
    cost_words,
    each,
    is_device_the_limit,
    rows_named,
    spans_of,
    work_of,
)
from torchprof_magic.findings.verdict.once import one_time_work
from torchprof_magic.model.intervals import interval_at
from torchprof_magic.model.units import counted

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

LINK = "https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation"
# With fewer nodes in a step, there is nothing to gain.
LEAST_NODES = 8
# A recording of which so much is done once says little about what is repeated.
MOSTLY_ONCE = 0.5
_NODE = r"^autograd::engine::"
_DROPOUT = r"^aten::(dropout|alpha_dropout|feature_dropout|feature_alpha_dropout|native_dropout)_?$"
# In evaluation, dropout returns what it is given and draws no numbers.
_DRAWING = r"^aten::(bernoulli_?|native_dropout|_fused_dropout)$"


def inference_mode(trace: Trace) -> Advice | None:
    """Advise to switch autograd off if the ops of the steps build a graph that no recorded step uses."""
    makers = _makers_in_steps(trace) if _is_inference(trace) else []
    nodes = min(map(len, makers), default=0)
    if nodes < LEAST_NODES:
        return None
    file, line, rows = by_place(trace, np.concatenate(makers))[0]
    return Advice(
        rule="inference_mode",
        title="Switch autograd off if nothing is trained",
        fix="run it under `torch.inference_mode()`",
        evidence=f"No recorded step runs backward, but its ops build a graph of {counted(nodes, 'node')} "
        f"{each(trace)}, which takes time and keeps what backward would need in memory.",
        file=file,
        line=line,
        op=str(trace.events["name"][int(rows[0])]),
        certainty="guess",
        link=LINK,
    )


def eval_mode(trace: Trace) -> Advice | None:
    """Advise to switch dropout off if no recorded step runs backward."""
    rows = rows_named(trace, _DROPOUT)
    if len(rows) == 0 or not _is_inference(trace):
        return None
    parent = trace.events["parent"].to_numpy()
    drawing = rows_named(trace, _DRAWING)
    rows = rows[np.isin(rows, parent[drawing]) | np.isin(rows, drawing)]
    rows = rows[~np.isin(parent[rows], rows)]
    if len(rows) == 0:
        return None
    on_device = is_device_the_limit(trace)
    cost = work_of(trace, rows) if on_device else cost_of(trace, spans_of(trace, rows))
    file, line, first = by_place(trace, rows)[0]
    return Advice(
        rule="eval_mode",
        title="Switch dropout off if nothing is trained",
        fix="call `model.eval()` before the loop",
        evidence=f"No recorded step runs backward, but dropout takes {cost_words(trace, cost)}. After `model.eval()`, "
        "it does nothing. If this is the forward pass of training, leave it as it is.",
        file=file,
        line=line,
        op=str(trace.events["name"][int(first[0])]),
        certainty="estimated",
        spans=cost.spans,
        effect=Effect(where=DEVICES if on_device else THREADS),
    )


@once_per_trace
def _is_inference(trace: Trace) -> bool:
    """Return whether nothing that was recorded is of a backward pass, or of an optimizer.

    Of a recording of what is done once, that is not known.
    """
    if one_time_work(trace).ratio >= MOSTLY_ONCE:
        return False
    trains = np.isin(phase_of_events(trace), [PHASES.index("backward"), PHASES.index("optimizer")])
    return not (trains.any() or (forward_of_events(trace) >= 0).any() or is_named(trace, _NODE).any())


def _makers_in_steps(trace: Trace) -> list[IntArray]:
    """Return the ops of each step that make a node of autograd: the next one on their thread gets a higher number."""
    chosen = counted_steps(trace)
    lane, start_ns = (trace.events[name].to_numpy() for name in ("lane", "start_ns"))
    rows = np.flatnonzero(in_category(trace, "cpu_op") & trace.events["sequence"].is_not_null().to_numpy())
    rows = rows[np.lexsort((start_ns[rows], lane[rows]))]
    numbers = trace.events["sequence"].gather(rows).to_numpy()
    rows = rows[:-1][(np.diff(lane[rows]) == 0) & (np.diff(numbers) > 0)]
    step = interval_at(chosen.start_ns, chosen.end_ns, start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    ends = np.cumsum(np.bincount(step, minlength=len(chosen.start_ns)))
    return np.split(rows[np.argsort(step, kind="stable")], ends[:-1])
