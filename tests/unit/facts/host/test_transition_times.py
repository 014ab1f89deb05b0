from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import annotation, make_trace, span

from torchprof_magic.facts.host.transitions import transitions_ns


def test_what_is_in_torchs_range_and_not_in_the_step_is_the_recordings() -> None:
    trace = make_trace(annotation("ProfilerStep#2", 0, 100), annotation("ProfilerStep#3", 100, 50), span("a", 40, 5))
    assert transitions_ns(trace).tolist() == [0, 0]
    later = pl.when(pl.col("number") == 2).then(pl.col("start_ns") + 30_000).otherwise(pl.col("start_ns"))
    cut = replace(trace, steps=trace.steps.with_columns(later, pl.col("end_ns") - 10_000))
    assert transitions_ns(cut).tolist() == [40_000, 10_000]


def test_a_step_without_a_range_has_none() -> None:
    trace = make_trace(annotation("ProfilerStep#2", 0, 100))
    assert transitions_ns(replace(trace, events=trace.events.head(0))).tolist() == [0]
