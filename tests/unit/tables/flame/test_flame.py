from __future__ import annotations

from dataclasses import replace

import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.shapes import HostThread
from torchprof_magic.tables.flame.call_tree import flame_tree


def paths(trace: object) -> dict[str, dict[str, float]]:
    """Return every box by its path, such as ``all/step/aten::mm``."""
    rows = flame_tree(trace).frame.to_dicts()  # type: ignore[arg-type]
    names: list[str] = []
    for row in rows:
        names.append(f"{names[row['parent']]}/{row['name']}" if row["parent"] >= 0 else row["name"])
    return dict(zip(names, rows, strict=True))


def test_equal_paths_are_merged_and_their_times_added() -> None:
    boxes = paths(make_trace(span("f", 0, 10), span("g", 1, 2), span("f", 20, 6), span("g", 21, 3), span("g", 40, 1)))
    assert set(boxes) == {"all", "all/f", "all/f/g", "all/g"}
    assert boxes["all/f"]["total_cpu_ns"] == 16_000
    assert boxes["all/f"]["self_cpu_ns"] == 11_000
    assert boxes["all/f/g"]["self_calls"] == 2
    assert boxes["all"]["total_cpu_ns"] == 17_000


def test_host_time_between_the_steps_is_in_a_range_but_not_in_the_steps() -> None:
    first, second = annotation("ProfilerStep#1", 0, 100), annotation("ProfilerStep#2", 130, 80)
    trace = make_trace(first, second, span("aten::mm", 90, 5), span("aten::add", 110, 12), span("aten::mul", 140, 6))
    boxes = paths(trace)
    # The step of 100 us and that of 80 us, whatever ran in the 30 us between them.
    assert boxes["all"]["total_cpu_ns"] == boxes["all/ProfilerStep"]["total_cpu_ns"] == 180_000
    assert boxes["all/aten::add"]["total_cpu_ns"] == 0
    between = flame_tree(trace, TimeRange(105_000, 125_000)).frame
    assert dict(between.select("name", "total_cpu_ns").rows()) == {"all": 12_000, "aten::add": 12_000}


def test_kernels_are_children_of_the_op_that_launched_them() -> None:
    trace = make_trace(
        annotation("ProfilerStep#5", 0, 30),
        span("aten::mm", 2, 10),
        launch(4, 2, correlation=1),
        kernel("gemm", 100, 50, correlation=1),
        kernel("stray", 1, 5, correlation=9),
    )
    boxes = paths(trace)
    assert boxes["all/ProfilerStep/aten::mm/gemm"]["total_device_ns"] == 50_000
    assert boxes["all/ProfilerStep"]["total_device_ns"] == 50_000
    assert boxes["all/stray"]["total_device_ns"] == 5000
    assert boxes["all"]["total_device_ns"] == 55_000


def test_python_frames_are_between_ops_and_those_of_the_notebook_are_left_out() -> None:
    trace = make_trace(
        frame("IPython/core/interactiveshell.py(3000): run_code", 0, 100),
        frame("torchprof_magic/ipython/cell.py(90): run_cell", 1, 98),
        frame("model.py(12): forward", 2, 50),
        span("aten::mm", 10, 5),
    )
    assert set(paths(trace)) == {"all", "all/model.py(12): forward", "all/model.py(12): forward/aten::mm"}


def test_threads_that_only_wait_are_left_out_when_others_run_ops() -> None:
    waiting = frame("threading.py(331): wait", 0, 100, tid=9)
    assert set(paths(make_trace(frame("a.py(1): f", 0, 9), span("aten::mm", 1, 2), waiting))) == {
        "all",
        "all/a.py(1): f",
        "all/a.py(1): f/aten::mm",
    }
    assert set(paths(make_trace(waiting))) == {"all", "all/threading.py(331): wait"}


def test_cells_have_the_names_that_the_notebook_shows() -> None:
    trace = make_trace(
        frame("/cells/17.py(1): <module>", 0, 50), frame("/cells/16.py(8): forward", 2, 20), span("aten::mm", 3, 9)
    )
    labels = (("/cells/17.py", "In [7]"), ("/cells/16.py", "In [6]"))
    labelled = replace(trace, meta=replace(trace.meta, cell_labels=labels))
    assert set(paths(labelled)) == {"all", "all/In [6] line 8: forward", "all/In [6] line 8: forward/aten::mm"}


def test_rows_are_in_preorder_with_the_widest_sibling_first() -> None:
    rows = flame_tree(make_trace(span("small", 0, 1), span("big", 5, 9), span("in big", 6, 2))).frame
    assert rows["name"].to_list() == ["all", "big", "in big", "small"]
    assert rows["parent"].to_list() == [-1, 0, 1, 0]


@pytest.mark.parametrize("events", [(), (span("only", 0, 0),)])
def test_traces_without_time_still_make_a_tree(events: tuple[dict[str, object], ...]) -> None:
    assert flame_tree(make_trace(*events)).frame["name"][0] == "all"


def named(tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": name}}


def test_a_tree_names_the_threads_whose_time_it_adds_up_the_busiest_first() -> None:
    events = [span("f", 0, 10), span("g", 2, 30, tid=7), *map(named, (1, 7), ("trainer", "pt_autograd_0"))]
    tree = flame_tree(make_trace(*events))
    autograd, trainer = HostThread(name="pt_autograd_0", host_ns=30_000), HostThread(name="trainer", host_ns=10_000)
    assert tree.threads == (autograd, trainer)
    assert tree.frame["total_cpu_ns"][0] == 40_000
    # From 0 to 2 us only one of them has a box.
    assert flame_tree(make_trace(*events), TimeRange(0, 2_000)).threads == (HostThread(name="trainer", host_ns=2_000),)


def test_boxes_know_how_long_their_thread_only_waits_for_autograd() -> None:
    node = "autograd::engine::evaluate_function: MmBackward0"
    trace = make_trace(
        annotation("## backward ##", 0, 100),
        span("aten::mse_loss", 5, 10),
        span(node, 20, 60, tid=9),
        span("aten::mm", 30, 20, tid=9),
        frame("data.py(3): parked", 0, 100, tid=5),
    )
    boxes = paths(trace)
    # Of its own 90 us, the 60 us in which the other thread evaluates the node.
    assert boxes["all/## backward ##"]["self_awaits_ns"] == 60_000
    assert boxes["all/## backward ##"]["total_awaits_ns"] == boxes["all"]["total_awaits_ns"] == 60_000
    assert boxes[f"all/{node}"]["total_awaits_ns"] == 0
    part = flame_tree(trace, TimeRange(50_000, 90_000)).frame
    assert part["total_awaits_ns"].max() == 30_000


def test_a_thread_that_runs_its_backward_pass_itself_awaits_nothing() -> None:
    node = "autograd::engine::evaluate_function: MmBackward0"
    frame = flame_tree(make_trace(annotation("## backward ##", 0, 100), span(node, 20, 60))).frame
    assert "total_awaits_ns" not in frame.columns
