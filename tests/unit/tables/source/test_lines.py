from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.findings.compare.changes import Runs, changed_lines
from torchprof_magic.model.meta import CellSource, StepMark
from torchprof_magic.model.trace import FRAME_SCHEMAS, SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.source.lines import lines_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

NODE = {"Sequence number": 1, "Fwd thread id": 1}
SOURCE = ["for batch in loader:", "    loss = model(batch)", "    loss.backward()", "# done"]


def watched(trace: Trace, *scopes: tuple[int, float, float]) -> Trace:
    """The trace with scopes of (line, start, duration) in us on its first thread."""
    sites = [
        {"kind": "line", "parent": -1, "name": text, "file": "cell", "line": line}
        for line, text in enumerate(SOURCE, start=1)
    ]
    rows = [(line - 1, 0, int(start * 1000), int(dur * 1000), 0) for line, start, dur in scopes]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def by_line(trace: Trace, *columns: str) -> dict[int, Any]:
    frame = lines_table(trace).frame
    return {row[0]: row[1:] for row in frame.select("line", *columns).rows()}


def training(**head: Any) -> Trace:
    """A forward op with its node, each with a kernel, and a blocking call, under three lines."""
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 12, 20, **{"Sequence number": 1}),
        launch(13, 1, correlation=1),
        kernel("gemm", 14, 30, correlation=1),
        span("cudaStreamSynchronize", 34, 4, cat="cuda_runtime"),
        span("autograd::engine::evaluate_function: MmBackward0", 50, 30, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("MmBackward0", 52, 20, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("aten::mm", 53, 10),
        launch(54, 1, correlation=2),
        kernel("gemm", 60, 25, correlation=2),
        launch(97, 1, correlation=3),
        allocation(15, 512, 512),
        allocation(55, -128, 384),
        **head,
    )


def test_backward_is_charged_to_the_line_that_made_the_node_and_the_thread_time_to_the_line_that_ran() -> None:
    trace = watched(training(), (1, 0, 10), (2, 10, 35), (3, 45, 50), (1, 95, 5))
    columns = ("hits", "self_cpu_ns", "device_ns", "wait_ns", "backward_cpu_ns", "backward_device_ns", "bytes")
    assert by_line(trace, *columns) == {
        1: (2, 15_000, 0, 0, 0, 0, 0),
        2: (1, 35_000, 30_000, 4_000, 30_000, 25_000, 512),
        3: (1, 50_000, 0, 0, 0, 0, -128),
        4: (0, 0, 0, 0, 0, 0, 0),
    }


def test_lines_of_inner_loops_whose_runs_were_not_noted_have_no_number_of_runs() -> None:
    trace = watched(training(), (1, 0, 10), (2, 10, 85), (1, 95, 5))
    cell = CellSource(label="In [1]", filename="cell")
    noted = replace(trace, meta=replace(trace.meta, cell=cell, unnoted_lines=(3,)))
    assert by_line(noted, "hits") == {1: (2,), 2: (1,), 3: (None,), 4: (0,)}


def test_a_line_that_waits_in_other_steps_waits_where_its_thread_slept_and_nobody_looked() -> None:
    # In each of three steps of 100 ms, line 2 sleeps for 40 ms; of the second, that is known by the CPU time alone.
    steps = [annotation(f"ProfilerStep#{number}", 100_000 * number, 100_000) for number in range(3)]
    ops = [span("aten::mm", 100_000 * number, 10_000) for number in range(3)]
    scopes = [(line, 100_000 * step + at, 50_000) for step in range(3) for line, at in ((1, 0), (2, 50_000))]
    trace = watched(make_trace(*steps, *ops), *scopes)
    waits = [("wait", "time.sleep", "cell", 2, 0, 1000 * at, 40_000_000, 0) for at in (55_000, 255_000)]
    marks = tuple(StepMark(number=number, cycle=0, is_complete=True, cpu_ns=60_000_000) for number in range(3))
    trace = replace(
        trace,
        waits=pl.DataFrame(waits, schema=FRAME_SCHEMAS["waits"], orient="row"),
        meta=replace(trace.meta, recorded_steps=marks),
    )
    lines = by_line(trace, "own_cpu_ns", "wait_ns")
    # The 50 ms that line 2 ran in the second step were asleep for the most part.
    assert lines[2] == (20_000_000, 130_000_000)
    assert lines[1] == (150_000_000, 0)


def test_the_backward_pass_is_at_the_line_of_the_forward_op_alone_and_the_lines_add_up_to_the_step() -> None:
    trace = watched(training(), (1, 0, 10), (2, 10, 35), (3, 45, 50), (1, 95, 5))
    # Line 2 runs for 35 us, 4 of which it waits, and its node for 30; of the 50 us of line 3 these are not its own.
    assert by_line(trace, "cpu_ns", "own_cpu_ns", "backward_cpu_ns", "wait_ns", "phase") == {
        1: (15_000, 15_000, 0, 0, "python"),
        2: (65_000, 31_000, 30_000, 4_000, "forward"),
        3: (20_000, 20_000, 0, 0, "python"),
        4: (0, 0, 0, 0, None),
    }
    assert lines_table(trace).frame["cpu_ns"].sum() == 100_000


def test_a_line_that_calls_backward_keeps_what_belongs_to_no_forward_op() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("AccumulateGrad", 50, 12, **{"Sequence number": 7, "Fwd thread id": 1}),
    )
    lines = watched(trace, (2, 0, 40), (3, 40, 60))
    assert by_line(lines, "cpu_ns", "own_cpu_ns", "backward_cpu_ns")[3] == (60_000, 48_000, 12_000)


def test_backward_on_another_thread_is_taken_from_the_line_that_waits_for_it() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 12, 20, **{"Sequence number": 1}),
        span("MmBackward0", 52, 20, tid=9, **{"Sequence number": 1, "Fwd thread id": 1}),
    )
    lines = watched(trace, (2, 0, 40), (3, 40, 60))
    assert by_line(lines, "cpu_ns", "backward_cpu_ns") == {1: (0, 0), 2: (60_000, 20_000), 3: (40_000, 0), 4: (0, 0)}


def test_the_lines_of_the_thread_add_up_to_the_step() -> None:
    trace = watched(training(), (1, 0, 10), (2, 10, 35), (3, 45, 50), (1, 95, 5))
    assert lines_table(trace).frame["self_cpu_ns"].sum() == 100_000


def test_the_line_of_a_caller_has_the_lines_of_its_functions_in_its_total_alone() -> None:
    trace = watched(training(), (1, 0, 40), (2, 5, 10), (2, 20, 15), (3, 22, 8))
    assert by_line(trace, "self_cpu_ns", "total_cpu_ns") == {
        1: (15_000, 40_000),
        2: (17_000, 25_000),
        3: (8_000, 8_000),
        4: (0, 0),
    }


def test_a_nested_node_as_of_a_checkpoint_counts_once() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("CheckpointFunction", 1, 8, **{"Sequence number": 1}),
        span("aten::mm", 32, 5, **{"Sequence number": 7}),
        span("autograd::engine::evaluate_function: CheckpointFunctionBackward", 30, 50, **NODE),
        span("CheckpointFunctionBackward", 30, 50, **NODE),
        span("MmBackward0", 50, 20, **{"Sequence number": 7, "Fwd thread id": 1}),
    )
    lines = watched(trace, (2, 0, 10), (3, 10, 80))
    # The forward op of the inner node ran again inside the outer one, which is of line 2.
    assert by_line(lines, "backward_cpu_ns")[2] == (50_000,)


def test_a_stranger_trace_has_the_users_functions_as_lines() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("train.py(7): step", 0, 100),
        frame("torch/nn/modules/module.py(99): _call_impl", 10, 60),
        frame("/home/me/model.py(21): forward", 12, 50),
        span("aten::mm", 15, 20),
        launch(16, 1, correlation=1),
        kernel("gemm", 20, 30, correlation=1),
        frame("threading.py(5): wait", 0, 100, tid=9),
        frame("monitor.py(60): run", 0, 100, tid=9),  # a thread that only waits
        with_stack=1,
    )
    found = lines_table(trace).frame.select("file", "line", "source", "hits", "self_cpu_ns", "device_ns")
    assert found.rows() == [
        ("/home/me/model.py", 21, "forward", 1, 50_000, 30_000),
        ("train.py", 7, "step", 1, 50_000, 0),
    ]


def test_old_stacks_at_ops_have_a_row_per_line_with_backward_at_the_forward_line_and_none_for_the_step() -> None:
    stack = "torch/nn/functional.py(9): linear;model.py({}): {};train.py(3): <module>"
    trace = make_trace(
        span(
            "ProfilerStep#0",
            0,
            100,
            cat="Operator",
            **{"Call stack": "torch/profiler.py(1): step;train.py(9): <module>"},
        ),
        span("aten::mm", 10, 20, cat="Operator", **{"Call stack": stack.format(5, "forward"), "Sequence number": 1}),
        span("aten::add", 30, 10, cat="Operator", **{"Call stack": stack.format(6, "forward")}),
        span("MmBackward", 50, 30, cat="Operator", tid=9, **{"Sequence number": 1, "Fwd thread id": 1}),
    )
    columns = ("file", "line", "source", "hits", "cpu_ns", "own_cpu_ns", "backward_cpu_ns")
    assert lines_table(trace).frame.select(columns).rows() == [
        ("model.py", 5, "forward", 1, 50_000, 20_000, 30_000),
        ("model.py", 6, "forward", 1, 10_000, 10_000, 0),
    ]
    # How often the lines ran is not known, so the column does not say so.
    (hits,) = (column for column in lines_table(trace).columns if column.name == "hits")
    assert hits.title == "Ops"


def test_old_stacks_in_a_library_are_on_the_path_at_the_line_that_called_it_as_their_cpu_time_is() -> None:
    fetch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = make_trace(
        span("ProfilerStep#0", 0, 100, cat="Operator"),
        span(fetch, 10, 70, cat="Operator", **{"Call stack": "train.py(3): <module>"}),
        span("aten::div", 20, 30, cat="Operator", **{"Call stack": "transforms.py(9): scale;train.py(3): <module>"}),
    )
    columns = ("file", "line", "cpu_ns", "total_cpu_ns", "on_path_ns")
    assert lines_table(trace).frame.select(columns).rows() == [
        ("train.py", 3, 70_000, 40_000, 70_000),
        ("transforms.py", 9, 0, 30_000, 0),
    ]


def test_memory_that_another_line_frees_counts_at_both_and_is_called_a_change() -> None:
    events = span("aten::empty", 1, 2), allocation(1.5, 4096), span("aten::free", 11, 2), allocation(11.5, -4096)
    table = lines_table(watched(make_trace(*events), (1, 0, 10), (2, 10, 10)))
    (column,) = (column for column in table.columns if column.name == "bytes")
    assert table.frame["bytes"].to_list()[:2] == [4096, -4096]
    assert column.title == "Memory change"


def test_without_lines_and_frames_there_is_nothing_to_show() -> None:
    assert lines_table(make_trace(span("aten::mm", 0, 10))).frame.height == 0


def forwards(*modules: str) -> Trace:
    """Calls of two functions called forward in one file: of the modules, or of no module that is known."""
    around = [frame(f"nn.Module: {name}_0", 50 * at, 40) for at, name in enumerate(modules)]
    return make_trace(
        *around,
        frame("model.py(5): forward", 1, 30), span("aten::mm", 2, 20),
        frame("model.py(70): forward", 51, 30), span("aten::mul", 52, 10),
        with_stack=1,
    )  # fmt: skip


def test_a_function_named_forward_has_the_class_of_its_modules() -> None:
    assert by_line(forwards("Block", "Norm"), "source") == {5: ("Block.forward",), 70: ("Norm.forward",)}
    assert by_line(forwards(), "source") == {5: ("forward",), 70: ("forward",)}


def test_lines_of_two_runs_are_the_same_also_where_one_does_not_know_their_classes() -> None:
    found = changed_lines(Runs(forwards(), forwards("Block", "Norm")))
    assert found.select("line", "status").sort("line").rows() == [(5, "both"), (70, "both")]


def test_lines_that_only_one_run_could_see_are_compared_at_the_lines_of_the_cell_that_called_them() -> None:
    cell = CellSource(label="In [1]", filename="cell", source="\n".join(SOURCE))
    before = watched(training(), (1, 0, 10), (2, 10, 35), (3, 45, 50), (1, 95, 5))
    before = replace(before, meta=replace(before.meta, cell=cell))
    # As before, but line 7 of another file was watched too, which line 2 calls for 25 us with the op of the node.
    site = {"kind": "line", "parent": -1, "name": "return self.layer(x)", "file": "/home/me/net.py", "line": 7}
    scopes = pl.DataFrame([(4, 0, 11_000, 25_000, 0)], schema=SCOPES_SCHEMA, orient="row")
    after = replace(
        before,
        sites=pl.concat([before.sites, pl.DataFrame([site], schema=SITES_SCHEMA)]),
        scopes=pl.concat([before.scopes, scopes]).sort("start_ns", -pl.col("dur_ns")),
    )
    assert by_line(after, "cpu_ns")[7] == (55_000,)

    for runs in (Runs(before, after), Runs(after, before)):
        assert changed_lines(runs).select("line", "status", "before_ns", "after_ns").sort("line").rows() == [
            (1, "both", 15_000, 15_000),
            (2, "both", 65_000, 65_000),
            (3, "both", 20_000, 20_000),
        ]
    assert 7 in changed_lines(Runs(after, after))["line"].to_list()
