"""Advice about kernels that each read and write whole tensors, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.phases import PHASES, phase_of_events
from torchprof_magic.facts.shared import in_category, is_named
from torchprof_magic.facts.source.fx_nodes import REGION
from torchprof_magic.findings.advice.kinds import Advice
from torchprof_magic.findings.advice.times import each, is_device_the_limit, ns_in_steps, spans_of, step_ns
from torchprof_magic.findings.hottest_rows import code_of
from torchprof_magic.model.units import format_ns, format_ratio
from torchprof_magic.tables.ops.kernels import launching_ops

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.trace import Trace

# From this share of a step on, what moves tensors to and from memory is worth less moving.
LEAST_SHARE = 0.2
MOST_NAMED = 3
LINK = "https://docs.pytorch.org/docs/stable/torch.compiler.html"
# Kernels of torch itself that go through tensors element by element, add up along a dimension, or join tensors.
_ONE_BY_ONE = r"at::native::.*(elementwise_kernel|reduce_kernel|CatArrayBatchedCopy)"
_COMPILED = rf"{REGION}|^triton_"


def unfused_ops(trace: Trace) -> Advice | None:
    """Advise ``torch.compile`` where such kernels take much of the steps of a busy device, and nothing is compiled."""
    if not is_device_the_limit(trace) or is_named(trace, _COMPILED).any():
        return None
    # The step of an optimizer is no part of the model that is compiled.
    is_model = phase_of_events(trace) != PHASES.index("optimizer")
    kernels = np.flatnonzero(is_named(trace, _ONE_BY_ONE) & in_category(trace, "kernel") & is_model)
    spent = ns_in_steps(trace, spans_of(trace, kernels))
    if spent < LEAST_SHARE * step_ns(trace):
        return None
    ops = _costliest_ops(trace, kernels)
    mostly = f", most for {', '.join(code_of(op) for op in ops)}" if ops else ""
    return Advice(
        rule="unfused_ops",
        title="Compile the model",
        fix="`model = torch.compile(model)`",
        evidence=f"Kernels that only go through tensors element by element take {format_ns(spent)} {each(trace)}, "
        f"{format_ratio(spent / step_ns(trace))} of it{mostly}. Each reads its tensors from memory and writes the "
        "result back; `torch.compile` does several of these ops in one kernel.",
        op=ops[0] if ops else "",
        certainty="guess",
        link=LINK,
    )


def _costliest_ops(trace: Trace, kernels: IntArray) -> list[str]:
    """Return which ops launched most of the time of some kernels, as far as that is known."""
    work = pl.DataFrame({"op": launching_ops(trace, kernels), "ns": trace.events["dur_ns"].gather(kernels)})
    sums = work.filter(pl.col("op") != "").group_by("op", maintain_order=True).agg(pl.col("ns").sum())
    return sums.sort("ns", descending=True, maintain_order=True)["op"].cast(pl.String).head(MOST_NAMED).to_list()
