"""Real traces against facts that were counted without any trace library; one test a trace and a kind of fact."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from support import allocation, make_trace, span

from torchprof_magic.facts.device.graph_work import graph_work, replayed_calls
from torchprof_magic.facts.ops.calls import OpRows, ops_around, rows_among
from torchprof_magic.facts.shared import launch_sources
from torchprof_magic.facts.sums import sum_by
from torchprof_magic.facts.time_range import WHOLE
from torchprof_magic.loading import load
from torchprof_magic.model.intervals import depth_of, self_time
from torchprof_magic.model.trace import DEVICE_CATEGORIES, Trace
from torchprof_magic.model.vendors import WORK_CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from torchprof_magic.report.trace_report import Report

IS_STEP = pl.col("name").cast(pl.String).str.starts_with("ProfilerStep#")


@cache
def category_of(cat: str) -> str:
    """Return which of our categories a file's own one becomes."""
    return str(make_trace(span("x", 0, 1, cat=cat)).events["category"][0])


@cache
def device_of(kind_and_id: str) -> str:
    """Return our name of the device that a file writes as its type and number."""
    kind, number = kind_and_id.split(":")
    event = allocation(0, 1)
    event["args"] |= {"Device Type": int(kind), "Device Id": int(number)}
    return str(make_trace(event).memory["device"][0])


def work(report: Report) -> pl.DataFrame:
    return report.events.filter(pl.col("category").is_in(DEVICE_CATEGORIES))


def of_category(report: Report, category: str) -> pl.DataFrame:
    return report.events.filter(pl.col("category") == category)


def launches(report: Report) -> pl.DataFrame:
    return report.flows.filter(pl.col("kind") == "launch")


def is_written_as_op(steps: list[list[Any]]) -> bool:
    return any(category_of(cat) == "cpu_op" for _, cat, _ in steps)


def with_ops_as_written(report: Report, row: dict[str, Any]) -> Trace:
    """Return the trace with steps as ops where the file has them so; the facts nest what the file calls ops."""
    if not is_written_as_op(row.get("profiler_steps", [])):
        return report.trace
    category = pl.when(IS_STEP & (pl.col("category") == "user_annotation")).then(pl.lit("cpu_op"))
    events = report.events.with_columns(category.otherwise(pl.col("category").cast(pl.String)).alias("category"))
    return replace(report.trace, events=events.cast({"category": report.events.schema["category"]}))


def ops_alone(report: Report, row: dict[str, Any]) -> tuple[Trace, OpRows]:
    """Return the ops nested among ops only, as the facts are; ``report.ops`` nests annotations too, as torch does."""
    trace = with_ops_as_written(report, row)
    return trace, rows_among(trace, ("cpu_op",))


def check_categories(report: Report, fact: dict[str, int], row: dict[str, Any]) -> None:
    expected = Counter[str]()
    for cat, count in fact.items():
        if cat != "Trace":  # the profiler's own span over the whole recording
            expected[category_of(cat)] += count
    moved = sum(category_of(cat) == "cpu_op" for _, cat, _ in row.get("profiler_steps", []))
    expected["cpu_op"] -= moved
    expected["user_annotation"] += moved
    found = Counter(report.events["category"].cast(pl.String).to_list())
    if not set(fact).isdisjoint(WORK_CATEGORIES):  # names and processes decide as well, which were not counted
        undecided = ("kernel", "memcpy", "memset", "runtime", "other")
        found["undecided"] = sum(found.pop(category, 0) for category in undecided)
        expected["undecided"] = sum(expected.pop(category, 0) for category in undecided)
    assert found == +expected


def check_kernels(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert of_category(report, "kernel").height == fact
    assert report.devices["kernels"].sum() == fact
    assert report.kernels.filter(pl.col("kind") == "kernel")["calls"].sum() == fact


def check_kernel_sum(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert report.kernels.filter(pl.col("kind") == "kernel")["sum_ns"].sum() == fact


def check_kernel_names(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert report.kernels.filter(pl.col("kind") == "kernel").height == fact


def check_copies(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert of_category(report, "memcpy").height == fact


def check_fills(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert of_category(report, "memset").height == fact


def check_copy_time(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert report.kernels.filter(pl.col("kind") == "memcpy")["sum_ns"].sum() == fact


def check_copied_bytes(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert of_category(report, "memcpy")["bytes"].sum() == fact


def check_devices(report: Report, fact: dict[str, Any], _: dict[str, Any]) -> None:
    table = {str(row["device"]): row for row in report.devices.to_dicts()}
    assert set(table) == set(fact)
    for name, known in fact.items():
        row = table[name]
        launched = known.get("only_launched_in_file", {"n": row["events"]} | known)
        assert {
            "busy_ns": row["busy_ns"],
            "window_ns": row["window_ns"],
            "idle_ns": row["idle_ns"],
            "comm_ns": row["comm_ns"],
            "hidden_comm_ns": row["hidden_comm_ns"],
            "comm_kernels": row["comm_kernels"],
            "launched": (row["launched_events"], row["launched_busy_ns"], row["launched_window_ns"]),
        } == {
            "busy_ns": known["busy_union_ns"],
            "window_ns": known["first_to_last_ns"],
            "idle_ns": known["idle_between_ns"],
            "comm_ns": known["comm_union_ns"],
            "hidden_comm_ns": known["comm_hidden_by_compute_ns"],
            "comm_kernels": known["comm_kernels"],
            "launched": (launched["n"], launched["busy_union_ns"], launched["first_to_last_ns"]),
        }
        streams = work(report).filter(pl.col("device") == int(name)).group_by("stream").len().rows()
        assert {str(stream): count for stream, count in streams} == known["streams"]
        assert row["streams"] == len(known["streams"])


def check_top(rows: list[tuple[Any, ...]], fact: list[list[Any]]) -> None:
    """Compare the highest rows; the facts cut long names, and rows of equal height stand in any order."""
    ranked = sorted(rows, key=lambda row: row[1], reverse=True)
    assert [row[1] for row in ranked[: len(fact)]] == [known[1] for known in fact]
    for name, *numbers in fact:
        assert any(row[0].startswith(name) and list(row[1:]) == numbers for row in ranked), (name, numbers)


def check_top_kernels(report: Report, fact: list[list[Any]], _: dict[str, Any]) -> None:
    kernels = report.kernels.filter(pl.col("kind") == "kernel")
    check_top(kernels.select("name", "sum_ns", "calls").rows(), fact)


def check_triton_kernels(report: Report, fact: int, _: dict[str, Any]) -> None:
    names = of_category(report, "kernel")["name"].cast(pl.String)
    assert int(names.str.starts_with("triton_").sum()) == fact


def check_unlaunched(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert work(report).height - launches(report)["target"].n_unique() == fact


def by_correlation(report: Report) -> pl.Series:
    return work(report).drop_nulls("correlation").group_by("cycle", "correlation").len()["len"]


def check_most_by_one_launch(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert (by_correlation(report).max() or 0) == fact


def check_launches_of_many(report: Report, fact: int, _: dict[str, Any]) -> None:
    assert int((by_correlation(report) > 1).sum()) == fact


def check_launch_names(report: Report, fact: dict[str, int], _: dict[str, Any]) -> None:
    calls = launches(report)["source"].unique()
    assert Counter(report.events["name"].cast(pl.String)[calls].to_list()) == Counter(fact)


def check_nest(rows: pl.DataFrame, ops: OpRows, own: np.ndarray, fact: dict[str, Any]) -> None:
    """Compare the nest, told in the words of the facts.

    The facts put an event of no length inside another one of the same instant; torch puts them side by side. Where
    intervals overlap (``not_nested``), the facts cut the later one off at the end of the earlier; torch takes it for a
    sibling. Depth and summed self time then differ by definition, and ours are torch's.
    """
    names = rows["name"].cast(pl.String)
    is_twin = rows.select(
        (pl.col("dur_ns") == 0)
        & (pl.struct("lane", "start_ns", "dur_ns").shift(1) == pl.struct("lane", "start_ns", "dur_ns"))
    ).to_series()
    ours = {
        "n": rows.height,
        "distinct": names.n_unique(),
        "threads": rows["lane"].n_unique(),
        "roots": int(((ops.parent < 0) & ~is_twin.fill_null(value=False).to_numpy()).sum()),
    }
    if not fact["not_nested"]:
        ours |= {"max_depth": int(depth_of(ops.parent).max()) + 1, "sum_self_ns": int(own.sum())}
    assert ours == {name: fact[name] for name in ours}


def by_name(rows: pl.DataFrame, own: np.ndarray) -> pl.DataFrame:
    calls = rows.select(pl.col("name").cast(pl.String), "dur_ns").with_columns(pl.Series("self", own))
    return calls.group_by("name").agg(pl.col("self", "dur_ns").sum(), pl.len())


def check_ops(report: Report, fact: dict[str, Any], row: dict[str, Any]) -> None:
    trace, ops = ops_alone(report, row)
    own = self_time(ops.parent, ops.dur_ns)
    rows = trace.events[ops.row]
    check_nest(rows, ops, own, fact)
    table = by_name(rows, own)
    check_top(table.select("name", "self", "dur_ns", "len").rows(), fact["top_self"])
    check_top(table.select("name", "len").rows(), fact["top_count"])


def check_op_calls(report: Report, fact: dict[str, Any], row: dict[str, Any]) -> None:
    """The op table itself: it nests annotations too, which changes self times but neither calls nor names.

    Calls that a replayed graph repeats count there as well, and not in the facts.
    """
    trace, alone = ops_alone(report, row)
    again = pl.DataFrame({"name": trace.events["name"][alone.row], "n": replayed_calls(trace, WHOLE)[alone.row]})
    replayed = dict(again.group_by(pl.col("name").cast(pl.String)).agg(pl.col("n").sum()).rows())
    steps = sum(category_of(cat) == "cpu_op" for _, cat, _ in row.get("profiler_steps", []))
    ops = report.ops.filter(pl.col("kind") == "cpu_op")
    assert ops["calls"].sum() == fact["n"] - steps + sum(replayed.values())
    calls = {name: count - replayed[name] for name, count in ops.select("name", "calls").rows()}
    assert [[name, calls[name]] for name, _ in fact["top_count"]] == fact["top_count"]


def check_ops_with_shapes(report: Report, fact: int, row: dict[str, Any]) -> None:
    trace, ops = ops_alone(report, row)
    assert trace.events["shapes"][ops.row].count() == fact


def check_ops_with_call_stack(report: Report, fact: int, row: dict[str, Any]) -> None:
    """Texts at the ops, as in 2021; with Python frames in the file the stacks come from those."""
    if "python" not in row:
        trace, ops = ops_alone(report, row)
        assert trace.events["stack"][ops.row].count() == fact


def check_ops_with_sequence(report: Report, fact: int, row: dict[str, Any]) -> None:
    trace, ops = ops_alone(report, row)
    assert trace.events["sequence"][ops.row].count() == fact


def check_device_time_by_op(report: Report, fact: list[list[Any]], row: dict[str, Any]) -> None:
    """The facts go by the launch. Work of a graph whose capture is in the file belongs to the op that was captured."""
    trace, ops = ops_alone(report, row)
    source = launch_sources(trace)
    work = np.flatnonzero(source >= 0)
    own = sum_by(ops_around(trace, ops.nest, source[work]), trace.events["dur_ns"].to_numpy()[work], len(ops.row))
    assert graph_work(trace).is_matched.any() or own.tolist() == ops.self_device_ns.tolist()
    table = by_name(trace.events[ops.row], own)
    check_top(table.select("name", "self").rows(), fact)


def check_work_outside_ops(report: Report, fact: list[int], row: dict[str, Any]) -> None:
    trace, ops = ops_alone(report, row)
    inside = launches(report).filter(pl.Series(ops_around(trace, ops.nest, launches(report)["source"].to_numpy()) >= 0))
    all_work = trace.events.with_row_index("row").filter(pl.col("category").is_in(DEVICE_CATEGORIES))
    outside = all_work.filter(~pl.col("row").is_in(inside["target"].implode()))
    assert [outside.height, outside["dur_ns"].sum()] == fact


def check_python(report: Report, fact: dict[str, Any], _: dict[str, Any]) -> None:
    frames = rows_among(report.trace, ("python_function",))
    own = self_time(frames.parent, frames.dur_ns)
    rows = report.events[frames.row]
    check_nest(rows, frames, own, fact)
    assert int(rows["name"].cast(pl.String).str.starts_with("nn.Module: ").sum()) == fact["nn_modules"]
    check_top(by_name(rows, own).select("name", "self", "len").rows(), fact["top_self"])


def check_memory(report: Report, fact: dict[str, Any], _: dict[str, Any]) -> None:
    assert set(report.trace.memory["device"].to_list()) == {device_of(key) for key in fact}
    for key, known in fact.items():
        rows = report.trace.memory.filter(pl.col("device") == device_of(key))
        delta, total, reserved = rows["delta_bytes"], rows["allocated_bytes"], rows["reserved_bytes"]
        assert {
            "n": rows.height,
            "allocs": int((delta > 0).sum()),
            "frees": int((delta < 0).sum()),
            "zero": int((delta == 0).sum()),
            "net_bytes": delta.sum(),
            "peak_of_running_sum_from_zero": max(0, delta.cum_sum().max()),
            "peak_total_allocated": total.max(),
            "first_total": total[0],
            "last_total": total[-1],
            "peak_total_reserved": reserved.max() or None,
            "distinct_addr": rows["address"].n_unique(),
        } == {
            name: value or None if name == "peak_total_reserved" else value
            for name, value in known.items()
            if name != "file_order_is_time_order"
        }


def check_steps(report: Report, fact: list[list[Any]], _: dict[str, Any]) -> None:
    spans = report.events.filter(IS_STEP).select(pl.col("name", "category").cast(pl.String), "dur_ns").rows()
    written = Counter((name, step_category(cat), dur) for name, cat, dur in fact)
    assert Counter(spans) == written
    on_host = [(name, dur) for name, cat, dur in fact if step_category(cat) == "user_annotation"]
    steps = [(f"ProfilerStep#{number}", dur) for number, dur in report.steps.select("number", "dur_ns").rows()]
    assert Counter(steps) == Counter(on_host)


def step_category(cat: str) -> str:
    """Return what a step becomes: an operator in old files, an annotation everywhere here."""
    category = category_of(cat)
    return "user_annotation" if category == "cpu_op" else category


def check_arrows(report: Report, fact: dict[str, dict[str, int]], _: dict[str, Any]) -> None:
    arrows = {row["category"]: row for row in report.trace.arrows.to_dicts()}
    names = {"ids": "ids", "s": "starts", "f": "ends", "ids_with_both": "paired"}
    ours = {cat: {name: row[column] for name, column in names.items()} for cat, row in arrows.items()}
    assert ours == fact


def check_rank(report: Report, fact: dict[str, Any], _: dict[str, Any]) -> None:
    meta = report.trace.meta
    assert (meta.rank, meta.world_size) == (fact.get("rank"), fact.get("world_size"))


def check_base_time(report: Report, fact: int, _: dict[str, Any]) -> None:
    """Times in the file count from a base that is at most a quarter of a year old."""
    assert 0 <= report.trace.meta.start_unix_ns - fact < 100 * 86_400 * 10**9


def check_device_names(report: Report, fact: list[str], _: dict[str, Any]) -> None:
    assert list(report.trace.meta.device_names) == list(dict.fromkeys(name for name in fact if name))


CHECKS: dict[str, tuple[Callable[[Report, Any, dict[str, Any]], None], ...]] = {
    "X_by_cat": (check_categories,),
    "kernels": (check_kernels,),
    "kernel_sum_ns": (check_kernel_sum,),
    "distinct_kernel_names": (check_kernel_names,),
    "memcpy": (check_copies,),
    "memset": (check_fills,),
    "memcpy_ns": (check_copy_time,),
    "memcpy_bytes": (check_copied_bytes,),
    "devices": (check_devices,),
    "top_kernels": (check_top_kernels,),
    "triton_kernels": (check_triton_kernels,),
    "gpu_events_without_launch_record": (check_unlaunched,),
    "max_gpu_events_per_correlation": (check_most_by_one_launch,),
    "correlations_with_many": (check_launches_of_many,),
    "launch_names": (check_launch_names,),
    "ops": (check_ops, check_op_calls),
    "ops_with_shapes": (check_ops_with_shapes,),
    "ops_with_call_stack": (check_ops_with_call_stack,),
    "ops_with_seq": (check_ops_with_sequence,),
    "device_ns_by_op_via_launch_nesting": (check_device_time_by_op,),
    "gpu_events_without_enclosing_op": (check_work_outside_ops,),
    "python": (check_python,),
    "memory": (check_memory,),
    "profiler_steps": (check_steps,),
    "flows": (check_arrows,),
    "distributedInfo": (check_rank,),
    "baseTimeNanoseconds": (check_base_time,),
    "device_names": (check_device_names,),
}


def fact_rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["file"]: row for row in json.loads((folder / "facts.json").read_text())}


def known_facts() -> list[tuple[str, str]]:
    """Return every trace and kind of fact in the folder; pytest wants them before any fixture runs."""
    folder = os.environ.get("TORCHPROF_TRACES")
    if not folder:
        return [("", "")]
    return [(file, kind) for file, row in fact_rows(Path(folder)).items() for kind in row if kind in CHECKS]


def find_trace(folder: Path, file: str) -> Path:
    """Return where a trace lies; the facts may name a folder more than there is."""
    inner = folder / Path(*Path(file).parts[1:])
    return next(path for path in (folder / file, inner, *folder.rglob(Path(file).name)) if path.is_file())


@pytest.fixture(scope="module")
def known(traces: Path) -> dict[str, dict[str, Any]]:
    return fact_rows(traces)


@pytest.fixture(scope="module")
def reports(traces: Path) -> Callable[[str], Report]:
    return cache(lambda file: load(find_trace(traces, file)))


@pytest.mark.parametrize(("file", "kind"), known_facts())
def test_the_report_has_the_numbers_that_were_counted_by_hand(
    reports: Callable[[str], Report], known: dict[str, dict[str, Any]], file: str, kind: str
) -> None:
    for check in CHECKS[kind]:
        check(reports(file), known[file][kind], known[file])
