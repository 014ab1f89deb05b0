"""The ops as they are shown: with what is in them, and in groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.facts.time_range import TimeRange
from torchprof_magic.model.shapes import Table, top_rows
from torchprof_magic.model.trace import DEVICE_CATEGORIES, FRAME_SCHEMAS, SITES_SCHEMA, Trace
from torchprof_magic.tables.ops.groups import KEYS
from torchprof_magic.tables.ops.op_groups import NOT_KNOWN, brief_json, can_group, ops_grouped, ops_view
from torchprof_magic.tables.ops.op_table import NO_OP, OUTSIDE_OPS, ops_table


def run(name: str, correlation: int, at_us: float, dur_us: float, launched_us: float, tid: int = 1) -> list[Event]:
    """A kernel and its launch, which takes 1 us."""
    return [launch(launched_us, 1, correlation, tid), kernel(name, at_us, dur_us, correlation)]


def names_around(table: Table) -> list[tuple[str, str]]:
    """Return the name of every row and of the row around it."""
    assert table.frame["id"].n_unique() == table.frame.height
    names = dict(table.frame.select("id", "name").rows()) | {"": ""}
    return [(name, names[above]) for name, above in table.frame.select("name", "above").rows()]


def times(table: Table, *columns: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return columns of each row by its name and that of the row around it; times are in us."""
    frame = table.frame.with_columns(pl.col(each) / 1000 for each in table.frame.columns if each.endswith("_ns"))
    return dict(zip(names_around(table), frame.select(columns).rows(), strict=True))


LINEAR = (
    span("aten::linear", 0, 50),
    span("aten::t", 2, 3),
    span("aten::addmm", 10, 30),
    *run("gemm", 1, 20, 30, 12),
    *run("splitK", 2, 50, 5, 15),
    *run("bias", 3, 60, 7, 45),
    span("aten::linear", 100, 40),
    span("aten::addmm", 110, 20),
    *run("gemm", 4, 130, 10, 112),
)


def test_below_an_op_are_the_ops_that_it_called_and_its_own_kernels_the_longest_first() -> None:
    assert names_around(ops_view(make_trace(*LINEAR))) == [
        ("aten::addmm", ""),
        ("gemm", "aten::addmm"),
        ("splitK", "aten::addmm"),
        ("aten::linear", ""),
        ("aten::addmm", "aten::linear"),
        ("aten::t", "aten::linear"),
        ("bias", "aten::linear"),
        ("aten::t", ""),
    ]


def test_what_is_below_an_op_has_its_calls_and_its_time() -> None:
    table = ops_view(make_trace(*LINEAR))
    columns = ("kind", "is_called", "calls", "total_cpu_ns", "self_device_ns", "total_device_ns")
    assert times(table, *columns) == {
        ("aten::addmm", ""): ("cpu_op", False, 2, 50, 45, 45),
        ("gemm", "aten::addmm"): ("kernel", False, 2, None, 40, None),
        ("splitK", "aten::addmm"): ("kernel", False, 1, None, 5, None),
        ("aten::linear", ""): ("cpu_op", False, 2, 90, 7, 52),
        ("aten::addmm", "aten::linear"): ("cpu_op", True, 2, 50, None, 45),
        ("aten::t", "aten::linear"): ("cpu_op", True, 1, 3, None, 0),
        ("bias", "aten::linear"): ("kernel", False, 1, None, 7, None),
        ("aten::t", ""): ("cpu_op", False, 1, 3, 0, 0),
    }
    assert table.sort_by == "self_device_ns"
    assert table.outline is not None
    # Rows that only repeat others are skipped by filters; kernels are not.
    assert (table.outline.aside, table.outline.open_levels) == ("is_called", 0)


def test_the_kernels_of_no_op_are_below_their_row_which_is_open_where_they_are_most_of_the_work() -> None:
    step = annotation("ProfilerStep#1", 0, 300)
    few, most = (make_trace(step, *LINEAR, kernel("early", 100, us, correlation=99)) for us in (4, 90))
    for trace, levels in ((few, 0), (most, 1)):
        outline = ops_view(trace).outline
        assert outline is not None
        assert outline.open_levels == levels
        assert times(ops_view(trace), "calls")["early", OUTSIDE_OPS] == (1,)
    frame = ops_view(most).frame.filter(~pl.col("is_closed"))
    assert frame.filter(above="")["name"].to_list() == [OUTSIDE_OPS]


def test_device_work_of_no_op_has_a_row_of_its_own_in_which_only_its_time_is_known() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 300),
        *LINEAR,
        *run("in no op", 7, 200, 20, 150),
        kernel("early", 1, 4, correlation=99),
    )
    table = ops_view(trace)
    assert ops_table(trace).frame.filter(kind=NO_OP)["calls"].to_list() == [0]
    row = table.frame.filter(kind=NO_OP).row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None and name != "is_closed"} == {
        "id": f"={OUTSIDE_OPS}\n{NO_OP}",
        "above": "",
        "kind": NO_OP,
        "is_called": False,
        "is_rest": True,
        "name": OUTSIDE_OPS,
        "phase": "unknown",
        "self_device_ns": 24_000,
        "total_device_ns": 24_000,
        "on_path_ns": 0,
    }
    assert table.frame.filter(above=row["id"])["name"].to_list() == ["in no op", "early"]


def test_the_ranges_around_steps_are_no_ops_and_call_none() -> None:
    trace = make_trace(annotation("ProfilerStep#1", 0, 300), *LINEAR)
    assert names_around(ops_view(trace)) == names_around(ops_view(make_trace(*LINEAR)))


def test_a_range_around_ops_is_called_a_scope() -> None:
    view = ops_view(
        make_trace(annotation("## forward ##", 0, 50), span("aten::mm", 5, 20), annotation("nccl:all_reduce", 60, 5))
    )
    assert view.note == "note"
    assert dict(view.frame.select("name", "note").iter_rows()) == {
        "## forward ##": "scope",
        "aten::mm": None,
        "nccl:all_reduce": None,
    }


def test_work_of_no_op_and_scopes_that_only_wait_stand_last_but_other_scopes_are_rows_like_all() -> None:
    forward = annotation("forward", 0, 100), *LINEAR
    view = ops_view(make_trace(*forward, kernel("early", 1, 4, correlation=99)))
    assert view.rest == "is_rest"
    assert view.frame.filter("is_rest", above="")["name"].to_list() == [OUTSIDE_OPS]


def test_where_the_ops_of_most_work_are_not_known_that_work_is_no_rest() -> None:
    view = ops_view(make_trace(span("aten::mm", 0, 50), kernel("early", 1, 4, correlation=99)))
    assert not view.frame["is_rest"].any()


@pytest.mark.parametrize(("early_us", "is_rest"), [(21, False), (19, True)])
def test_work_of_no_op_that_is_more_than_that_of_any_op_is_no_rest(early_us: float, *, is_rest: bool) -> None:
    # Two ops of 20 us each: that of none is less than half of all.
    events = []
    for at, name in enumerate(("aten::mm", "aten::add")):
        events += [span(name, 20 * at, 15), launch(20 * at + 1, 1, correlation=at)]
        events += [kernel(name, 100 + 30 * at, 20, correlation=at)]
    view = ops_view(make_trace(*events, kernel("early", 200, early_us, correlation=99)))
    assert view.frame.filter(name=OUTSIDE_OPS)["is_rest"].to_list() == [is_rest]


def test_an_op_and_a_range_of_one_name_have_their_own_rows_and_kernels() -> None:
    trace = make_trace(
        annotation("norm", 0, 50),
        *run("first", 1, 60, 30, 5),
        span("norm", 10, 20),
        *run("second", 2, 90, 10, 15),
    )
    kinds = [
        (row["name"], row["kind"], row["above"].split("\n")[1:], row["is_called"])
        for row in ops_view(trace).frame.to_dicts()
    ]
    assert kinds == [
        ("norm", "user_annotation", [], False),
        ("norm", "cpu_op", ["user_annotation"], True),
        ("first", "kernel", ["user_annotation"], False),
        ("norm", "cpu_op", [], False),
        ("second", "kernel", ["cpu_op"], False),
    ]


def test_an_op_that_calls_itself_counts_once_below_itself() -> None:
    trace = make_trace(
        span("aten::sum", 0, 100),
        span("aten::sum", 10, 80),
        span("aten::sum", 20, 50),
        *run("k", 1, 200, 30, 30),
    )
    columns = ("calls", "total_cpu_ns", "total_device_ns")
    assert times(ops_view(trace), *columns) == {
        ("aten::sum", ""): (3, 100, 30),
        # The call of 50 us is in that of 80 us.
        ("aten::sum", "aten::sum"): (2, 80, 30),
        ("k", "aten::sum"): (1, None, None),
    }


def test_without_a_device_ops_are_in_the_order_of_their_host_time() -> None:
    table = ops_view(make_trace(span("aten::linear", 0, 50), span("aten::addmm", 10, 30), span("aten::t", 2, 3)))
    assert names_around(table) == [
        ("aten::addmm", ""),
        ("aten::linear", ""),
        ("aten::addmm", "aten::linear"),
        ("aten::t", "aten::linear"),
        ("aten::t", ""),
    ]
    assert not {"self_device_ns", "total_device_ns"} & set(table.frame.columns)


def test_an_empty_recording_has_no_rows() -> None:
    assert ops_view(make_trace()).frame.height == 0
    assert all(ops_grouped(make_trace(), key).frame.height == 0 for key in KEYS)


def random_trace(seed: int) -> Trace:
    """Nested ops of a few names on two threads, with kernels and copies, some of them of no op."""
    chance = np.random.default_rng(seed)
    events: list[Event] = [annotation("ProfilerStep#1", 0, 500), annotation("ProfilerStep#2", 500, 500)]

    def add(start: int, end: int, tid: int, depth: int) -> None:
        name = f"op {chance.integers(6)}"
        dims = {"Input Dims": [[int(chance.integers(3))]], "Input type": ["float"]}
        events.append(span(name, start, end - start, tid=tid, **(dims if chance.random() < 0.8 else {})))
        if chance.random() < 0.5 and end - start > 4:
            correlation = len(events)
            events.append(launch(start + 1, 1, correlation, tid))
            events.append(kernel(f"k{chance.integers(3)}", end, int(chance.integers(1, 50)), correlation))
        if depth < 3:
            edges = np.unique(chance.integers(start + 1, end, 4)).tolist() if end - start > 8 else []
            for inner, until in zip(edges[::2], edges[1::2], strict=False):
                add(inner, until, tid, depth + 1)

    for tid in (1, 2):
        for at in range(0, 1000, 100):
            add(at + int(chance.integers(10)), at + int(chance.integers(50, 99)), tid, 0)
    events += [kernel("loose", int(at), 5, 10_000 + int(at)) for at in chance.integers(0, 900, 3)]
    return make_trace(*events)


def device_ns(trace: Trace) -> int:
    return int(trace.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))["dur_ns"].sum())


@pytest.mark.parametrize("seed", sampled(range(25)))
def test_the_rows_of_every_op_add_up_to_it(seed: int) -> None:
    trace = random_trace(seed)
    table = ops_view(trace)
    whole = dict(zip(ops_table(trace).frame["name"], ops_table(trace).frame.to_dicts(), strict=True))
    assert top_rows(table)["self_device_ns"].sum() == device_ns(trace)
    assert table.frame["id"].n_unique() == table.frame.height
    for row in top_rows(table).to_dicts():
        inside = table.frame.filter(above=row["id"])
        kernels = inside.filter(pl.col("kind").is_in(DEVICE_CATEGORIES))
        called = inside.filter("is_called")
        assert kernels.height + called.height == inside.height
        if row["kind"] != NO_OP:
            assert kernels["self_device_ns"].sum() == row["self_device_ns"] == whole[row["name"]]["self_device_ns"]
            if row["total_cpu_ns"] == round(row["mean_cpu_ns"] * row["calls"]):  # else it is recursive
                assert called["total_cpu_ns"].sum() == row["total_cpu_ns"] - row["self_cpu_ns"]
                assert called["total_device_ns"].sum() == row["total_device_ns"] - row["self_device_ns"]


NODES = (
    ("a.py", 4, "mm_1", None, -1, None, "model.py", 9, "x @ y", None, None),
    ("a.py", 5, "mm_2", None, -1, None, "model.py", 12, "y @ z", None, None),
)


def everything() -> Trace:
    """Two ops of forward, one of backward on a thread of its own, and a kernel of no op, in two steps."""
    fx_nodes = pl.DataFrame(list(NODES), schema=FRAME_SCHEMAS["fx_nodes"], orient="row")
    return replace(_everything(), fx_nodes=fx_nodes)


def _everything() -> Trace:
    shaped = {"Input Dims": [[2, 3], []], "Input type": ["c10::Half", "Scalar"]}
    return make_trace(
        annotation("ProfilerStep#1", 0, 100),
        frame("train.py(3): main", 0, 300),
        frame("nn.Module: Net_0", 5, 60),
        span("aten::mm.out", 10, 40, **shaped, **{"Sequence number": 1}),
        *run("gemm", 1, 20, 30, 12),
        annotation("ProfilerStep#2", 100, 200),
        frame("nn.Module: Head_0", 110, 60),
        span("## a.py ##", 114, 36),
        span("## 4 ##", 116, 30),
        span("aten::mm", 120, 20),
        *run("gemm", 2, 140, 5, 122),
        span("MmBackward0", 200, 60, tid=2, **{"Sequence number": 1, "Fwd thread id": 1}),
        *run("gemm", 3, 210, 100, 205, tid=2),
        span("loose op", 400, 8, tid=3),
        kernel("early", 1, 4, correlation=99),
        with_stack=1,
    )


MM, BACKWARD, LOOSE = "aten::mm", "MmBackward0", "loose op"
GROUPS = {
    "shapes": {"2×3, –": [MM], "no shapes": [BACKWARD, MM, LOOSE]},
    "dtypes": {"Half, Scalar": [MM], "no types": [BACKWARD, MM, LOOSE]},
    "overload": {"out": [MM], "no overload": [BACKWARD, MM, LOOSE]},
    "stack": {"nn.Module: Net_0": [MM], "nn.Module: Head_0": [MM], "no stack": [BACKWARD, LOOSE]},
    "thread": {"thread 1": [MM], "thread 2": [BACKWARD], "thread 3": [LOOSE]},
    "line": {"train.py:3": [BACKWARD, MM], "model.py:9": [MM], "no known line": [LOOSE]},
    "module": {"Net_0": [BACKWARD, MM], "Head_0": [MM], "outside of all modules": [LOOSE]},
    "fx_node": {"mm_1": [MM], "outside of compiled code": [BACKWARD, MM, LOOSE]},
    "model_line": {"model.py:9": [MM], "outside of compiled code": [BACKWARD, MM, LOOSE]},
    "phase": {"backward": [BACKWARD], "forward": [MM, LOOSE]},
    "step": {"1": [MM], "2": [BACKWARD, MM], "outside of all steps": [LOOSE]},
    "cycle": {"0": [BACKWARD, MM, LOOSE]},
}


def test_every_key_is_tested_and_has_words_for_ops_without_it() -> None:
    assert set(GROUPS) == set(KEYS) == set(NOT_KNOWN)


@pytest.mark.parametrize("key", GROUPS)
def test_ops_are_below_the_value_that_they_are_grouped_by(key: str) -> None:
    trace = everything()
    table = ops_grouped(trace, key)
    found: dict[str, list[str]] = {}
    for name, around in names_around(table):
        if around:
            found[around].append(name)
        else:
            found[name] = []
    assert found == GROUPS[key] | {OUTSIDE_OPS: []}
    assert can_group(trace, key)
    assert key not in [column.name for column in table.columns]
    assert next(column.title for column in table.columns) == f"{KEYS[key].title}, and its ops"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", [None, *sampled(range(10))])
def test_groups_add_up_to_all_ops_and_all_device_work(key: str, seed: int | None) -> None:
    trace = everything() if seed is None else random_trace(seed)
    table = ops_grouped(trace, key)
    top = top_rows(table)
    ops = ops_table(trace).frame
    assert table.frame["id"].n_unique() == table.frame.height
    assert top["self_device_ns"].sum() == device_ns(trace)
    assert top["self_cpu_ns"].sum() == ops["self_cpu_ns"].sum()
    assert top["calls"].sum() == ops["calls"].sum()
    assert top["self_cpu_ratio"].sum() == pytest.approx(1)
    for group in top.filter(pl.col("kind") != NO_OP).to_dicts():
        inside = table.frame.filter(above=group["id"])
        for column in ("calls", "self_cpu_ns", "self_device_ns"):
            assert inside[column].sum() == group[column]
        # What cannot be added up is empty.
        assert group["total_cpu_ns"] is group["mean_cpu_ns"] is None
    assert top["self_device_ns"].to_list() == sorted(top["self_device_ns"], reverse=True)


def test_a_group_has_the_phase_of_most_of_its_time() -> None:
    trace = make_trace(span("aten::mm", 0, 30), span("aten::add", 40, 30), span("MmBackward0", 80, 40))
    # Forward takes 60 us, though the longest op is of backward.
    (group,) = top_rows(ops_grouped(trace, "step")).to_dicts()
    assert (group["phase"], group["self_cpu_ns"]) == ("forward", 100_000)


def test_groups_without_a_device_have_no_row_for_its_work() -> None:
    table = ops_grouped(make_trace(span("aten::mm", 0, 30), span("aten::add", 40, 50)), "step")
    assert names_around(table) == [
        ("outside of all steps", ""),
        ("aten::add", "outside of all steps"),
        ("aten::mm", "outside of all steps"),
    ]


def test_an_op_and_a_range_of_one_name_stay_apart_in_a_group() -> None:
    table = ops_grouped(make_trace(span("norm", 0, 30), annotation("norm", 40, 50)), "step")
    assert names_around(table)[1:] == [("norm", "outside of all steps")] * 2


def test_inputs_that_look_alike_in_brief_stay_apart_and_an_op_without_inputs_is_in_a_group_too() -> None:
    typed = [span("aten::mm", 10 * at, 1 + at, **{"Input type": kinds}) for at, kinds in enumerate(
        (["c10::Half"], ["Half"], [], [""]),
    )]  # fmt: skip
    found = times(ops_grouped(make_trace(*typed), "dtypes"), "self_cpu_ns")
    assert found == {
        (group, "") if name is None else (name, group): (us,)
        for group, us in (("Half", 2), ('["c10::Half"]', 1), ("no inputs", 3), ("–", 4))
        for name in (None, "aten::mm")
    }


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("[[64, 128], [128, 256]]", "64×128, 128×256"),
        ("[[64], [], 3]", "64, –, 3"),
        ("[[[2, 3], [4]], [[5, 6]]]", "[2×3, 4], [5×6]"),
        ('["float", "c10::Half", "", "Scalar"]', "float, Half, –, Scalar"),
        ("[]", "no inputs"),
        ("no JSON", "no JSON"),
        ("7", "7"),
        ('{"a": [1]}', '{"a": [1]}'),
        ("[" * 100_000, "[" * 100_000),
        ("[" * 900 + "]" * 900, None),
    ],
)
def test_inputs_are_written_as_people_write_them(text: str, brief: str | None) -> None:
    assert brief is None or brief_json(text) == brief
    assert brief_json(text)


def test_a_recording_can_be_grouped_by_what_is_in_it() -> None:
    plain = make_trace(span("aten::mm", 0, 10))
    assert [key for key in KEYS if can_group(plain, key)] == ["phase", "cycle"]
    steps = make_trace(annotation("ProfilerStep#1", 0, 10), annotation("ProfilerStep#2", 10, 10))
    assert can_group(steps, "step")
    assert not can_group(make_trace(annotation("ProfilerStep#1", 0, 10)), "step")
    framed = make_trace(frame("a.py(1): f", 0, 20), span("aten::mm", 0, 10), with_stack=1)
    assert [key for key in KEYS if can_group(framed, key)] == ["stack", "line", "phase", "cycle"]
    sites = [
        {"kind": "line", "parent": -1, "name": "x", "file": "cell", "line": 1},
        {"kind": "module", "parent": -1, "name": "", "class_name": "Net"},
    ]
    for site, key in zip(sites, ("line", "module"), strict=True):
        watched = replace(plain, sites=pl.DataFrame([site], schema=SITES_SCHEMA))
        assert [each for each in ("line", "module") if can_group(watched, each)] == [key]


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="ops cannot be grouped by 'color'"):
        ops_grouped(make_trace(), "color")


def thread(tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": name}}


@pytest.mark.parametrize("names", [("", "a"), ("a", "a\nop")])
def test_a_group_holds_its_own_ops_whatever_it_is_called(names: tuple[str, str]) -> None:
    trace = make_trace(
        *(thread(tid, name) for tid, name in enumerate(names, 1)),
        annotation("ProfilerStep#1", 0, 100, tid=3),
        *(span("op", 5, 10 * tid, tid=tid) for tid in (1, 2)),
    )
    frame = ops_grouped(trace, "thread").frame
    name_of = dict(frame.filter(frame["above"] == "").select("id", "name").rows())
    held = frame.filter(frame["above"] != "")
    times = {(name_of[above], ns) for above, ns in held.select("above", "self_cpu_ns").rows()}
    assert times >= {(names[0], 10_000), (names[1], 20_000)}
    assert set(name_of).isdisjoint(held["id"])
    assert "" not in name_of


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", [None, *sampled(range(5))])
def test_the_groups_of_parts_add_up_to_those_of_the_whole(key: str, seed: int | None) -> None:
    trace = everything() if seed is None else random_trace(seed)
    middle = int((trace.events["start_ns"] + trace.events["dur_ns"]).max() or 0) // 2
    parts = [ops_grouped(trace, key, part) for part in (TimeRange(-1, middle), TimeRange(middle, 10**12))]
    columns = ("self_cpu_ns", "self_device_ns")
    whole, added = (
        pl.concat([top_rows(table).select("name", *columns) for table in tables])
        .group_by("name")
        .agg(pl.col(columns).sum())
        .sort("name")
        for tables in ([ops_grouped(trace, key)], parts)
    )
    assert added.equals(whole)


def test_a_group_of_a_part_has_the_calls_in_it_and_device_work_where_it_runs() -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100),
        span("aten::mm", 10, 30),
        *run("gemm", 1, at_us=80, dur_us=50, launched_us=20),
        annotation("ProfilerStep#2", 100, 100),
        span("aten::mm", 110, 40),
    )
    second = ops_grouped(trace, "step", TimeRange(100_000, 200_000))
    # 30 of the 50 us of the kernel run in the second step, for the op of the first.
    assert times(second, "calls", "self_cpu_ns", "self_device_ns") == {
        ("1", ""): (0, 0, 30),
        ("aten::mm", "1"): (0, 0, 30),
        ("2", ""): (1, 40, 0),
        ("aten::mm", "2"): (1, 40, 0),
    }
