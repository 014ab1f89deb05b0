"""Frames of this package, and what its recording calls, are no part of a report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support import frame, make_trace, span

from torchprof_magic.capture.torch_api.user_results import hidden_frames

SITE = "/env/lib/python3.11/site-packages/torchprof_magic"
# Name, start and duration of frames on one thread, and whether they are shown.
FRAMES = [
    ("IPython/core/interactiveshell.py(1): run_cell", 0, 1000, True),
    (f"{SITE}/ipython/magics.py(80): torchprof", 1, 998, False),
    ("<built-in function exec>", 2, 996, False),  # called by ours directly
    ("cell.py(1): <module>", 3, 990, True),
    ("torchprof_magic/profiling.py(170): recorded", 10, 200, False),
    ("train.py(5): train", 20, 180, True),
    ("<built-in method mm of type object at 0x1>", 30, 10, True),
    ("nn.Module: Linear_0", 50, 100, True),
    ("<frozen torchprof_magic hook>(116): _before", 60, 20, False),
    ("torch/_ops.py(1089): __call__", 62, 10, False),  # called by a hook
    ("<built-in function any>", 63, 2, False),
    ("torchprof_magic/capture/watch/open_ranges.py(45): noting_enter", 90, 30, False),
    ("torch/autograd/profiler.py(918): __enter__", 92, 20, True),  # the function of torch that it stands in for
    ("torchprof_magic\\profiling.py(177): step", 300, 100, False),
    ("torchprof_magic/capture/session.py(192): step", 310, 80, False),
    ("psutil/_pslinux.py(1865): memory_info", 320, 10, False),
    ("contextlib.py(132): __enter__", 340, 20, False),
    ("torchprof_magic/run/stepping.py(200): steps", 500, 100, False),
    ("<built-in function next>", 510, 80, False),
    ("data.py(3): items", 520, 60, True),
    ("/home/me/torchprof_magic/train.py(3): main", 700, 10, True),  # a folder of that name is not the package
    ("mytorchprof_magic/capture/a.py(3): main", 720, 10, True),
]
SHOWN = [name for name, _, _, is_shown in FRAMES if is_shown]


def test_the_report_has_the_frames_of_the_program_alone() -> None:
    trace = make_trace(*(frame(name, start, dur) for name, start, dur, _ in FRAMES), span("aten::mm", 32, 5))
    names = trace.events["name"].cast(str).to_list()
    assert [name for name in names if name != "aten::mm"] == SHOWN
    parents = dict(zip(names, trace.events["parent"].to_list(), strict=True))
    assert names[parents["cell.py(1): <module>"]] == "IPython/core/interactiveshell.py(1): run_cell"
    assert names[parents["train.py(5): train"]] == "cell.py(1): <module>"
    assert names[parents["data.py(3): items"]] == "cell.py(1): <module>"


def test_frames_of_one_thread_hide_nothing_on_another() -> None:
    own = frame("torchprof_magic/capture/session.py(192): step", 0, 100, tid=1)
    trace = make_trace(own, frame("train.py(3): main", 10, 10, tid=2), frame("torch/a.py(3): f", 20, 10, tid=1))
    assert trace.events["name"].cast(str).to_list() == ["train.py(3): main"]


def test_a_range_that_the_user_named_after_the_package_is_no_frame() -> None:
    name = "torchprof_magic/capture/session.py(1): mine"
    trace = make_trace(span(name, 0, 10, cat="user_annotation"), frame("train.py(3): main", 2, 5))
    assert set(trace.events["name"].cast(str)) == {name, "train.py(3): main"}


class Event:
    """An event of torch, in ns."""

    def __init__(self, name: str, start: int, dur: int, thread: int = 1) -> None:
        self.name, self.start_thread_id = lambda: name, lambda: thread
        self.start_ns, self.duration_ns = lambda: start, lambda: dur


@pytest.mark.parametrize("tells", [True, False])
def test_torchs_events_hide_the_same_frames(*, tells: bool) -> None:
    events: list[Any] = [Event(name, start, dur) for name, start, dur, _ in FRAMES]
    events.append(Event("aten::mm", 321, 2))
    if tells:  # newer versions say which events are Python functions
        for event in events:
            event.is_python_function = lambda event=event: event.name() != "aten::mm"
    hidden = hidden_frames(events)
    assert [event.name() for number, event in enumerate(events) if number not in hidden] == [*SHOWN, "aten::mm"]
    assert hidden_frames(SimpleNamespace(**vars(event)) for event in events[-3:]) == set()
