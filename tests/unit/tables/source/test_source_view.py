"""Tests of the lines as they are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import allocation, annotation, frame, kernel, launch, make_trace, recording, span

import torchprof_magic as tp
from torchprof_magic.facts.counted_steps import counted_part, counted_steps, strictly_counted, with_chosen_steps
from torchprof_magic.facts.shared import device_rows
from torchprof_magic.facts.time_range import WHOLE, TimeRange
from torchprof_magic.findings.verdict.accounts import device_account, host_account
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.recording import FxCall, FxGraph, FxNode
from torchprof_magic.model.shapes import Table
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace
from torchprof_magic.render.page import verdict_line
from torchprof_magic.run.fx_nodes import with_fx_nodes
from torchprof_magic.tables.source.lines import CPU_PARTS, lines_table
from torchprof_magic.tables.source.source_view import FUNCTIONS, OUTSIDE, source_view

WITH_LINES = (
    "03_h100_qwen_stacks_memory.json.gz",
    "04_amd_vllm_decode_graph.json.gz",
    "05_v100_resnet50_old_schema.json.gz",
    "13_a100_cold_first_launch.json.gz",
    "14_mi300_cold_modules.json.gz",
)
SOURCE = ["for batch in loader:", "    loss = model(batch)", "    loss.backward()", "# done"]


def with_lines(trace: Trace, texts: list[tuple[str, int, str]], runs: list[tuple[int, float, float]]) -> Trace:
    """The trace with lines of (file, number, text), and their runs of (index, start, duration) in us on lane 0."""
    sites = [{"kind": "line", "parent": -1, "name": name, "file": file, "line": line} for file, line, name in texts]
    rows = [(site, 0, int(start * 1000), int(dur * 1000), 0) for site, start, dur in runs]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def watched(trace: Trace, *scopes: tuple[int, float, float]) -> Trace:
    """The trace with runs of lines of the cell, by their numbers."""
    texts = [("cell", number, text) for number, text in enumerate(SOURCE, start=1)]
    return with_lines(trace, texts, [(line - 1, start, dur) for line, start, dur in scopes])


def training() -> Trace:
    """A step of 100 us: a forward op and its node, each with a kernel, a wait, and a kernel that nothing launched."""
    node = {"Sequence number": 1, "Fwd thread id": 1}
    return make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 12, 20, **{"Sequence number": 1}),
        launch(13, 1, correlation=1),
        kernel("gemm", 14, 30, correlation=1),
        span("cudaStreamSynchronize", 34, 4, cat="cuda_runtime"),
        span("MmBackward0", 50, 30, **node),
        launch(54, 1, correlation=2),
        kernel("gemm", 60, 25, correlation=2),
        kernel("from before", 90, 5, correlation=99),
        allocation(15, 512, 512),
        allocation(98, 64, 576),
    )


def shown(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return table.frame.filter(pl.col("source") != "").select("source", *columns).rows()


def test_a_row_of_what_belongs_to_no_line_completes_the_step_the_work_of_devices_and_the_memory() -> None:
    view = source_view(watched(training(), (1, 0, 10), (2, 10, 35), (3, 45, 45)))
    columns = ("cpu_ns", "both_device_ns", "bytes", "note")
    assert shown(view, *columns) == [
        (SOURCE[0], 10_000, 0, 0, None),
        (SOURCE[1], 65_000, 55_000, 512, None),
        (SOURCE[2], 15_000, 0, 0, "its backward is shown at line 2"),
        (SOURCE[3], 0, 0, 0, None),
        (OUTSIDE, 10_000, 5_000, 64, "without a recorded launch"),
    ]
    assert view.frame["cpu_ns"].sum() == 100_000
    assert view.note == "note"


def test_nothing_is_left_where_the_lines_hold_all() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 12, 20))
    view = source_view(watched(trace, (1, 0, 100)))
    assert OUTSIDE not in view.frame["source"].to_list()
    assert view.note is None


def test_the_bars_of_the_host_and_of_devices_are_their_parts() -> None:
    view = source_view(watched(training(), (1, 0, 10), (2, 10, 35), (3, 45, 45)))
    parts = {each.name: [(part.column, part.phase) for part in each.parts] for each in view.columns if each.has_bar}
    assert parts == {
        "cpu_ns": [
            ("own_forward_ns", "forward"),
            ("backward_cpu_ns", "backward"),
            ("wait_ns", "waiting"),
            ("own_python_ns", "python"),
        ],
        "both_device_ns": [("device_ns", ""), ("backward_device_ns", "backward")],
        "bytes": [],
    }
    check_parts(view)


def test_the_bar_of_a_line_with_several_phases_has_a_part_for_each() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 10, 20, **{"Sequence number": 1}),
        span("Optimizer.step#SGD.step", 40, 30),
        span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 80, 15),
    )
    view = source_view(watched(trace, (1, 0, 75), (2, 75, 25)))
    check_parts(view)
    cpu = next(column for column in view.columns if column.name == "cpu_ns")
    phases = {part.phase: view.frame[part.column].to_list()[:2] for part in cpu.parts}
    assert phases == {
        "forward": [20_000, 0],
        "backward": [0, 0],
        "optimizer": [30_000, 0],
        "data": [0, 15_000],
        "waiting": [0, 0],
        "python": [25_000, 10_000],
    }


def test_a_remark_names_three_lines_the_most_time_first_chosen_and_those_of_other_files_with_these() -> None:
    ops = [span(f"aten::op{at}", 10 * at, 5, **{"Sequence number": at + 1}) for at in range(5)]
    nodes = [
        span(f"Op{at}Backward0", 50 + 10 * at, 2 + at, **{"Sequence number": at + 1, "Fwd thread id": 1})
        for at in range(5)
    ]
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), *ops, *nodes)
    texts = [*(("cell", at + 1, f"op{at}()") for at in range(4)), ("/a/b/c.py", 7, "op4()"), ("cell", 6, "backward()")]
    view = source_view(with_lines(trace, texts, [*((at, 10 * at, 10) for at in range(5)), (5, 50, 50)]))
    assert dict(view.frame.select("source", "note").rows())["backward()"] == (
        "its backward is shown at lines 3, 4, b/c.py:7 and 2 more"
    )


def test_a_line_says_how_long_the_functions_take_that_it_calls_and_which_lines_of_them_most() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), annotation("ProfilerStep#1", 100, 100))
    texts = [("cell", 1, "f(x)"), ("cell", 2, "y = 0"), ("/a/b/c.py", 7, "g(x)"), ("/a/b/c.py", 3, "h(x)")]
    runs = [(at, 100 * step + start, dur) for step in (0, 1) for at, start, dur in ((0, 0, 80), (1, 80, 20))]
    # In both steps, g and h run for 30 and 45 us inside of the first line, and g for 5 inside of the second.
    runs += [
        (at, 100 * step + start, dur) for step in (0, 1) for at, start, dur in ((2, 2, 30), (3, 32, 45), (2, 90, 5))
    ]
    made = with_lines(trace, texts, sorted(runs, key=lambda run: (run[1], -run[2])))
    notes = dict(source_view(made).frame.select("source", "note").rows())
    assert notes["f(x)"] == "75 µs/step in b/c.py:3 and b/c.py:7"
    # Most of the second line is its own, and no line calls what it runs itself.
    assert notes["y = 0"] is None
    assert notes["g(x)"] is None
    # The second step alone counts, or a part of the time is looked at.
    second = with_chosen_steps(made, [1])
    counted = source_view(second, counted_part(second)).frame
    assert dict(counted.select("source", "note").rows())["f(x)"] == "75 µs/step in b/c.py:3 and b/c.py:7"
    one = source_view(made, TimeRange(0, 100_000)).frame
    assert dict(one.select("source", "note").rows())["f(x)"] == "75 µs in b/c.py:3 and b/c.py:7"


def test_what_a_line_calls_contains_its_backward_pass_wherever_that_runs() -> None:
    node = {"Sequence number": 1, "Fwd thread id": 1}
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 5, 20, **{"Sequence number": 1}),
        span("Mm", 55, 40, **node),
    )
    texts = [("cell", 1, "loss = f(x)"), ("/a/b/c.py", 7, "g(x)"), ("cell", 2, "loss.backward()")]
    view = source_view(with_lines(trace, texts, [(0, 0, 50), (1, 2, 30), (2, 50, 50)]))
    notes = dict(view.frame.select("source", "note").rows())
    # 30 us in forward, and 40 in backward.
    assert notes["loss = f(x)"] == "70 µs/step in b/c.py:7"
    assert notes["loss.backward()"] == "its backward is shown at b/c.py:7"


def test_the_line_that_calls_backward_says_which_lines_autograd_called_beside_those_of_the_forward_ops() -> None:
    node = {"Sequence number": 1, "Fwd thread id": 1}
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("Slow", 5, 20, **{"Sequence number": 1}),
        span("SlowBackward", 55, 40, **node),
    )
    texts = [("cell", 1, "loss = f(x)"), ("cell", 2, "loss.backward()"), ("/a/b/c.py", 7, "return grad * 2")]
    view = source_view(with_lines(trace, texts, [(0, 0, 50), (1, 50, 50), (2, 60, 30)]))
    notes = dict(view.frame.select("source", "note").rows())
    assert notes["loss.backward()"] == "its backward is shown at line 1; 30 µs/step in b/c.py:7"


def test_compiled_code_in_a_backward_pass_stands_at_the_line_of_the_model_and_not_at_the_one_that_calls_backward(
    tmp_path: Path,
) -> None:
    stack = '  File "/a/b/net.py", line 7, in forward\n    y = relu(x)\n'
    calls = (FxCall(kernel="cpp_fused_relu_0", nodes=(FxNode(name="relu", does="relu", stack=stack),)),)
    graph = FxGraph(name="k", calls=calls)
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("CompiledFunction", 5, 20, **{"Sequence number": 1}),
        span("CompiledFunctionBackward", 55, 40, **{"Sequence number": 1, "Fwd thread id": 1}),
        span("## Call CompiledFxGraph k ##", 60, 30),
        span("graph_0_cpp_fused_relu_0", 62, 25),
    )
    trace = with_fx_nodes(trace, replace(recording(tmp_path), fx_graphs=(graph,)))
    texts = [("cell", 1, "loss = f(x)"), ("cell", 2, "loss.backward()")]
    view = source_view(with_lines(trace, texts, [(0, 0, 50), (1, 50, 50)]))
    lines = {source: (ns, note) for source, ns, note in view.frame.select("source", "cpu_ns", "note").rows()}
    # The kernel takes 25 us of the backward pass; the other 15 are of the compiled function, which line 1 called.
    assert lines["loss = f(x)"] == (65_000, None)
    assert lines["loss.backward()"] == (10_000, "its backward is shown at line 1 and b/net.py:7")
    assert lines["y = relu(x)"][0] == 25_000


def test_functions_stand_below_the_cell_the_one_with_the_most_time_first() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 0, 90))
    meta = replace(trace.meta, cell=CellSource(label="In [4]", filename="cell"))
    texts = [
        *(("cell", line, f"cell {line}") for line in (1, 2)),
        *(("a.py", line, f"cold {line}") for line in (3, 4)),
        *(("a.py", line, f"hot {line}") for line in (9, 10)),
    ]
    runs = [(0, 0.0, 5.0), (2, 5.0, 5.0), (4, 10.0, 10.0), (5, 20.0, 30.0), (3, 50.0, 5.0)]
    view = source_view(with_lines(replace(trace, meta=meta), texts, runs))
    assert view.frame["source"].to_list() == [
        *("cell 1", "cell 2", "hot 9", "hot 10", "cold 3", "cold 4"), OUTSIDE,
    ]  # fmt: skip


def test_columns_that_say_nothing_are_absent() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 12, 20))
    names = [column.name for column in source_view(watched(trace, (1, 0, 90))).columns]
    times = ["cpu_ns", "own_cpu_ns", "phase", "self_cpu_ns", "total_cpu_ns", "on_path_ns"]
    assert names == ["line", "source", "hits", *times]


def test_functions_of_recorded_frames_stand_below_the_lines_that_call_them_and_count_there() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("cell(1): <module>", 0, 100),
        frame("a.py(3): cold", 12, 10),
        frame("b.py(7): hot", 30, 15),
        span("aten::mm", 32, 5, **{"Sequence number": 1}),
        span("MmBackward0", 60, 30, **{"Sequence number": 1, "Fwd thread id": 1}),
        with_stack=1,
    )
    view = source_view(watched(trace, (1, 0, 10), (2, 10, 40), (3, 50, 50)))
    columns = ("file", "line", "source", "cpu_ns", "backward_cpu_ns")
    assert view.frame.filter("is_aside").select(columns).rows() == [
        ("b.py", 7, "hot", 45_000, 30_000),
        ("a.py", 3, "cold", 10_000, 0),
    ]
    lines = view.frame.filter(~pl.col("is_aside"))
    assert lines["source"].to_list() == [*SOURCE, FUNCTIONS]
    assert lines["cpu_ns"].sum() == 100_000
    below = view.frame.filter(pl.col("above") != "")["above"].to_list()
    assert (view.outline.aside, below) == ("is_aside", ["functions"] * 2) if view.outline else False


def check_parts(view: Table) -> None:
    """Check that the parts of each bar add up to its number, and that no part of the host's time is negative."""
    for column in view.columns:
        if column.parts:
            parts = view.frame.select(pl.sum_horizontal(pl.col(part.column) for part in column.parts)).to_series()
            assert parts.equals(view.frame[column.name].fill_null(0), check_names=False)
    for name in {*CPU_PARTS} & {*view.frame.columns}:
        assert (view.frame[name].min() or 0) >= 0, name


def check_sums(trace: Trace, part: TimeRange) -> None:
    """Check that the rows add up to the part of the steps, or of the windows, and to that of the work of devices."""
    view = source_view(trace, part)
    if "is_aside" in view.frame.columns:  # functions that the lines call count there
        view = replace(view, frame=view.frame.filter(~pl.col("is_aside")))
    check_parts(view)
    chosen = counted_steps(trace)
    start, end = (trace.steps[name].to_numpy() for name in ("start_ns", "end_ns"))
    if not trace.steps.height:
        start, end = chosen.start_ns, chosen.end_ns
    assert view.frame["cpu_ns"].sum() == part.cut(start, end - start)[1].sum()
    if "both_device_ns" in view.frame.columns:
        work = trace.events[device_rows(trace).tolist()]
        work_ns = part.cut(work["start_ns"].to_numpy(), work["dur_ns"].to_numpy())[1]
        assert view.frame["both_device_ns"].sum() == work_ns.sum()


def made(seed: int, *, has_frames: bool) -> Trace:
    """Two steps with ops, nodes on two threads, waits, kernels, lines and frames, wherever chance puts them."""
    rng = np.random.default_rng(seed)
    events = [annotation(f"ProfilerStep#{number}", 200 * number, 190) for number in range(2)]
    for number in range(1, 30):
        at, dur = rng.integers(0, 350), rng.integers(1, 30)
        node = {"Sequence number": number, "Fwd thread id": 1}
        events += [
            span("aten::mm", float(at), float(dur), **{"Sequence number": number}),
            span("MmBackward0", float(at + 40), float(dur), tid=int(rng.integers(1, 3)), **node),
            launch(float(at), 1, correlation=number, tid=int(rng.integers(1, 3))),
            kernel("gemm", float(at + 3), float(dur), correlation=number),
            span("cudaStreamSynchronize", float(rng.integers(0, 390)), float(dur), cat="cuda_runtime"),
        ]
    if has_frames:  # and with an odd seed no lines
        places = [(int(rng.integers(1, 9)), float(rng.integers(0, 300)), float(rng.integers(1, 90))) for _ in range(9)]
        events += [frame(f"m.py({line}): f{line}", start, dur) for line, start, dur in places]
        trace = make_trace(*events, with_stack=1)
        if seed % 2:
            return trace
    else:
        trace = make_trace(*events)
    runs = [(int(rng.integers(1, 5)), float(at), float(rng.integers(1, 14))) for at in range(0, 400, 14)]
    return watched(trace, *runs)


@pytest.mark.parametrize("has_frames", [True, False])
@pytest.mark.parametrize("seed", sampled(range(12)))
def test_the_rows_of_any_trace_and_any_part_add_up(seed: int, has_frames: bool) -> None:
    trace = made(seed, has_frames=has_frames)
    edges = np.sort(np.random.default_rng(seed).integers(0, 420_000, 2)).tolist()
    for part in (WHOLE, TimeRange(*edges), TimeRange(0, 400_000, ((50_000, 90_000), (210_000, 250_000)))):
        if lines_table(trace, part).frame.height:
            check_sums(trace, part)


@pytest.fixture(scope="module", params=WITH_LINES)
def recorded(traces: Path, request: pytest.FixtureRequest) -> Trace:
    return tp.load(traces / request.param).trace


def test_the_rows_of_a_real_trace_add_up(recorded: Trace) -> None:
    check_sums(recorded, WHOLE)
    check_sums(recorded, counted_part(recorded))


def test_the_steps_of_the_old_format_are_no_time_of_the_line_that_calls_step(traces: Path) -> None:
    trace = tp.load(traces / "05_v100_resnet50_old_schema.json.gz").trace
    frame = lines_table(trace).frame.filter(pl.col("file") == "resnet50_profiler_api.py")
    # p.step() runs three small ops; the batches come from line 42, and what backward ran is at the lines in forward.
    assert frame.filter(pl.col("line") == 54)["cpu_ns"].sum() < 1_000_000
    hottest = frame.sort("cpu_ns", descending=True)
    assert hottest["line"][0] == 42
    assert lines_table(trace).frame["backward_cpu_ns"].sum() > 100_000_000


def test_the_view_has_no_column_for_a_single_file_and_calls_cells_by_their_labels() -> None:
    trace = watched(training(), (2, 10, 35))
    meta = replace(trace.meta, cell=CellSource(label="In [4]", filename="cell"))
    columns = source_view(replace(trace, meta=meta)).columns
    assert "file" not in [column.name for column in columns]
    other = pl.DataFrame([{"kind": "line", "parent": -1, "name": "x", "file": "/a/b/c.py", "line": 1}], SITES_SCHEMA)
    both = replace(trace, meta=meta, sites=pl.concat([trace.sites, other]))
    files = source_view(both).frame["file"]
    assert files.drop_nulls().unique().sort().to_list() == ["In [4]", "b/c.py"]
    # What belongs to no line is in no file.
    assert files.null_count() == 1


def of_files(*files: tuple[str, range], ran: tuple[tuple[str, int], ...] = ()) -> Trace:
    """A trace in which the lines of some files are watched, and some of them ran one after the other for 5 us."""
    places = [(file, line) for file, lines in files for line in lines]
    sites = [
        {"kind": "line", "parent": -1, "name": f"code {line}", "file": file, "line": line} for file, line in places
    ]
    scopes = [(places.index(place), 0, 5_000 * at, 5_000, 0) for at, place in enumerate(ran)]
    return replace(
        make_trace(annotation("ProfilerStep#0", 0, 1000)),
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )


def folds(table: Table) -> list[tuple[str, list[int]]]:
    """Return the text of each row that folds others, and the lines below it."""
    rows = table.frame.to_dicts()
    return [
        (row["source"], [each["line"] for each in rows if each["above"] == row["id"]]) for row in rows if row["is_fold"]
    ]


def quiet(first: int, last: int) -> tuple[str, list[int]]:
    return f"lines {first}–{last}: nothing of them in the recorded steps", list(range(first, last + 1))


def test_runs_of_at_least_four_quiet_lines_become_a_row_that_opens() -> None:
    # Between the lines that ran there are 3, 4 and 7 others.
    trace = of_files(("cell", range(1, 19)), ran=(("cell", 1), ("cell", 5), ("cell", 10), ("cell", 11)))
    view = source_view(trace)
    assert folds(view) == [quiet(6, 9), quiet(12, 18)]
    shown = [row["line"] or row["source"][:11] for row in view.frame.to_dicts() if row["above"] == ""]
    assert shown == [1, 2, 3, 4, 5, "lines 6–9: ", 10, 11, "lines 12–18", OUTSIDE[:11]]
    assert view.frame["id"].n_unique() == view.frame.height == 18 + 2 + 1
    assert view.outline is not None
    # Other rows have none in them, so these are the only ones that are closed at first.
    assert (view.outline.closed, view.outline.open_levels) == ("is_fold", 1)
    # Every line follows the row around it, and the row that folds has no numbers.
    assert view.frame["line"].drop_nulls().to_list() == list(range(1, 19))
    assert view.frame.filter("is_fold")["self_cpu_ns"].to_list() == [None, None]


@pytest.mark.parametrize(("lines", "folded"), [(16, []), (17, [quiet(3, 17)])])
def test_lines_of_a_short_cell_stay_as_they_are(lines: int, folded: list[object]) -> None:
    view = source_view(of_files(("cell", range(1, lines + 1)), ran=(("cell", 2),)))
    assert (folds(view) if view.outline else []) == folded
    assert view.frame["source"].to_list()[:3] == ["code 1", "code 2", "code 3" if lines == 16 else quiet(3, 17)[0]]


def test_quiet_lines_of_two_files_are_folded_apart() -> None:
    files = ("a.py", range(1, 10)), ("b.py", range(10, 19))
    view = source_view(of_files(*files, ran=(("a.py", 2),)))
    assert folds(view) == [quiet(3, 9), quiet(10, 18)]
    assert view.frame.filter("is_fold")["file"].to_list() == ["a.py", "b.py"]


def test_quiet_lines_of_files_that_are_called_alike_and_of_functions_in_another_order_are_folded_apart() -> None:
    alike = of_files(("x/lib/a.py", range(1, 10)), ("y/lib/a.py", range(1, 10)), ran=(("x/lib/a.py", 2),))
    assert folds(source_view(alike)) == [quiet(3, 9), quiet(1, 9)]
    trace = of_files(("a.py", range(40, 50)), ("a.py", range(1, 10)), ran=(("a.py", 41),))
    assert folds(source_view(trace)) == [quiet(42, 49), quiet(1, 9)]


def test_a_line_that_began_and_took_no_time_is_not_quiet() -> None:
    trace = of_files(("cell", range(1, 19)), ran=(("cell", 18),))
    assert folds(source_view(trace)) == [quiet(1, 17)]
    begun = pl.DataFrame([(8, 0, 100, 0, 0)], schema=SCOPES_SCHEMA, orient="row")
    trace = replace(trace, scopes=pl.concat([begun, trace.scopes]).sort("start_ns"))
    assert folds(source_view(trace)) == [quiet(1, 8), quiet(10, 17)]


def test_functions_of_recorded_stacks_are_sorted_by_their_time_and_never_folded() -> None:
    calls = [frame(f"train.py({line}): f{line}", 10 * line, line % 5 + 1) for line in range(1, 30)]
    trace = make_trace(annotation("ProfilerStep#0", 0, 400), *calls, with_stack=1)
    view = source_view(trace)
    assert (view.sort_by, view.outline, view.frame.height) == ("cpu_ns", None, 29 + 1)
    assert view.frame["source"][-1] == OUTSIDE
    assert lines_table(trace).sort_by is None
    watching = source_view(of_files(("cell", range(1, 3)), ran=(("cell", 2),)))
    assert watching.sort_by is None


def check_that_the_verdict_counts_as_the_source_does(trace: Trace) -> None:
    """Check that no cause has more time in its line than the source has there, of the host and of devices."""
    frame = lines_table(trace, strictly_counted(trace)).frame
    device_ns = pl.col("device_ns") + pl.col("backward_device_ns")
    rows = {row[:2]: row[2:] for row in frame.select("file", "line", "cpu_ns", device_ns.alias("device")).rows()}
    account = device_account(trace)
    causes = [(cause, 0) for cause in host_account(trace).causes.values()]
    works = [] if account is None else [account.causes[kind] for kind in ("compute", "memory_traffic")]
    for cause, which in (*causes, *((cause, 1) for cause in works)):
        if cause.file:
            assert cause.line_ns <= rows[cause.file, cause.line][which]


@pytest.mark.parametrize("has_frames", [True, False])
@pytest.mark.parametrize("seed", sampled(range(8)))
def test_the_verdict_has_the_lines_of_the_source(seed: int, has_frames: bool) -> None:
    check_that_the_verdict_counts_as_the_source_does(made(2 * seed + 1, has_frames=has_frames))


def test_the_verdict_of_a_real_trace_has_the_lines_of_the_source(recorded: Trace) -> None:
    check_that_the_verdict_counts_as_the_source_does(recorded)


def test_the_line_of_a_verdict_in_backward_is_the_one_in_forward_that_has_the_longest_bar() -> None:
    node = {"Sequence number": 1, "Fwd thread id": 1}
    events = [
        event
        for step in range(3)
        for event in (
            annotation(f"ProfilerStep#{step}", 1000 * step, 1000),
            span("aten::mm", 1000 * step + 10, 80, **{"Sequence number": step + 1}),
            span("MmBackward0", 1000 * step + 110, 800, **(node | {"Sequence number": step + 1})),
        )
    ]
    runs = [
        (line, 1000.0 * step + at, dur) for step in range(3) for line, at, dur in ((2, 0.0, 100.0), (3, 100.0, 900.0))
    ]
    trace = watched(make_trace(*events), *runs)
    verdict, view = find_verdict(trace), source_view(trace, counted_part(trace))
    hottest = view.frame.sort("cpu_ns", descending=True).row(0, named=True)
    assert (verdict.file, verdict.line) == ("cell", 2)
    assert (hottest["file"], hottest["line"], hottest["cpu_ns"]) == ("cell", 2, 3 * 900_000)
    # The page goes to this very row, also where two lines have one text.
    found = verdict_line(trace, verdict)
    assert found is not None
    assert found.spot == f"{hottest['file']}:{hottest['line']}"


def test_functions_named_forward_are_those_of_their_modules_class_where_it_is_one() -> None:
    call = "torch/nn/modules/module.py(1): _call_impl"
    trace = make_trace(
        frame("nn.Module: Block_0", 0, 40), frame(call, 1, 38), frame("utils.py(9): wrapper", 2, 36),
        frame("model.py(5): forward", 3, 34), span("aten::mm", 4, 10),
        frame("nn.Module: Norm_0", 15, 9), frame("model.py(70): forward", 16, 7), span("aten::mul", 17, 5),
        frame("nn.Module: Other_0", 25, 9), frame("model.py(80): forward", 26, 7), span("aten::add", 27, 4),
        frame("nn.Module: Block_1", 50, 20), frame("model.py(5): forward", 51, 18), span("aten::mm", 52, 10),
        frame("nn.Module: Norm_1", 80, 9), frame("model.py(80): forward", 81, 7), span("aten::add", 82, 4),
        frame("model.py(90): forward", 90, 9), span("aten::div", 91, 4),
    )  # fmt: skip
    shown = source_view(trace).frame
    names = dict(shown.drop_nulls("line").select("line", "source").rows())
    assert {line: names[line] for line in (5, 70, 80, 90)} == {
        5: "Block.forward",
        70: "Norm.forward",
        80: "forward",  # of two classes
        90: "forward",  # called by no module
    }


def test_a_forward_that_is_no_modules_keeps_its_name() -> None:
    # A hook of a module calls a function of autograd, and another function calls a forward itself.
    trace = make_trace(
        frame("nn.Module: Linear_0", 0, 40), frame("torch/nn/modules/module.py(1): _call_impl", 1, 38),
        frame("hooks.py(3): scaled", 2, 20), frame("torch/autograd/function.py(5): apply", 3, 18),
        frame("model.py(5): forward", 4, 10), span("aten::mul", 5, 5),
        frame("hooks.py(9): direct", 24, 12), frame("model.py(20): forward", 25, 10), span("aten::add", 26, 5),
        frame("nn.Module: Block_0", 60, 30), frame("hooks.py(30): new_forward", 61, 28),
        frame("model.py(40): forward", 62, 20), span("aten::div", 63, 5),
    )  # fmt: skip
    names = dict(source_view(trace).frame.drop_nulls("line").select("line", "source").rows())
    assert (names[5], names[20], names[40]) == ("forward", "forward", "Block.forward")
