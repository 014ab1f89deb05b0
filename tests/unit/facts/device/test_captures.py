from __future__ import annotations

import numpy as np
from support import make_trace, span

from torchprof_magic.facts.device.captures import captures_of
from torchprof_magic.facts.host.host_states import COMPILE, thread_timelines


def call(name: str, start_us: float, dur_us: float = 5, tid: int = 1) -> dict[str, object]:
    return span(name, start_us, dur_us, cat="cuda_runtime", tid=tid, correlation=int(start_us))


def test_a_capture_lasts_from_its_first_to_its_last_call() -> None:
    trace = make_trace(span("aten::mm", 0, 5), call("cudaStreamBeginCapture", 100), call("cudaStreamEndCapture", 300))
    found = captures_of(trace)
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([100_000], [305_000])
    assert found.holds(np.zeros(3, np.int64), np.array([99_999, 200_000, 305_001])).tolist() == [False, True, False]


def test_a_capture_that_the_recording_cuts_off_reaches_to_its_edge() -> None:
    begun = make_trace(call("cudaStreamBeginCapture", 100), span("aten::mm", 500, 100))
    assert captures_of(begun).end_ns.tolist() == [500_000]  # times begin with the first event
    ended = make_trace(span("aten::mm", 0, 50), call("cudaStreamEndCapture", 100))
    assert captures_of(ended).start_ns.tolist() == [0]


def test_the_host_compiles_throughout_a_capture_also_between_events() -> None:
    trace = make_trace(
        span("aten::mm", 0, 5), call("cudaStreamBeginCapture", 100), span("aten::mm", 150, 10),
        call("cudaStreamEndCapture", 300), span("aten::mm", 400, 5),
    )  # fmt: skip
    (line,) = thread_timelines(trace).values()
    at = np.searchsorted(line.start_ns, [50_000, 120_000, 155_000, 200_000, 350_000], side="right") - 1
    assert (line.state[at] == COMPILE).tolist() == [False, True, True, True, False]
