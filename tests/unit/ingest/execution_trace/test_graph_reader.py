"""An execution trace opens as tables of its ops and tensors, in both of torch's schemas, whatever is damaged in it."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import torch

import torchprof_magic as tp
from torchprof_magic.model.errors import IngestError, NotATraceError

if TYPE_CHECKING:
    from pathlib import Path

TENSOR = [5, 6, 0, 12, 4, "cuda:0"]
VIEW = [7, 6, 2, 3, 4, "cuda:0"]
ROOT = {"id": 1, "name": "thread"}
OLD = {
    "id": 3, "name": "aten::t", "parent": 1, "tid": 2, "seq_id": -1, "op_schema": "aten::t(Tensor(a) self)",
    "inputs": [TENSOR, 1, "<None>"], "input_shapes": [[4, 3], [], []], "input_types": ["Tensor(float)", "Int", "None"],
    "outputs": [VIEW], "output_shapes": [[3]], "output_types": ["Tensor(float)"],
}  # fmt: skip
NEW = {
    "id": 9, "name": "aten::cat", "ctrl_deps": 3,
    "inputs": {
        "values": [[TENSOR, VIEW], 0],
        "shapes": [[[4, 3], [3]], []],
        "types": ["GenericList[Tensor(float),Tensor(long int)]", "Int"],
    },
    "outputs": {"values": [[8, 9, 0, 15, 4, "cpu"]], "shapes": [[15]], "types": ["Tensor(float)"]},
    "attrs": [
        {"name": "tid", "type": "uint64", "value": 1},
        {"name": "seq_id", "type": "int64", "value": 12},
        {"name": "kernel_file", "type": "string", "value": "k.py"},
    ],
}  # fmt: skip


def written(folder: Path, *nodes: Any, name: str = "graph.json") -> Path:
    path = folder / name
    text = json.dumps({"schema": "1.1.1", "pid": 7, "nodes": nodes, "finish_ts": 3}).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_calls_are_listed_in_order_with_what_they_get_and_give_back(tmp_path: Path, name: str) -> None:
    report = tp.load(written(tmp_path, NEW, ROOT, OLD, name=name))
    assert report.graph_ops.select("id", "name", "inside", "inputs", "outputs").rows() == [
        (1, "thread", "", "", ""),
        (3, "aten::t", "thread", "#5 float [4, 3], 1, None", "#7 float [3]"),
        (9, "aten::cat", "aten::t", "[#5 float [4, 3], #7 long int [3]], 0", "#8 float [15]"),
    ]
    assert report.graph_ops.select("thread", "sequence", "schema", "kernel_file").rows()[1:] == [
        (2, None, "aten::t(Tensor(a) self)", ""),
        (1, 12, "", "k.py"),
    ]
    assert [problem.code for problem in report.problems] == ["graph.no_times"]


def test_tensors_are_listed_with_their_size_maker_and_uses(tmp_path: Path) -> None:
    report = tp.load(written(tmp_path, ROOT, OLD, NEW))
    columns = ("tensor", "dtype", "shape", "device", "size_bytes", "storage", "made_by", "uses", "first_op")
    assert report.graph_tensors.select(columns).rows() == [
        (8, "float", "[15]", "cpu", 60, 9, "aten::cat", 0, 9),
        (5, "float", "[4, 3]", "cuda:0", 48, 6, "", 2, 3),
        (7, "float", "[3]", "cuda:0", 12, 6, "aten::t", 1, 3),
    ]
    found = report.sql("SELECT name FROM graph_ops WHERE inputs LIKE '%#7 %'")
    assert found.rows() == [("aten::cat",)]


def test_the_page_offers_calls_and_tensors_and_a_saved_run_keeps_them(tmp_path: Path) -> None:
    report = tp.load(written(tmp_path, ROOT, OLD, NEW))
    header = json.loads(report._forms.page.header)
    tabs = [(view["name"], view["count"]) for view in header["views"] if view["place"] == "tab"]
    assert tabs == [("overview", None), ("graph_ops", 3), ("graph_tensors", 3)]
    assert (header["first"], header["subtitle"], header["missing"]) == ("graph_ops", "", [])
    again = tp.load(report.save(tmp_path / "a.torchprof"))
    assert again.graph_ops.equals(report.graph_ops)
    assert again.graph_tensors.equals(report.graph_tensors)


def test_an_execution_trace_is_summed_up_as_one_and_not_as_an_empty_recording(tmp_path: Path) -> None:
    report = tp.load(written(tmp_path, ROOT, OLD, NEW))
    assert report.verdict.title == "Execution trace"
    facts = {fact.label: fact.value for section in report._analysis["overview"].sections for fact in section.facts}  # type: ignore[union-attr]
    assert facts == {"Calls": 3, "Tensors on cpu": 60, "Tensors on cuda:0": 60}
    assert report.summary().splitlines()[1] == "3 calls · 3 tensors"


def test_other_reports_have_neither(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"nodes": [1], "traceEvents": []}')
    report = tp.load(path)
    assert (report.graph_ops.height, report.graph_tensors.height) == (0, 0)


@pytest.mark.parametrize(
    "damaged",
    [
        *(1, None, [], {}, {"id": 4}, {"id": "4", "name": "x"}, {"id": -4, "name": "x"}, {"id": 4, "name": None}),
        *({"id": 2**70, "name": "x"}, {"id": 1, "name": "twice"}),
    ],
)
def test_a_node_that_cannot_be_read_is_left_out_and_counted(tmp_path: Path, damaged: Any) -> None:
    report = tp.load(written(tmp_path, ROOT, damaged))
    assert report.graph_ops["name"].to_list() == ["thread"]
    assert {problem.code: problem.count for problem in report.problems} == {"graph.no_times": 1, "graph.damaged": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": [[5, 6, 0, 12, 4]]},
        {"inputs": [[5, 6, 0, 2**49, 2**49, "cpu"]]},
        {"inputs": [[5, -6, 0, 12, 4, "cpu"]]},
        {"inputs": [[True, 6, 0, 12, 4, "cpu"]]},
        {"inputs": [5], "input_types": [7]},
        {"inputs": [[[[[[[[[[[1]]]]]]]]]]], "input_types": ["GenericList[" * 40 + "Tensor(float)"]},
        {"input_shapes": [], "input_types": []},
        {"parent": 77},
        {"parent": 3},
        {"tid": "x", "seq_id": 1.5, "op_schema": 3},
    ],
)
def test_odd_values_of_a_node_are_no_tensors_and_do_no_harm(tmp_path: Path, change: dict[str, Any]) -> None:
    report = tp.load(written(tmp_path, ROOT, OLD | {"outputs": []} | change))
    assert report.graph_ops["name"].to_list() == ["thread", "aten::t"]
    if change.keys() & {"inputs", "input_types"}:
        assert report.graph_tensors.height == 0
    tp.load(report.save(tmp_path / "a.torchprof"))


def test_a_file_that_is_cut_off_or_has_no_ops_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ROOT, OLD)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(IngestError, match="the execution trace is cut off or damaged"):
        tp.load(path)
    with pytest.raises(NotATraceError, match="an execution trace without any op"):
        tp.load(written(tmp_path))


def test_the_ops_of_a_live_run_are_those_of_its_profile(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    with tp.profile(execution_trace=path) as p:
        torch.nn.Linear(3, 2)(torch.ones(4, 3)).sum().backward()
    graph = tp.load(path)
    ops = graph.graph_ops.filter(pl.col("name").str.starts_with("aten::")).group_by("name").len("calls")
    recorded = p.report.ops.filter(pl.col("name").str.starts_with("aten::")).select("name", pl.col("calls"))
    assert dict(ops.rows()) == dict(recorded.rows())
    made = graph.graph_tensors.filter(pl.col("made_by") == "aten::ones")
    assert made.select("shape", "dtype", "size_bytes").row(0) == ("[4, 3]", "float", 48)


def test_a_real_execution_trace_has_all_of_its_nodes(traces: Path) -> None:
    path = traces / "11_execution_trace_linear.json.gz"
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    report = tp.load(path)
    assert report.graph_ops["id"].to_list() == sorted(node["id"] for node in nodes)
    tensors = {(value[0], value[1]) for node in nodes for value in (*node["inputs"], *node["outputs"])
               if isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)}  # fmt: skip
    assert set(report.graph_tensors.select("tensor", "storage").rows()) == tensors
