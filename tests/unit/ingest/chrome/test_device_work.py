"""Device work of vendors that name it otherwise than CUDA does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from support import PID, annotation, chrome, kernel, launch, make_trace, span

from torchprof_magic.facts.device.busy import has_any_device, unknown_device_work
from torchprof_magic.ingest import read_chrome
from torchprof_magic.loading import load
from torchprof_magic.model.intervals import union_ns
from torchprof_magic.model.trace import DEVICE_CATEGORIES
from torchprof_magic.tables.devices import devices_table

if TYPE_CHECKING:
    from pathlib import Path

    from support import Event

    from torchprof_magic.model.trace import Trace

MTIA = "08_mtia_inference_rank0.json.gz"


def process(pid: int, *names: str) -> list[Event]:
    """Return the name of a process, and its label."""
    kinds = (("process_name", "name"), ("process_labels", "labels"))
    return [
        {"ph": "M", "name": kind, "pid": pid, "tid": 0, "args": {key: name}}
        for (kind, key), name in zip(kinds, names, strict=False)
    ]


def kinds(trace: Trace) -> dict[str, str]:
    return dict(trace.events.select(pl.col("name", "category").cast(pl.String)).rows())


def launches(trace: Trace) -> dict[str, str]:
    names = trace.events["name"].cast(pl.String)
    pairs = trace.flows.filter(pl.col("kind") == "launch").select("target", "source").rows()
    return {names[target]: names[source] for target, source in pairs}


def ccp(name: str, start_us: float, dur_us: float, tid: int = 3536, **args: Any) -> Event:
    return span(name, start_us, dur_us, cat="mtia_ccp_events", tid=tid, **args) | {"pid": 17}


def mtia() -> Trace:
    mirrored = span("synchronize", 2, 6, cat="mtia_runtime", tid=3568, device=17) | {"pid": 17}
    return make_trace(
        *process(17, "MTIA 17", "MTIA 17"),
        span("aten::mm", 0, 3),
        span("runFunction", 1, 1, cat="mtia_runtime", correlation=5, device=17),
        span("synchronizeStream", 2, 6, cat="mtia_runtime", tid=2, device=17),
        mirrored,
        ccp("merge", 3, 4, stream=101, correlation=5),
        ccp("dma_request", 8, 2, stream=105),
        ccp("event_wait", 3, 90, stream=108),
        ccp("event_record", 20, 1, stream=108),
    )


def test_work_of_mtia_is_what_is_no_bookkeeping_of_its_queues() -> None:
    assert kinds(mtia()) == {
        "aten::mm": "cpu_op",
        "runFunction": "runtime",
        "synchronizeStream": "runtime",
        "synchronize": "other",
        "merge": "kernel",
        "dma_request": "memcpy",
        "event_wait": "other",
        "event_record": "other",
    }
    assert launches(mtia()) == {"merge": "runFunction"}


def test_a_device_without_a_number_of_its_own_has_that_of_its_process() -> None:
    row = devices_table(mtia()).frame.row(0, named=True)
    # merge for 3-7 us, dma_request for 8-10 us.
    assert (row["device"], row["name"], row["busy_ns"], row["idle_ns"]) == (17, "MTIA 17", 6000, 1000)
    streams = mtia().lanes.filter(pl.col("kind") == "stream")["name"].to_list()
    assert streams == ["MTIA 17 stream 101", "MTIA 17 stream 105"]


def test_calls_of_a_host_process_that_has_the_number_of_the_device_are_calls() -> None:
    call = span("runFunction", 1, 1, cat="mtia_runtime", correlation=5) | {"pid": 17}
    trace = make_trace(span("aten::mm", 0, 3) | {"pid": 17}, call, ccp("merge", 3, 4, stream=101, correlation=5))
    assert kinds(trace)["runFunction"] == "runtime"
    assert launches(trace) == {"merge": "runFunction"}


def test_the_work_of_an_mtia_is_that_counted_independently(traces: Path) -> None:
    rows = {row["file"]: row for row in json.loads((traces / "limits.json").read_text())}
    fact, trace = rows[MTIA], load(traces / MTIA).trace
    device = fact["devices"][0]
    events = trace.events.with_row_index("row").with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    window = fact["window_start_ts_ns"], fact["window_start_ts_ns"] + fact["window_ns"]
    # The times of the facts are those in the file, before its base time is added.
    start, end = (time + 1_767_189_312_000_000_000 - trace.meta.start_unix_ns for time in window)
    work = events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))
    clipped = work.with_columns(pl.col("start_ns", "end_ns").clip(start, end))
    assert union_of(clipped) == device["busy_ns"]
    for kind, busy_ns in device["ns_by_kind"].items():
        part = clipped.filter(pl.col("category") == kind)
        assert part.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() == busy_ns
    launched = set(trace.flows.filter(pl.col("kind") == "launch")["target"])
    kernels = work.filter((pl.col("category") == "kernel") & pl.col("start_ns").is_between(start, end))
    assert kernels.height == fact["launch"]["kernels"]
    assert len(launched & set(kernels["row"])) == fact["launch"]["with_launch"]
    assert len(set(work["row"]) - launched) == device["work_rows_without_launch"]
    assert devices_table(trace).frame.select("device", "name").rows() == [(17, "ARTEMIS")]
    assert events.filter(pl.col("category") == "cpu_op")["lane"].n_unique() == 23


def union_of(work: pl.DataFrame) -> int:
    start, end = (work[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
    return union_ns(start, end)


CANN, NPU, OVERLAP, HCCL = 700, 701, 702, 703


def ascend_row(name: str, start_us: str, dur_us: float, pid: int, tid: int, **args: Any) -> Event:
    """Return a row as torch_npu writes it: without a category, and with its time as text."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start_us, "dur": dur_us, "args": args}


def to_device(number: str, start: tuple[str, int], end: tuple[str, int]) -> list[Event]:
    arrow = {"cat": "HostToDevice", "name": f"HostToDevice{number}", "id": number}
    return [
        arrow | {"ph": "s", "pid": CANN, "ts": start[0], "tid": start[1]},
        arrow | {"ph": "f", "pid": NPU, "ts": end[0], "tid": end[1], "bp": "e"},
    ]


def ascend(label: str = "NPU 3") -> list[Event]:
    return [
        *process(PID, "Python", "CPU"),
        *process(CANN, "CANN", "CPU"),
        *process(NPU, "Ascend Hardware", label),
        *process(OVERLAP, "Overlap Analysis", label),
        *process(HCCL, "Communication", label),
        span("ProfilerStep#4", 1000, 100) | {"ts": "1000.000"},
        span("aten::add", 1001, 9) | {"ts": "1001.000"},
        span("Enqueue@aclnnAdd", 1002, 2, cat="enqueue") | {"ts": "1002.000"},
        span("Dequeue@aclnnAdd", 1010, 20, cat="dequeue", tid=2) | {"ts": "1010.000"},
        ascend_row("AscendCL@aclnnAdd", "1011.500", 8, CANN, 2, connection_id=1, level="acl"),
        ascend_row("Node@launch", "1012.000", 2, CANN, 2, connection_id=77, level="node"),
        ascend_row("AscendCL@aclrtSynchronizeStream", "1040.000", 20, CANN, 1),
        ascend_row("aclnnAdd_Add_Add", "1020.250", 10, NPU, 4, **{"Task Type": "AI_VECTOR_CORE", "connection_id": 9}),
        ascend_row("MEMCPY_ASYNC", "1035.000", 5, NPU, 4),
        ascend_row("EVENT_WAIT", "1031.000", 3, NPU, 4),
        ascend_row("Computing", "1020.250", 10, OVERLAP, 1),
        ascend_row("hcom_allReduce__123_0_1", "1020.250", 10, HCCL, 1),
        *to_device("81604378623", ("1013.000", 2), ("1020.250", 4)),
        {"ph": "C", "name": "AI Core Freq", "pid": 705, "tid": 0, "ts": "1000.000", "args": {"MHz": 1800}},
    ]


def test_rows_of_ascend_belong_to_what_their_process_is_called() -> None:
    trace = read_chrome([json.dumps(ascend()).encode()])
    assert kinds(trace) == {
        "ProfilerStep#4": "user_annotation",
        "aten::add": "cpu_op",
        "Enqueue@aclnnAdd": "user_annotation",
        "Dequeue@aclnnAdd": "user_annotation",
        "AscendCL@aclnnAdd": "runtime",
        "Node@launch": "runtime",
        "AscendCL@aclrtSynchronizeStream": "runtime",
        "aclnnAdd_Add_Add": "kernel",
        "MEMCPY_ASYNC": "memcpy",
        "EVENT_WAIT": "other",
        "Computing": "other",
        "hcom_allReduce__123_0_1": "other",
    }
    row = devices_table(trace).frame.row(0, named=True)
    # The kernel for 1020.25-1030.25 us, the copy for 1035-1040 us.
    assert (row["device"], row["name"], row["busy_ns"], row["idle_ns"]) == (3, "NPU 3", 15_000, 4_750)
    assert "NPU 3 stream 4" in trace.lanes["name"].to_list()


def test_calls_of_cann_are_on_the_thread_of_the_host_that_has_their_number() -> None:
    trace = make_trace(*ascend())
    lanes = {lane: (pid, tid) for lane, (pid, tid) in enumerate(trace.lanes.select("pid", "tid").rows())}
    names = trace.events["name"].cast(pl.String).to_list()
    places = {name: lanes[lane] for name, lane in zip(names, trace.events["lane"], strict=True)}
    assert places["Node@launch"] == places["Dequeue@aclnnAdd"] == (str(PID), "2")
    assert places["AscendCL@aclrtSynchronizeStream"] == places["aten::add"] == (str(PID), "1")
    parent = dict(zip(names, trace.events["parent"], strict=True))
    assert names[parent["Node@launch"]] == "AscendCL@aclnnAdd"
    assert names[parent["AscendCL@aclnnAdd"]] == "Dequeue@aclnnAdd"


def test_work_of_ascend_is_linked_to_the_innermost_call_around_the_start_of_its_arrow() -> None:
    trace = make_trace(*ascend())
    assert launches(trace) == {"aclnnAdd_Add_Add": "Node@launch"}
    assert {problem.code: problem.count for problem in trace.problems} == {
        "chrome.no_launch": 1,  # of the copy
    }
    step = trace.events.filter(pl.col("name") == "aclnnAdd_Add_Add")["step"].to_list()
    assert step == [4]


def test_bookkeeping_of_ascend_is_no_work_whatever_its_category() -> None:
    rows = [ascend_row("MatMul", "5", 1, NPU, 4), ascend_row("EVENT_RECORD", "6", 1, NPU, 4)]
    trace = make_trace(*process(NPU, "Ascend Hardware"), *[row | {"cat": "kernel"} for row in rows])
    assert kinds(trace) == {"MatMul": "kernel", "EVENT_RECORD": "other"}


def test_an_arrow_between_rows_that_do_not_exist_links_nothing() -> None:
    arrows = [
        *to_device("1", ("1000.500", 2), ("1035.000", 4)),  # begins outside of all calls
        *to_device("2", ("1013.000", 2), ("1036.000", 4)),  # ends within a row, not at its start
        *to_device("3", ("1013.000", 99), ("1035.000", 4)),
    ]
    assert launches(make_trace(*ascend(), *arrows)) == {"aclnnAdd_Add_Add": "Node@launch"}


def test_a_device_of_ascend_without_a_number_has_that_of_its_process() -> None:
    assert devices_table(make_trace(*ascend("NPU"))).frame.select("device", "name").rows() == [(NPU, "NPU")]


@pytest.mark.parametrize("key", ["device", "Device Id"])
def test_a_number_in_the_row_comes_before_that_of_the_process(key: str) -> None:
    row = ascend_row("MatMul", "5.0", 1, NPU, 4, **{key: 6})
    assert devices_table(make_trace(*process(NPU, "Ascend Hardware", "NPU 3"), row)).frame["device"].to_list() == [6]


@pytest.mark.parametrize(
    ("runtime", "work", "title"),
    [
        ("cuda_runtime", "kernel", "NVIDIA CUDA"),
        ("xpu_runtime", "kernel", "Intel GPU"),
        ("xpu_driver", "kernel", "Intel GPU"),
        ("privateuse1_runtime", "kernel", "Out-of-tree backend"),
        ("privateuse1_driver", "kernel", "Out-of-tree backend"),
        ("", "hpu_op", "Intel Gaudi"),
    ],
)
def test_every_vendors_device_has_a_row_with_its_platform(runtime: str, work: str, title: str) -> None:
    call = [span("launch", 0, 1, cat=runtime, correlation=1)] if runtime else []
    trace = make_trace(span("aten::mm", 0, 2), *call, kernel("gemm", 3, 5, correlation=1) | {"cat": work})
    row = devices_table(trace).frame.row(0, named=True)
    assert (row["device"], row["name"], row["busy_ns"], row["kernels"]) == (0, title, 5000, 1)
    assert row["launched_events"] == len(call)


def test_torch_for_rocm_is_known_by_its_calls_because_it_writes_the_categories_of_cuda() -> None:
    call = span("hipLaunchKernel", 0, 1, cat="cuda_runtime", correlation=1)
    assert make_trace(call, kernel("gemm", 3, 5, correlation=1, device=2)).meta.devices == ((2, "AMD ROCm"),)


def test_the_name_in_the_properties_of_a_device_comes_before_others() -> None:
    work = (launch(0, 1, 1), kernel("a", 3, 5, 1, device=1), kernel("b", 3, 5, 1, device=0))
    labels = [*process(0, "python", "GPU 0"), *process(1, "python", "GPU 1")]
    properties = [{"id": 1, "name": "H100"}, {"id": 0, "name": ""}]
    trace = make_trace(*labels, *work, deviceProperties=properties)
    assert trace.meta.devices == ((0, "GPU 0"), (1, "H100"))
    assert devices_table(trace).frame["name"].to_list() == ["GPU 0", "H100"]
    assert "device 0 stream 7" in trace.lanes["name"].to_list()


def test_a_name_of_a_device_is_short_whatever_the_file_says() -> None:
    trace = make_trace(kernel("a", 3, 5, 1), deviceProperties=[{"id": 0, "name": "x" * 5_000}])
    assert len(trace.meta.devices[0][1]) == 300


@pytest.mark.parametrize(
    "events",
    [
        [span("fused", 1, 2, cat="tpu_kernel", stream=3)],
        [*process(9, "python", "TPU 0"), span("fused", 1, 2, cat="tpu_kernel") | {"pid": 9}],
    ],
    ids=["on a stream", "in the process of an accelerator"],
)
def test_a_trace_whose_device_work_is_not_understood_says_so(events: list[Event]) -> None:
    trace = make_trace(span("aten::mm", 0, 2), *events)
    (problem,) = trace.problems
    assert (problem.code, problem.severity, problem.count) == ("chrome.unknown_device_work", "warning", 1)
    assert '"tpu_kernel"' in unknown_device_work(trace) == problem.message
    assert not trace.has_device
    assert has_any_device(trace)


def test_the_summary_of_such_a_trace_does_not_name_the_cpu(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(chrome(span("aten::mm", 0, 2), span("fused", 1, 2, cat="tpu_kernel", stream=3)))
    assert "unnamed accelerator · " in load(path).summary()


def test_rows_without_a_category_are_named_by_their_process() -> None:
    row = ascend_row("fused", "1", 2, 9, 1)
    assert '"rows of TPU 0"' in unknown_device_work(make_trace(span("a", 0, 1), *process(9, "python", "TPU 0"), row))


def test_at_most_five_categories_are_quoted() -> None:
    rows = [span("fused", at, 1, cat=f"strange {at} {'x' * 500}", stream=3) for at in range(7)]
    message = unknown_device_work(make_trace(*rows))
    assert message.count('"') == 10
    assert "2 more" in message
    assert len(message) < 900


@pytest.mark.parametrize(
    "events",
    [
        [span("mine", 1, 2, cat="my category")],
        [*process(PID, "python", "CPU"), span("mine", 1, 2, cat="my category")],
        [span("Stream Sync", 1, 2, cat="cuda_sync", stream=7)],
        [span("insight", 1, 2, cat="MTIA_insight", stream=7)],
        [span("strange", 1, 2, cat="strange", stream=7), kernel("gemm", 3, 5, correlation=1)],
        [annotation("range", 3, 2)],
    ],
    ids=["no stream", "process of the host", "known", "known in capitals", "beside known work", "annotation"],
)
def test_other_rows_are_no_unknown_device_work(events: list[Event]) -> None:
    trace = make_trace(span("aten::mm", 0, 2), *events)
    assert not unknown_device_work(trace)
    assert {problem.code for problem in trace.problems} <= {"chrome.no_launch"}


def test_files_of_several_cycles_keep_their_devices() -> None:
    parts = [chrome(*ascend()), chrome(*ascend(), baseTimeNanoseconds=1_000_000_000)]
    trace = read_chrome(parts)
    assert trace.flows.filter(pl.col("kind") == "launch").height == 2
    assert trace.meta.devices == ((3, "NPU 3"),)


def test_a_device_keeps_its_name_in_saved_and_exported_files(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(chrome(*process(17, "MTIA 17", "MTIA 17"), ccp("merge", 3, 4, stream=101)))
    report = load(path)
    for name in ("again.torchprof", "again.json"):
        report.save(tmp_path / name)
        assert load(tmp_path / name).trace.meta.devices == ((17, "MTIA 17"),)


def test_the_launches_of_ascend_are_kept_in_an_exported_file(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(chrome(*ascend()))
    load(tmp_path / "trace.json").save(tmp_path / "again.json")
    assert launches(load(tmp_path / "again.json").trace) == {"aclnnAdd_Add_Add": "Node@launch"}
