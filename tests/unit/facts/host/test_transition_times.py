from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.facts.host.transitions import own_work, transitions_ns
from torchprof_magic.findings.verdict.accounts import device_account
from torchprof_magic.model.meta import CellSource, StepMark, Stepping
from torchprof_magic.tables.steps import steps_table


def test_what_is_in_torchs_range_and_not_in_the_step_is_the_recordings() -> None:
    trace = make_trace(annotation("ProfilerStep#2", 0, 100), annotation("ProfilerStep#3", 100, 50), span("a", 40, 5))
    assert transitions_ns(trace).tolist() == [0, 0]
    later = pl.when(pl.col("number") == 2).then(pl.col("start_ns") + 30_000).otherwise(pl.col("start_ns"))
    cut = replace(trace, steps=trace.steps.with_columns(later, pl.col("end_ns") - 10_000))
    assert transitions_ns(cut).tolist() == [40_000, 10_000]


def test_a_step_without_a_range_has_none() -> None:
    trace = make_trace(annotation("ProfilerStep#2", 0, 100))
    assert transitions_ns(replace(trace, events=trace.events.head(0))).tolist() == [0]


def test_where_a_device_works_meanwhile_it_is_the_profilers_and_no_python_or_fetching() -> None:
    # Of 100 us, the first 20 and the last 10 are the recording's; the item is there 5 us after those 20.
    trace = make_trace(
        annotation("ProfilerStep#2", 0, 100), launch(40, 5, 1), kernel("gemm", 50, 30, 1), annotation("later", 200, 5)
    )
    mark = StepMark(number=2, cycle=0, is_complete=True, lead_ns=20_000, tail_ns=10_000, fetch_ns=5_000)
    cell = CellSource(label="In [1]", filename="cell", source="for b in data: go(b)")
    meta = replace(
        trace.meta,
        recorded_steps=(mark,),
        cell=cell,
        stepping=Stepping(how="loop", line=1, code="for b in data: go(b)"),
    )
    site = {"kind": "line", "parent": -1, "name": "for b in data: go(b)", "file": "cell", "line": 1}
    sites = pl.concat([trace.sites, pl.DataFrame([site], schema=trace.sites.schema)])
    scope = pl.DataFrame(
        [{"site": 0, "lane": 0, "start_ns": 0, "dur_ns": 100_000, "cycle": 0}], schema=trace.scopes.schema
    )
    trace = replace(trace, meta=meta, sites=sites, scopes=scope)
    assert [column.tolist() for column in own_work(trace)] == [[0, 0], [0, 90_000], [20_000, 100_000]]
    row = steps_table(trace).frame.row(0, named=True)
    assert (row["dur_ns"], row["idle_ns"], row["data_ns"]) == (100_000, 30_000, 5_000)
    account = device_account(trace)
    assert account is not None
    assert account.causes["profiler"].ns == 30_000
