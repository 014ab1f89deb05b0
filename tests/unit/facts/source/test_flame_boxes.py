from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
import torch
from amount import sampled
from support import annotation, frame, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.facts.source.flame_boxes import host_boxes, recorded_boxes, site_names
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.intervals import union_by
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

LINES = ("for batch in loader:", "    loss = model(batch)", "    loss.backward()")
SITES = (
    *({"kind": "line", "parent": -1, "name": text, "file": "cell", "line": at} for at, text in enumerate(LINES, 1)),
    {"kind": "module", "parent": -1, "name": "", "class_name": "Net"},
    {"kind": "module", "parent": 3, "name": "layers.0", "class_name": "Linear"},
    {"kind": "module", "parent": 3, "name": "layers.1", "class_name": "Linear"},
)
FOR, CALL, BACKWARD, NET, FIRST, SECOND = range(6)
CELL = CellSource(filename="cell", label="In [1]", source="\n".join(LINES))


def node(name: str, start: float, dur: float, sequence: int) -> dict[str, Any]:
    return span(name, start, dur, **{"Sequence number": sequence, "Fwd thread id": 1})


def watched(*events: dict[str, Any], scopes: tuple[tuple[int, float, float], ...]) -> Trace:
    trace = make_trace(*events)
    rows = [(site, 0, int(start * 1000), int(dur * 1000), 0) for site, start, dur in scopes]
    return replace(
        trace,
        sites=pl.DataFrame(SITES, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
        meta=replace(trace.meta, cell=CELL),
    )


def boxes(trace: Trace) -> dict[str, dict[str, Any]]:
    """Return every box by its path, such as ``line 2: .../Net/aten::mm``."""
    names: list[str] = []
    rows = flame_tree(trace).frame.to_dicts()
    for row in rows:
        above = names[row["parent"]] if row["parent"] > 0 else ""
        names.append(f"{above}/{row['name']}" if above else row["name"])
    return dict(zip(names, rows, strict=True))


STEP = (
    annotation("ProfilerStep#0", 0, 100),
    span("aten::mm", 12, 5, **{"Sequence number": 1}),
    launch(13, 1, correlation=1),
    kernel("gemm", 14, 30, correlation=1),
    span("aten::mm", 22, 5, **{"Sequence number": 2}),
    node("autograd::engine::evaluate_function: MmBackward0", 50, 12, 2),
    node("MmBackward0", 51, 10, 2),
    launch(52, 1, correlation=2),
    kernel("gemm", 60, 25, correlation=2),
    node("MmBackward0", 70, 8, 1),
    span("aten::ones_like", 46, 2),
)
SCOPES = ((FOR, 0, 10), (CALL, 10, 30), (NET, 11, 25), (FIRST, 12, 8), (SECOND, 21, 8), (BACKWARD, 45, 40))


def test_lines_stand_around_modules_and_these_around_ops_and_their_kernels() -> None:
    found = boxes(watched(*STEP, scopes=SCOPES))
    line = "ProfilerStep/line 2: loss = model(batch)"
    layer = f"{line}/Net/layers.*: Linear"
    assert [found[path]["kind"] for path in (line, f"{line}/Net", layer)] == ["line", "module", "module"]
    assert found[f"{layer}/aten::mm/gemm"]["total_device_ns"] == 30_000
    # 30 us of the line, 25 of them in the network, 16 in its two layers, 10 of these in ops.
    own = [found[path]["self_cpu_ns"] for path in (line, f"{line}/Net", layer, f"{layer}/aten::mm")]
    assert own == [5_000, 9_000, 6_000, 10_000]


def test_backward_is_under_the_module_and_line_of_its_forward_op() -> None:
    found = boxes(watched(*STEP, scopes=SCOPES))
    layer = "ProfilerStep/line 2: loss = model(batch)/Net/layers.*: Linear/backward"
    assert (found[layer]["total_cpu_ns"], found[layer]["phase"], found[layer]["self_calls"]) == (20_000, "backward", 0)
    ranged = f"{layer}/autograd::engine::evaluate_function: MmBackward0"
    assert found[f"{ranged}/MmBackward0/gemm"]["total_device_ns"] == 25_000
    assert found[f"{layer}/MmBackward0"]["self_cpu_ns"] == 8_000
    # The line that calls backward keeps what is of no forward op, and its own time.
    calls = "ProfilerStep/line 3: loss.backward()"
    assert [path for path in found if path.startswith(calls)] == [calls, f"{calls}/aten::ones_like"]
    assert found[calls]["self_cpu_ns"] == (40 - 12 - 8 - 2) * 1000


def test_nothing_is_lost_or_counted_twice() -> None:
    rows = flame_tree(watched(*STEP, scopes=SCOPES)).frame
    assert rows["self_cpu_ns"].sum() == rows["total_cpu_ns"][0] == 100_000
    assert rows["self_device_ns"].sum() == rows["total_device_ns"][0] == 55_000


def test_a_second_derivative_is_where_the_first_one_is() -> None:
    again = (span("aten::mul", 53, 3, **{"Sequence number": 5}), node("MulBackward0", 90, 4, 5))
    found = boxes(watched(*STEP, *again, scopes=SCOPES))
    assert (
        found["ProfilerStep/line 2: loss = model(batch)/Net/layers.*: Linear/backward/MulBackward0"]["self_cpu_ns"]
        == 4_000
    )


def test_what_a_checkpoint_computes_again_is_under_its_node() -> None:
    trace = watched(
        annotation("ProfilerStep#0", 0, 100),
        span("CheckpointFunction", 12, 10, **{"Sequence number": 1}),
        node("CheckpointFunctionBackward", 50, 40, 1),
        span("aten::mm", 53, 5, **{"Sequence number": 9}),
        node("MmBackward0", 70, 8, 9),
        scopes=((CALL, 10, 30), (BACKWARD, 45, 50), (FIRST, 52, 8)),
    )
    found = boxes(trace)
    line = "ProfilerStep/line 2: loss = model(batch)/backward/CheckpointFunctionBackward"
    assert found[f"{line}/layers.*: Linear/aten::mm"]["self_cpu_ns"] == 5_000
    assert found[f"{line}/layers.*: Linear/backward/MmBackward0"]["self_cpu_ns"] == 8_000


def test_without_lines_backward_is_under_the_frame_of_its_forward_op() -> None:
    trace = make_trace(
        frame("train.py(3): forward", 0, 30),
        span("aten::mm", 5, 5, **{"Sequence number": 1}),
        node("MmBackward0", 50, 8, 1),
    )
    assert list(boxes(trace)) == [
        "all", "train.py(3): forward", "train.py(3): forward/backward", "train.py(3): forward/backward/MmBackward0",
        "train.py(3): forward/aten::mm",
    ]  # fmt: skip


def test_without_lines_modules_and_frames_backward_stays_where_it_ran() -> None:
    trace = make_trace(span("aten::mm", 5, 5, **{"Sequence number": 1}), node("MmBackward0", 50, 8, 1))
    assert set(boxes(trace)) == {"all", "aten::mm", "MmBackward0"}


def test_a_node_that_began_before_its_forward_op_ended_stays_where_it_is() -> None:
    trace = make_trace(
        frame("train.py(3): forward", 0, 30),
        span("aten::mm", 5, 15, **{"Sequence number": 1}),
        node("MmBackward0", 12, 4, 1),
    )
    assert "train.py(3): forward/aten::mm/MmBackward0" in boxes(trace)


def test_frames_of_modules_are_left_out_where_modules_were_watched() -> None:
    trace = watched(frame("nn.Module: Net_0", 11, 25), *STEP, scopes=SCOPES)
    assert not any("nn.Module" in path for path in boxes(trace))


def test_lines_and_modules_have_names_that_merge_lists() -> None:
    other = {"kind": "line", "parent": -1, "name": "    x = 1", "file": "/home/me/model.py", "line": 7}
    empty = {"kind": "line", "parent": -1, "name": "", "file": "cell", "line": 9}
    inner = {"kind": "module", "parent": 4, "name": "layers.0.act", "class_name": "<b>ReLU</b>"}
    numbered = {"kind": "module", "parent": 4, "name": "layers.0.2", "class_name": "Conv2d"}
    trace = watched(span("op", 0, 1), scopes=())
    trace = replace(trace, sites=pl.DataFrame([*SITES, other, empty, inner, numbered], schema=SITES_SCHEMA))
    names = site_names(trace).to_list()
    assert names[1:6] == [
        "line 2: loss = model(batch)", "line 3: loss.backward()", "Net", "layers.*: Linear", "layers.*: Linear",
    ]  # fmt: skip
    assert names[6].endswith("model.py:7: x = 1")
    assert names[7:] == ["line 9", "act: <b>ReLU</b>", "Conv2d"]


@pytest.mark.parametrize("seed", sampled(range(30)))
def test_times_of_random_programs_add_up(seed: int) -> None:
    random = np.random.default_rng(seed)
    events, scopes, time = [], [], 0
    for sequence in range(30):
        begin = time
        events.append(span("f", time + 2, 4, **{"Sequence number": sequence}))
        events.append(launch(time + 3, 1, correlation=sequence))
        events.append(kernel("k", time + 4, int(random.integers(1, 9)), correlation=sequence))
        time += 8
        if sequence and random.random() < 0.7:
            of = int(random.integers(0, sequence))
            events.append(node(f"B{of % 3}", time, int(random.integers(1, 20)), of))
            time += 25
        scopes.append((int(random.integers(0, 3)), begin, time - begin))
        if random.random() < 0.5:
            scopes.append((int(random.integers(3, 6)), begin + 1, 6))
    trace = watched(annotation("ProfilerStep#0", 0, time), *events, scopes=tuple(scopes))
    rows = flame_tree(trace).frame
    ops = ops_table(trace).frame
    assert (
        rows["self_cpu_ns"].sum() == rows["total_cpu_ns"][0] == sum(1000 * dur for site, _, dur in scopes if site < 3)
    )
    assert rows.filter(kind="op")["self_cpu_ns"].sum() == ops["self_cpu_ns"].sum()
    assert rows["total_device_ns"][0] == ops["self_device_ns"].sum()


def test_a_call_that_never_returned_ends_with_its_caller_and_holds_nothing_that_came_later() -> None:
    """`next` begins in `load` and was recorded until the end of the recording, long after `load` returned."""
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("train.py(1): main", 0, 100),
        frame("train.py(5): load", 10, 20),
        frame("<built-in function next>", 12, 88),
        span("aten::mm", 15, 5),
        frame("train.py(9): forward", 40, 50),
    )
    main = "ProfilerStep/train.py(1): main"
    following = f"{main}/train.py(5): load/<built-in function next>"
    assert {path: (row["self_cpu_ns"], row["total_cpu_ns"]) for path, row in boxes(trace).items()} == {
        "all": (0, 100_000),
        "ProfilerStep": (0, 100_000),
        main: (30_000, 100_000),
        f"{main}/train.py(5): load": (2_000, 20_000),
        following: (13_000, 18_000),
        f"{following}/aten::mm": (5_000, 5_000),
        f"{main}/train.py(9): forward": (50_000, 50_000),
    }


def test_a_range_that_is_recorded_as_an_op_begins_where_the_frame_ends_that_enters_it() -> None:
    step, enter = annotation("ProfilerStep#0", 0, 40), frame("c.py(1): enter", 1, 9)
    trace = make_trace(step, enter, span("Pregraph bytecode", 8, 30), span("aten::mm", 20, 5))
    assert {path: row["total_cpu_ns"] for path, row in boxes(trace).items()} == {
        "all": 40_000,
        "ProfilerStep": 40_000,
        "ProfilerStep/c.py(1): enter": 9_000,
        "ProfilerStep/Pregraph bytecode": 28_000,
        "ProfilerStep/Pregraph bytecode/aten::mm": 5_000,
    }


def test_of_ranges_that_take_turns_the_one_that_began_last_has_the_time_that_they_share() -> None:
    step, first, second = annotation("ProfilerStep#0", 0, 100), annotation("a", 10, 40), annotation("b", 30, 50)
    trace = make_trace(step, first, second, span("aten::mm", 60, 5))
    assert {path: row["total_cpu_ns"] for path, row in boxes(trace).items()} == {
        "all": 100_000,
        "ProfilerStep": 100_000,
        "ProfilerStep/a": 20_000,
        "ProfilerStep/b": 50_000,
        "ProfilerStep/b/aten::mm": 5_000,
    }


def test_a_range_that_a_line_enters_begins_where_the_line_ends_and_ends_where_another_leaves_it() -> None:
    """As in `with record_function("r"):`, of which the line runs again at the end."""
    step, inner = annotation("ProfilerStep#0", 0, 60), annotation("r", 8, 42)
    trace = watched(step, inner, span("aten::mm", 20, 5), scopes=((FOR, 0, 10), (CALL, 10, 38), (FOR, 48, 7)))
    line = "ProfilerStep/r/line 2: loss = model(batch)"
    assert {path: (row["self_cpu_ns"], row["total_cpu_ns"]) for path, row in boxes(trace).items()} == {
        "all": (0, 60_000),
        "ProfilerStep": (5_000, 60_000),
        "ProfilerStep/line 1: for batch in loader:": (17_000, 17_000),
        "ProfilerStep/r": (0, 38_000),
        line: (33_000, 38_000),
        f"{line}/aten::mm": (5_000, 5_000),
    }


def random_boxes(seed: int) -> Trace:
    """Return a trace of which the ops, ranges, calls, lines and modules, and frames in half of them, are anywhere."""
    random = np.random.default_rng(seed)
    kinds = ["cpu_op", "user_annotation", "cuda_runtime", *["python_function"] * (seed % 2)]
    events = [
        span(f"{number}", *(int(each) for each in random.integers(0, 40, 2)), cat=str(random.choice(kinds)), tid=tid)
        for number, tid in enumerate(random.integers(1, 4, int(random.integers(1, 30))).tolist())
    ]
    scopes = [tuple(random.integers(0, (6, 40, 40)).tolist()) for _ in range(int(random.integers(0, 8)))]
    return watched(*events, scopes=tuple(sorted(scopes, key=lambda scope: scope[1])))


@pytest.mark.parametrize("seed", sampled(range(100)))
def test_every_moment_of_a_thread_belongs_to_one_box(seed: int) -> None:
    trace = random_boxes(seed)
    found = host_boxes(trace)
    own_ns = sum_by(found.lane, found.own_ns, trace.lanes.height)
    assert {lane: own_ns[lane] for lane in np.unique(found.lane).tolist()} == union_by(
        found.lane, found.start_ns, found.dur_ns
    )
    assert found.own_ns.min(initial=0) == 0
    inner, around = np.flatnonzero(found.parent >= 0), found.parent[found.parent >= 0]
    assert (found.start_ns[inner] >= found.start_ns[around]).all()
    assert ((found.start_ns + found.dur_ns)[inner] <= (found.start_ns + found.dur_ns)[around]).all()
    as_recorded = recorded_boxes(trace)
    if not (trace.events["category"] == "python_function").any():
        # Only calls are cut off; what else was cut has another box in its place.
        recorded = union_by(as_recorded.lane, as_recorded.start_ns, as_recorded.dur_ns)
        assert recorded == union_by(found.lane, found.start_ns, found.dur_ns)
    part = TimeRange(7_000, 31_000)
    start, dur = part.cut(found.start_ns, found.dur_ns)
    own_ns = sum_by(found.lane, found.own_ns_in(part), trace.lanes.height)
    assert {lane: own_ns[lane] for lane in np.unique(found.lane).tolist()} == union_by(found.lane, start, dur)
    assert sorted(zip(found.row.tolist(), found.site.tolist(), strict=True)) == sorted(
        zip(as_recorded.row.tolist(), as_recorded.site.tolist(), strict=True)
    )


def test_a_live_run_shows_backward_at_the_frame_that_ran_forward() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    with tp.profile(with_modules=True) as run:
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
            tp.step()
    assert run.report is not None
    found = boxes(run.report.trace)
    linear = [path for path in found if path.endswith("/Linear/backward")]
    assert linear, list(found)
    assert found[linear[0]]["total_cpu_ns"] > 0
