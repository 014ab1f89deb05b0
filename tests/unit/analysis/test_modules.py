from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from support import annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.analysis.module_outline import modules_view
from torchprof_magic.analysis.modules import modules_table
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

EVENTS = (
    annotation("ProfilerStep#0", 0, 100),
    span("aten::embedding", 5, 5),
    span("aten::mm", 12, 20, **{"Sequence number": 1}),
    launch(13, 1, correlation=1),
    kernel("gemm", 14, 30, correlation=1),
    span("MmBackward0", 60, 20, **{"Sequence number": 1, "Fwd thread id": 1}),
    launch(61, 1, correlation=2),
    kernel("gemm", 62, 25, correlation=2),
    launch(90, 1, correlation=3),
    kernel("optimizer", 91, 7, correlation=3),
)


def module(path: str, class_name: str, parent: int) -> dict[str, object]:
    return {
        "kind": "module", "parent": parent, "name": path, "class_name": class_name, "parameters": 6, "bytes": 24,
    }  # fmt: skip


def watched(*sites: dict[str, object], scopes: list[tuple[int, int, int]]) -> Trace:
    rows = [(site, 0, start * 1000, dur * 1000, 0) for site, start, dur in scopes]
    return replace(
        make_trace(*EVENTS),
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def test_a_module_has_its_own_time_and_that_of_modules_inside_it_forward_and_backward() -> None:
    trace = watched(module("", "Net", -1), module("layers.0", "Linear", 0), scopes=[(0, 4, 40), (1, 11, 25)])
    columns = (
        "path", "class_name", "parent", "calls", "self_cpu_ns", "total_cpu_ns", "device_ns", "self_device_ns",
        "backward_cpu_ns", "backward_device_ns", "self_backward_cpu_ns",
    )  # fmt: skip
    assert modules_table(trace).frame.select(columns).rows() == [
        ("", "Net", None, 1, 15_000, 40_000, 30_000, 0, 20_000, 25_000, 0),
        ("layers.0", "Linear", "", 1, 25_000, 25_000, 30_000, 30_000, 20_000, 25_000, 20_000),
        ("outside of modules", "", None, 0, 0, 0, 7_000, 7_000, 0, 0, 0),
    ]


def test_all_device_work_is_in_one_of_the_rows() -> None:
    trace = watched(module("", "Net", -1), module("layers.0", "Linear", 0), scopes=[(0, 4, 40), (1, 11, 25)])
    frame = modules_table(trace).frame.filter(pl.col("parent").is_null())
    assert frame["device_ns"].sum() + frame["backward_device_ns"].sum() == 62_000


def test_a_strangers_trace_has_the_modules_of_its_python_frames() -> None:
    trace = make_trace(
        *EVENTS,
        frame("nn.Module: Net_0", 4, 40),
        frame("torch/nn/modules/module.py(9): _call_impl", 5, 38),
        frame("nn.Module: Linear_1", 11, 25),
        with_stack=1,
    )
    columns = ("path", "class_name", "parent", "calls", "self_cpu_ns", "total_cpu_ns", "self_device_ns")
    assert modules_table(trace).frame.select(columns).rows()[:2] == [
        ("Net_0", "Net", None, 1, 15_000, 40_000, 0),
        ("Net_0.Linear_1", "Linear", "Net_0", 1, 25_000, 25_000, 30_000),
    ]


def test_without_modules_there_is_nothing_to_show() -> None:
    assert modules_table(make_trace(*EVENTS)).frame.height == 0


def test_three_siblings_of_one_class_are_merged_in_the_view_and_open() -> None:
    sites = [module("", "Net", -1), *(module(f"layers.{n}", "Block", 0) for n in range(3)), module("head", "Linear", 0)]
    scopes = [(0, 0, 90), (1, 0, 10), (2, 10, 20), (3, 30, 30), (4, 60, 20)]
    trace = watched(*sites, scopes=scopes)
    view = modules_view(trace)
    shown = view.frame.select("path", "class_name", "calls", "total_cpu_ns").rows()
    assert shown == [
        ("Net", "Net", 1, 90_000),
        ("layers.0 … layers.2", "Block ×3", 3, 60_000),
        ("layers.0", "Block", 1, 10_000),
        ("layers.1", "Block", 1, 20_000),
        ("layers.2", "Block", 1, 30_000),
        ("head", "Linear", 1, 20_000),
        ("outside of modules", "", 0, 0),
    ]
    ids = dict(zip(view.frame["id"].to_list(), view.frame["path"].to_list(), strict=True))
    around = [ids.get(above, "") for above in view.frame["above"].to_list()]
    merged = "layers.0 … layers.2"
    assert around == ["", "Net", merged, merged, merged, "Net", ""]
    assert modules_table(trace).frame.height == 6  # the merging row is of the view alone


def test_modules_that_are_nested_thousands_deep_are_shown() -> None:
    depth = 3_000
    frames = [frame(f"nn.Module: M_{level}", level, 20_000 - 2 * level) for level in range(depth)]
    view = modules_view(make_trace(*frames, span("aten::mm", depth + 1, 10)))
    assert view.frame["above"].to_list()[:depth] == ["", *map(str, range(depth - 1))]


def test_modules_in_a_ring_are_shown_as_often_as_the_table_has_them() -> None:
    ring = [module("a", "A", -1), module("b", "B", 0), module("a", "A", 1)]
    trace = watched(*ring, scopes=[(0, 0, 90), (1, 0, 80), (2, 0, 70)])
    assert sorted(modules_view(trace).frame["path"]) == sorted(modules_table(trace).frame["path"])
