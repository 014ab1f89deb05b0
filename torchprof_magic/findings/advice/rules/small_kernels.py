"""Advice about launching many short kernels one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.device.idle_pieces import CAUSES, cause_numbers, idle_pieces
from torchprof_magic.findings.advice.kinds import Advice, Effect, Spans
from torchprof_magic.findings.advice.times import each, ns_in_steps, within_steps
from torchprof_magic.findings.verdict.accounts import device_account, kernels_per_step
from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.units import format_count, format_ns, format_ratio
from torchprof_magic.model.vendors import GRAPH_LAUNCH
from torchprof_magic.tables.waiting.queue import launch_totals

if TYPE_CHECKING:
    from torchprof_magic.findings.verdict.accounts import Account
    from torchprof_magic.model.trace import Trace

# If fewer kernels are short, their launches are not what a step waits for.
LEAST_SHORT_SHARE = 0.25
LEAST_KERNELS = 50
# While code is compiled or captured, steps are not what they will be.
MOST_COMPILING = 0.05
LINK = "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs"


def small_kernels(trace: Trace) -> Advice | None:
    """Advise CUDA graphs or ``torch.compile`` if the device idles while the host launches short kernels one by one."""
    account, totals = device_account(trace), launch_totals(trace)
    if account is None or kernels_per_step(trace) < LEAST_KERNELS:
        return None
    short = totals.short_share or 0.0
    if short < LEAST_SHORT_SHARE or _is_compiled(trace, account):
        return None
    pieces = idle_pieces(trace)
    launches = (pieces.device == account.device) & (cause_numbers(trace) == list(CAUSES).index("op dispatch"))
    inside = within_steps(trace, Spans(pieces.start_ns[launches], pieces.end_ns[launches]))
    idle_ns = ns_in_steps(trace, inside)
    cause = account.causes["op dispatch"]
    # What is spread over lines is changed at none of them.
    at = cause if 2 * cause.line_ns > cause.ns else replace(cause, file="", line=None)
    return Advice(
        rule="small_kernels",
        title="Launch the kernels as a CUDA graph",
        fix='`torch.compile(model, mode="reduce-overhead")`, or a CUDA graph',
        evidence=f"{format_count(kernels_per_step(trace))} kernels {each(trace)} are launched one by one, "
        f"{format_ratio(short)} of them shorter than 10 µs. For {format_ns(idle_ns)} the queue is empty, and the "
        "device waits until the host has launched the next one. A graph launches all of them in one call.",
        file=at.file,
        line=at.line,
        op=cause.name,
        certainty="estimated",
        link=LINK,
        spans=inside,
        effect=Effect(),
    )


def _is_compiled(trace: Trace, account: Account) -> bool:
    """Return whether graphs run already, or code is being compiled or loaded."""
    names = distinct(trace.events["name"]).cast(pl.String)
    return bool(names.str.contains(GRAPH_LAUNCH).any()) or account.share("compile", "initialisation") > MOST_COMPILING
