"""What torch's annotations say of the nodes of CUDA graphs; torch's own functions write them where it has them.

Expected values are worked out by hand: the kernels of a replay take 10, 20, 30 and 40 µs.
"""

from __future__ import annotations

import gzip
import inspect
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from support import annotation, chrome, frame, kernel, make_trace, recording, span

import torchprof_magic as tp
from torchprof_magic.capture.torch_api.graph_notes import known_graph_notes
from torchprof_magic.facts.device.graph_work import graph_work, origins
from torchprof_magic.facts.source.places import module_of_events
from torchprof_magic.ingest import with_graph_notes
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.graph_notes import GraphNote
from torchprof_magic.model.recording import Cycle
from torchprof_magic.run.recorded_trace import trace_of

Event = dict[str, Any]
GRAPH = 12


def node(number: int, graph: int = GRAPH) -> int:
    """The number of a node as torch has it, with that of its graph in the upper 32 bits."""
    return (graph << 32) + number


def replays(*ids: int, count: int = 1, **args: Any) -> list[Event]:
    """Replays of a graph, each in a step of 200 µs: its kernels k0, k1... take 10, 20... µs and have these nodes."""
    events: list[Event] = []
    for replay in range(count):
        at_us = 1_000 * replay
        events += [annotation(f"ProfilerStep#{replay}", at_us, 200), frame("serve.py(8): serve", at_us + 1, 150)]
        events.append(span("cudaGraphLaunch", at_us + 2, 5, cat="cuda_runtime", correlation=replay + 1))
        begin_us = at_us + 10
        for place, number in enumerate(ids):
            work = kernel(f"k{place}", begin_us, 10 * (place + 1), replay + 1)
            work["args"] |= {"graph node id": number, **args}
            events.append(work)
            begin_us += 10 * (place + 1)
    return events


def annotated(events: list[Event], said: dict[int, list[Any]]) -> list[Event]:
    """The events as torch 2.13 and 2.14 write them after a recording."""
    module = pytest.importorskip("torch.cuda._annotate_cuda_graph_trace")  # torch 2.15 has it no longer
    trace = json.loads(json.dumps({"traceEvents": events}))
    assert module.annotate_trace(trace, said) > 0
    return trace["traceEvents"]


def spliced(events: list[Event], said: dict[int, list[Any]]) -> list[Event]:
    """The events as torch 2.15 writes them in its export: keys and values of its dicts as text, and the lane apart."""
    found = json.loads(json.dumps(events))
    for event in found:
        for each in said.get(event["args"].get("graph node id"), []):
            event["args"] |= {key: str(value) for key, value in each.items() if key != "stream"}
            event["args"] |= {"annotated_stream": each["stream"]} if "stream" in each else {}
    return found


class Activity:
    """An event as torch's export in Python gets it."""

    def __init__(self, event: Event) -> None:
        number = event["args"].get("correlation", 0)
        args = json.dumps(event["args"])[1:-1]
        self._values = {
            "device_id": event["pid"],
            "resource_id": event["tid"],
            "timestamp": round(event["ts"] * 1000),
            "duration": round(event["dur"] * 1000),
            "type": event["cat"],
            "name": event["name"],
            "correlation_id": number,
            "metadata_json": args,
        }

    def __getattr__(self, name: str) -> Any:
        return lambda: self._values.get(name, 0) if name != "linked_activity" else None


def exported(events: list[Event], said: dict[int, list[Any]], lanes: str = "none") -> list[Event]:
    """The events as torch 2.15 itself exports them."""
    export = pytest.importorskip("torch.profiler._chrome_trace_export").export_chrome_trace
    if "graph_lanes" not in inspect.signature(export).parameters:
        pytest.skip("torch before 2.15 annotates traces after the recording")
    results = SimpleNamespace(trace_activities=lambda: [*map(Activity, events)], trace_start_ns=lambda: 0)
    with tempfile.TemporaryDirectory() as folder:
        export(results, f"{folder}/trace.json", annotations=said, graph_lanes=lanes)
        trace = json.loads(Path(folder, "trace.json").read_text())
    assert trace["cudaGraphInlineAnnotated"] is True
    return trace["traceEvents"]


def on_lanes(events: list[Event], said: dict[int, list[Any]]) -> list[Event]:
    """The same, with the work moved to the streams that annotations say."""
    return exported(events, said, "all")


def by_recorder(events: list[Event], said: dict[int, list[Any]]) -> list[Event]:
    """The events as torch's own recorder of devices writes them: the graph apart, and the list as text."""
    found = json.loads(json.dumps(events))
    for event in found:
        number = event["args"].get("graph node id")
        if number in said:
            event["args"] |= {"annotation": json.dumps(said[number])}
        if number is not None:
            event["args"] |= {"graph id": number >> 32, "graph node id": number & 0xFFFFFFFF}
    return found


SAID = {
    node(1): [{"name": "attention", "module": "layers.0.attn", "op": "attn"}],
    node(2): [{"name": "attention", "module": "layers.0.attn", "op": "attn", "stream": 7}],
    node(3): [{"name": "mlp", "autograd_phase": "backward"}],
}


@pytest.mark.parametrize("write", [annotated, exported, on_lanes, spliced, by_recorder])
def test_work_of_a_replay_stands_in_the_ranges_modules_and_ops_that_its_annotations_say(write: Any) -> None:
    trace = loaded(write(replays(*map(node, (1, 2, 3, 4)), count=2), SAID))
    report = tp.Report(trace)
    modules = dict(report.modules.select("path", "device_ns").rows())
    assert modules["layers.0.attn"] == 2 * 30_000
    ops = {row[0]: row[1:] for row in report.ops.select("name", "calls", "total_device_ns").rows()}
    assert ops["attn"] == (2, 60_000)
    assert ops["mlp backward"] == (2, 60_000)
    phases = report.kernels.select("name", "phase").rows()
    assert ("k2", "backward") in phases
    assert ("k3", "backward") not in phases


def test_each_replay_of_two_graphs_with_equal_kernels_has_what_its_own_nodes_say() -> None:
    first, second = replays(node(1, 5), node(2, 5), count=2), replays(node(1, 6), node(2, 6))
    second = [{**event, "ts": event["ts"] + 10_000, "args": {**event["args"], "correlation": 9}} for event in second]
    said = {node(1, 5): [{"module": "a"}], node(2, 5): [{"module": "a"}], node(1, 6): [{"module": "b"}]}
    trace = loaded(spliced([*first, *second], said))
    work = trace.events.with_row_index("row").filter(pl.col("category") == "kernel").sort("start_ns")["row"].to_numpy()
    assert module_of_events(trace, work).to_list() == ["a", "a", "a", "a", "b", None]
    assert graph_work(trace).unsure == 0


def test_what_is_not_annotated_has_no_launch_and_is_told() -> None:
    trace = loaded(spliced(replays(*map(node, (1, 2, 3, 4))), SAID))
    assert [p.code for p in tp.Report(trace).problems] == ["run.graph_unmatched"]
    names = trace.events["name"].cast(pl.String)
    assert (origins(trace)[(names == "k3").arg_true().to_numpy()] == graph_launch(trace)).all()
    assert (origins(trace)[(names == "k0").arg_true().to_numpy()] != graph_launch(trace)).all()


def graph_launch(trace: tp.trace.Trace) -> int:
    return trace.events["name"].cast(pl.String).to_list().index("cudaGraphLaunch")


def test_kernels_outside_of_graphs_have_no_node() -> None:
    trace = loaded(replays(0, 0, name="no annotation"))
    assert trace.events["graph_node"].null_count() == trace.events.height
    assert trace.meta.graph_captures == ()


@pytest.mark.parametrize("odd", ["x", 2**70, -1, 1.5, True, None])
def test_odd_numbers_of_nodes_never_fail(odd: Any) -> None:
    trace = loaded(replays(node(1), odd, name="n"))
    assert tp.Report(trace).kernels.height == 2


@pytest.mark.parametrize("odd", ["[" * 5000, "<script>", [1, {"name": ["x"]}], {"name": {}}, 3, "", "x" * 20_000])
def test_odd_annotations_never_fail(odd: Any) -> None:
    trace = loaded(replays(node(1), annotation=odd, module=odd, op=odd, autograd_phase=odd))
    assert tp.Report(trace).modules.height < 4
    assert tp.Report(trace).ops.height < 5


def loaded(events: list[Event]) -> tp.trace.Trace:
    return with_graph_notes(make_trace(*events))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A replay without annotations, and the lines that launched its nodes, as torch 2.15 writes them."""
    replay, stacks = tmp_path / "replay.json", tmp_path / "stacks.json.gz"
    replay.write_bytes(chrome(*replays(*map(node, (1, 2, 3)), count=2)))
    lines = {
        str(node(1)): "/w/model.py:11:forward\n/w/serve.py:3:main",
        str(node(2)): "/w/model.py:12:forward\n/w/serve.py:3:main",
        str(node(3)): "C:\\w\\other.py:7:<lambda>",
    }
    stacks.write_bytes(gzip.compress(json.dumps(lines).encode()))
    return replay, stacks


def test_lines_come_from_the_file_of_stacks_that_torch_writes(files: tuple[Path, Path]) -> None:
    replay, stacks = files
    report = tp.load(replay, capture=stacks)
    assert report.problems == []
    lines = {(file, line): ns for file, line, ns in report.lines.select("file", "line", "device_ns").rows()}
    assert lines[("/w/model.py", 11)] == 2 * 10_000
    assert lines[("/w/model.py", 12)] == 2 * 20_000
    assert lines[("C:\\w\\other.py", 7)] == 2 * 30_000


def test_torch_writes_the_file_of_stacks_that_is_read_here(files: tuple[Path, Path], tmp_path: Path) -> None:
    module = pytest.importorskip("torch.cuda._graph_annotations")
    if not hasattr(module, "dump_kernel_py_stacks"):
        pytest.skip("torch before 2.15 notes no stacks")
    module.record_node_py_stack(node(1), "/w/by_torch.py:5:forward")
    try:
        module.dump_kernel_py_stacks(str(tmp_path / "torchs.json.gz"))
    finally:
        module.remove_kernel_annotations([GRAPH])
    lines = tp.load(files[0], capture=tmp_path / "torchs.json.gz").lines
    assert lines.filter(pl.col("file") == "/w/by_torch.py")["device_ns"].to_list() == [20_000]


def test_a_map_of_annotations_in_json_is_laid_beside_the_stacks(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "said.json").write_text(json.dumps({str(node(1)): [{"module": "head"}], str(node(3)): {"name": "c"}}))
    report = tp.load(files[0], capture=[files[1], tmp_path / "said.json"])
    assert report.modules.filter(pl.col("path") == "head")["device_ns"].to_list() == [20_000]
    assert report.lines.filter(pl.col("line") == 11)["device_ns"].to_list() == [20_000]
    assert "c" in report.ops["name"]


@pytest.mark.parametrize("content", [b"{}", b'{"12": ', b'{"12": "a", "x": 1}', b"\x1f\x8b\x08", b"\x80\x04}."])
def test_files_of_another_kind_are_refused_as_captures(
    files: tuple[Path, Path], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(IngestError):
        tp.load(files[0], capture=tmp_path / "odd")


def test_annotations_stay_with_saved_and_exported_runs(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "replay.json").write_bytes(chrome(*spliced(replays(*map(node, (1, 2, 3)), count=2), SAID)))
    report = tp.load(tmp_path / "replay.json", capture=files[1])
    again = tp.load(report.save(tmp_path / "run.torchprof"))
    assert again.modules.equals(report.modules)
    assert again.lines.equals(report.lines)
    exported = tp.load(report.export(tmp_path / "out.json"))
    columns = ("name", "graph_node", "annotation")
    kernels = [each.events.filter(pl.col("category") == "kernel").select(columns) for each in (report, exported)]
    assert kernels[0].rows() == kernels[1].rows()
    assert exported.modules.select("path", "device_ns").equals(report.modules.select("path", "device_ns"))


def test_a_live_run_has_what_the_process_knows_of_its_graphs(tmp_path: Path) -> None:
    (tmp_path / "cycle_0.json").write_bytes(chrome(*replays(*map(node, (1, 2)))))
    notes = ((node(1), GraphNote(module="body", stack="/w/m.py:4:f")), (node(9), GraphNote(name="never ran")))
    cycle = Cycle(number=0, path=tmp_path / "cycle_0.json", steps=(), start_unix_ns=None)
    run = replace(recording(tmp_path, cycle), graph_notes=notes)
    trace, _ = trace_of(run, title="", cell=None, cell_labels=(), ops_before=lambda _: None)
    modules = tp.Report(trace).modules
    assert modules.filter(pl.col("path") == "body")["device_ns"].to_list() == [10_000]


def test_the_process_knows_what_torch_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("torch.cuda._graph_annotations")
    if hasattr(module, "record_node_annotation"):
        module.record_node_annotation(node(1), {"name": "a", "module": "m"})
    else:
        monkeypatch.setitem(module._kernel_annotations, node(1), [{"str": "a", "module": "m"}])
    try:
        assert known_graph_notes() == ((node(1), GraphNote(name="a", module="m")),)
    finally:
        getattr(module, "remove_kernel_annotations", lambda _: None)([GRAPH])
