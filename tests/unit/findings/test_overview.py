from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from made_snapshots import at, entry, segment, snapshot_of
from made_snapshots import frame as snapshot_frame
from support import Event, allocation, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.device.idle_pieces import CAUSE_TITLES
from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.findings.overview import overview_facts
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.trace import CATEGORY, FRAME_SCHEMAS, SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.model.units import format_ns
from torchprof_magic.tables.ops.op_table import ops_table
from torchprof_magic.tables.waiting.idle import idle_table

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Section
    from torchprof_magic.model.trace import Trace


def section(trace: Trace, title: str) -> Section:
    (found,) = (each for each in overview_facts(trace).sections if each.title == title)
    return found


def titles(trace: Trace) -> list[str]:
    return [each.title for each in overview_facts(trace).sections]


def test_phases_have_a_section_that_adds_up_to_the_mean_step() -> None:
    # Steps of 100 and 140 us; half of the first and all of the second that follows the op is in no op.
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100),
        span("aten::mm", 0, 50),
        annotation("ProfilerStep#2", 100, 140),
        span("aten::mm", 100, 30),
    )
    (phases,) = (section for section in overview_facts(trace).sections if section.kind == "phases")
    assert [(fact.label, fact.value) for fact in phases.facts] == [("forward", 40_000), ("python", 80_000)]


def test_a_fact_about_an_op_names_it() -> None:
    facts = [fact for section in overview_facts(make_trace(span("aten::mm", 0, 50))).sections for fact in section.facts]
    assert [(fact.op, fact.value, fact.unit) for fact in facts if fact.op] == [("aten::mm", 50_000, "ns")]


def test_a_range_around_ops_is_not_among_the_ops_with_the_most_time() -> None:
    trace = make_trace(annotation("## backward ##", 0, 100), span("aten::mm", 10, 20), annotation("alone", 200, 5))
    assert [fact.op for fact in section(trace, "Ops").facts] == ["aten::mm", "alone"]


def test_an_op_that_takes_longer_than_the_step_says_on_how_many_threads_it_ran() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 0, 90),
        span("gloo:all_reduce", 5, 80, tid=2),
        span("gloo:all_reduce", 10, 85, tid=3),
    )
    notes = {fact.label: (fact.value, fact.note) for fact in section(trace, "Ops").facts}
    assert notes == {"gloo:all_reduce": (165_000, "2 calls on 2 threads"), "aten::mm": (90_000, "1 call")}


def test_ops_say_how_much_device_time_they_have_beyond_the_time_that_the_device_was_busy() -> None:
    work = (annotation("ProfilerStep#0", 0, 100), span("aten::mm", 1, 2), launch(1, 1, 1), kernel("gemm", 10, 70, 1))
    assert section(make_trace(*work), "Ops").aside == "self device time per step"
    # 20 us at the same time, and 10 after the step.
    more = (kernel("copy", 20, 20, 2, stream=9), kernel("late", 90, 20, 3))
    aside = section(make_trace(*work, *more), "Ops").aside
    busy, meanwhile, outside = (format_ns(ns) for ns in (80_000, 20_000, 10_000))
    of_what = f"{busy} busy + {meanwhile} on other streams at the same time + {outside} outside of steps"
    assert aside == f"self device time per step: {of_what}"


def test_a_ratio_that_cannot_be_computed_is_unknown() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 0), annotation("ProfilerStep#2", 10, 0))
    facts = {fact.label: fact.value for section in overview_facts(trace).sections for fact in section.facts}
    assert facts["Spread"] is None


def call(name: str, start_us: float, dur_us: float) -> Event:
    return span(name, start_us, dur_us, cat="cuda_runtime")


TWO_STEPS = (
    annotation("ProfilerStep#0", 0, 100),
    span("aten::mm", 5, 20),
    launch(6, 2, correlation=1),
    kernel("gemm", 10, 20, correlation=1),
    span("aten::item", 40, 30),
    call("cudaStreamSynchronize", 45, 20),
    annotation("ProfilerStep#1", 100, 100),
    span("aten::mm", 105, 20),
    launch(106, 2, correlation=2),
    kernel("gemm", 110, 20, correlation=2),
    span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 150, 30),
)


def test_why_the_device_waits_is_hatched_and_adds_up_to_its_idle_time_a_step() -> None:
    waits = section(make_trace(*TWO_STEPS), "Why the device waits")
    # Of 2 x 80 us: the range around the step is open for 90, the loader 30, the call 20, ops 8 + 8, queued 2 + 2.
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert [(fact.label, fact.value, fact.note) for fact in waits.facts] == [
        ("Python between ops", 45_000, ""),
        ("loading data", 15_000, "DataLoader"),
        ("a blocking call", 10_000, "cudaStreamSynchronize"),
        ("op dispatch", 8_000, "most in aten::item"),
        ("launch latency", 2_000, "most in aten::mm"),
    ]
    assert (waits.kind, waits.aside) == ("bars", "per step, of 80 µs")
    # Bars of this phase are hatched, as idle times are on the timeline that shows more of them.
    assert {(fact.phase, fact.view, fact.unit) for fact in waits.facts} == {("waiting", "timeline", "ns")}
    assert [fact.op for fact in waits.facts] == ["", loader, "cudaStreamSynchronize", "aten::item", "aten::mm"]


@pytest.mark.parametrize(("together_us", "name"), [(10, ""), (60, "gloo:all_reduce")])
def test_of_communication_only_the_part_in_which_the_device_idles_is_a_wait(together_us: int, name: str) -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 200),
        launch(0, 1, correlation=1),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1, 50, correlation=1),
        span("aten::mm", 51, 20),
        annotation("gloo:all_reduce", 80, together_us),
    )
    waits = section(trace, "Why the device waits")
    (communication,) = (fact for fact in waits.facts if fact.label == "communication by the host")
    # The kernel of 50 us is no wait, and does not name one.
    assert (communication.value, communication.op) == (together_us * 1000, name)
    values = [float(str(fact.value)) for fact in waits.facts]
    assert values == sorted(values, reverse=True)
    by_cause = idle_table(trace).frame.group_by("cause").agg(pl.col("idle_ns").sum()).rows()
    assert dict(zip((fact.label for fact in waits.facts), values, strict=True)) == {
        CAUSE_TITLES[cause]: ns for cause, ns in by_cause
    }
    assert waits.aside == f"per step, of {format_ns(sum(values))}"


def test_calls_that_hold_the_host_are_hatched_with_their_op_and_what_the_device_did() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        launch(0, 1, correlation=1),
        kernel("gemm", 40, 10, correlation=1),
        span("aten::item", 30, 50),
        call("cudaStreamSynchronize", 40, 40),
        call("cudaMalloc", 85, 5),
    )
    waits = section(trace, "Blocking calls")
    assert [(fact.label, fact.value, fact.note, fact.phase, fact.view) for fact in waits.facts] == [
        ("cudaStreamSynchronize", 40_000, "aten::item, device busy 25 %", "waiting", "timeline"),
        ("cudaMalloc", 5_000, "device busy 0 %", "waiting", "timeline"),
    ]
    assert waits.kind == "bars"


def test_waits_of_the_host_are_named_by_their_call_with_their_line() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 0, 10))
    rows = [
        ("wait", "time.sleep", "/home/me/train.py", 7, 0, 20_000, 50_000, 0),
        ("collection", "gc.collect", "/home/me/train.py", 8, 0, 80_000, 5_000, 0),
        ("wait", None, None, None, 0, 90_000, 2_000, 0),
    ]
    trace = replace(trace, waits=pl.DataFrame(rows, schema=FRAME_SCHEMAS["waits"], orient="row"))
    found = section(trace, "Sleeping and waiting").facts
    assert [(fact.label, fact.value, fact.note, fact.phase, fact.op) for fact in found] == [
        ("time.sleep", 50_000, "me/train.py:7", "idle", ""),
        ("gc.collect", 5_000, "me/train.py:8", "python", ""),
        ("wait", 2_000, "", "idle", ""),
    ]


def test_kernels_are_listed_where_the_ops_of_most_work_are_not_known() -> None:
    step, ops = annotation("ProfilerStep#0", 0, 100), (span("aten::mm", 0, 10), launch(1, 1, correlation=1))
    for early_us, title, first in ((80, "Kernels", "early"), (30, "Ops", "aten::mm")):
        work = kernel("early", 2, early_us, correlation=9), kernel("gemm", 2 + early_us, 95 - early_us, correlation=1)
        found = section(make_trace(step, *ops, *work), title)
        assert (found.facts[0].label, found.facts[0].view) == (first, title.lower())


def test_kernels_are_listed_where_only_a_scope_is_around_the_launch_of_most_work() -> None:
    # The scope launches a graph; the op inside it launches 20 us, or 70 of the 90.
    for graph_us, title, first in ((70, "Kernels", "graph"), (20, "Ops", "aten::mm")):
        scope = annotation("decode", 0, 40), launch(30, 1, correlation=1), span("aten::mm", 5, 10)
        work = launch(6, 1, correlation=2), kernel("graph", 31, graph_us, correlation=1)
        gemm = kernel("gemm", 31 + graph_us, 90 - graph_us, correlation=2)
        found = section(make_trace(annotation("ProfilerStep#0", 0, 130), *scope, *work, gemm), title)
        assert (found.facts[0].label, found.facts[0].view) == (first, title.lower())


def test_loading_data_has_a_color_of_its_own() -> None:
    (fact,) = section(make_trace(*TWO_STEPS), "Loading data").facts
    assert (fact.label, fact.value, fact.phase) == ("DataLoader", 15_000, "data")


def test_a_host_that_never_waits_and_a_run_without_a_device_have_no_such_sections() -> None:
    found = titles(make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 0, 50)))
    assert not {"Why the device waits", "Blocking calls", "Loading data", "Memory", "Lines"} & set(found)


def test_memory_is_drawn_above_its_peaks() -> None:
    trace = make_trace(
        *TWO_STEPS,
        allocation(6, 500, 500),
        allocation(7, 300, 800, address=8192),
        allocation(8, -300, 500, address=8192),
        allocation(9, 64, 64, device=1),
    )
    memory = section(trace, "Memory")
    assert memory.kind == "memory"
    assert {(fact.label, fact.value, fact.unit) for fact in memory.facts} >= {
        ("Peak on cpu", 800, "bytes"),
        ("Peak on cuda:0", 64, "bytes"),
    }
    assert {each.kind for each in overview_facts(make_trace(*TWO_STEPS)).sections} == {"bars", "phases", "facts"}


LINES = ("for batch in loader:", "    loss = model(batch)", "    loss.backward()")


def watched(*events: Event, scopes: tuple[tuple[int, float, float], ...]) -> Trace:
    """A trace with watched lines of a cell; scopes have a line, a start and a duration in us."""
    trace = make_trace(*events)
    sites = [
        {"kind": "line", "parent": -1, "name": text, "file": "cell", "line": at} for at, text in enumerate(LINES, 1)
    ]
    rows = [(line - 1, 0, int(start * 1000), int(dur * 1000), 0) for line, start, dur in scopes]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
        meta=replace(trace.meta, cell=CellSource(filename="cell", label="In [1]", source="\n".join(LINES))),
    )


def test_a_watched_line_is_called_by_its_number_and_text_and_has_the_phase_of_most_of_it() -> None:
    trace = watched(
        annotation("ProfilerStep#0", 0, 200),
        span("aten::mm", 20, 30, **{"Sequence number": 1}),
        span("MmBackward0", 80, 90, **{"Sequence number": 1, "Fwd thread id": 1}),
        scopes=((1, 0, 10), (2, 10, 50), (3, 70, 110)),
    )
    lines = section(trace, "Lines")
    assert [(fact.label, fact.value, fact.note, fact.phase, fact.op) for fact in lines.facts] == [
        # 50 us of its own, and 90 of the 110 us for which line 3 ran.
        ("2  loss = model(batch)", 140_000, "90 µs backward", "backward", "    loss = model(batch)"),
        ("3  loss.backward()", 20_000, "", "python", "    loss.backward()"),
        ("1  for batch in loader:", 10_000, "", "python", "for batch in loader:"),
    ]
    assert (lines.group, lines.aside) == ("top", "host time per step")
    assert {fact.view for fact in lines.facts} == {"source"}


def test_a_function_of_recorded_stacks_is_called_by_its_name_and_noted_by_its_place() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        frame("/home/me/train.py(7): step", 0, 100),
        frame("/home/me/model.py(21): forward", 10, 30),
        span("aten::mm", 15, 20, **{"Sequence number": 1}),
        span("MmBackward0", 60, 12, **{"Sequence number": 1, "Fwd thread id": 1}),
        with_stack=1,
    )
    found = [(fact.label, fact.value, fact.note) for fact in section(trace, "Lines").facts]
    assert found == [("step", 58_000, "me/train.py:7"), ("forward", 42_000, "me/model.py:21 · 12 µs backward")]


def test_a_line_of_stacks_that_were_recorded_at_ops_is_called_by_its_function_and_noted_by_its_place() -> None:
    trace = make_trace(frame("/home/me/train.py(7): step", 0, 100), span("aten::mm", 10, 50), with_stack=1)
    # The frames themselves are not in the file, only the stack of each op.
    events = trace.events.with_columns(
        pl.when(pl.col("category") == "python_function")
        .then(pl.lit("other", CATEGORY))
        .otherwise("category")
        .alias("category")
    )
    (fact,) = section(replace(trace, events=events), "Lines").facts
    assert (fact.label, fact.value, fact.note) == ("step", 50_000, "me/train.py:7")


def test_the_sections_stand_in_reading_order_and_those_about_the_recording_are_folded_away() -> None:
    sections = overview_facts(make_trace(*TWO_STEPS, allocation(6, 500, 500))).sections
    assert [(each.title, each.group) for each in sections] == [
        ("Why the device waits", "main"),
        ("Where the host's time goes", "main"),
        ("What would limit next", "more"),
        ("Blocking calls", "more"),
        ("Loading data", "main"),
        ("Memory", "main"),
        ("Ops", "top"),
        ("Steps", "about"),
        ("Device 0", "about"),
        ("Recording", "about"),
    ]


def test_a_snapshot_says_who_holds_the_memory_at_the_peak() -> None:
    own = [snapshot_frame("/site-packages/torch/nn/linear.py", 9, "forward"), snapshot_frame("/u/train.py", 31, "step")]
    before, of_step = segment(999, at(16384, 7)), entry("alloc", 0, 30, 4096, frames=own)
    trace = snapshot_of(of_step, entry("free_completed", 10, 100, 8192), segments=(before,))
    held = section(trace, "Who holds it")
    assert held.aside == "at the peak of cuda:0"
    assert [(fact.label, fact.note, fact.value) for fact in held.facts] == [
        ("From before the recording", "2 blocks", 107),
        ("step", "u/train.py:31", 30),
    ]
    # Without frames it is only known that the history has its allocation.
    unknown = snapshot_of(entry("alloc", 0, 30, 4096), segments=(before,))
    assert [fact.label for fact in section(unknown, "Who holds it").facts] == ["Without a stack"]
    assert "Who holds it" not in titles(make_trace(span("aten::mm", 0, 50), allocation(1, 8, 8)))


def test_a_snapshot_of_many_lines_sums_up_those_that_hold_the_least() -> None:
    entries = [
        entry("alloc", number, 10 * number, 4096 * number, frames=[snapshot_frame("/u/a.py", number, f"f{number}")])
        for number in range(1, 9)
    ]
    held = section(snapshot_of(*entries), "Who holds it").facts
    assert [fact.label for fact in held] == ["f8", "f7", "f6", "f5", "f4", "f3", "2 more"]
    assert held[-1].value == 30


def test_a_part_has_its_own_numbers_which_are_those_of_its_tables() -> None:
    trace = make_trace(*TWO_STEPS, allocation(5, 100, 100), allocation(150, 300, 400), allocation(160, -300, 100))
    whole, first = overview_facts(trace), overview_facts(trace, TimeRange(0, 100_000))
    of_part = {each.title: each for each in first.sections}
    (memory,) = of_part["Memory"].facts
    assert memory.value == 100  # 400 bytes are of the second step
    phases = of_part["Where the host's time goes"]
    assert phases.aside == "in this range, Python on its own"
    assert sum(float(str(fact.value)) for fact in phases.facts) == 100_000
    ops = {fact.label: fact.value for fact in of_part["Ops"].facts}
    table = ops_table(trace, TimeRange(0, 100_000))
    by = "self_cpu_ns"  # the device works for less than the host does
    assert ops == dict(table.frame.filter(pl.col(by) > 0).select("name", by).iter_rows())
    about = [each for each in whole.sections if each.group == "about"]
    assert [each for each in first.sections if each.group == "about"] == about


def test_half_a_step_has_the_phases_of_its_pieces() -> None:
    trace = make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 20, 40))
    facts = overview_facts(trace, TimeRange(30_000, 80_000)).sections[0].facts
    assert [(fact.label, fact.value) for fact in facts] == [("forward", 30_000), ("python", 20_000)]


def test_the_idle_time_of_a_part_adds_up_by_cause() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100), launch(5, 2, 1), kernel("gemm", 10, 20, 1), launch(60, 2, 2),
        kernel("gemm", 70, 20, 2),
    )  # fmt: skip
    part = TimeRange(0, 50_000)
    (why,) = (each for each in overview_facts(trace, part).sections if each.title == "Why the device waits")
    # From the end of the first kernel to that of the part, and before its beginning.
    assert sum(float(str(fact.value)) for fact in why.facts) == 30_000 == idle_table(trace, part).frame["idle_ns"].sum()
    assert why.aside.startswith("in this range, of 30")
