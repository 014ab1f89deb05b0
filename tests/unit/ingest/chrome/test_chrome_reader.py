from __future__ import annotations

import errno
import gc
import gzip
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from bad_files.packing import BOMB
from support import allocation, annotation, chrome, frame, kernel, launch, make_trace, span

from torchprof_magic.ingest import read_chrome
from torchprof_magic.ingest.chrome.spans import ColumnBuilder
from torchprof_magic.ingest.json import blocks
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_times_are_exact_integers_of_ns_even_where_float64_is_not() -> None:
    # Near 4.4e12 us a float64 has steps of 0.98 ns; these three differ by 1 ns each.
    text = json.dumps({"traceEvents": [span("a", 0, 0) | {"ts": "AT", "dur": "FOR"} for _ in range(3)]})
    for last in ("301", "302", "303"):
        text = text.replace('"AT"', f"4458676983543.{last}", 1).replace('"FOR"', "0.001", 1)
    trace = read_chrome([text.encode()])
    assert trace.events["start_ns"].to_list() == [0, 1, 2]
    assert trace.events["dur_ns"].to_list() == [1, 1, 1]


def test_the_base_time_is_added_and_taken_as_the_origin() -> None:
    trace = make_trace(span("a", 5, 2), span("b", 8, 1), baseTimeNanoseconds=1_700_000_000_000_000_000)
    assert trace.meta.start_unix_ns == 1_700_000_000_000_005_000
    assert trace.events["start_ns"].to_list() == [0, 3000]


def test_events_are_sorted_so_that_parents_stand_above_their_children() -> None:
    trace = make_trace(span("inner", 2, 3), span("outer", 0, 10), span("other thread", 1, 5, tid=2))
    rows = trace.events.select("name", "parent", "depth").rows()
    assert rows == [("outer", -1, 0), ("inner", 0, 1), ("other thread", -1, 0)]


def test_a_numeric_and_a_textual_thread_id_are_the_same_thread() -> None:
    trace = make_trace(span("outer", 0, 10, tid=25738), span("inner", 1, 2) | {"tid": "25738"})
    assert trace.lanes.height == 1
    assert trace.events["parent"].to_list() == [-1, 0]


def test_the_category_comes_from_cat_whatever_its_year() -> None:
    trace = make_trace(
        span("aten::mm", 0, 9, cat="Operator"),
        span("ProfilerStep#3", 20, 9, cat="Operator"),
        span("cudaLaunchKernel", 1, 1, cat="Runtime", correlation=4),
        kernel("gemm", 30, 5, correlation=4) | {"cat": "Kernel", "tid": "stream 7"},
        span("mystery", 50, 1, cat="something new"),
    )
    kinds = dict(trace.events.select("name", "category").rows())
    assert kinds == {
        "aten::mm": "cpu_op",
        "ProfilerStep#3": "user_annotation",
        "cudaLaunchKernel": "runtime",
        "gemm": "kernel",
        "mystery": "other",
    }
    assert trace.steps.select("number", "start_ns", "end_ns").rows() == [(3, 20_000, 29_000)]


def test_a_kernel_is_linked_to_its_launch_by_correlation_and_one_launch_may_start_many() -> None:
    trace = make_trace(
        span("aten::mm", 0, 9),
        launch(2, 1, correlation=11),
        kernel("first", 20, 5, correlation=11),
        kernel("second", 26, 5, correlation=11),
        kernel("queued before", 1, 5, correlation=99),
    )
    names = trace.events["name"].to_list()
    links = [(names[source], names[target]) for _, source, target in trace.flows.rows()]
    assert links == [("cudaLaunchKernel", "first"), ("cudaLaunchKernel", "second")]
    assert [(p.code, p.count) for p in trace.problems] == [("chrome.no_launch", 1)]


def test_a_device_event_belongs_to_the_step_that_launched_it() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 10),
        annotation("ProfilerStep#2", 10, 10),
        span("aten::mm", 2, 3),
        launch(3, 1, correlation=5),
        kernel("late", 15, 2, correlation=5),
        span("after", 30, 1),
    )
    assert dict(trace.events.select("name", "step").rows())["late"] == 1
    assert dict(trace.events.select("name", "step").rows())["after"] is None


def test_forward_and_backward_ops_are_linked_by_their_arrow() -> None:
    trace = make_trace(
        span("aten::addmm", 0, 5, **{"Sequence number": 3, "Fwd thread id": 0}),
        span("AddmmBackward0", 10, 5, tid=2, **{"Sequence number": 3, "Fwd thread id": 1}),
        {"ph": "s", "id": 1, "pid": 7, "tid": 1, "ts": 0, "cat": "fwdbwd", "name": "fwdbwd"},
        {"ph": "f", "id": 1, "pid": 7, "tid": 2, "ts": 10, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"},
        {"ph": "s", "id": 2, "pid": 7, "tid": 1, "ts": 0, "cat": "fwdbwd", "name": "fwdbwd"},
    )
    assert trace.flows.rows() == [("backward", 0, 1)]


def test_of_several_arrows_with_one_id_the_one_at_the_last_op_counts() -> None:
    start = {"ph": "s", "id": 1, "pid": 7, "tid": 1, "cat": "fwdbwd", "name": "fwdbwd"}
    trace = make_trace(
        span("first", 0, 5, **{"Sequence number": 3, "Fwd thread id": 0}),
        span("second", 6, 2, **{"Sequence number": 4, "Fwd thread id": 0}),
        span("Backward0", 10, 5, tid=2, **{"Sequence number": 9, "Fwd thread id": 1}),
        start | {"ts": 6},
        start | {"ts": 0},
        start | {"ph": "f", "tid": 2, "ts": 10},
    )
    assert trace.flows.rows() == [("backward", 1, 2)]


def test_memory_goes_to_the_innermost_event_of_its_own_thread() -> None:
    trace = make_trace(
        span("outer", 0, 20),
        span("inner", 5, 5),
        span("elsewhere", 0, 20, tid=2),
        allocation(6, 64, 64),
        allocation(15, -64, 0),
        allocation(30, 32, 32),
    )
    names = [*trace.events["name"].to_list(), None]
    assert [names[row] for row in trace.memory["event"]] == ["inner", "outer", None]
    assert trace.memory["device"].unique().to_list() == ["cpu"]


def test_cycles_keep_their_own_correlations_and_share_one_clock() -> None:
    def cycle(name: str, at_us: float) -> bytes:
        return chrome(
            span(name, at_us, 5), launch(at_us + 1, 1, correlation=1), kernel(name, at_us + 9, 2, correlation=1)
        )

    trace = read_chrome([cycle("a", 0), cycle("b", 1000)])
    names = trace.events["name"].to_list()
    for _, source, target in trace.flows.rows():
        assert trace.events["cycle"][source] == trace.events["cycle"][target]
        assert names[target] in ("a", "b")
    assert trace.events.filter(trace.events["name"] == "b")["start_ns"].min() == 1_000_000


def test_events_without_a_time_are_counted_and_the_others_stay() -> None:
    trace = make_trace(span("good", 0, 5), span("bad", 0, 5) | {"ts": "N/A"}, span("open", 3, -1))
    assert trace.events["name"].to_list() == ["good", "open"]
    assert {p.code: p.count for p in trace.problems} == {"chrome.no_time": 1, "chrome.negative_duration": 1}


def test_python_frames_on_the_device_pid_stay_host_events() -> None:
    trace = make_trace(frame("train.py(3): step", 0, 10) | {"pid": 0, "tid": 0}, kernel("gemm", 2, 3, correlation=1))
    kinds = dict(trace.events.select("name", "lane").rows())
    assert trace.lanes["kind"][kinds["train.py(3): step"]] == "thread"
    assert trace.lanes["kind"][kinds["gemm"]] == "stream"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (b"", IngestError, "empty"),
        (b'{"schemaVersion": 1, "tra', IngestError, "damaged or cut off before its first event"),
        (b'{"nodes": []}', NotATraceError, "execution trace"),
        (b'{"hello": 1}', NotATraceError, "no profiler trace"),
        (b"hello", NotATraceError, "not JSON"),
    ],
    ids=["nothing", "start", "graph", "other JSON", "text"],
)
def test_a_file_that_is_not_a_trace_is_named(text: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read_chrome([text])


def test_a_trace_without_events_is_an_empty_trace() -> None:
    trace = make_trace()
    assert (trace.events.height, trace.steps.height, trace.memory.height, trace.flows.height) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x89PNG....", "PNG image"),
        (b"", "empty"),
        (gzip.compress(b"{}" * 500, mtime=0)[:12], "damaged or cut off"),
        (b"PK\x03\x04..", "zip archive"),
        (BOMB, "expands far more than any trace does"),
        (gzip.compress(b"{}", mtime=0)[:11], "gzip data is cut off"),
        (b"\x80\x04]", "pickle"),
    ],
    ids=["picture", "nothing", "short gzip", "zip", "bomb", "shorter gzip", "pickle"],
)
def test_a_file_of_another_kind_is_named_with_its_path(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(IngestError, match=says) as error:
        load(file)
    assert str(file) in str(error.value)


def test_gzip_is_recognised_by_content_and_not_by_name(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(gzip.compress(chrome(span("a", 0, 1))))
    assert read_chrome([file]).events["name"].to_list() == ["a"]


def test_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="folder"):
        load(tmp_path)
    with pytest.raises(NotATraceError, match="device or pipe"):
        load("/dev/null")
    with pytest.raises(IngestError, match="no such file"):
        load(tmp_path / "missing.json")
    with pytest.raises(IngestError, match="not a valid file name"):
        load("a\0b.json")


def test_a_pipe_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(NotATraceError, match="device or pipe"):
        load(pipe)


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(chrome())

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(type(file), "open", refuse)
    with pytest.raises(IngestError, match=r"trace\.json: the file cannot be read \(Permission denied\)"):
        load(file)


def test_a_path_to_no_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to("loop.json")
    with pytest.raises(IngestError, match=r"loop\.json: the file cannot be read \(Too many levels of symbolic links\)"):
        load(tmp_path / "loop.json")
    (tmp_path / "trace.json").write_bytes(chrome())
    with pytest.raises(IngestError, match=r"x\.json: the file cannot be read \(Not a directory\)"):
        load(tmp_path / "trace.json" / "x.json")


def test_a_file_that_fails_while_it_is_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size)

    file = tmp_path / "trace.json"
    file.write_bytes(chrome())
    monkeypatch.setattr(type(file), "open", lambda *_, **__: Failing(chrome()))
    with pytest.raises(IngestError, match=r"trace\.json: the file cannot be read \(Input/output error\)"):
        load(file)


def test_a_file_name_that_is_too_long_raises_our_error() -> None:
    with pytest.raises(IngestError, match="cannot be read"):
        load("x" * 5_000)


def test_rows_with_values_of_another_kind_lose_the_value_and_not_the_rest() -> None:
    trace = make_trace(
        annotation("ProfilerStep#99999999999999999999", 0, 10),
        span("aten::mm", 1, 2),
        {"ph": "i", "name": "[memory]", "pid": 7, "tid": 1, "ts": 2, "args": {"Bytes": 5}},
        {"ph": "i", "name": "[memory]", "pid": 7, "tid": 1, "ts": 2, "args": {"Bytes": "x", "Device Type": "z"}},
    )
    assert trace.steps.height == 0
    assert trace.memory.select("device", "delta_bytes").rows() == [("device:0", 5)]
    sizes = ops_table(trace).frame.select("name", "self_device_bytes").rows()
    assert sorted(sizes) == [("ProfilerStep#99999999999999999999", 0), ("aten::mm", 5)]


def test_stacks_recorded_as_texts_give_the_same_tree_as_frames() -> None:
    texts = {"Call stack": "net.py(7): forward;train.py(3): <module>"}, {"Call stack": "train.py(3): <module>"}
    from_texts = make_trace(span("a", 0, 5, **texts[0]), span("b", 6, 2, **texts[1]), span("c", 9, 1))
    frames = frame("train.py(3): <module>", 0, 9), frame("net.py(7): forward", 0, 6)
    from_frames = make_trace(*frames, span("a", 1, 4), span("b", 7, 1), span("c", 10, 1))
    for trace in (from_texts, from_frames):
        named = {row["name"]: row for row in trace.events.to_dicts()}
        rows = trace.stacks.to_dicts()
        inner, outer = rows[named["a"]["stack"]], rows[named["b"]["stack"]]
        assert (inner["file"], inner["line"], inner["function"]) == ("net.py", 7, "forward")
        assert rows[inner["parent"]] == outer
        assert (outer["function"], outer["parent"], named["c"]["stack"]) == ("<module>", -1, None)


def test_of_events_in_the_same_interval_the_op_encloses_its_launch_wherever_it_stands() -> None:
    events = launch(0, 10, correlation=1), span("op", 0, 10), annotation("range", 0, 10), span("inner", 0, 10)
    for order in (events, events[::-1][1:] + events[::-1][:1]):
        names = make_trace(*order).events["name"].to_list()
        assert names == ["range", "op", "inner", "cudaLaunchKernel"]


def test_backward_ops_are_found_by_sequence_number_if_the_file_has_no_arrow() -> None:
    number = {"Sequence number": 5, "Fwd thread id": 0}
    back = {"Sequence number": 5, "Fwd thread id": 1}
    trace = make_trace(
        span("aten::linear", 0, 20, **number),
        span("aten::addmm", 5, 10, **number),
        span("evaluate_function", 40, 20, tid=2, **back),
        span("AddmmBackward0", 45, 10, tid=2, **back),
        span("aten::late", 70, 5, **number),
        span("other", 80, 5, **{"Sequence number": 6, "Fwd thread id": 1}),
    )
    names = trace.events["name"].cast(str)
    assert [(names[a], names[b]) for _, a, b in trace.flows.rows()] == [("aten::addmm", "AddmmBackward0")]


def test_sequence_numbers_and_arrows_give_the_same_pairs(traces: Path) -> None:
    whole = load(traces / "02_a100_ddp_rank0of2.json.gz").trace.flows.filter(kind="backward")
    text = gzip.decompress((traces / "02_a100_ddp_rank0of2.json.gz").read_bytes()).replace(b"fwdbwd", b"no arrow")
    without_arrows = read_chrome([text]).flows.filter(kind="backward")
    assert whole.height == 543
    assert sorted(whole.rows()) == sorted(without_arrows.rows())


def test_a_range_is_linked_to_its_spans_on_the_device() -> None:
    on_device = span("range", 5, 20, cat="gpu_user_annotation", **{"External id": 9}) | {"pid": 0, "tid": 7}
    other = span("other", 5, 20, cat="gpu_user_annotation", **{"External id": 9}) | {"pid": 0, "tid": 8}
    trace = make_trace(annotation("range", 0, 10) | {"args": {"External id": 9}}, on_device, other)
    names = trace.events["name"].cast(str)
    categories = trace.events["category"].cast(str)
    pairs = [(names[a], categories[b]) for kind, a, b in trace.flows.rows() if kind == "annotation"]
    assert pairs == [("range", "gpu_user_annotation")]


def test_streams_whose_work_begins_together_are_in_the_order_of_their_numbers() -> None:
    numbers = [(device, stream) for device in (1, 0) for stream in (20, 7, 13, 2, 5)]
    events = [kernel("k", 5, 1, correlation=0, stream=stream, device=device) for device, stream in numbers]
    assert make_trace(*events).lanes.select("device", "stream").rows() == sorted(numbers)


def test_of_two_halves_that_are_years_apart_the_first_one_is_kept() -> None:
    trace = make_trace(span("a", 0, 1), span("b", 5, 1), span("c", 1e14, 1), span("d", 1e14 + 5, 1))
    assert trace.events["name"].to_list() == ["a", "b"]
    assert {problem.code: problem.count for problem in trace.problems} == {"chrome.stray_time": 2}


def many(count: int) -> bytes:
    return chrome(*(span(f"op {number}", number, 1) for number in range(count)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_progress_is_reported_for_every_block_up_to_the_whole_file(
    pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(blocks, "_PACKED_BYTES", 1_000)
    text, said = many(1000), []
    data = pack(text)
    trace = read_chrome([data, data], progress=lambda done, total: said.append((done, total)))
    assert trace.events.height == 2000
    assert len(said) >= 2 * (len(text) // (10_000 + 64_000))
    assert said == sorted(said)
    assert said[-1] == (2 * len(data), 2 * len(data))


def test_what_progress_raises_stops_the_reading_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 10_000)
    calls = []

    def cancel(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_chrome([many(1000)], progress=cancel)
    assert [done for done, _ in calls] == [10_000, 20_000, 30_000]
    assert gc.isenabled()


def test_garbage_is_collected_again_also_while_somebody_keeps_the_error_that_ended_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        assert not gc.isenabled()
        raise MemoryError

    monkeypatch.setattr(ColumnBuilder, "add", fail)
    with pytest.raises(MemoryError) as kept:
        read_chrome([many(10)])
    assert gc.isenabled()
    assert kept.tb.tb_next is not None  # with the frame of the reader, as in sys.last_traceback


def test_garbage_is_collected_again_at_whatever_line_an_interrupt_ends_the_reading() -> None:
    functions, text, kept = {"_read_part", "_add_all", "begin", "end"}, many(2), []

    def interrupt_at(number: int) -> Callable[..., Any]:
        left = [number]

        def line(_frame: object, event: str, _argument: object) -> Any:
            left[0] -= event == "line"
            if left[0] == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return line

        return lambda frame, *_: line if frame.f_code.co_name in functions else None

    traced = sys.gettrace()
    for number in range(1, 200):
        try:
            sys.settrace(interrupt_at(number))
            read_chrome([text])
            break
        except KeyboardInterrupt as error:
            kept.append(error)  # with its frames, as sys.last_value does
        finally:
            sys.settrace(traced)
        assert gc.isenabled(), number
    assert 10 < len(kept) < 199


def test_an_allocation_written_as_an_event_with_a_duration_is_an_allocation() -> None:
    # torch's export in Python, which is used when names need escapes, writes them so.
    written = allocation(3, 512, 512) | {"ph": "X", "dur": 7, "cat": "cpu_instant_event"}
    trace = make_trace(span("aten::empty", 0, 10), written)
    assert trace.memory["delta_bytes"].to_list() == [512]
    assert trace.events["name"].to_list() == ["aten::empty"]


def test_a_users_range_named_like_an_allocation_stays_an_event() -> None:
    trace = make_trace(annotation("[memory]", 0, 10), span("[memory]", 2, 3, cat="something new"))
    assert trace.events["name"].to_list() == ["[memory]", "[memory]"]
    assert trace.memory.height == 0
