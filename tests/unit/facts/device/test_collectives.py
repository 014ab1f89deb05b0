"""What a trace tells of each collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_ranks import device_step
from support import annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.device.collectives import bytes_of, collectives_of, kind_of
from torchprof_magic.model.dtypes import size_of_type
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from pathlib import Path

TOLD = {
    "Collective name": "_allgather_base",
    "In msg nelems": 100,
    "Out msg nelems": 400,
    "dtype": "BFloat16",
    "Process Group Name": "3",
    "Process Group Description": "tensor parallel",
    "Group size": 4,
    "Process Group Ranks": "[0, 1, 2, 3]",
    "Seq": 17,
}


def test_the_arguments_of_a_collective_are_read_and_written_again(tmp_path: Path) -> None:
    trace = make_trace(*device_step(1, details=TOLD))
    row = collectives_of(trace).row(0, named=True)
    assert (row["name"], row["bytes"], row["sequence"], row["group_size"]) == ("all_gather", 800, 17, 4)
    assert (row["group"], row["group_title"]) == ("3 [0, 1, 2, 3]", "tensor parallel")
    report = Report(trace)
    for name in ("again.json", "again.torchprof"):
        again = tp.load(report.export(tmp_path / name))
        assert collectives_of(again.trace).equals(collectives_of(trace))


def test_the_op_around_the_launch_tells_what_the_kernel_does_not() -> None:
    trace = make_trace(
        span("record_param_comms", 0, 30, **TOLD),
        launch(10, 2, correlation=1),
        kernel("ncclDevKernel_Generic", 20, 70, correlation=1),
    )
    row = collectives_of(trace).row(0, named=True)
    assert (row["name"], row["bytes"], row["sequence"]) == ("all_gather", 800, 17)


def test_without_arguments_the_range_of_the_library_names_it_and_its_shapes_size_it() -> None:
    around = annotation("nccl:all_to_all", 0, 30)
    trace = make_trace(
        around | {"args": {"Input Dims": [[10, 3], [2]], "Input type": ["float", "long"]}},
        launch(10, 2, correlation=1),
        kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 20, 70, correlation=1),
        kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 100, 70, correlation=9),
    )
    rows = collectives_of(trace)
    assert rows["name"].to_list() == ["all_to_all", "send_recv"]
    assert rows["bytes"].to_list() == [10 * 3 * 4 + 2 * 8, None]


def test_a_kernel_names_what_was_only_called_coalesced() -> None:
    trace = make_trace(
        annotation("nccl:coalesced", 0, 30),
        launch(10, 2, correlation=1),
        kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)", 20, 70, correlation=1),
    )
    assert collectives_of(trace)["name"].to_list() == ["all_gather"]


def test_of_nested_ranges_on_the_host_the_outermost_counts() -> None:
    trace = make_trace(annotation("gloo:all_reduce", 0, 100), annotation("gloo:send", 10, 20))
    assert collectives_of(trace).select("name", "dur_ns", "on_host").rows() == [("all_reduce", 100_000, True)]


def test_hostile_arguments_are_no_numbers() -> None:
    odd = {
        "Collective name": ["</script>"],
        "In msg nelems": 10**30,
        "Out msg nelems": True,
        "dtype": {"a": 1},
        "Group size": -4,
        "Seq": "1",
    }
    row = collectives_of(make_trace(*device_step(1, details=odd))).row(0, named=True)
    assert (row["name"], row["bytes"], row["sequence"], row["group_size"]) == ("all_reduce", None, None, None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce_coalesced", "all_reduce"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("ncclDevKernel_AllGather_RING_LL", "all_gather"),
        ("alltoall_base", "all_to_all"),
        ("gloo:broadcast", "broadcast"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 0<-1", "recv"),
        ("gloo:barrier", "barrier"),
        ("reduce", "reduce"),
        ("what", ""),
    ],
)
def test_kinds_are_told_by_their_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_sizes_of_types_are_those_of_torch_and_c() -> None:
    names = ("Float", "c10::BFloat16", "long int", "Float8_e4m3fn", "signed char", "ComplexDouble", "what", None)
    assert [size_of_type(name) for name in names] == [4, 2, 8, 1, 1, 16, 0, 0]
    assert bytes_of("[[2,2],[]]", '["float","Scalar"]') == 16
    assert bytes_of("[[2,2]]", '["what"]') is None
    assert bytes_of(None, None) is None
