"""Advice about memory: what grows, what to compute again, and an allocator that keeps asking the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.counted_steps import counted_steps
from torchprof_magic.facts.host.blocking import blocking_calls
from torchprof_magic.facts.source.places import places_of
from torchprof_magic.findings.advice.kinds import Advice, Effect
from torchprof_magic.findings.advice.times import each, ns_in_steps, spans_of, step_index, within_steps
from torchprof_magic.findings.savings.table import savings_table, title_of
from torchprof_magic.model.units import counted, format_bytes, format_count, format_ns
from torchprof_magic.tables.memory.in_use import memory_series
from torchprof_magic.tables.memory.leaks import MEASURED, leaks_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Of what the steps use beyond what lay in memory before them; and in all. Memory that grows by less
# in a step is not what a program runs out of: in 100,000 steps it is less than 100 MiB.
LEAST_GROWTH = 0.01
LEAST_GROWTH_BYTES = 2**10
# Of the peak. Computing again takes time, so less memory than that is not worth it.
LEAST_CHECKPOINT = 0.2
LEAST_PEAK_BYTES = 100 * 2**20
LEAST_STEPS = 2
LEAK_LINK = "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory"
CHECKPOINT_LINK = "https://docs.pytorch.org/docs/stable/checkpoint.html"
ALLOCATOR_LINK = (
    "https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf"
)


def memory_leak(trace: Trace) -> Advice | None:
    """Advise to let go of what every step leaves behind, if memory grows by it."""
    if trace.memory.height == 0:
        return None
    leaks = leaks_table(trace).frame
    least = max(LEAST_GROWTH * _used_bytes(trace), LEAST_GROWTH_BYTES)
    certain = leaks.filter(pl.col("certainty") == MEASURED)
    is_certain = certain.height > 0 and certain["bytes_per_step"].sum() >= least
    leaks = certain if is_certain else leaks
    grows = int(leaks["bytes_per_step"].sum())
    if leaks.height == 0 or grows < least:
        return None
    lines = leaks.group_by("file", "line", maintain_order=True).agg(pl.col("bytes_per_step").sum())
    most = lines.sort("bytes_per_step", descending=True, maintain_order=True).row(0, named=True)
    first = leaks.row(0, named=True)
    blocks = counted(int(leaks["blocks"].sum()), "block")
    doubt = "" if is_certain else f" {_doubt(trace, leaks)}"
    hint = "" if most["line"] else " Record with `--lines`, or `lines=True`, to see its line."
    return Advice(
        rule="memory_leak",
        title="Release memory that grows every step" if is_certain else "Look for what every step may leave behind",
        fix="if a tensor with its graph is kept, keep `x.detach()` or `loss.item()`; if a list, dictionary or cache "
        "keeps the tensors, bound or empty it. In the process that recorded, `report.holders()` names it",
        evidence=f"Memory {'grows' if is_certain else 'may grow'} by {format_bytes(grows)} with every step, most of it "
        f"allocated in `{first['op'] or '?'}`: {blocks} are in use at the end.{doubt}{hint}",
        file=most["file"] or "",
        line=most["line"],
        module=first["module"] or "",
        op=first["op"] or "",
        saving_bytes=grows,
        certainty="measured" if is_certain else "estimated",
        link=LEAK_LINK,
    )


def _doubt(trace: Trace, leaks: pl.DataFrame) -> str:
    """Return why what steps leave behind may be no growth."""
    if not trace.meta.knows_storages:
        return (
            "torch does not report when memory of the host is released that was allocated before the recording, so a "
            "buffer of fixed size that was already full looks the same."
        )
    in_use = trace.storages.filter("is_in_use")["address"]
    if not leaks["addresses"].explode().is_in(in_use.implode()).all():
        return (
            "No object of Python uses some of them: other threads may release memory without a record of it, and torch "
            "keeps what torch.func or vmap has wrapped until a recording ends."
        )
    return "In the same steps as much memory of other sizes was released, which was allocated before the recording."


def _used_bytes(trace: Trace) -> int:
    """Return how far the peak lies above the level at the beginning, of the device where that is most."""
    level = pl.col("allocated_bytes")
    used = memory_series(trace).frame.group_by("lane").agg(level.max() - level.first())["allocated_bytes"].max()
    return used if isinstance(used, int) else 0


def checkpoint(trace: Trace) -> Advice | None:
    """Advise to compute activations again in place of keeping them, if they are much of the peak."""
    rows = savings_table(trace).frame.filter(pl.col("action") == "activation_checkpointing")
    rows = rows.filter(
        (pl.col("saved_bytes") >= LEAST_CHECKPOINT * pl.col("peak_bytes")) & (pl.col("peak_bytes") >= LEAST_PEAK_BYTES)
    )
    if rows.height == 0:
        return None
    best = rows.row(0, named=True)
    added = best["added_time_ns"]
    slower = f" It makes a step {format_ns(added)} longer." if added is not None else ""
    return Advice(
        rule="checkpoint",
        title=f"If memory is short: {title_of(best['action'], best['module'])}",
        fix="`torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)`",
        evidence=f"{best['arithmetic']}{slower}",
        module=best["module"] or "",
        saving_bytes=best["saved_bytes"],
        certainty="estimated",
        link=CHECKPOINT_LINK,
    )


def allocator_churn(trace: Trace) -> Advice | None:
    """Advise against memory that is given back to the driver and fetched again in every step."""
    calls = blocking_calls(trace).filter(pl.col("rule") == "alloc")
    rows = calls["row"].to_numpy().astype("int64")
    spans = spans_of(trace, rows)
    inside = within_steps(trace, spans)
    if len(inside.start_ns) == 0 or len(counted_steps(trace).row) < LEAST_STEPS:
        return None
    is_inside = (step_index(trace, rows) >= 0) & (spans.start_ns < counted_steps(trace).end_ns.max())
    rows = rows[is_inside]
    if len(set(step_index(trace, rows).tolist())) < LEAST_STEPS:
        return None
    inside = within_steps(trace, spans_of(trace, rows))
    file, line = places_of(trace, rows[:1]).columns()
    return Advice(
        rule="allocator_churn",
        title="Keep memory in the allocator",
        fix="no `torch.cuda.empty_cache()` in the loop; for sizes that vary, "
        "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
        evidence=f"{format_count(len(rows) / counted_steps(trace).steps)} calls {each(trace)} reserve device "
        f"memory or give it back: {format_ns(ns_in_steps(trace, spans))}.",
        file=file[0] or "",
        line=line[0],
        op=str(trace.events["name"][int(rows[0])]),
        certainty="measured",
        link=ALLOCATOR_LINK,
        spans=inside,
        effect=Effect(rows=rows),
    )
