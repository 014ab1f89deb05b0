"""The phase of places over time."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from amount import sampled
from support import frame, make_trace, span

from torchprof_magic.facts.host.phases import PHASES
from torchprof_magic.facts.source.flame_boxes import host_boxes
from torchprof_magic.facts.source.place_phases import phases_of_places
from torchprof_magic.tables.timeline.slices import timeline_slices

FORWARD, BACKWARD, PYTHON = (PHASES.index(name) for name in ("forward", "backward", "python"))


def test_a_frame_has_the_phase_of_most_of_what_runs_in_it() -> None:
    trace = make_trace(
        frame("train.py(1): main", 0, 100),
        frame("train.py(5): forward", 10, 30),
        span("aten::mm", 15, 20),
        frame("train.py(9): backward", 50, 45),
        span("autograd::engine::evaluate_function: MmBackward0", 55, 35, **{"Sequence number": 1, "Fwd thread id": 1}),
        frame("train.py(20): nothing", 101, 5),
    )
    slices = timeline_slices(trace).frame.filter(pl.col("kind") == "python")
    phases = dict(zip(slices["name"].cast(pl.String), slices["phase"].cast(pl.String), strict=True))
    assert phases == {
        "train.py(1): main": "backward",
        "train.py(5): forward": "forward",
        "train.py(9): backward": "backward",
        "train.py(20): nothing": "python",
    }


@pytest.mark.parametrize("seed", sampled(range(20)))
def test_running_sums_equal_sums_over_all_boxes_in_a_place(seed: int) -> None:
    random = np.random.default_rng(seed)
    events = []
    for tid in (1, 2):
        edges = np.sort(random.choice(1_000, 60, replace=False)).tolist()
        spans = [(edges[i], edges[59 - i]) for i in range(10)] + [
            (edges[10 + 2 * i], edges[11 + 2 * i]) for i in range(20)
        ]
        events += [
            frame(f"f.py({i}): g", start, end - start, tid)
            if random.random() < 0.5
            else span("aten::mm", start, end - start, tid=tid)
            for i, (start, end) in enumerate(spans)
        ]
    boxes = host_boxes(make_trace(*events))
    is_place = random.random(len(boxes.row)) < 0.5
    phase = np.where(is_place, PYTHON, random.choice([FORWARD, BACKWARD, PYTHON], len(boxes.row)))
    found = phases_of_places(boxes, phase, is_place)
    for place in np.flatnonzero(is_place).tolist():
        time = {FORWARD: 0, BACKWARD: 0}
        for row in range(len(boxes.row)):
            around = row
            while around >= 0 and around != place:
                around = int(boxes.parent[around])
            if around == place and not is_place[row] and phase[row] != PYTHON:
                time[int(phase[row])] += int(boxes.own_ns[row])
        if max(time.values()) == 0:
            assert found[place] == PYTHON
        elif time[FORWARD] != time[BACKWARD]:
            assert found[place] == max(time, key=time.__getitem__)
    assert (found[~is_place] == phase[~is_place]).all()
