"""The critical path in the timeline: what decided at every moment, over threads and streams."""

from __future__ import annotations

from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.tables.timeline.slice_search import SEARCHED
from torchprof_magic.tables.timeline.slices import timeline_slices


def test_the_path_is_a_lane_of_its_own_in_which_ops_and_kernels_follow_one_another() -> None:
    slices = timeline_slices(
        make_trace(
            annotation("ProfilerStep#0", 0, 1_000),
            span("aten::linear", 10, 30),
            span("aten::addmm", 12, 20),
            launch(15, 10, correlation=1),
            kernel("gemm", 30, 600, correlation=1),
            span("cudaDeviceSynchronize", 50, 585, cat="cuda_runtime", correlation=2),
        )
    )
    (lane,) = [at for at, each in enumerate(slices.lanes) if each.title == "Critical path"]
    shown = slices.frame.filter(lane=lane).select("name", "start_ns", "dur_ns", "note")
    names = {str(name): (start // 1_000, dur // 1_000) for name, start, dur, _ in shown.rows()}
    # The op that the program called stands for the ops inside it, and for its launch.
    assert names == {"Python": (635, 365), "aten::linear": (10, 15), "gemm": (30, 600)}
    assert shown["dur_ns"].to_list() == [10_000, 15_000, 600_000, 365_000]
    # Each leads to the slice of what it is.
    names_of = slices.frame["name"].cast(str).to_list()
    leads_to = [names_of[at] if at >= 0 else "" for at in slices.frame.filter(lane=lane)["op"].to_list()]
    assert leads_to == ["", "aten::linear", "gemm", ""]
    # And its count is the lane in which it is, so that others can be dimmed there.
    lanes = [slices.lanes[at].title for at in slices.frame.filter(lane=lane)["count"].to_list()]
    assert lanes == ["thread 1", "thread 1", "stream 7", "thread 1"]
    assert set(shown["note"].cast(str).to_list()) == {"thread 1", "device 0 stream 7"}


def test_a_path_that_stays_on_one_thread_has_no_lane() -> None:
    slices = timeline_slices(make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 10, 20)))
    assert "Critical path" not in {lane.title for lane in slices.lanes}


def test_searches_find_what_ran_and_not_the_path_again() -> None:
    assert "path" not in SEARCHED
