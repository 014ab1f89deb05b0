"""A replay that is loaded with its capture: its tables are those of the captured ops, lines and modules."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import annotation, chrome, frame, kernel, span

import torchprof_magic as tp
from torchprof_magic.__main__ import main

Event = dict[str, Any]
REPLAY = "04_amd_vllm_decode_graph.json.gz"
CAPTURE = "17_amd_vllm_graph_capture_of_04.json.gz"


def capture(*others: Event) -> bytes:
    """Two linear layers of a module, captured in 100 µs: an addmm and a relu each, with frames and shapes."""
    events: list[Event] = [
        frame("serve.py(3): capture", 0, 200),
        span("hipStreamBeginCapture", 5, 1, cat="cuda_runtime", correlation=1),
        frame("model.py(10): forward", 10, 100),
        frame("nn.Module: MLP_0", 11, 98),
        span("hipStreamEndCapture", 120, 1, cat="cuda_runtime", correlation=2),
    ]
    for number in range(2):
        at_us = 20 + 40 * number
        shapes = {"Input Dims": [[8], [4, 16], [16, 8]], "Input type": ["float", "float", "float"]}
        events += [
            frame(f"nn.Module: Linear_{number}", at_us, 30),
            span("aten::addmm", at_us + 1, 8, **shapes),
            launched("gemm", at_us + 2, 10 + number),
            span("aten::relu", at_us + 20, 8),
            launched("relu", at_us + 22, 20 + number),
        ]
    return chrome(*events, *others, record_shapes=1, with_stack=1)


def launched(name: str, start_us: float, correlation: int) -> Event:
    args = {"kernel": name, "grid": [1, 1, 1], "block": [64, 1, 1], "correlation": correlation}
    return span("hipLaunchKernel", start_us, 1, cat="cuda_runtime", **args)


def replay(*kernels: str, replays: int = 2) -> bytes:
    """Steps of 130 µs, each of which replays a graph: the kernels take 10, 20, 30... µs."""
    events: list[Event] = []
    for number in range(replays):
        at_us = 1_000 * number
        events += [
            annotation(f"ProfilerStep#{number}", at_us, 130),
            frame("serve.py(8): serve", at_us + 1, 120),
            span("hipGraphLaunch", at_us + 2, 5, cat="cuda_runtime", correlation=number + 1),
        ]
        begin_us = at_us + 10
        for place, name in enumerate(kernels):
            dur_us = 10 * (place + 1)
            events.append(kernel(name, begin_us, dur_us, number + 1))
            begin_us += dur_us
    return chrome(*events)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "replay.json", tmp_path / "capture.json"
    files[0].write_bytes(replay("gemm", "relu", "gemm", "relu"))
    files[1].write_bytes(capture())
    return files


@pytest.fixture
def report(pair: tuple[Path, Path]) -> tp.Report:
    return tp.load(pair[0], capture=pair[1])


def numbers(table: pl.DataFrame, key: str, *columns: str) -> dict[object, tuple[object, ...]]:
    return {row[0]: row[1:] for row in table.select(key, *columns).rows()}


def test_ops_have_the_work_of_all_replays_and_no_time_on_the_host(report: tp.Report) -> None:
    ops = numbers(report.ops, "name", "calls", "self_device_ns", "self_cpu_ns")
    assert ops["aten::addmm"] == (4, 80_000, 0)  # 10 + 30 µs, twice
    assert ops["aten::relu"] == (4, 120_000, 0)
    assert report.ops["self_device_ns"].sum() == 200_000


def test_ops_have_the_shapes_and_the_flops_of_the_capture(report: tp.Report) -> None:
    (shapes,) = report.ops_by("shapes").filter(pl.col("name") == "aten::addmm")["shapes"]
    assert "4" in shapes
    assert "16" in shapes
    flops = 2 * 4 * 16 * 8
    assert numbers(report.ops, "name", "flops")["aten::addmm"] == (4 * flops,)


def test_each_step_has_the_work_and_the_calls_of_its_own_replay(report: tp.Report) -> None:
    part = report.between(0, 130_000)
    assert numbers(part.ops, "name", "calls", "self_device_ns")["aten::addmm"] == (2, 40_000)
    assert numbers(part.ops, "name", "flops")["aten::addmm"] == (2 * 2 * 4 * 16 * 8,)
    assert numbers(part.modules, "path", "flops")["MLP_0.Linear_0"] == (2 * 4 * 16 * 8,)


def test_what_torch_lists_is_that_of_the_recording_alone(report: tp.Report) -> None:
    assert report.torch_events.filter(pl.col("key").str.starts_with("aten")).height == 0


def test_modules_have_the_work_of_their_ops(report: tp.Report) -> None:
    modules = numbers(report.modules, "path", "device_ns")
    assert modules["MLP_0"] == (200_000,)
    assert modules["MLP_0.Linear_0"] == (60_000,)
    assert modules["MLP_0.Linear_1"] == (140_000,)
    assert numbers(report.modules, "path", "calls")["MLP_0.Linear_1"] == (2,)  # once per replay
    assert numbers(report.between(0, 130_000).modules, "path", "calls")["MLP_0.Linear_1"] == (1,)


def test_lines_have_the_work_of_their_ops(report: tp.Report) -> None:
    lines = {row["file"]: row for row in report.lines.to_dicts()}
    assert lines["model.py"]["device_ns"] == 200_000
    assert lines["model.py"]["line"] == 10
    assert lines["model.py"]["total_cpu_ns"] == 0  # it did not run in this recording
    assert lines["model.py"]["cpu_ns"] == 0
    assert lines["model.py"]["hits"] == 2  # replays


def test_what_the_host_did_is_that_of_the_recording_alone(report: tp.Report, pair: tuple[Path, Path]) -> None:
    alone = tp.load(pair[0])
    for name in ("host", "waits", "idle", "queue", "launches", "coverage", "steps"):
        assert getattr(report, name).equals(getattr(alone, name)), name


def test_kernels_name_the_op_of_the_capture(report: tp.Report) -> None:
    assert numbers(report.kernels, "name", "op") == {"gemm": ("aten::addmm",), "relu": ("aten::relu",)}


def test_the_flame_graph_has_the_work_below_the_captured_calls(report: tp.Report) -> None:
    tree = report._analysis["flame"].frame  # type: ignore[union-attr]
    names, parents = tree["name"].to_list(), tree["parent"].to_list()
    at = names.index("gemm")
    path = []
    while at >= 0:
        path.append(names[at])
        at = parents[at]
    assert path[:3] == ["gemm", "aten::addmm", "nn.Module: Linear"]
    assert "model.py(10): forward" in path


def test_the_verdict_says_whose_ops_they_are(report: tp.Report) -> None:
    assert "was launched by hipGraphLaunch; its ops are those of the capture." in report.summary()
    assert not {problem.code for problem in report.problems} & {"run.graph_launches", "run.graph_unmatched"}


def test_a_saved_run_keeps_the_capture(report: tp.Report, tmp_path: Path) -> None:
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    for name in ("ops", "lines", "modules", "kernels"):
        assert getattr(again, name).equals(getattr(report, name)), name
    assert again.trace.meta == report.trace.meta


def test_an_exported_trace_is_that_of_the_replay_alone(
    report: tp.Report, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    alone = tp.load(pair[0]).export(tmp_path / "alone.json")
    assert report.export(tmp_path / "joined.json").read_bytes() == alone.read_bytes()


def test_the_page_and_the_timeline_have_no_thread_of_the_capture(report: tp.Report) -> None:
    timeline = report._analysis["timeline"]
    titles = [lane.title for lane in timeline.lanes]  # type: ignore[union-attr]
    assert not [title for title in titles if "capture" in title]
    assert report._forms.page.data


def test_kernels_of_the_timeline_have_the_details_of_the_captured_op(report: tp.Report) -> None:
    frame = report._analysis["timeline"].frame.filter(pl.col("kind") == "kernel")  # type: ignore[union-attr]
    gemm, relu = (frame.filter(pl.col("name") == name).row(0, named=True) for name in ("gemm", "relu"))
    assert (gemm["captured_op"], relu["captured_op"]) == ("aten::addmm", "aten::relu")
    assert "16" in gemm["shapes"]
    assert "forward model.py:10" in gemm["stack"]


def test_several_captures_are_given_as_a_list(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(capture().replace(b'"gemm"', b'"conv"'))
    report = tp.load(pair[0], capture=[other, pair[1]])
    assert numbers(report.ops, "name", "self_device_ns")["aten::addmm"] == (80_000,)
    assert [graph.file for graph in report.trace.meta.graph_captures] == ["other.json", "capture.json"]


def test_captures_are_found_in_a_folder_by_the_kernels(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_bytes(capture().replace(b'"gemm"', b'"conv"'))
    (tmp_path / "notes.json").write_text('{"author": "someone"}')
    report = tp.load(pair[0], capture=tmp_path)
    assert numbers(report.ops, "name", "self_device_ns")["aten::addmm"] == (80_000,)
    assert [graph.file for graph in report.trace.meta.graph_captures] == ["capture.json", "other.json"]
    assert "run.no_capture" not in {problem.code for problem in report.problems}


def test_a_folder_without_captures_is_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    pair[1].unlink()
    report = tp.load(pair[0], capture=tmp_path)
    (problem,) = [each for each in report.problems if each.code == "run.no_capture"]
    assert problem.message == f"No captured launch is in {tmp_path.name}, which was loaded as a capture."


def test_the_command_line_takes_captures(pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(pair[0]), "--capture", str(pair[1])]) == 0
    assert "its ops are those of the capture" in capsys.readouterr().out


def test_kernels_that_fit_no_capture_are_counted_and_doubted(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    (tmp_path / "more.json").write_bytes(replay("gemm", "relu", "gemm", "relu", "new"))
    report = tp.load(tmp_path / "more.json", capture=pair[1])
    (problem,) = [each for each in report.problems if each.code == "run.graph_unmatched"]
    assert problem.count == 2
    # 50 of 150 µs.
    assert problem.message == "2 kernels of graphs, 33.3 % of the device time, have no op: they fit no captured launch."
    assert "2 kernels of graphs (33.3 % of the device time) fit no capture." in report.summary()


def test_without_its_capture_a_replay_says_to_load_it(pair: tuple[Path, Path]) -> None:
    (problem,) = [each for each in tp.load(pair[0]).problems if each.code == "run.graph_launches"]
    assert "load(path, capture=path_of_the_capture)" in problem.fix


def test_a_capture_alone_is_called_one(pair: tuple[Path, Path]) -> None:
    (problem,) = [each for each in tp.load(pair[1]).problems if each.code == "run.capture_only"]
    assert problem.message.startswith("This is the recording of a capture: 4 launches were captured into a graph")


def test_a_recording_of_which_a_small_part_is_a_capture_is_not_called_one(tmp_path: Path) -> None:
    plain: list[Event] = []
    for number in range(9):
        at_us = 300 + 20 * number
        plain += [launched("gemm", at_us, 100 + number), kernel("gemm", at_us + 10, 5, 100 + number)]
    path = tmp_path / "mixed.json"
    path.write_bytes(capture(*plain))
    report = tp.load(path)
    assert report.kernels["calls"].sum() == 9
    assert "run.capture_only" not in {problem.code for problem in report.problems}


def test_a_file_that_holds_no_capture_is_named(pair: tuple[Path, Path]) -> None:
    report = tp.load(pair[0], capture=pair[0])
    assert [each.message for each in report.problems if each.code == "run.no_capture"] == [
        "No captured launch is in replay.json, which was loaded as a capture."
    ]


def test_many_ranks_take_no_capture(pair: tuple[Path, Path], tmp_path: Path) -> None:
    for path in ([pair[0]], tmp_path):
        with pytest.raises(ValueError, match="a capture belongs to one recording"):
            tp.load(path, capture=pair[1])  # type: ignore[call-overload]


# The categories of the reference, by the ops that they are of.
CATEGORIES = {
    "vllm::moe_forward": "other",
    "_C::rotary_embedding": "other",
    "SortTokens": "other",
    "TopK": "other",
    "aten::index": "other",
    "aten::addmm": "GEMM",
    "aten::mm": "GEMM",
    "vllm::unified_attention_with_output": "InferenceAttention",
    "_C_cache_ops::reshape_and_cache_flash": "InferenceAttention",
    "triton_poi_fused_0": "triton",
    "triton_poi_fused__to_copy_1": "triton",
    "triton_poi_fused_constant_pad_nd_moe_forward_0": "triton",
    "aiter::rms_norm": "RMSNorm",
    "aiter::rmsnorm2d_fwd_with_add_ck": "RMSNorm",
    "aten::copy_": "elementwise",
    "aten::sub": "elementwise",
}


@pytest.fixture(scope="module")
def real(traces: Path) -> tp.Report:
    return tp.load(traces / REPLAY, capture=traces / CAPTURE)


def test_all_device_time_of_the_real_pair_has_an_op(real: tp.Report) -> None:
    work = real.ops.filter(pl.col("self_device_ns") > 0)
    assert work.filter(pl.col("kind") != "cpu_op").height == 0
    assert work["self_device_ns"].sum() == real.kernels["sum_ns"].sum() == 10_717_708


def test_the_real_pair_has_the_times_of_the_reference_by_category_and_module(real: tp.Report, traces: Path) -> None:
    with (traces / "perf" / "04_ops_summary_by_category.csv").open() as file:
        reference = {
            (row["op category"], row["parent_module"].removeprefix("nn.Module: ").replace("NA", "")): float(
                row["total_direct_kernel_time_ms"]
            )
            for row in csv.DictReader(file)
        }
    found: dict[tuple[str, str], float] = {}
    for row in real.ops_by("module").filter(pl.col("self_device_ns") > 0).to_dicts():
        module = (row["module"] or "").rpartition(".")[2].rpartition("_")[0]
        key = CATEGORIES[row["name"]], module
        found[key] = found.get(key, 0) + row["self_device_ns"] / 1e6
    assert found == pytest.approx(reference, rel=0.01)


def test_the_host_times_of_the_real_pair_are_those_of_the_replay(real: tp.Report, traces: Path) -> None:
    alone = tp.load(traces / REPLAY)
    assert real.lines["cpu_ns"].sum() == alone.lines["cpu_ns"].sum()
    assert real.ops["self_cpu_ns"].sum() == alone.ops["self_cpu_ns"].sum()


def test_the_real_pair_has_the_work_in_its_lines_and_modules(real: tp.Report) -> None:
    assert real.lines["device_ns"].sum() == 10_717_708
    modules = numbers(real.modules, "path", "device_ns")
    assert modules["GptOssForCausalLM_0"] == (10_388_482,)
    assert modules["GptOssForCausalLM_0.GraphModule_0.GraphModule_0"] == (860_775,)


@pytest.fixture(scope="module")
def layers(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The real replay as torch writes it with annotations, every 18 kernels a layer, and the time of each layer."""
    trace = json.loads(gzip.decompress((traces / REPLAY).read_bytes()))
    work = [each for each in trace["traceEvents"] if each.get("cat") in ("kernel", "gpu_memcpy")]
    launches = Counter(each["args"]["correlation"] for each in work)
    replayed = [each for each in work if launches[each["args"]["correlation"]] == 421]
    times: dict[str, int] = defaultdict(int)
    for number, event in enumerate(sorted(replayed, key=lambda each: each["ts"])):
        name = f"layer {number // 18}"
        event["args"] |= {"graph node id": (3 << 32) + number + 1, "name": name}
        times[name] += round(event["dur"] * 1000)
    file = tmp_path_factory.mktemp("annotated") / "annotated.json"
    file.write_text(json.dumps(trace))
    return file, times


def test_the_work_of_the_real_replay_stands_in_the_ranges_that_annotations_say(
    layers: tuple[Path, dict[str, int]],
) -> None:
    report = tp.load(layers[0])
    assert "run.graph_unmatched" not in [problem.code for problem in report.problems]
    found = dict(report.ops.select("name", "total_device_ns").rows())
    assert {name: found[name] for name in layers[1]} == layers[1]


def test_a_capture_of_the_annotated_real_replay_gives_it_ops(
    layers: tuple[Path, dict[str, int]], real: tp.Report, traces: Path
) -> None:
    both = tp.load(layers[0], capture=traces / CAPTURE)
    assert both.ops.filter(pl.col("self_device_ns") > 0).equals(real.ops.filter(pl.col("self_device_ns") > 0))
