"""The stacks that hold the memory are a tree of bytes."""

from __future__ import annotations

from made_snapshots import at, entry, frame, segment, snapshot_of
from support import make_trace, span

from torchprof_magic.tables.flame.shown_stacks import flame_view
from torchprof_magic.tables.snapshot.stack_flame import BEFORE_NAME, NO_STACK_NAME, bytes_flame

MAIN = frame("/u/train.py", 1, "main")
MODEL = [frame("/site-packages/torch/nn/linear.py", 9, "forward"), MAIN]
OPTIMIZER = [frame("/site-packages/torch/optim/adam.py", 5, "step"), MAIN]
NATIVE = [
    frame("??", 0, "torch::unwind::unwind()"),
    frame("x.cpp", 0, "at::_ops::mm::call(at::Tensor)"),
    frame("??", 0, "torch::autograd::generated::MmBackward0::apply(x)"),
    frame("??", 0, "torch::autograd::Engine::thread_main(x)"),
]
HISTORY = (
    entry("alloc", 0, 40, 1, frames=MODEL),
    entry("alloc", 1, 25, 2, frames=OPTIMIZER),
    entry("alloc", 2, 30, 3, frames=MODEL),
    entry("alloc", 3, 9, 4),
    entry("alloc", 4, 8, 6, frames=NATIVE),
)


def test_boxes_are_as_wide_as_what_they_hold_the_widest_first() -> None:
    tree = bytes_flame(snapshot_of(*HISTORY, segments=(segment(999, at(5, 10)),)))
    rows = tree.frame.select("parent", "name", "kind", "phase", "self_bytes", "total_bytes", "total_blocks").rows()
    assert rows[:7] == [
        (-1, "all", "root", "python", 0, 122, 6),
        (0, "main u/train.py:1", "python", "python", 0, 95, 3),
        (1, "forward nn/linear.py:9", "library", "python", 70, 70, 2),
        (1, "step optim/adam.py:5", "library", "optimizer", 25, 25, 1),
        (0, BEFORE_NAME, "annotation", "python", 10, 10, 1),
        (0, NO_STACK_NAME, "annotation", "python", 9, 9, 1),
        (0, "torch::autograd::Engine::thread_main(x)", "op", "backward", 0, 8, 1),
    ]
    assert [row[1] for row in rows[7:]] == ["MmBackward0", "aten::mm"]
    assert [weight.name for weight in tree.weights] == ["bytes", "blocks"]


def test_only_what_is_in_use_at_the_moment_has_a_box() -> None:
    trace = snapshot_of(*HISTORY, entry("free_completed", 9, 40, 1), entry("free_completed", 10, 30, 3))
    names = bytes_flame(trace, "end").frame["name"].to_list()
    assert "forward nn/linear.py:9" not in names
    assert "step optim/adam.py:5" in names


def test_the_flame_graph_of_a_report_shows_bytes_for_a_snapshot_and_calls_for_a_trace() -> None:
    assert flame_view(snapshot_of(*HISTORY)).weights[0].name == "bytes"
    assert flame_view(make_trace(span("aten::mm", 0, 5))).weights[0].name == "cpu_ns"
