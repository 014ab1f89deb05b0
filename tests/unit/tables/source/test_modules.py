from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from support import Event, annotation, frame, kernel, launch, make_trace, span

from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.source.module_outline import modules_view
from torchprof_magic.tables.source.modules import modules_table

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Table
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


def watched(*sites: dict[str, object], scopes: list[tuple[int, int, int]], events: tuple[Event, ...] = EVENTS) -> Trace:
    rows = [(site, 0, start * 1000, dur * 1000, 0) for site, start, dur in scopes]
    return replace(
        make_trace(*events),
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


def test_the_forward_and_the_backward_pass_of_a_module_are_one_bar() -> None:
    trace = watched(module("", "Net", -1), module("layers.0", "Linear", 0), scopes=[(0, 4, 40), (1, 11, 25)])
    view = modules_view(trace)
    assert view.frame.select("path", "both_cpu_ns", "both_device_ns").rows() == [
        ("Net", 60_000, 55_000),
        ("layers.0", 45_000, 55_000),
        ("outside of modules", 0, 7_000),
    ]
    # All device work of the model is in its layer; 15 of its 60 us of the host are its own.
    assert view.frame.select("own_cpu_ns", "own_device_ns").rows() == [(15_000, 0), (45_000, 55_000), (None, None)]
    columns = [column for column in view.columns if column.has_bar and not column.is_minor]
    bars = {column.name: tuple(part.column for part in column.parts) for column in columns}
    assert bars == {
        "own_cpu_ns": (),
        "own_device_ns": (),
        "both_cpu_ns": ("total_cpu_ns", "backward_cpu_ns"),
        "both_device_ns": ("device_ns", "backward_device_ns"),
    }
    assert "both_cpu_ns" not in modules_table(trace).frame.columns  # it is of the view alone


def test_a_module_has_the_flops_of_its_ops_and_of_their_backward_nodes_with_those_inside() -> None:
    shapes = {"Input Dims": [[3, 4], [4, 5]]}
    trace = watched(
        module("", "Net", -1), module("layers.0", "Linear", 0), scopes=[(0, 4, 40), (1, 11, 25)],
        events=(
            *EVENTS[:2],
            span("aten::mm", 12, 20, **shapes, **{"Sequence number": 1}),
            *EVENTS[3:6],
            span("aten::mm", 63, 5, **shapes),
            span("aten::mm", 70, 5, **shapes),
            *EVENTS[6:],
        ),
    )  # fmt: skip
    assert modules_table(trace).frame.select("path", "flops", "backward_flops").rows() == [
        ("", 120, 240),
        ("layers.0", 120, 240),
        ("outside of modules", None, None),
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
        ("outside of modules", "", 0, None),  # of neither pass
    ]
    ids = dict(zip(view.frame["id"].to_list(), view.frame["path"].to_list(), strict=True))
    around = [ids.get(above, "") for above in view.frame["above"].to_list()]
    merged = "layers.0 … layers.2"
    assert around == ["", "Net", merged, merged, merged, "Net", ""]
    assert modules_table(trace).frame.height == 6  # the merging row is of the view alone


def all_ran(*sites: dict[str, object]) -> Trace:
    """A trace in which every module ran once, for 1 us."""
    return watched(*sites, scopes=[(site, site, 1) for site in range(len(sites))])


def paths_around(trace: Trace) -> list[tuple[str, str]]:
    """Return the path of every row of the view as it is shown, and that of the row around it."""
    frame = modules_view(trace).frame
    assert frame["id"].n_unique() == frame.height
    paths = dict(frame.select("id", "path").rows()) | {"": ""}
    return [(path, paths[above]) for path, above in frame.select("path", "above").rows()]


def test_two_siblings_are_not_merged_and_a_run_ends_with_another_class() -> None:
    classes = ("A", "A", "B", "C", "C", "C", "C", "A")
    trace = all_ran(module("", "Net", -1), *(module(str(at), name, 0) for at, name in enumerate(classes)))
    assert [path for path, _ in paths_around(trace)] == [
        "Net", "0", "1", "2", "3 … 6", "3", "4", "5", "6", "7", "outside of modules",
    ]  # fmt: skip


def test_what_is_in_merged_modules_stays_below_each_of_them() -> None:
    blocks = [module(f"h.{n}", "Block", 0) for n in range(3)]
    inside = [module(f"h.{n}.mlp", "MLP", 1 + n) for n in range(3)]
    assert paths_around(all_ran(module("", "Net", -1), *blocks, *inside)) == [
        ("Net", ""),
        ("h.0 … h.2", "Net"),
        ("h.0", "h.0 … h.2"),
        ("mlp", "h.0"),
        ("h.1", "h.0 … h.2"),
        ("mlp", "h.1"),
        ("h.2", "h.0 … h.2"),
        ("mlp", "h.2"),
        ("outside of modules", ""),
    ]


def test_a_merged_row_has_sums_where_all_are_known_and_shapes_where_all_are_equal() -> None:
    shaped = [module(str(n), "Linear", 0) | {"inputs": "2×3", "outputs": f"2×{n}"} for n in range(3)]
    unknown = module("1", "Linear", 0) | {"parameters": None, "inputs": "2×3", "outputs": "2×1"}
    view = modules_view(all_ran(module("", "Net", -1), shaped[0], unknown, shaped[2]))
    row = view.frame.filter(pl.col("class_name").str.contains("×")).row(0, named=True)
    assert (row["class_name"], row["calls"], row["total_cpu_ns"], row["bytes"]) == ("Linear ×3", 3, 3_000, 3 * 24)
    assert (row["parameters"], row["inputs"], row["outputs"]) == (None, "2×3", None)


def closed_paths(view: Table) -> list[str]:
    assert view.outline is not None
    assert view.outline.closed is not None
    return view.frame.filter(view.outline.closed)["path"].to_list()


def extra_paths(view: Table) -> list[str]:
    """Return the rows that do not count as modules."""
    assert view.outline is not None
    assert view.outline.extra is not None
    return view.frame.filter(view.outline.extra)["path"].to_list()


def test_merged_rows_are_closed_at_first_but_for_the_path_of_the_most_time() -> None:
    """Three blocks with an attention and a linear module each run, and three with nothing in them."""
    kinds = [("Attention", 10), ("Linear", 5)]
    sites, scopes, at = [module("", "Net", -1)], [(0, 0, 90)], 0
    for number in range(3):
        block = len(sites)
        sites.append(module(f"h.{number}", "Block", 0))
        scopes.append((block, at, (16, 21, 24)[number]))  # the second is as long as the last, or nearly so
        for name, us in kinds:
            scopes.append((len(sites), at, us))
            sites.append(module(f"h.{number}.{name}", name, block))
            at += us
        at += 10
    for number in range(3):
        scopes.append((len(sites), at, 1))
        sites.append(module(f"out.{number}", "Norm", 0))
        at += 1
    view = modules_view(watched(*sites, scopes=scopes, events=(annotation("ProfilerStep#0", 0, 100),)))
    # Open are Net, the blocks, the second of them and its attention.
    assert closed_paths(view) == [
        "h.0", "Attention", "Linear", "Linear", "h.2", "Attention", "Linear",
        "out.0 … out.2", "out.0", "out.1", "out.2",
    ]  # fmt: skip
    assert extra_paths(view) == ["h.0 … h.2", "out.0 … out.2"]
    assert extra_paths(modules_view(all_ran(module("", "Net", -1)))) == ["outside of modules"]


@pytest.mark.parametrize(
    ("shown", "merged", "is_open"),
    # The model, the row outside of modules and that which merges are shown too.
    [(30, 0, True), (31, 0, False), (29, 0, True), (29, 20, True), (30, 20, False)],
)
def test_trees_of_at_most_32_rows_are_open_as_a_whole_not_counting_those_in_merged_rows(
    shown: int, merged: int, is_open: bool
) -> None:
    first = [module("a", "A", 0), module("a.b", "B", 1), module("a.b.c", "C", 2)]
    sites = [*first, *(module(f"a{n}", f"Class{n}", 0) for n in range(shown - 3))]
    sites += [module(f"b{n}", "Same", 0) for n in range(merged)]
    closed = closed_paths(modules_view(all_ran(module("", "Net", -1), *sites)))
    assert ("b" not in closed) == is_open


def test_a_module_whose_parent_did_not_run_is_below_the_closest_one_that_did() -> None:
    sites = module("", "Net", -1), module("enc", "Encoder", 0), module("enc.lin", "Linear", 1)
    trace = watched(*sites, scopes=[(0, 0, 90), (2, 11, 25)])
    assert modules_table(trace).frame.select("path", "parent").rows()[:2] == [("", None), ("enc.lin", "")]
    assert paths_around(trace) == [("Net", ""), ("enc.lin", "Net"), ("outside of modules", "")]
    alone = watched(*sites, scopes=[(2, 11, 25)])
    assert modules_table(alone).frame.select("path", "parent").rows()[:1] == [("enc.lin", None)]
    assert paths_around(alone) == [("enc.lin", ""), ("outside of modules", "")]


def test_modules_that_are_nested_thousands_deep_are_shown() -> None:
    depth = 3_000
    frames = [frame(f"nn.Module: M_{level}", level, 20_000 - 2 * level) for level in range(depth)]
    view = modules_view(make_trace(*frames, span("aten::mm", depth + 1, 10)))
    assert view.frame["above"].to_list()[:depth] == ["", *map(str, range(depth - 1))]


def test_modules_in_a_ring_are_shown_as_often_as_the_table_has_them() -> None:
    ring = [module("a", "A", -1), module("b", "B", 0), module("a", "A", 1)]
    trace = watched(*ring, scopes=[(0, 0, 90), (1, 0, 80), (2, 0, 70)])
    assert sorted(modules_view(trace).frame["path"]) == sorted(modules_table(trace).frame["path"])
