from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from amount import sampled
from support import annotation, frame, kernel, launch, make_trace, span
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from torchprof_magic.exporters.collapsed import write_collapsed
from torchprof_magic.exporters.speedscope import SCHEMA_URL, write_speedscope
from torchprof_magic.loading import load
from torchprof_magic.model.trace import Trace
from torchprof_magic.report.trace_report import Report


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def check_speedscope(data: bytes) -> dict[str, Any]:
    """Hold a file to the published schema, and every opened frame to its closing."""
    document: dict[str, Any] = json.loads(data, parse_constant=refuse)
    assert document["$schema"] == SCHEMA_URL
    frames = document["shared"]["frames"]
    for one in frames:
        assert isinstance(one["name"], str)
        assert set(one) <= {"name", "file", "line", "col"}
    for found in document["profiles"]:
        assert (found["type"], found["unit"]) == ("evented", "nanoseconds")
        assert isinstance(found["name"], str)
        check_balance(found, len(frames))
    return document


def check_balance(found: dict[str, Any], frames: int) -> None:
    events, opened = found["events"], []
    assert all(first["at"] <= second["at"] for first, second in pairwise(events)), "times go back"
    assert found["startValue"] <= events[0]["at"]
    assert events[-1]["at"] <= found["endValue"]
    for event in events:
        assert 0 <= event["frame"] < frames
        if event["type"] == "O":
            opened.append(event["frame"])
        else:
            assert event["type"] == "C"
            assert opened.pop() == event["frame"], "another frame is closed than was opened last"
    assert not opened, "frames stay open"


def moves(document: dict[str, Any], at: int = 0) -> list[tuple[str, str, int]]:
    names = [one["name"] for one in document["shared"]["frames"]]
    return [(event["type"], names[event["frame"]], event["at"]) for event in document["profiles"][at]["events"]]


def speedscope(trace: Trace, folder: Path) -> dict[str, Any]:
    return check_speedscope(write_speedscope(trace, folder / "t.speedscope.json").read_bytes())


def test_speedscope_opens_and_closes_every_event_inside_its_parent(tmp_path: Path) -> None:
    trace = make_trace(span("a", 0, 10), span("b", 0, 4), span("zero", 4, 0), span("c", 4, 6), span("d", 12, 0))
    assert moves(speedscope(trace, tmp_path)) == [
        ("O", "a", 0),
        ("O", "b", 0),
        ("C", "b", 4000),
        ("O", "c", 4000),
        ("O", "zero", 4000),
        ("C", "zero", 4000),
        ("C", "c", 10000),
        ("C", "a", 10000),
        ("O", "d", 12000),
        ("C", "d", 12000),
    ]


def test_speedscope_has_a_profile_for_each_thread_and_stream_and_for_what_overlaps(tmp_path: Path) -> None:
    trace = make_trace(
        span("a", 0, 10), span("outlives a", 5, 10), span("inside", 6, 2), launch(1, 1, 9), kernel("gemm", 5, 40, 9)
    )
    document = speedscope(trace, tmp_path)
    assert [found["name"] for found in document["profiles"]] == [
        "thread 1 (process 7)",
        "thread 1 (overlapping) (process 7)",
        "device 0 stream 7 (device 0)",
    ]
    assert [name for kind, name, _ in moves(document, 1) if kind == "O"] == ["outlives a", "inside"]
    assert {found["endValue"] for found in document["profiles"]} == {45_000}


def test_speedscope_frames_of_python_functions_have_file_and_line(tmp_path: Path) -> None:
    document = speedscope(make_trace(frame("dir/train.py(12): step", 0, 9), span("aten::mm", 1, 2)), tmp_path)
    assert document["shared"]["frames"] == [
        {"name": "dir/train.py(12): step", "file": "dir/train.py", "line": 12},
        {"name": "aten::mm"},
    ]


def test_speedscope_files_can_hold_hostile_names_and_empty_recordings(tmp_path: Path) -> None:
    names = ['"\\', "\0\x1b", "</script>", "模型 😀", ""]
    document = speedscope(make_trace(*[span(name, at, 1) for at, name in enumerate(names)]), tmp_path)
    assert [one["name"] for one in document["shared"]["frames"]] == names
    assert speedscope(make_trace(), tmp_path)["profiles"] == []


def test_every_real_trace_gives_a_balanced_speedscope_file(traces: Path, tmp_path: Path) -> None:
    for path in sampled(sorted(traces.glob("0*.json.gz"))):
        trace = load(path).trace
        document = speedscope(trace, tmp_path)
        assert sum(len(found["events"]) for found in document["profiles"]) == 2 * trace.events.height, path.name


def collapsed(trace: Trace, folder: Path, metric: str = "self_cpu_time") -> list[str]:
    return write_collapsed(trace, folder / "t.collapsed", metric).read_text().splitlines()


def test_collapsed_stacks_hold_each_events_own_time_once(tmp_path: Path) -> None:
    trace = make_trace(
        frame("train.py(3): step", 0, 20),
        span("aten::linear", 2, 10),
        span("aten::mm", 3, 4),
        span("aten::linear", 13, 1),
        span("aten::tiny", 15, 0.5),
    )
    # The frame's own: 20 - 10 - 1 - 0.5 = 8.5, written in whole us; what is below a us is left out.
    assert collapsed(trace, tmp_path) == [
        "train.py(3):_step 8",
        "train.py(3):_step;aten::linear 7",
        "train.py(3):_step;aten::linear;aten::mm 4",
    ]


def test_collapsed_device_time_belongs_to_what_called_the_launch(tmp_path: Path) -> None:
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 90),
        span("aten::mm", 2, 30),
        launch(4, 2, correlation=1),
        launch(50, 2, correlation=2),
        kernel("gemm", 20, 70, correlation=1),
        kernel("gemm", 95, 5, correlation=1, stream=8),
        kernel("copy", 60, 9, correlation=2),
        kernel("queued before", 1, 3, correlation=99),
    )
    assert collapsed(trace, tmp_path, "self_device_time") == ["ProfilerStep#1 9", "ProfilerStep#1;aten::mm 75"]


def test_nothing_in_a_name_can_end_a_frame_or_a_line(tmp_path: Path) -> None:
    trace = make_trace(span("a;b c\td\r\ne\u2028f\x85g", 0, 10), span("", 2, 5))
    assert collapsed(trace, tmp_path) == ["a_b_c_d__e_f_g 5", "a_b_c_d__e_f_g;_ 5"]


def test_an_unknown_metric_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="self_cpu_time, self_device_time"):
        Report(make_trace()).export(tmp_path / "a.txt", metric="wall")


def work() -> None:
    # No backward pass: torch gives its ops the stacks of their forward ops, here every event stands where it ran.
    layer = torch.nn.Linear(64, 64)
    with torch.no_grad():
        for _ in range(3):
            layer(torch.randn(64, 64)).relu().sum()


def test_collapsed_stacks_have_the_numbers_of_torchs_export_stacks(tmp_path: Path) -> None:
    # Without `verbose` torch 2.13 leaves event.stack empty, and its export_stacks writes an empty file.
    config = _ExperimentalConfig(verbose=True)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=config) as profiler:
        work()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    profiler.export_stacks(str(tmp_path / "theirs.txt"), "self_cpu_time_total")
    theirs, lines = Counter[str](), Counter[str]()
    for line in (tmp_path / "theirs.txt").read_text().splitlines():
        stack, value = line.rsplit(" ", 1)
        theirs[stack] += int(value)
        lines[stack] += 1
    if not theirs:
        pytest.skip("this torch writes no stacks")
    ours = Counter[str]()
    for line in collapsed(load(tmp_path / "trace.json").trace, tmp_path):
        stack, value = line.rsplit(" ", 1)
        # torch's stack is that of Python frames alone, and without the event that spent the time.
        frames = [name for name in stack.split(";")[:-1] if re.search(r"\(\d+\):_|^<built-in|^nn\.Module", name)]
        ours[";".join(frames)] += int(value)
    assert "aten" not in "".join(theirs)
    for stack, value in theirs.items():
        # Each of torch's lines drops a fraction of a us, and so does each of ours.
        assert ours[stack] == pytest.approx(value, abs=2 * lines[stack] + 2), stack
