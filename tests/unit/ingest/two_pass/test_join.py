"""The times of one cycle and the details of another become one recording."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Event, allocation, annotation, chrome, frame, kernel, launch, span

from torchprof_magic.facts.counted_steps import counted_part, counted_steps, with_chosen_steps
from torchprof_magic.findings.verdict.decision import find_verdict
from torchprof_magic.ingest import join_passes, read_chrome
from torchprof_magic.model.meta import Meta, TwoPass
from torchprof_magic.model.trace import FRAME_SCHEMAS
from torchprof_magic.render.text import column_text
from torchprof_magic.tables.memory.in_use import memory_frame
from torchprof_magic.tables.ops.averages import Grouping, averages_table
from torchprof_magic.tables.ops.op_table import ops_table
from torchprof_magic.tables.steps import steps_table

if TYPE_CHECKING:
    from torchprof_magic.model.meta import Problem
    from torchprof_magic.model.trace import Trace

PASSES = TwoPass(times_cycle=0, details_cycle=1)
ROWS = ["[[2, 2]]", "[[3]]"]


def step(number: int, start_us: float, dur_us: float) -> Event:
    return annotation(f"ProfilerStep#{number}", start_us, dur_us)


def op(name: str, start_us: float, dur_us: float, shapes: object = None, tid: int = 1) -> Event:
    args = {} if shapes is None else {"Input Dims": shapes, "Input type": ["float"]}
    return span(name, start_us, dur_us, tid=tid, **args)


def both(times: list[Event], details: list[Event]) -> Trace:
    return read_chrome([chrome(*times), chrome(*details)], Meta(two_pass=PASSES))


def joined(times: list[Event], details: list[Event]) -> Trace:
    return join_passes(both(times, details))


def shapes_by_name(trace: Trace) -> dict[str, str | None]:
    return dict(trace.events.select(pl.col("name", "shapes").cast(pl.String)).rows())


def told(trace: Trace) -> Problem:
    (problem,) = [problem for problem in trace.problems if problem.code.startswith("run.two_pass")]
    return problem


# mm runs from 10 to 40 and from 1030 to 1120, add from 50 to 60 and from 1180 to 1210.
TIMES = [step(2, 0, 100), op("mm", 10, 30), op("add", 50, 10)]
DETAILS = [
    step(5, 1000, 300),
    frame("train.py(3): f", 1010, 280),
    op("mm", 1030, 90, [[2, 2]]),
    op("add", 1180, 30, [[3]]),
    allocation(1075, 512, total=512),
    allocation(1150, -512, total=0),
]


def test_times_come_from_the_one_and_shapes_types_and_stacks_from_the_other() -> None:
    trace = joined(TIMES, DETAILS)
    events = trace.events.select(pl.col("name", "shapes", "dtypes").cast(pl.String), "start_ns", "dur_ns", "stack")
    assert events.rows() == [
        ("ProfilerStep#2", None, None, 0, 100_000, None),
        ("mm", "[[2, 2]]", '["float"]', 10_000, 30_000, 0),
        ("add", "[[3]]", '["float"]', 50_000, 10_000, 0),
    ]
    assert trace.stacks["name"].cast(pl.String).to_list() == ["train.py(3): f"]
    assert trace.steps.rows() == [(2, 0, 0, 100_000, True)]
    assert (trace.events["cycle"] == 0).all()


@pytest.mark.parametrize("cut_us", [1300, 1390])
def test_steps_after_stacks_have_ended_have_those_of_the_step_before(cut_us: float) -> None:
    # Frames end in the second step with details, before its first op or after.
    later = [step(6, 1300, 300), op("mm", 1330, 90, [[5, 5]]), op("add", 1480, 30, [[6]])]
    frames = [frame("train.py(4): g", 1310, cut_us - 1310)] if cut_us > 1310 else []
    times = [*TIMES, step(3, 100, 100), op("mm", 110, 30), op("add", 150, 10)]
    trace = joined(times, [*DETAILS, *later, *frames])
    ops = trace.events.filter(pl.col("category") == "cpu_op")
    assert ops["shapes"].cast(pl.String).to_list() == ["[[2, 2]]", "[[3]]", "[[5, 5]]", "[[6]]"]
    assert ops["stack"].to_list() == [0, 0, 0, 0]


def test_memory_moves_in_equal_parts_between_the_beginnings_and_ends_of_ops() -> None:
    # 1075 is the middle of mm, whose other middle is 25; 1150 is halfway from mm to add, that is from 40 to 50.
    memory = joined(TIMES, DETAILS).memory
    assert memory["time_ns"].to_list() == [25_000, 45_000]
    assert memory["event"].to_list() == [1, 0]
    assert memory["delta_bytes"].to_list() == [512, -512]
    assert memory["allocated_bytes"].to_list() == [512, 0]
    assert memory["cycle"].to_list() == [0, 0]


def test_memory_at_the_edge_of_an_op_stays_within_it_where_ops_follow_each_other_at_once() -> None:
    times = [step(2, 0, 100), op("mm", 10, 30), op("add", 40, 30)]
    details = [step(5, 1000, 300), op("mm", 1010, 100), op("add", 1150, 100), allocation(1109.999, 8, total=8)]
    trace = joined(times, [*details, allocation(1150.001, 8, total=16), allocation(1250, -16, total=0)])
    assert trace.memory["time_ns"].to_list() == [39_999, 40_001, 70_000]
    assert trace.memory["event"].to_list() == [1, 2, 2]


def test_an_older_tensor_goes_after_the_allocation_before_it() -> None:
    trace = both(TIMES, DETAILS)
    gone_ns = int(trace.memory["time_ns"][0]) + 1000
    row = (64, 100, True, False, gone_ns, 1)
    storages = pl.DataFrame([row], schema=FRAME_SCHEMAS["storages"], orient="row")
    trace = join_passes(replace(trace, storages=storages, meta=replace(trace.meta, knows_storages=True)))
    levels = memory_frame(trace)["total_bytes"].to_list()
    assert levels == [612, 512, 0]  # the new block and the older tensor, the new block, nothing


def test_memory_outside_of_the_steps_keeps_its_distance() -> None:
    times = [op("before", 0, 100), step(2, 200, 100), op("mm", 210, 30)]
    details = [step(5, 1000, 300), op("mm", 1030, 90), allocation(940, 8, tid=3), allocation(1310, -8, tid=3)]
    memory = joined(times, details).memory
    assert memory["time_ns"].to_list() == [140_000, 310_000]
    assert memory["event"].to_list() == [-1, -1]


def test_an_op_that_only_one_pass_has_gets_nothing_and_its_memory_goes_to_the_op_around_it() -> None:
    times = [step(2, 0, 100), op("linear", 10, 50), op("mm", 20, 10), op("only here", 70, 10)]
    details = [
        step(5, 1000, 100),
        op("linear", 1010, 50, [[3]]),
        op("mm", 1020, 10, [[2, 2]]),
        op("only there", 1040, 10, [[9]]),
        allocation(1045, 64),
    ]
    trace = joined(times, details)
    assert shapes_by_name(trace) == {
        "ProfilerStep#2": None,
        "linear": "[[3]]",
        "mm": "[[2, 2]]",
        "only here": None,
    }
    assert trace.events["name"].cast(pl.String)[trace.memory["event"].to_list()].to_list() == ["linear"]
    # 3 of 4 ops on either side.
    assert told(trace).severity == "warning"
    assert told(trace).message == (
        "Times are from step 2, shapes and memory from step 5, but only 75 % of the ops were found in both passes: "
        "the steps did different work."
    )


def test_ops_that_lie_in_different_ops_are_not_the_same() -> None:
    times = [step(2, 0, 100), op("a", 10, 30), op("leaf", 15, 5), op("b", 50, 30)]
    details = [step(5, 1000, 100), op("a", 1010, 30), op("b", 1050, 30), op("leaf", 1055, 5, [[3]])]
    assert shapes_by_name(joined(times, details))["leaf"] is None


def test_numbers_in_the_names_of_ranges_do_not_matter_and_unknown_ranges_are_looked_through() -> None:
    times = [step(2, 0, 100), annotation("epoch 1 batch 12", 5, 90), annotation("run bee", 6, 80), op("mm", 10, 30)]
    details = [
        step(5, 1000, 100),
        annotation("epoch 2 batch 7", 1005, 90),
        annotation("run cow", 1006, 80),
        op("mm", 1010, 30, [[2, 2]]),
        allocation(1050, 64),
    ]
    trace = joined(times, details)
    assert shapes_by_name(trace)["mm"] == "[[2, 2]]"
    assert trace.events["name"].cast(pl.String)[trace.memory["event"][0]] == "epoch 1 batch 12"
    # An op's name is its own: convolution1 and convolution2 are two.
    times, details = [step(2, 0, 9), op("conv1", 1, 1)], [step(5, 10, 9), op("conv2", 11, 1, [[3]])]
    assert shapes_by_name(joined(times, details))["conv1"] is None


def test_a_thread_with_another_id_is_matched_by_its_work() -> None:
    times = [step(2, 0, 100), op("mm", 10, 5), *(op(name, 20 + at, 1, tid=2) for at, name in enumerate("xyz"))]
    others = [*(op(name, 1020 + at, 1, [[at]], tid=8) for at, name in enumerate("uvw"))]
    same = [*(op(name, 1040 + at, 1, [[at]], tid=9) for at, name in enumerate("xyz"))]
    trace = joined(times, [step(5, 1000, 100), op("mm", 1010, 5, [[2, 2]]), *others, *same])
    assert shapes_by_name(trace) == {"ProfilerStep#2": None, "mm": "[[2, 2]]", "x": "[[0]]", "y": "[[1]]", "z": "[[2]]"}
    assert trace.lanes["tid"].to_list() == ["1", "2"]


def test_threads_that_do_the_same_are_distinguished_by_their_numbers() -> None:
    times = [step(2, 0, 100), op("mm", 10, 5, tid=2), op("mm", 11, 5, tid=3)]
    details = [step(5, 1000, 100), op("mm", 1010, 5, [[3]], tid=3), op("mm", 1011, 5, [[2]], tid=2)]
    events = joined(times, details).events.filter(pl.col("name") == "mm")
    assert events["shapes"].cast(pl.String).to_list() == ["[[2]]", "[[3]]"]


def test_device_work_has_its_own_times_and_the_stack_of_its_launch() -> None:
    times = [step(2, 0, 100), op("mm", 10, 30), launch(15, 5, 77), kernel("gemm", 60, 20, 77)]
    details = [
        step(5, 1000, 300),
        frame("train.py(3): f", 1010, 280),
        op("mm", 1030, 90, [[2, 2]]),
        launch(1040, 9, 78),
        kernel("gemm", 1200, 21, 78),
    ]
    trace = joined(times, details)
    named = trace.events.select(pl.col("name").cast(pl.String), "dur_ns", "stack").rows()
    assert ("gemm", 20_000, 0) in named
    assert ("cudaLaunchKernel", 5_000, 0) in named
    assert trace.events["category"].to_list().count("kernel") == 1
    flows = trace.flows.rows()
    assert [kind for kind, _, _ in flows] == ["launch"]
    names = trace.events["name"].cast(pl.String)
    assert [(names[source], names[target]) for _, source, target in flows] == [("cudaLaunchKernel", "gemm")]


def test_a_step_beyond_those_with_details_has_the_details_of_the_last_but_no_memory() -> None:
    times = [step(2, 0, 100), op("mm", 10, 30), step(3, 200, 100), op("mm", 210, 30)]
    details = [step(6, 1000, 100), op("mm", 1010, 30, [[2, 2]]), allocation(1020, 8)]
    trace = joined(times, details)
    ops = trace.events.filter(pl.col("name") == "mm")
    assert ops["shapes"].cast(pl.String).to_list() == ["[[2, 2]]", "[[2, 2]]"]
    assert trace.memory.select("time_ns", "delta_bytes").rows() == [(20_000, 8)]
    assert told(trace).message == (
        "Times are from steps 2–3, shapes and memory from step 6; all ops were found in both. "
        "Step 3 has no memory of its own."
    )
    assert trace.meta.two_pass == replace(PASSES, detail_steps=(6,))


def test_a_step_whose_counterpart_did_other_work_has_the_details_of_the_nearest_that_did_the_same() -> None:
    # The second step with details compiles, and its mm has other rows.
    compiled = [op("where", 2000 + 10 * number, 5, [[9]]) for number in range(30)]
    trace = joined(
        [*TIMES, step(3, 200, 100), op("mm", 210, 30), op("add", 250, 10)],
        [*DETAILS, step(6, 2000, 900), *compiled, op("mm", 2500, 90, [[7, 7]]), op("add", 2600, 30, [[7]])],
    )
    ops = trace.events.filter(pl.col("category") == "cpu_op").select(pl.col("name", "shapes").cast(pl.String), "step")
    assert ops.rows() == [("mm", ROWS[0], 2), ("add", ROWS[1], 2), ("mm", ROWS[0], 3), ("add", ROWS[1], 3)]
    assert told(trace).code == "run.two_pass"
    assert (
        "all ops were found in both. Step 6 did other work, so step 3 has the details of step 5" in told(trace).message
    )
    assert "and the memory of step 6." in told(trace).message


def test_two_kinds_of_steps_in_turn_have_the_details_of_their_kind_whichever_came_first() -> None:
    def run(kinds: str, first: int, begin_us: int, *, has_shapes: bool) -> list[Event]:
        names = {"a": ("mm", "add"), "b": ("conv", "relu", "pool")}
        sides = {"mm": 1, "add": 2, "conv": 3, "relu": 4, "pool": 5}
        events = []
        for number, kind in enumerate(kinds):
            start = begin_us + 1000 * number
            events.append(step(first + number, start, 900))
            for place, name in enumerate(names[kind]):
                events.append(op(name, start + 100 * place, 50, [[sides[name]]] if has_shapes else None))
        return events

    trace = joined(run("abab", 2, 0, has_shapes=False), run("baba", 9, 7000, has_shapes=True))
    ops = trace.events.filter(pl.col("category") == "cpu_op").select(pl.col("name", "shapes").cast(pl.String))
    kind = [("mm", "[[1]]"), ("add", "[[2]]"), ("conv", "[[3]]"), ("relu", "[[4]]"), ("pool", "[[5]]")]
    assert ops.rows() == kind * 2
    assert "4 steps have the details of another step that did the same work." in told(trace).message


def test_memory_per_step_is_that_of_the_steps_that_have_some() -> None:
    times = [step(2, 0, 100), op("mm", 10, 30), step(3, 200, 110), op("mm", 210, 30)]
    details = [step(6, 1000, 100), op("mm", 1010, 30, [[2, 2]]), allocation(1020, 512)]
    trace = joined(times, details)
    assert counted_steps(trace).row.tolist() == [0, 1]
    assert counted_steps(trace).memory_steps == 1
    ops = ops_table(trace, counted_part(trace))
    assert ops.frame["self_cpu_bytes"].to_list() == [512]
    (column,) = [column for column in ops.columns if column.name == "self_cpu_bytes"]
    assert column.share == 0.5
    assert column_text(column, ops.frame, 2)[1](512) == "512"  # of one step, not of two
    (calls,) = [column for column in ops.columns if column.name == "calls"]
    assert column_text(calls, ops.frame, 2)[1](2) == "1"


DETAILS_OF_ONE = [step(6, 3000, 100), op("mm", 3010, 30, [[2, 2]]), allocation(3020, 512)]


def test_details_of_fewer_steps_belong_to_one_that_counts() -> None:
    times = [
        *(step(2, 0, 900), op("mm", 10, 30)),
        *(step(3, 1000, 100), op("mm", 1010, 30)),
        *(step(4, 1200, 110), op("mm", 1210, 30)),
    ]
    trace = joined(times, DETAILS_OF_ONE)
    assert counted_steps(trace).row.tolist() == [1, 2]
    assert counted_steps(trace).memory_steps == 1
    assert counted_steps(with_chosen_steps(trace, [0, 2])).with_memory == 0
    assert trace.memory.select("time_ns", "delta_bytes").rows() == [(1_020_000, 512)]
    assert ops_table(trace, counted_part(trace)).frame["self_cpu_bytes"].to_list() == [512]
    mm = trace.events.filter(pl.col("name") == "mm")
    assert mm["shapes"].cast(pl.String).to_list() == ["[[2, 2]]"] * 3
    assert told(trace).message == (
        "Times are from steps 2–4, shapes and memory from step 6; all ops were found in both. "
        "Steps 2 and 4 have no memory of their own."
    )


def test_details_of_fewer_steps_belong_to_those_that_do_the_same() -> None:
    # The first step also builds the model, as where the steps of optimizers are counted.
    times = [
        *(step(0, 0, 110), op("add", 5, 3), op("add", 10, 3), op("mm", 20, 30)),
        *(step(1, 200, 100), op("mm", 210, 30)),
        *(step(2, 400, 100), op("mm", 410, 30)),
    ]
    details = [*DETAILS_OF_ONE, step(7, 3200, 100), op("mm", 3210, 30, [[3, 3]]), allocation(3220, 256)]
    trace = joined(times, details)
    mm = trace.events.filter(pl.col("name") == "mm")
    assert mm["shapes"].cast(pl.String).to_list() == ["[[2, 2]]", "[[2, 2]]", "[[3, 3]]"]
    assert trace.memory.select("time_ns", "delta_bytes").rows() == [(220_000, 512), (420_000, 256)]
    assert told(trace).code == "run.two_pass"
    assert "Step 0 has no memory of its own." in told(trace).message


def test_a_step_without_details_does_not_count_where_all_others_are_left_out() -> None:
    """Otherwise nothing per step would have memory."""
    times = [
        *(step(2, 0, 900), op("mm", 10, 30)),
        *(step(3, 1000, 100), op("add", 1010, 30)),
        *(step(4, 1200, 110), op("add", 1210, 30)),
    ]
    trace = joined(times, DETAILS_OF_ONE)
    assert counted_steps(trace).row.tolist() == [0]
    reason = "no details were recorded for it"
    assert steps_table(trace).frame["left_out"].to_list() == ["", reason, reason]
    assert counted_steps(with_chosen_steps(trace, [0, 1, 2])).steps == 3


def test_memory_of_steps_that_the_times_do_not_have_is_left_out() -> None:
    times = [step(2, 0, 100), op("mm", 10, 30)]
    details = [step(6, 1000, 100), op("mm", 1010, 30), allocation(1020, 8), step(7, 1200, 100), allocation(1210, 9)]
    trace = joined(times, details)
    assert trace.memory["delta_bytes"].to_list() == [8]
    assert trace.meta.two_pass == replace(PASSES, detail_steps=(6,))


def test_a_single_pass_is_shown_with_a_problem() -> None:
    times, details = read_chrome([chrome(*TIMES)]), read_chrome([chrome(*DETAILS)], cycles=[1])
    first, second = (
        join_passes(replace(trace, meta=replace(trace.meta, two_pass=PASSES))) for trace in (times, details)
    )
    assert told(first).message.startswith("Only times were recorded")
    assert told(second).message.startswith("The pass that records the times was lost")
    assert first.events.height == 3
    assert second.events.height == 4
    assert second.memory.height == 2
    assert {told(first).severity, told(second).severity} == {"warning"}


def test_other_traces_stay_as_they_are() -> None:
    trace = read_chrome([chrome(*TIMES), chrome(*DETAILS)])
    assert join_passes(trace) is trace
    nothing = read_chrome([chrome()], Meta(two_pass=PASSES))
    assert join_passes(nothing) is nothing


def test_overlaps_of_python_frames_go_with_them() -> None:
    outlives = frame("f.py(2): g", 1200, 95)
    assert [problem.code for problem in both(TIMES, [*DETAILS[:2], outlives]).problems] == ["chrome.partial_overlap"]
    assert [problem.code for problem in joined(TIMES, [*DETAILS[:2], outlives]).problems] == ["run.two_pass_differs"]


class Node(NamedTuple):
    name: str
    size: int
    bytes: tuple[int, ...]
    inside: tuple[Node, ...]


NODES = st.recursive(
    st.builds(Node, st.sampled_from("abc"), st.integers(0, 9), st.tuples(), st.just(())),
    lambda inside: st.builds(
        Node,
        st.sampled_from("abcd"),
        st.integers(0, 9),
        st.lists(st.integers(-64, 64).filter(bool), max_size=2).map(tuple),
        st.lists(inside, max_size=4).map(tuple),
    ),
    max_leaves=12,
)


class Recorder:
    """Lays out a tree of ops with durations of its own, and with details if wanted."""

    def __init__(self, seed: int, start_us: int, *, has_details: bool) -> None:
        self.events: list[Event] = []
        self.has_details = has_details
        self._random = random.Random(seed)  # noqa: S311 - the durations of a test
        self._now_us = start_us

    def passes(self) -> int:
        """Let some time pass, and return when it is."""
        self._now_us += self._random.randint(1, 50)
        return self._now_us

    def step(self, number: int, nodes: list[Node]) -> None:
        start = self.passes()
        for node in nodes:
            self.op(node)
        self.events.append(step(number, start, self.passes() - start))

    def op(self, node: Node) -> None:
        start = self.passes()
        for delta in node.bytes if self.has_details else ():
            self.events.append(allocation(self.passes(), delta))
        for inner in node.inside:
            self.op(inner)
        shapes = [[node.size]] if self.has_details else None
        self.events.append(op(node.name, start, self.passes() - start, shapes))


def sizes(nodes: list[Node]) -> list[str]:
    return [text for node in nodes for text in (f"[[{node.size}]]", *sizes(list(node.inside)))]


@settings(deadline=None, max_examples=examples(40), derandomize=True, database=None)
@given(st.lists(st.lists(NODES, max_size=4), min_size=1, max_size=3), st.integers(0, 99), st.booleans())
def test_the_same_work_with_other_durations_is_found_whole(
    steps: list[list[Node]], seed: int, has_frames: bool
) -> None:
    first = Recorder(seed, 0, has_details=False)
    second = Recorder(seed + 1, 100_000, has_details=True)
    for number, nodes in enumerate(steps):
        first.step(number + 2, nodes)
        second.step(number + 9, nodes)
    frames = [frame("a.py(1): run", 100_000, 900_000)] if has_frames else []
    trace = joined(first.events, [*frames, *second.events])
    alone, detailed = (read_chrome([chrome(*events)]) for events in (first.events, second.events))

    ops = trace.events.filter(pl.col("category") == "cpu_op")
    assert ops["shapes"].cast(pl.String).to_list() == [text for nodes in steps for text in sizes(nodes)]
    assert ops["stack"].null_count() == (0 if has_frames else ops.height)
    assert told(trace).severity == "info"
    assert trace.events.drop("shapes", "dtypes", "stack").equals(alone.events.drop("shapes", "dtypes", "stack"))
    times = ["name", "calls", "self_cpu_ns", "total_cpu_ns", "phase"]
    assert ops_table(trace).frame.select(times).equals(ops_table(alone).frame.select(times))
    if detailed.memory.height == 0:
        return
    memory = ["name", "self_cpu_bytes", "self_alloc_bytes", "self_free_bytes", "net_bytes", "peak_bytes"]
    assert (
        ops_table(trace).frame.select(memory).sort("name").equals(ops_table(detailed).frame.select(memory).sort("name"))
    )
    totals = ["key", "shapes", "count", "self_cpu_bytes", "total_cpu_bytes"]
    found, expected = (
        averages_table(some, Grouping(has_shapes=True)).frame.select(totals) for some in (trace, detailed)
    )
    assert found.sort("key", "shapes").equals(expected.sort("key", "shapes"))


@pytest.mark.parametrize("is_worker", [False, True])
def test_an_extra_op_in_every_second_step_is_the_only_op_without_details(is_worker: bool) -> None:
    tid = 2 if is_worker else 1
    times, details = [], []
    for number in range(4):
        start = number * 1000
        names = ["w", "x", "y", "z"] if number % 2 else ["w", "y", "z"]
        times += [step(number, start, 900), *(op(n, start + 100 * at, 50, tid=tid) for at, n in enumerate(names, 1))]
        start, names = start + 10_000, ["w", "y", "z"]
        shaped = [op(n, start + 100 * at, 50, [[number]], tid=tid) for at, n in enumerate(names, 1)]
        details += [step(number + 6, start, 900), *shaped]
    trace = joined(times, details)
    ops = trace.events.filter(pl.col("category") == "cpu_op").select(pl.col("name", "shapes").cast(pl.String), "step")
    assert ops.filter(pl.col("shapes").is_null()).select("name", "step").rows() == [("x", 1), ("x", 3)]
    assert ops.drop_nulls().filter(pl.col("shapes") != pl.format("[[{}]]", "step")).height == 0
    # 12 ops and 4 steps of 14 and 4 were found.
    assert told(trace).severity == "warning"
    assert "only 88.9 % of the ops" in told(trace).message


def test_threads_that_ran_in_another_order_do_not_change_the_order_of_memory() -> None:
    times = [step(2, 0, 100), op("a", 10, 10), op("x", 40, 10, tid=2)]
    details = [step(5, 1000, 100), op("x", 1010, 10, tid=2), op("a", 1040, 10)]
    memory = joined(times, [*details, allocation(1015, 8, total=8, tid=2), allocation(1045, 8, total=16)]).memory
    assert memory["allocated_bytes"].to_list() == [8, 16]
    assert memory["event"].to_list() == [2, 1]
    # The middle of x is 45; that of a would be 15, which is before.
    assert memory["time_ns"].to_list() == [45_000, 45_000]


def test_after_two_passes_the_verdict_does_not_refer_to_the_flame_graph_for_functions() -> None:
    def verdict(trace: Trace) -> str:
        return str(find_verdict(replace(trace, meta=replace(trace.meta, has_stacks=True))))

    assert "report.ops_by('stack') shows which functions call the ops." in verdict(joined(TIMES, DETAILS))
    assert "The flame graph shows which functions take it." in verdict(read_chrome([chrome(*TIMES)]))
