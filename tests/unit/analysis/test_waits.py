from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.analysis.waits import waits_table
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA

SYNC = span("cudaStreamSynchronize", 20, 10, cat="cuda_runtime")
AROUND = (annotation("ProfilerStep#0", 0, 100), annotation("evaluate", 5, 90), span("aten::item", 15, 30), SYNC)


def test_a_wait_is_charged_to_op_annotation_and_the_users_innermost_frame() -> None:
    trace = make_trace(
        *AROUND,
        frame("train.py(7): step", 0, 100),
        frame("nn.Module: Net_0", 6, 80),
        frame("torch/nn/modules/module.py(99): _call_impl", 7, 70),
        kernel("gemm", 0, 24, correlation=1),
        launch(60, 1, correlation=1),
        with_stack=1,
    )
    assert waits_table(trace).frame.rows() == [
        (
            "cudaStreamSynchronize", "sync", "7/1", "aten::item", "evaluate", "Net_0", "train.py", 7,
            1, 10_000, 4_000, 10_000,
        ),
    ]  # fmt: skip


def test_a_watched_line_and_module_come_before_recorded_frames() -> None:
    trace = make_trace(*AROUND, frame("train.py(7): step", 0, 100), launch(60, 1, correlation=1), with_stack=1)
    sites = [
        {"kind": "line", "parent": -1, "name": "loss.item()", "file": "cell", "line": 12},
        {"kind": "module", "parent": -1, "name": "head", "class_name": "Linear"},
    ]
    watched = replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame([(0, 0, 10_000, 50_000, 0), (1, 0, 12_000, 30_000, 0)], schema=SCOPES_SCHEMA, orient="row"),
    )
    assert waits_table(watched).frame.select("module", "file", "line").rows() == [("head", "cell", 12)]


def test_equal_causes_are_one_row_and_times_are_cut_at_the_ends_of_the_steps() -> None:
    calls = [span("cudaStreamSynchronize", at, 10, cat="cuda_runtime") for at in (0, 30, 95)]
    trace = make_trace(annotation("ProfilerStep#0", 5, 95), *calls, launch(200, 1, correlation=1))
    # 5..10, 30..40 and 95..100
    found = waits_table(trace).frame.select("count", "total_ns", "longest_ns", "op", "file")
    assert found.rows() == [(3, 20_000, 10_000, None, None)]


def test_the_profilers_own_wait_is_left_out_and_a_cpu_run_has_none() -> None:
    end = span("cudaDeviceSynchronize", 50, 10, cat="cuda_runtime")
    assert waits_table(make_trace(launch(0, 1, correlation=1), end)).frame.height == 0
    assert waits_table(make_trace(span("aten::mm", 0, 10))).frame.height == 0
