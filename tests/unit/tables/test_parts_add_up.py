"""The tables of parts that follow one another add up to those of the whole recording, to the ns and the byte."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import allocation, annotation, frame, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.report.views import TABLES, VIEWS

# What the rows of each table are about, and the columns that add up.
SUMS = {
    "ops": (
        ("name", "kind"),
        ("self_cpu_ns", "total_cpu_ns", "self_device_ns", "total_device_ns", "flops", "worked_ns"),
    ),
    "kernels": (("name", "kind"), ("sum_ns", "union_ns", "worked_ns")),
    "roofline": (("name",), ("worked_ns",)),
    "roofline_kernels": (("name",), ("worked_ns",)),
    "lines": (
        ("file", "line"),
        ("cpu_ns", "own_cpu_ns", "backward_cpu_ns", "wait_ns", "self_cpu_ns", "total_cpu_ns", "device_ns",
         "backward_device_ns", "bytes", "worked_ns"),
    ),
    "modules": (("path",), ("self_cpu_ns", "total_cpu_ns", "device_ns", "backward_cpu_ns", "bytes", "worked_ns")),
    "allocations": (("device", "op"), ("size_bytes",)),
    "devices": (
        ("device",),
        ("busy_ns", "launched_busy_ns", "window_ns", "launched_window_ns", "idle_ns", "sum_ns", "comm_ns",
         "hidden_comm_ns", "exposed_comm_ns"),
    ),
    "waits": (
        ("call", "rule", "thread", "op", "annotation", "module", "file", "line"), ("total_ns", "device_busy_ns"),
    ),
    "idle": (("device", "step", "cause", "detail", "host", "name", "file", "line"), ("idle_ns",)),
    "loaders": (("name", "loaded_by", "thread", "file", "line"), ("total_ns", "device_idle_ns")),
    "host": (("name", "category"), ("self_ns",)),
    "launches": (("name",), ("count",)),
}  # fmt: skip
REAL = ("01_cpu_gloo_rank34.json.gz", "02_a100_ddp_rank0of2.json.gz", "06_v100_dlrm_8ranks/rank0.json.gz")
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def step_of_training(number: int) -> list[dict[str, object]]:
    """A fetch, a forward and a backward op, a collective, and an op that waits; kernels run into the next step."""
    at, first = 100 * number, 10 * number
    return [
        annotation(f"ProfilerStep#{number}", at, 100),
        annotation(LOADER, at + 1, 9),
        span("aten::linear", at + 12, 20, **{"Sequence number": number}),
        span("aten::mm", at + 14, 10, **{"Input Dims": [[30, 40], [40, 50]], "Input type": ["float", "float"]}),
        launch(at + 15, 2, correlation=first + 1),
        kernel("gemm", at + 25, 30, correlation=first + 1),
        span("MmBackward0", at + 40, 15, **{"Sequence number": number, "Fwd thread id": 1}),
        launch(at + 45, 2, correlation=first + 2),
        kernel("gemm", at + 58, 14, correlation=first + 2),
        launch(at + 57, 2, correlation=first + 3),
        kernel("ncclDevKernel_AllReduce", at + 65, 45, correlation=first + 3, stream=8),
        span("aten::item", at + 70, 20),
        span("cudaStreamSynchronize", at + 72, 16, cat="cuda_runtime"),
        allocation(at + 16, 512, 512 * (number + 1)),
    ]


def training() -> Trace:
    """Three steps of 100 us, with a line and a module in each."""
    events = [event for number in range(3) for event in step_of_training(number)]
    trace = make_trace(frame("train.py(4): main", 0, 300), *events)
    sites = [
        {"kind": "line", "parent": -1, "name": "train(batch)", "file": "cell", "line": 2},
        {"kind": "module", "parent": -1, "name": "", "class_name": "Net"},
    ]
    runs = [(site, 0, at + begin, length, 0) for at in (0, 100_000, 200_000) for site, begin, length in
            ((0, 10_000, 85_000), (1, 11_000, 22_000))]  # fmt: skip
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(runs, schema=SCOPES_SCHEMA, orient="row"),
    )


def added(frames: list[pl.DataFrame], keys: tuple[str, ...], columns: list[str]) -> dict[tuple[object, ...], object]:
    """Return the sums of some columns by what the rows are about, without those that are 0."""
    rows = pl.concat(
        [frame.select(pl.col(keys).cast(pl.String), pl.col(columns).cast(pl.Int64).fill_null(0)) for frame in frames]
    )
    sums = rows.group_by(keys).agg(pl.col(columns).sum())
    return {row[: len(keys)]: row[len(keys) :] for row in sums.rows() if any(row[len(keys) :])}


def check_that_parts_add_up(trace: Trace, table: str, edges: list[int]) -> None:
    keys, names = SUMS[table]
    view = TABLES[table]
    whole = view.data(trace)
    if table == "allocations":
        whole = whole.drop_nulls("allocated_at_ns")
    parts = [view.data(trace, TimeRange(*ends)) for ends in pairwise([-(10**18), *edges, 10**18])]
    columns = [name for name in names if name in whole.columns]
    assert added(parts, keys, columns) == added([whole], keys, columns)


def test_every_table_that_takes_a_part_is_added_up_here() -> None:
    assert set(SUMS) == {view.table_name for view in VIEWS if view.follows_range and view.frame is not None}


@pytest.mark.parametrize("table", SUMS)
def test_the_steps_of_a_training_add_up(table: str) -> None:
    trace = training()
    assert TABLES[table].data(trace).height > 0
    check_that_parts_add_up(trace, table, [100_000, 200_000])


@pytest.mark.parametrize("table", SUMS)
@pytest.mark.parametrize("seed", sampled(range(5)))
def test_parts_that_end_anywhere_add_up(table: str, seed: int) -> None:
    edges = np.random.default_rng(seed).integers(0, 310_000, 12)
    check_that_parts_add_up(training(), table, np.unique(edges).tolist())


@pytest.mark.parametrize("table", SUMS)
def test_the_whole_is_the_part_that_holds_everything(table: str) -> None:
    trace, view = training(), TABLES[table]
    assert view.data(trace, TimeRange(-1, 10**9)).equals(view.data(trace, WHOLE))


@pytest.fixture(scope="module", params=REAL)
def recorded(traces: Path, request: pytest.FixtureRequest) -> Trace:
    return tp.load(traces / request.param).trace


@pytest.mark.parametrize("table", SUMS)
def test_parts_of_a_real_trace_add_up(table: str, recorded: Trace) -> None:
    events = recorded.events
    ends = int((events["start_ns"] + events["dur_ns"]).max() or 0)
    edges = np.random.default_rng(1).integers(int(events["start_ns"].min() or 0), ends, 5)
    starts = recorded.steps["start_ns"].to_numpy()[:4]
    check_that_parts_add_up(recorded, table, np.union1d(edges, starts).tolist())
