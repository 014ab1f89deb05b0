"""The steps of an inference server, and the same by kind: prefill, decode or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.budget import PARTS, parts_in
from torchprof_magic.facts.device.counter_means import joules_in
from torchprof_magic.facts.server_steps import has_server_steps, server_steps
from torchprof_magic.facts.shared import once_per_trace
from torchprof_magic.model.shapes import Column, Table
from torchprof_magic.tables.budget import PART_COLUMNS

if TYPE_CHECKING:
    from torchprof_magic.model.trace import DType, Trace

# What limits a step by the parts of its time, with the word of the verdict.
LIMITS = {
    "compute": ("compute_roof", "compute_above"),
    "memory": ("memory_roof", "memory_above"),
    "other work": ("other_work",),
    "communication": ("communication",),
    "copies": ("copies",),
    "waiting": ("waiting",),
    "dispatch": ("dispatch",),
    "Python": ("python",),
    "data": ("data",),
    "compile": ("compile",),
    "not known": ("unknown",),
}
_KIND = Column(
    name="kind",
    title="Kind",
    unit="text",
    definition="prefill: new requests, whose whole prompts are computed. decode: one token more for each request. "
    "mixed: both in one step. Empty where the range of the server does not say.",
)
_PER_TOKEN = Column(
    name="ns_per_token",
    title="Per token",
    unit="ns",
    definition="Time divided by the tokens; null if they are not known.",
)
COLUMNS = (
    Column(name="step", title="Step", unit="step", definition="Number of the step of the server, from 0."),
    _KIND,
    Column(name="batch", title="Requests", unit="count", definition="Number of requests that it serves together."),
    Column(name="tokens", title="Tokens", unit="count", definition="Tokens that it computes; null if not known."),
    Column(
        name="prefill_tokens",
        title="Prefill tokens",
        unit="count",
        definition="Those of new requests.",
        is_minor=True,
    ),
    Column(
        name="decode_tokens",
        title="Decode tokens",
        unit="count",
        definition="Those of requests that go on.",
        is_minor=True,
    ),
    Column(
        name="keys",
        title="Tokens attended to",
        unit="count",
        definition="Tokens in the caches of all requests, which attention reads; null if the range does not say.",
        is_minor=True,
    ),
    Column(
        name="start_ns", title="Start", unit="ns", definition="Start, from the first recorded event.", is_minor=True
    ),
    Column(
        name="dur_ns",
        title="Duration",
        unit="ns",
        definition="Wall time from the start of its range to that of the next; of the last one to the end of the "
        "recording.",
    ),
    _PER_TOKEN,
    *PART_COLUMNS,
    Column(name="name", title="Range", unit="code", definition="The range of the server.", is_minor=True),
)
KIND_COLUMNS = (
    _KIND,
    Column(name="steps", title="Steps", unit="count", definition="Number of steps of this kind."),
    Column(name="requests_per_step", title="Requests per step", unit="count", definition="Mean number of requests."),
    Column(name="tokens", title="Tokens", unit="count", definition="Tokens of all of them; null if not known."),
    Column(name="sum_ns", title="Time", unit="ns", definition="Their summed wall time."),
    Column(name="mean_ns", title="Mean", unit="ns", definition="Their mean wall time."),
    _PER_TOKEN,
    Column(name="tokens_per_s", title="Tokens/s", unit="count", definition="Tokens by their time in s."),
    Column(
        name="limit",
        title="Most time",
        unit="text",
        definition=f"The largest part of their time: {', '.join(LIMITS)}; compute and memory at and above the roof.",
    ),
    Column(name="limit_ratio", title="Of the time", unit="ratio", definition="The share that it takes."),
    *PART_COLUMNS,
    Column(
        name="joules_per_token",
        title="J per token",
        unit="count",
        definition="Energy of the devices by their tokens, where the file has counters of power.",
        is_minor=True,
    ),
)
_TYPES: dict[str, DType] = {
    "step": pl.Int32,
    "kind": pl.String,
    "name": pl.String,
    "ns_per_token": pl.Float64,
    "requests_per_step": pl.Float64,
    "mean_ns": pl.Float64,
    "tokens_per_s": pl.Float64,
    "limit": pl.String,
    "limit_ratio": pl.Float64,
    "joules_per_token": pl.Float64,
}
_SCHEMA, _KIND_SCHEMA = (
    {column.name: _TYPES.get(column.name, pl.Int64) for column in columns} for columns in (COLUMNS, KIND_COLUMNS)
)


@once_per_trace
def serving_table(trace: Trace) -> Table:
    """Return one row per step of the server, in order; empty for a recording of something else."""
    steps = server_steps(trace)
    if not has_server_steps(trace):
        return Table(frame=pl.DataFrame(schema=_SCHEMA), columns=COLUMNS)
    parts = parts_in(trace, steps.start_ns, steps.end_ns)
    requests = pl.DataFrame(steps.requests, orient="row", schema=_REQUESTS)
    dur = steps.end_ns - steps.start_ns
    frame = requests.with_columns(
        pl.Series("step", np.arange(len(dur))),
        pl.Series("start_ns", steps.start_ns),
        pl.Series("dur_ns", dur),
        *(pl.Series(f"{part}_ns", parts[:, place]) for place, part in enumerate(PARTS)),
        trace.events["name"].gather(steps.row).cast(pl.String).alias("name"),
    ).with_columns(_per_token("dur_ns"))
    return Table(frame=frame.select(_SCHEMA.keys()).cast(_SCHEMA), columns=COLUMNS)  # type: ignore[arg-type]


_REQUESTS = {
    "kind": pl.String,
    **dict.fromkeys(("batch", "tokens", "prefill_tokens", "decode_tokens", "keys", "scores"), pl.Int64),
}


def _per_token(column: str) -> pl.Expr:
    return pl.when(pl.col("tokens") > 0).then(pl.col(column) / pl.col("tokens")).alias("ns_per_token")


@once_per_trace
def serving_kinds_table(trace: Trace) -> Table:
    """Return one row per kind of step, what takes the longest first, with what limits it."""
    if not has_server_steps(trace):
        return Table(frame=pl.DataFrame(schema=_KIND_SCHEMA), columns=KIND_COLUMNS)
    steps = serving_table(trace).frame
    served = server_steps(trace)
    joules = pl.Series("joules", joules_in(trace, served.start_ns, served.end_ns)).fill_nan(None)
    parts = [f"{part}_ns" for part in PARTS]
    known = pl.col("tokens").is_not_null()
    frame = (
        steps.with_columns(joules)
        .group_by("kind")
        .agg(
            pl.len().alias("steps"),
            pl.col("batch").mean().alias("requests_per_step"),
            pl.when(known.all()).then(pl.col("tokens").sum()).alias("tokens"),
            pl.col("dur_ns").sum().alias("sum_ns"),
            pl.col("dur_ns").mean().alias("mean_ns"),
            pl.col(parts).sum(),
            pl.when(pl.col("joules").is_not_null().all()).then(pl.col("joules").sum()).alias("joules"),
        )
        .with_columns(_per_token("sum_ns"), _limit(), pl.max_horizontal(_limit_ns()).alias("largest_ns"))
    )
    has_time, has_tokens = pl.col("sum_ns") > 0, pl.col("tokens") > 0
    frame = frame.with_columns(
        pl.when(has_time).then(pl.col("tokens") / pl.col("sum_ns") * 1e9).alias("tokens_per_s"),
        pl.when(has_time).then(pl.col("largest_ns") / pl.col("sum_ns")).alias("limit_ratio"),
        pl.when(has_tokens).then(pl.col("joules") / pl.col("tokens")).alias("joules_per_token"),
    ).sort("sum_ns", "kind", descending=[True, False])
    frame = frame.select(_KIND_SCHEMA.keys()).cast(_KIND_SCHEMA)  # type: ignore[arg-type]
    return Table(frame=frame, columns=KIND_COLUMNS)


def _limit_ns() -> list[pl.Expr]:
    return [pl.sum_horizontal(f"{part}_ns" for part in parts) for parts in LIMITS.values()]


def _limit() -> pl.Expr:
    """Return the name of the largest of ``LIMITS``."""
    number = pl.concat_list(_limit_ns()).list.arg_max()
    return number.replace_strict(dict(enumerate(LIMITS)), return_dtype=pl.String).alias("limit")
