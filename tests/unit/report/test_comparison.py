from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from support import allocation, annotation, kernel, launch, make_trace, span

from torchprof_magic.findings.compare.change_flame import change_flame
from torchprof_magic.findings.compare.changes import Runs, code_change
from torchprof_magic.model.meta import CellSource
from torchprof_magic.model.shapes import Table
from torchprof_magic.model.trace import Trace
from torchprof_magic.model.units import format_ratio
from torchprof_magic.report.changes import explaining_first
from torchprof_magic.report.comparison import Comparison
from torchprof_magic.report.trace_report import Report

STEP_US = 1_000


def program(*, mm_us: float = 400, extra: int = 0, extra_us: float = 20, steps: int = 6, busy: float = 1.0) -> Trace:
    """Steps of one mm and some calls of mul in 1 ms and more; all is ``busy`` times as long."""
    events, at = [], 0.0
    for number in range(steps):
        wiggle = 1 + 0.001 * (number % 3)
        parts = [("aten::mm", mm_us), ("aten::add", 100), *([("aten::mul", extra_us)] * extra)]
        start, length = at, (STEP_US - 400 + mm_us + extra * extra_us) * busy * wiggle
        events.append(annotation(f"ProfilerStep#{number}", start, length))
        for name, own_us in parts:
            events.append(span(name, at + 1, own_us * busy * wiggle))
            at += own_us * busy * wiggle + 1
        at = start + length
    for event in events:  # runs of some seconds
        event["ts"], event["dur"] = event["ts"] * 1_000, event["dur"] * 1_000
    return make_trace(*events)


def compared(before: Trace, after: Trace):  # noqa: ANN201
    return Report(after).compare(Report(before))


def test_the_same_steps_are_unclear_and_nothing_differs() -> None:
    comparison = compared(program(), program())
    assert comparison.kind == "unclear"
    assert comparison.step_ratio == pytest.approx(1)
    assert comparison.ops["delta_ns"].to_list() == [0, 0]
    assert comparison.settings.height == 0


def test_a_slower_op_makes_the_step_slower_and_comes_first() -> None:
    comparison = compared(program(), program(mm_us=500))
    assert (comparison.kind, comparison.certainty) == ("slower", "sure")
    assert comparison.step_ratio == pytest.approx(1.1, abs=0.005)
    assert comparison.interval[0] < 1.1 < comparison.interval[1]
    # The middle half of six steps are those in the middle: 2 of 0.1 % and 2 of 0.2 % more.
    first = comparison.ops.row(0, named=True)
    assert first["name"] == "aten::mm"
    assert first["delta_ns"] == pytest.approx(100_000_000, rel=0.01)
    assert first["after_ns"] - first["before_ns"] == first["delta_ns"]


def test_the_other_way_round_it_is_faster() -> None:
    assert compared(program(mm_us=500), program()).kind == "faster"


def test_calls_that_only_one_run_has_are_found_on_a_machine_that_is_half_as_fast() -> None:
    comparison = compared(program(), program(extra=3, busy=0.5))
    assert comparison.kind == "slower"
    assert comparison.change.basis == "work"
    assert comparison.change.work is not None
    assert (comparison.change.work.name, comparison.change.work.calls_after) == ("aten::mul", 3)
    assert "the machine may have been faster." in comparison.evidence
    # 3 calls of 20 us in a step of 1,060 us: the others take 94.3 % of it.
    assert comparison.step_ratio == pytest.approx(1.06, abs=0.01)
    assert "mostly aten::mul" in comparison.evidence
    assert dict(comparison.ops.select("name", "status").iter_rows())["aten::mul"] == "new"


def test_a_machine_that_makes_everything_slower_alike_is_no_change_of_the_code() -> None:
    comparison = compared(program(), program(busy=1.3))
    assert comparison.kind == "unclear"
    assert comparison.change.drift == pytest.approx(1.3, rel=0.01)


def interrupted(*hits: int, by_us: float = 600, us: float = 200) -> Trace:
    """Steps of five ops of ``us`` each, one after another; each step is interrupted in one of them."""
    events, at = [], 0.0
    for number, hit in enumerate(hits):
        start = at
        for place in range(5):
            length = us + (by_us if place == hit else 0)
            events.append(span(f"aten::op{place}", at, length))
            at += length
        events.append(annotation(f"ProfilerStep#{number}", start, at - start))
    for event in events:  # runs of some seconds
        event["ts"], event["dur"] = event["ts"] * 1_000, event["dur"] * 1_000
    return make_trace(*events)


NOWHERE = -1
QUIET = [NOWHERE] * 10


def test_steps_that_are_interrupted_here_and_there_are_no_change_of_the_code() -> None:
    # Each step takes 1.6 s and not 1 s, but each op its 200 ms in eight of ten steps.
    busy = interrupted(*[0, 1, 2, 3, 4] * 2)
    for comparison in (compared(interrupted(*QUIET), busy), compared(busy, interrupted(*QUIET))):
        assert comparison.kind == "unclear"
        assert comparison.change.fastest_ratio == pytest.approx(1)
        assert comparison.step_ratio == pytest.approx(1.6) or comparison.step_ratio == pytest.approx(1 / 1.6)
        assert "The fastest runs of all ops, added up, changed by only 0 %" in comparison.evidence


def test_an_op_that_takes_longer_in_every_step_is_a_change_of_the_code() -> None:
    comparison = compared(interrupted(*QUIET), interrupted(*[3] * 10))
    assert (comparison.kind, comparison.certainty) == ("slower", "sure")
    assert comparison.change.fastest_ratio == pytest.approx(1.6)
    assert "interrupt" not in comparison.evidence


def test_everything_that_takes_twice_as_long_is_not_put_down_to_interruptions() -> None:
    # All ops take 400 ms in place of 200 ms, also in the eight steps that are not interrupted.
    comparison = compared(interrupted(*QUIET), interrupted(*[0, 1] + [NOWHERE] * 8, us=400))
    assert comparison.change.fastest_ratio == pytest.approx(2)
    assert comparison.kind == "unclear"
    # In a typical step, 120 ms more are interruptions.
    assert comparison.change.drift == pytest.approx(2)
    assert "took 112 % longer after, as on a busier or slower machine" in comparison.evidence
    assert "interrupt" not in comparison.evidence


def test_a_run_without_steps_is_said_to_be_compared_in_all_with_one_step() -> None:
    bare = make_trace(span("aten::mm", 0, 500))
    said = "The run before has no steps: all of its times are compared with one step of the other."
    assert compared(bare, program()).warnings[0] == said
    assert compared(program(), bare).warnings[0] == said.replace("before", "after")
    assert compared(bare, bare).warnings == []


def test_steps_without_the_profiler_are_no_slower_if_the_fastest_are_as_fast() -> None:
    def three(*seconds: float) -> Trace:
        return with_meta(program(steps=3), plain_step_ns=tuple(round(each * 1e9) for each in seconds))

    quiet = three(*[1.0] * 10)
    for steps, kind in (([1.5] * 9 + [1.01], "unclear"), ([1.5] * 10, "slower")):
        comparison = compared(quiet, three(*steps))
        assert comparison.change.is_plain
        assert comparison.step_ratio == pytest.approx(sum(steps) / len(steps))
        assert comparison.kind == kind
        assert ("The fastest steps changed by only +1 %" in comparison.evidence) == (kind == "unclear")


def with_rows(trace: Trace, rows: int, types: str = "float") -> Trace:
    """Return the trace with inputs of so many rows at its ops."""
    is_op = pl.col("category") == "cpu_op"
    texts = {"shapes": f"[[{rows}, 8], [8, 8], []]", "dtypes": f'["{types}", "{types}", "Scalar"]'}
    columns = [
        pl.when(is_op).then(pl.lit(text)).cast(trace.events.schema[name]).alias(name) for name, text in texts.items()
    ]
    return replace(trace, events=trace.events.with_columns(columns))


def test_all_ops_that_take_longer_are_a_change_where_their_inputs_grew() -> None:
    small, large = with_rows(program(), 64), with_rows(program(busy=1.6), 128)
    assert (compared(small, large).kind, compared(large, small).kind) == ("slower", "faster")
    # As large as before, or not known, it may be the machine.
    assert compared(small, with_rows(program(busy=1.6), 64)).kind == "unclear"
    assert compared(small, program(busy=1.6)).kind == "unclear"
    # Types of twice the width are larger, too.
    assert compared(small, with_rows(program(busy=1.6), 64, "double")).kind == "slower"


def test_larger_inputs_do_not_make_all_ops_faster() -> None:
    assert compared(with_rows(program(busy=1.6), 64), with_rows(program(), 128)).kind == "unclear"
    # But what grew by 4 % can be faster by the code of one op.
    assert compared(with_rows(program(mm_us=800), 64), with_rows(program(), 67)).kind == "faster"


def views_of(comparison: Comparison) -> dict[str, dict[str, object]]:
    views = json.loads(comparison.widget._header)["views"]
    return {view["name"]: view for view in views if view["tab"] == "compare"}


def test_the_largest_change_comes_first_under_the_mark_of_its_column() -> None:
    comparison = compared(program(extra=1), program(mm_us=300, extra=3))
    assert comparison.ops["name"].to_list() == ["aten::mm", "aten::mul", "aten::add"]
    sizes = comparison.ops["delta_ns"].abs().to_list()
    assert sizes == sorted(sizes, reverse=True)
    views = views_of(comparison)
    assert {views[name]["sort_by"] for name in ("compare", "compare_phases")} == {"delta_ns"}


def test_of_slower_steps_those_rows_come_first_that_explain_it_and_small_ones_explain_nothing() -> None:
    frame = pl.DataFrame({"name": ["a", "b", "c", "d"], "delta_ns": [-3_181, 3_073, 1_167, 30]})
    table = Table(frame=frame, columns=(), sort_by="delta_ns")
    order = {way: "".join(explaining_first(table, way).frame["name"]) for way in (1, 0, -1)}
    assert order == {1: "bcad", 0: "abcd", -1: "abcd"}
    # It is said where the rows do not stand by the size of their changes.
    said = {way: explaining_first(table, way) for way in (1, 0, -1)}
    answers = {way: each.answer for way, each in said.items() if isinstance(each, Table)}
    assert answers[1].startswith("First what explains the change")
    assert answers[0] == answers[-1] == ""


def with_kernels(kernel_us: dict[str, float], own_us: dict[str, float]) -> Trace:
    """Six steps of 1 ms with ops that run for so long, and each launches a kernel that does."""
    events = []
    for number in range(6):
        at = number * 1_000.0
        events.append(annotation(f"ProfilerStep#{number}", at, 1_000))
        for place, name in enumerate(kernel_us):
            start, correlation = at + 1 + 300 * place, number * 10 + place
            events += [
                span(name, start, own_us[name]),
                launch(start + 1, 2, correlation=correlation),
                kernel(f"{name} kernel", start + 4, kernel_us[name], correlation=correlation),
            ]
    return make_trace(*events)


def test_frames_page_and_text_are_sorted_by_the_change_that_the_first_three_numbers_show() -> None:
    # On the device mul changed by 200 us, add by none; on the host add by 50 us, mul by 10 us.
    before = with_kernels({"aten::mul": 40, "aten::add": 20}, {"aten::mul": 60, "aten::add": 60})
    after = with_kernels({"aten::mul": 240, "aten::add": 20}, {"aten::mul": 70, "aten::add": 110})
    comparison = compared(before, after)
    assert comparison.ops["name"].to_list() == ["aten::mul", "aten::add"]
    assert comparison.ops["device_delta_ns"].to_list() == [200_000, 0]
    assert comparison.ops["delta_ns"].to_list() == [10_000, 50_000]
    view = views_of(comparison)["compare"]
    assert view["sort_by"] == "device_delta_ns"
    shown = [(each["name"], each["title"]) for each in view["columns"] if not each["is_minor"]]  # type: ignore[attr-defined]
    assert shown == [
        ("name", "Name"),
        ("device_before_ns", "Device before"),
        ("device_after_ns", "Device after"),
        ("device_delta_ns", "Device change"),
    ]
    lines = [line.split() for line in comparison.summary().splitlines()]
    assert ["Ops", "device", "before", "device", "after", "device", "change"] in lines
    assert ["aten::mul", "40", "µs", "240", "µs", "▲", "200", "µs"] in lines


def test_what_the_machine_changed_is_said_once_and_in_no_column() -> None:
    comparison = compared(program(), program(extra=3, busy=0.5))
    assert comparison.change.drift == pytest.approx(0.5, rel=0.01)
    changes = [each["name"] for each in views_of(comparison)["compare"]["columns"] if each["is_change"]]  # type: ignore[attr-defined]
    assert changes == ["delta_ns"] == [views_of(comparison)["compare"]["sort_by"]]
    said = "Ops that both runs call equally often took 50 % less time after. A change of about that size in"
    assert comparison.evidence.count(said) == 1


def of_ops(**us: float) -> Trace:
    """Six steps of 1 ms, in which each op runs once for so many us."""
    events = []
    for number in range(6):
        at = number * 1_000.0
        events.append(annotation(f"ProfilerStep#{number}", at, 1_000))
        for name, each_us in us.items():
            events.append(span(name, at + 1, each_us))
            at += each_us + 1
    return make_trace(*events)


def test_how_much_longer_common_ops_took_is_that_of_the_times_in_the_tables() -> None:
    before = of_ops(large=300, a=100, b=100, c=100)
    # Most ops took 40 % longer, and all of them together 360 + 3 · 140 instead of 600 us, which is 30 %.
    change = compared(before, of_ops(large=360, a=140, b=140, c=140)).change
    assert (change.drift, change.shown_drift) == (pytest.approx(1.4), pytest.approx(1.3))
    # Together they took less, so that it is not said that they took longer.
    comparison = compared(before, of_ops(large=150, a=140, b=140, c=140))
    assert (comparison.change.drift, comparison.change.shown_drift) == (pytest.approx(1.4), 1.0)
    assert "Ops that both" not in comparison.evidence


def test_what_is_the_same_is_only_what_is_known_to_be() -> None:
    def same(before: Trace, after: Trace) -> str:
        return Comparison(before, after).page(shown=after, is_first=True).head.same

    assert same(program(), program(mm_us=500)) == "machine, versions and flags"
    assert same(program(), program(extra=2)) == "machine, versions and flags. Different: how often ops are called"
    assert same(with_rows(program(), 8), with_rows(program(), 8)) == "machine, versions, flags and shapes"
    assert same(with_rows(program(), 8), with_rows(program(), 9)) == "machine, versions and flags"


def test_three_steps_are_too_few() -> None:
    comparison = compared(program(steps=3), program(steps=3, mm_us=800))
    assert (comparison.kind, comparison.certainty) == ("unclear", "too few steps")
    assert comparison.interval == (0.0, math.inf)


def with_meta(trace: Trace, **facts: object) -> Trace:
    return replace(trace, meta=replace(trace.meta, **facts))  # type: ignore[arg-type]


def plain_steps(typical_ms: float) -> tuple[int, ...]:
    """Eight steps without the profiler that differ by up to 0.2 %."""
    return tuple(round(typical_ms * 1e6 * (1 + 0.001 * (number % 3))) for number in range(8))


# Steps of about 1 s that differ by up to 20 %, so that they tell no change of some percent.
UNEVEN_NS = tuple(round(seconds * 1e9) for seconds in (1.0, 1.2, 1.05, 1.15, 1.02, 1.1, 1.18, 1.0))


def test_steps_without_the_profiler_are_compared_if_too_few_were_recorded() -> None:
    comparison = compared(
        with_meta(program(steps=3), plain_step_ns=plain_steps(1_000)),
        with_meta(program(steps=3, mm_us=500), plain_step_ns=plain_steps(1_100)),
    )
    assert (comparison.kind, comparison.certainty) == ("slower", "sure")
    assert comparison.step_ratio == pytest.approx(1.1, abs=0.002)
    assert comparison.line == "▲ 100 ms slower per step than before (+10 %)"
    assert "Too few steps were recorded" in comparison.evidence
    header = json.loads(comparison.widget._header)
    assert [len(run["steps"]) for run in header["change"]["runs"]] == [8, 8]


def test_a_few_recorded_steps_tell_of_work_that_the_others_confirm() -> None:
    # 3 calls of 20 us in a step of 1,060 us: the others take 94.3 % of it, so steps are 6 % longer.
    before = with_meta(program(steps=3), plain_step_ns=UNEVEN_NS)
    after = with_meta(program(steps=3, extra=3), plain_step_ns=tuple(round(ns * 1.05) for ns in UNEVEN_NS))
    change = compared(before, after).change
    assert (change.kind, change.basis) == ("slower", "work")
    assert change.ratio == pytest.approx(1.06, abs=0.01)


def test_a_few_recorded_steps_with_other_work_are_chance_if_the_others_did_not_change() -> None:
    before = with_meta(program(steps=3), plain_step_ns=UNEVEN_NS)
    after = with_meta(program(steps=3, extra=3), plain_step_ns=tuple(round(ns * 1.02) for ns in UNEVEN_NS))
    change = compared(before, after).change
    assert (change.kind, change.basis) == ("unclear", "")
    assert change.work is not None


def test_other_programs_that_left_are_no_change_of_the_code() -> None:
    facts = {"cpu_cores": 4, "cpu_threads": 4}
    busy = with_meta(program(mm_us=500), others_share=0.5, **facts)
    quiet = with_meta(program(), others_share=0.1, **facts)
    # Only the mm changed, which alone would be sure.
    assert compared(program(mm_us=500), program()).certainty == "sure"
    comparison = compared(busy, quiet)
    assert comparison.kind == "unclear"
    assert "other programs used 50 % of them before, 10 % after" in comparison.evidence
    # What is faster although others came is faster all the more.
    assert compared(with_meta(busy, others_share=0.1), with_meta(quiet, others_share=0.5)).kind == "faster"
    # One thread finds a free core beside them.
    alone = [with_meta(run, cpu_threads=1) for run in (busy, quiet)]
    assert compared(*alone).kind == "faster"


def test_three_steps_without_the_profiler_are_too_few_as_well() -> None:
    runs = [with_meta(program(steps=3), plain_step_ns=plain_steps(1_000)[:3]) for _ in range(2)]
    comparison = compared(*runs)
    assert comparison.certainty == "too few steps"
    assert not comparison.change.is_plain


def test_what_recording_more_costs_in_one_run_is_no_change_of_the_program() -> None:
    before = with_meta(program(), plain_step_ns=plain_steps(1_000))
    after = with_meta(program(busy=1.3), plain_step_ns=plain_steps(1_000), has_memory=True)
    comparison = compared(before, after)
    assert comparison.kind == "unclear"
    assert comparison.step_ratio == pytest.approx(1)
    assert "Recording more takes time" in comparison.evidence
    assert "busier" not in comparison.evidence


def test_the_ratio_is_that_of_the_times_that_stand_beside_it() -> None:
    # Steps are 40 % longer for the mm, and 2 % of them are calls that only the later run has.
    change = compared(program(), program(mm_us=780, extra=1)).change
    assert change.basis == "steps"
    assert change.ratio == pytest.approx(change.after_ns / change.before_ns)
    assert change.interval[0] < change.ratio < change.interval[1]


def of_steps(*seconds: float) -> Trace:
    """A run whose steps without the profiler are compared."""
    return with_meta(program(steps=3), plain_step_ns=tuple(round(each * 1e9) for each in seconds))


def test_a_difference_that_may_be_chance_is_named_with_how_often_it_is() -> None:
    # 1 s in the mean, and 1.25 s, but of steps of which the longest take twice as long as the shortest.
    before, after = of_steps(*[0.7, 1.3, 0.9, 1.1] * 2), of_steps(*[0.9, 1.6, 1.4, 1.1] * 2)
    comparison = compared(before, after)
    assert comparison.title == "≈ 25 % slower, which may be chance"
    share = format_ratio(comparison.change.p)
    assert comparison.evidence.startswith(
        "The typical step changed by +25 %, but the steps vary so much that two runs of the same code would differ as "
        f"much in {share} of all comparisons."
    )


def test_the_ratio_that_is_shown_is_that_of_the_typical_steps() -> None:
    # The lower quartiles say 10 %. None of the steps is an outlier, and their mean is 1.175 s.
    comparison = compared(of_steps(*[1.0] * 8), of_steps(*[1.1, 1.1, 1.1, 1.4] * 2))
    assert (comparison.change.before_ns, comparison.change.after_ns) == (1e9, 1.175e9)
    assert comparison.step_ratio == 1.175
    assert comparison.title == "▲ 17.5 % slower, sure"
    assert comparison.interval[0] > 1
    assert comparison.interval[1] >= 1.175


def test_steps_of_which_the_faster_and_the_typical_ones_disagree_show_no_change() -> None:
    # Two of five steps take 0.8 s and three 1.2 s: 1.04 s in the mean.
    for before, after in (([1.0], [0.8, 1.2, 1.2, 0.8, 1.2]), ([0.8, 1.2, 1.2, 0.8, 1.2], [1.0])):
        comparison = compared(of_steps(*before * (40 // len(before))), of_steps(*after * (40 // len(after))))
        assert comparison.change.p < 0.01  # of the lower quartiles, which are 20 % apart
        assert (comparison.kind, comparison.certainty, comparison.change.basis) == ("unclear", "not sure", "")
        assert "the typical step did not change in the same direction" in comparison.evidence
        assert comparison.interval[0] < 1 < comparison.interval[1]


def test_an_interval_excludes_no_change_only_where_one_is_told() -> None:
    for mm_us in range(400, 500, 5):
        change = compared(program(), program(mm_us=mm_us)).change
        assert (change.kind == "unclear") == (change.interval[0] <= 1 <= change.interval[1])


def test_runs_without_steps_can_be_compared() -> None:
    comparison = compared(make_trace(span("aten::mm", 0, 10)), make_trace(span("aten::mm", 0, 30)))
    assert comparison.kind == "unclear"
    assert math.isnan(comparison.step_ratio)
    assert comparison.ops.row(0, named=True)["delta_ns"] == 20_000
    assert "no complete step" in comparison.summary()


def test_an_empty_recording_can_be_compared() -> None:
    comparison = compared(make_trace(), program())
    assert comparison.kind == "unclear"
    assert comparison.ops["status"].unique().to_list() == ["new"]


def test_lines_that_moved_in_the_cell_are_the_same_lines() -> None:
    before, after = (
        replace(_with_cell(program(), source), problems=())
        for source in ("a = 1\nfor x in y:\n    f(x)\n", "a = 1\n# new\nfor x in y:\n    f(x)\n")
    )
    code = compared(before, after).code
    assert code.rows() == [
        ("", 1, 1, "a = 1"),
        ("+", None, 2, "# new"),
        ("", 2, 3, "for x in y:"),
        ("", 3, 4, "    f(x)"),
    ]


def _with_cell(trace: Trace, source: str) -> Trace:
    return replace(trace, meta=replace(trace.meta, cell=CellSource(label="In [1]", filename="cell", source=source)))


def test_flags_that_only_one_run_had_are_a_warning_and_a_setting() -> None:
    before, after = program(), program()
    after = replace(after, meta=replace(after.meta, has_shapes=True, torch_version="2.14.0"))
    comparison = compared(before, after)
    assert any("--shapes" in warning for warning in comparison.warnings)
    settings = {row["name"]: (row["before"], row["after"]) for row in comparison.settings.iter_rows(named=True)}
    assert settings["input shapes"] == ("not recorded", "recorded")
    assert settings["torch"] == ("", "2.14.0")


def test_another_cpu_is_a_warning_where_both_are_known() -> None:
    runs = [replace(program(), meta=replace(program().meta, cpu_model=name)) for name in ("Xeon", "EPYC", "")]
    assert any("different machines" in warning for warning in compared(runs[0], runs[1]).warnings)
    assert compared(runs[0], runs[1]).settings.rows() == [("CPU", "Xeon", "EPYC")]
    assert not any("different machines" in warning for warning in compared(runs[0], runs[2]).warnings)


def test_numbers_of_one_recording_are_no_setting() -> None:
    before, after = (
        replace(trace, meta=replace(trace.meta, extra=(("trace_id of cycle 1", number), ("note", number))))
        for trace, number in ((program(), "1"), (program(), "2"))
    )
    assert compared(before, after).settings.rows() == [("note", "1", "2")]


def test_memory_is_compared_by_its_peaks() -> None:
    before, after = (
        make_trace(span("aten::mm", 0, 100), allocation(10, size, size), allocation(20, -size, 0))
        for size in (1_000, 3_000)
    )
    peak = compared(before, after).memory.row(0, named=True)
    assert (peak["device"], peak["name"]) == ("cpu", "peak")
    assert (peak["before_bytes"], peak["after_bytes"], peak["delta_bytes"]) == (1_000, 3_000, 2_000)


def test_kernels_are_compared_where_both_runs_have_a_device() -> None:
    before, after = (
        make_trace(span("aten::mm", 0, 50), launch(5, 2, correlation=1), kernel("gemm", 20, dur, correlation=1))
        for dur in (70, 30)
    )
    comparison = compared(before, after)
    assert comparison.kernels.row(0, named=True)["delta_ns"] == -40_000
    assert comparison.ops.row(0, named=True)["device_delta_ns"] == -40_000
    assert compared(program(), after).kernels.height == 0


def test_only_a_report_can_be_compared() -> None:
    with pytest.raises(TypeError, match="takes a report"):
        Report(program()).compare("run.torchprof")  # type: ignore[arg-type]


def test_hostile_names_are_escaped() -> None:
    trace = make_trace(span("</td><script>alert(1)</script>", 0, 10), span("\x1b[31mred", 20, 5))
    comparison = compared(make_trace(), trace)
    assert "<script>" not in comparison._repr_html_()
    assert "\x1b" not in comparison.summary()
    assert set(comparison._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_the_page_has_a_tab_for_the_comparison_and_opens_there() -> None:
    comparison = compared(program(), program(mm_us=500))
    header = json.loads(comparison.widget._header)
    names = [view["name"] for view in header["views"] if view["tab"] == "compare"]
    assert names == ["compare", "compare_phases", "compare_flame"]
    assert header["first"] == "compare"
    assert header["change_line"] == comparison.line
    assert [len(run["steps"]) for run in header["change"]["runs"]] == [6, 6]
    assert header["change"]["kind"] == "slower"


def test_the_page_says_which_of_the_steps_do_not_count_in_the_typical_ones() -> None:
    def left_out(comparison: Comparison) -> list[list[int]]:
        return [run["left_out"] for run in json.loads(comparison.widget._header)["change"]["runs"]]

    # The second recorded step takes 1.6 s and more than 1.5 times the median of 1 s.
    recorded = interrupted(NOWHERE, 0, *[NOWHERE] * 6)
    assert left_out(compared(interrupted(*QUIET), recorded)) == [[], [1]]
    assert left_out(compared(of_steps(1, 1, 1, 1), of_steps(1, 1, 1, 9))) == [[], [3]]


def test_a_report_without_a_comparison_has_no_such_tab() -> None:
    header = json.loads(Report(program())._forms.page.header)
    assert (header["change"], header["first"], header["change_line"]) == (None, "", "")


def test_the_flame_of_both_is_as_wide_as_the_larger_and_says_what_changed() -> None:
    tree = change_flame(Runs(program(), program(mm_us=500)))
    rows = {row["name"]: row for row in tree.frame.iter_rows(named=True)}
    changed = next(row for name, row in rows.items() if name.startswith("aten::mm"))
    assert changed["name"].startswith("aten::mm ▲ 100 ms")
    assert changed["phase"] == "slower"
    assert changed["total_cpu_ns"] == changed["total_after_ns"] > changed["total_before_ns"]
    assert rows["aten::add"]["phase"] == "same"
    assert tree.frame["parent"][0] == -1
    inside = tree.frame.filter(tree.frame["parent"] == 0)["total_cpu_ns"].sum()
    assert inside <= tree.frame["total_cpu_ns"][0]


def test_a_comparison_is_written_as_one_file(tmp_path: Path) -> None:
    text = compared(program(), program(mm_us=500)).to_html(tmp_path / "c.html").read_text("utf-8")
    assert "&lt;" not in text[:100]
    assert "slower, sure" in text


def test_rows_that_did_not_change_are_not_among_the_largest_changes_and_zero_has_no_unit() -> None:
    same = compared(program(), program())
    assert "Ops" not in [line.split("  ")[0] for line in same.summary().splitlines()]
    new = [line.split() for line in compared(program(), program(extra=3)).summary().splitlines()]
    assert ["aten::mul", "0", "60.1", "ms", "▲", "60.1", "ms"] in new
    assert not any(" 0 ns" in " ".join(line) for line in new)


def test_why_the_device_waits_is_told_in_the_words_of_the_report() -> None:
    def run(op_us: float) -> Trace:
        ops = span("aten::mm", 100, op_us), launch(90 + op_us, 5, correlation=1)
        return make_trace(annotation("ProfilerStep#0", 0, 1_000), *ops, kernel("gemm", 95 + op_us, 20, correlation=1))

    comparison = compared(run(100), run(600))
    assert {"op dispatch", "Python between ops"} <= set(comparison.idle["name"])
    assert "Why the device waits" in comparison.summary()


def test_what_only_one_run_recorded_is_one_sentence() -> None:
    more = with_meta(program(), has_shapes=True, has_stacks=True)
    (warning,) = compared(more, program()).warnings
    assert warning == (
        "Only the run before recorded input shapes and Python stacks (--shapes, --stack), which takes time in its "
        "steps. What both recorded is compared."
    )


def test_code_that_differs_is_not_the_same() -> None:
    def same(before: str, after: str, **other: int) -> str:
        first, second = _with_cell(program(), before), _with_cell(program(**other), after)
        return Comparison(first, second).page(shown=second, is_first=True).head.same

    assert same("a\nb", "a\nb") == "machine, versions and flags"
    assert same("a\nb", "a\nb\nc") == "machine, versions and flags. Different: the code (added line 3 `c`)"
    assert same("a\nb\nc\nd", "a\nx") == (
        "machine, versions and flags. Different: the code (1 line changed and 2 lines removed)"
    )
    assert same("a", "a\nb", extra=2) == (
        "machine, versions and flags. Different: the code (added line 2 `b`) and how often ops are called"
    )


def test_two_lines_that_differ_are_named_and_cannot_end_the_code_that_they_stand_in() -> None:
    def change(before: str, after: str) -> str:
        return code_change(Runs(_with_cell(program(), before), _with_cell(program(), after)))

    assert change("a\nb\nc", "a\n  x = 2\nc\nd") == "changed line 2 to `x = 2` and added line 4 `d`"
    assert change("a\nb\nc", "a\nc") == "removed line 2 `b`"
    assert change("a\nb", "a\n\nb") == "added line 2"
    assert change("a", f"a\n`\u202e{'b' * 80}") == f"added line 2 `'\\u202e{'b' * 57}…`"
    assert change("a", "a\nb\nc\nd") == "3 lines added"
    assert change("%%torchprof -o before\na", "%%torchprof -o after\na") == ""
    assert change("%%torchprof\na", "%%torchprof -o after\na\nb") == "added line 3 `b`"


def test_the_cause_stands_alone_and_how_sure_it_is_tells_that_it_is_of_other_steps_than_the_title() -> None:
    # Recorded steps take 1 s, and 1.38 s after; without the profiler 1 s and 1.5 s.
    slower = with_meta(program(mm_us=780, steps=3), plain_step_ns=(1_500_000_000,) * 8)
    comparison = Comparison(of_steps(*[1.0] * 8), slower)
    assert comparison.change.is_plain
    head = comparison.page(shown=slower, is_first=True).head
    # Steps of 1,000, 1,001 and 1,002 parts: their means are a thousandth more.
    assert head.answer == "Mostly op aten::mm: 400 ms → 781 ms per step."
    assert head.evidence.endswith(" The cause and the tables are of the recorded steps: 1 s → 1.38 s.")
