"""The snapshot of a run is on the clock of its trace."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

from made_snapshots import BEGIN_US, at, entry, frame, segment, snapshot
from support import frame as python_call
from support import make_trace

from torchprof_magic.ingest import with_snapshot


def test_times_stacks_and_problems_of_the_snapshot_join_those_of_the_trace(tmp_path: Path) -> None:
    stack = [frame("/u/train.py", 3, "main"), frame("/u/run.py", 1, "<module>")]
    mark = {"stage": "START", "name": "r", "device": 0, "time_us": BEGIN_US + 20}
    path = tmp_path / "s.pickle"
    value = snapshot(
        [entry("alloc", 5, 8, 1, frames=stack)], segments=(segment(9, at(1, 8, *stack)),), external_annotations=[mark]
    )
    path.write_bytes(pickle.dumps(value, 4))
    plain = make_trace(python_call("a.py(3): f", 0, 9), baseTimeNanoseconds=BEGIN_US * 1000 - 1_000_000)
    plain = replace(plain, meta=replace(plain.meta, start_unix_ns=BEGIN_US * 1000 - 1_000_000))
    trace = with_snapshot(plain, path)
    assert trace.history["time_ns"].to_list() == [1_005_000]
    assert trace.annotations["start_ns"].to_list() == [1_020_000]
    assert trace.stacks["name"].to_list() == ["a.py(3): f", "/u/run.py(1): <module>", "/u/train.py(3): main"]
    assert trace.stacks["parent"].to_list() == [-1, -1, 1]
    assert trace.history["stack"].to_list() == trace.blocks["stack"].to_list() == [2]
    assert trace.memory.equals(plain.memory)
    assert "snapshot.in_use" in [problem.code for problem in trace.problems]
