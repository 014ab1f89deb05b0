from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from support import allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.source.lines import lines_table, source_view

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Table
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


def test_without_lines_and_frames_there_is_nothing_to_show() -> None:
    assert lines_table(make_trace(span("aten::mm", 0, 10))).frame.height == 0


def test_the_view_has_no_column_for_a_single_file_and_calls_cells_by_their_labels() -> None:
    trace = watched(training(), (2, 10, 35))
    meta = replace(trace.meta, cell=CellSource(label="In [4]", filename="cell"))
    assert "file" not in source_view(replace(trace, meta=meta)).frame.columns
    other = pl.DataFrame([{"kind": "line", "parent": -1, "name": "x", "file": "/a/b/c.py", "line": 1}], SITES_SCHEMA)
    both = replace(trace, meta=meta, sites=pl.concat([trace.sites, other]))
    assert source_view(both).frame["file"].unique().sort().to_list() == ["In [4]", "b/c.py"]


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
    assert shown == [1, 2, 3, 4, 5, "lines 6–9: ", 10, 11, "lines 12–18"]
    assert view.frame["id"].n_unique() == view.frame.height == 18 + 2
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
    assert (view.sort_by, view.outline, view.frame.height) == ("self_cpu_ns", None, 29)
    assert lines_table(trace).sort_by is None
    watching = source_view(of_files(("cell", range(1, 3)), ran=(("cell", 2),)))
    assert watching.sort_by is None
