"""What goes to the process that makes early reports arrives as it was, and its page is that of the recording."""

from __future__ import annotations

import io
import json
from array import array
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
import torch
from torch import nn

from torchprof_magic.capture import CaptureSession
from torchprof_magic.ingest import read_chrome, with_what_files_say
from torchprof_magic.model.meta import CellSource, Meta, Stepping
from torchprof_magic.model.recording import HostLine, LineSite, LiveStorage, ProgramMarks, TagBatch, TaggedTensor
from torchprof_magic.model.trace import FRAME_SCHEMAS
from torchprof_magic.options import ProfileOptions, ScheduleOptions
from torchprof_magic.run import recorded_trace
from torchprof_magic.run.early import wire, worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.recording import Recording
    from torchprof_magic.model.trace import Trace


def asked(recording: Recording) -> wire.Asked:
    return wire.Asked(
        recording=recording,
        title="In [1]",
        cell=CellSource(label="In [1]", filename="cell", source="pass"),
        cell_labels=(("cell", "In [1]"),),
        known_ops=frozenset({"aten::mm"}),
        run_id="run",
    )


@pytest.fixture
def told() -> Iterator[list[tuple[Recording, float | None]]]:
    """Return what a session of two cycles hands on while its loop still runs."""
    handed: list[tuple[Recording, float | None]] = []
    schedule = ScheduleOptions(wait=0, warmup=1, active=2, repeat=2)
    options = ProfileOptions(schedule=schedule, activities=("cpu",), profile_memory=True)
    session = CaptureSession(options, stepping=Stepping(how="manual"))
    session.news.on_cycle = lambda recording, left_s: handed.append((recording, left_s))
    model = nn.Linear(4, 4)
    session.start(length=10)
    for _ in range(10):
        model(torch.ones(2, 4)).sum().backward()
        session.step()
    session.stop()
    yield handed
    session.discard()


def test_every_value_of_a_recording_arrives_as_it_was(told: list[tuple[Recording, float | None]]) -> None:
    recording = told[1][0]
    marks = ProgramMarks(
        cycle=0,
        clock=((1, 2, 3),),
        lines=array("q", [5, -1]),
        calls=array("q"),
        functions=array("q", [2**62]),
        tags=(TagBatch(time_ns=1, category="parameter", addresses=array("q", [7]), kinds=array("q", [0])),),
        storages=(LiveStorage(address=1, size_bytes=2, is_older=True, is_in_use=False),),
        imports=(HostLine(module="m", file="f", line=1, start_ns=2, end_ns=3),),
    )
    full = replace(
        recording,
        torch_version=torch.__version__,  # a kind of text of its own
        program=(*recording.program, marks),
        function_lines=(LineSite(file="f", line=2, first_line=1),),
        tagged=(TaggedTensor(name="w", shape="(4,)", dtype="float", device="cpu", size_bytes=16),),
    )
    stream = io.BytesIO()
    wire.write(stream, asked(full))
    stream.seek(0)
    packed = wire.read(stream)
    assert packed is not None
    assert wire.asked_of(packed) == asked(replace(full, schedule=None, torch_version=str(torch.__version__)))
    assert wire.read(stream) is None


def test_a_message_that_is_cut_off_is_none(told: list[tuple[Recording, float | None]]) -> None:
    stream = io.BytesIO()
    wire.write(stream, asked(told[0][0]))
    assert wire.read(io.BytesIO(stream.getvalue()[:-1])) is None


def test_a_cycle_is_handed_on_when_it_is_on_disk_with_how_long_the_loop_takes(
    told: list[tuple[Recording, float | None]],
) -> None:
    assert [len(recording.cycles) for recording, _ in told] == [1, 2]
    assert [len(recording.program) for recording, _ in told] == [1, 2]
    assert all(cycle.path.exists() for cycle in told[0][0].cycles)
    # Of ten steps, seven are left after the third, and four after the sixth.
    first, second = (left_s for _, left_s in told)
    assert first is not None
    assert second is not None
    assert 0 < second < first


def test_the_page_is_that_of_the_recording_and_asks_for_nothing(told: list[tuple[Recording, float | None]]) -> None:
    made = worker.page_of(asked(told[0][0]))
    header = json.loads(made.header)
    assert (made.error, header["run_id"], header["title"]) == ("", "run", "In [1]")
    assert header["steps"] == 2
    names = [view["name"] for view in header["views"]]
    assert {"overview", "timeline", "ops", "memory"} <= set(names)
    assert (header["can_compare"], header["can_choose_steps"], header["ranged"], header["exports"]) == (
        False,
        False,
        [],
        [],
    )
    assert len(made.data) > 0


def test_what_was_read_early_is_read_again_as_it_is_in_the_files(
    told: list[tuple[Recording, float | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = told[1][0]
    trace, is_whole = read(recording, keeps=True)
    assert len(list(recording.folder.glob("read-*.torchprof"))) == 1
    asked_files: list[object] = []
    monkeypatch.setattr(recorded_trace, "read_chrome", lambda files, *_, **__: asked_files.append(files))
    # Other facts that are known only when the loop has ended are those of the later recording.
    again, is_whole_again = read(replace(recording, plain_step_ns=(1, 2), device_names=("mine",)))
    assert (asked_files, is_whole, is_whole_again) == ([], True, True)
    assert again.meta == replace(trace.meta, plain_step_ns=(1, 2), device_names=("mine",))
    for name in FRAME_SCHEMAS:
        assert getattr(again, name).equals(getattr(trace, name), null_equal=True), name
    assert again.problems == trace.problems


def test_what_was_read_of_files_that_were_written_anew_is_not_used(
    told: list[tuple[Recording, float | None]],
) -> None:
    recording = told[0][0]
    read(recording, keeps=True)
    (cycle,) = recording.cycles
    events = json.loads(cycle.path.read_bytes())
    events["traceEvents"] = [event for event in events["traceEvents"] if event.get("name") != "aten::sum"]
    cycle.path.write_text(json.dumps(events))
    trace, _ = read(recording)
    assert "aten::sum" not in trace.events["name"].cast(pl.String).to_list()
    # A damaged one is not used either.
    read(recording, keeps=True)
    for kept in recording.folder.glob("read-*.torchprof"):
        kept.write_bytes(kept.read_bytes()[:1000])
    again, _ = read(recording)
    assert again.events.height == trace.events.height


def test_the_files_say_what_is_not_known_before_they_are_read() -> None:
    meta = Meta(title="mine", torch_version="2.13.0")
    path = Path(__file__).parents[3] / "data"
    trace_file = next(file for file in sorted(path.rglob("*.json.gz")))
    found = read_chrome([trace_file], meta).meta
    assert with_what_files_say(meta, read_chrome([trace_file]).meta) == found


def read(recording: Recording, *, keeps: bool = False) -> tuple[Trace, bool]:
    return recorded_trace.trace_of(
        recording, title="", cell=None, cell_labels=(), ops_before=lambda _: None, keeps=keeps
    )


def test_a_recording_that_cannot_be_read_is_answered_with_why(
    told: list[tuple[Recording, float | None]], tmp_path: Path
) -> None:
    stream, answers = io.BytesIO(), io.BytesIO()
    (cycle,) = told[0][0].cycles
    lost = replace(told[0][0], cycles=(replace(cycle, path=tmp_path / "gone.json"),))
    wire.write(stream, asked(lost))
    stream.write((4).to_bytes(8, "little") + b"\xc1abc")  # not a message
    stream.seek(0)
    worker.serve(stream, answers)
    answers.seek(0)
    packed, broken = wire.read(answers), wire.read(answers)
    assert packed is not None
    assert broken is not None
    # What can be read of it, nothing, is a page; its problem is in it.
    assert "gone.json" in wire.made_of(packed).header
    assert wire.made_of(broken).error.startswith("DecodeError")
