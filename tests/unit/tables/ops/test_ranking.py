from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from amount import sampled
from support import annotation, frame, kernel, launch, make_trace, span
from torch.profiler import DeviceType
from torch.profiler._utils import BasicEvaluation, EventKey, Interval

from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.ops.ranking import event_metrics

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

# Five kernels are launched while an op runs, then the host computes on while the queue runs empty.
EMPTIED = (
    annotation("ProfilerStep#0", 0, 1000),
    frame("train.py(7): step", 0, 900),
    span("launching", 0, 60),
    *(launch(10 * place, 2, correlation=place + 1) for place in range(5)),
    *(kernel("k", 50 + 20 * place, 20, correlation=place + 1) for place in range(5)),
    span("busy", 60, 100),
    span("late", 200, 300),
    launch(600, 2, correlation=6),
    kernel("k", 650, 20, correlation=6),
    span("after", 700, 100),
)


def test_the_queue_depth_of_an_event_is_what_was_launched_and_had_not_begun() -> None:
    trace = make_trace(*EMPTIED)
    metrics = event_metrics(trace)
    names = trace.events["name"].gather(metrics.row).to_list()
    depth = dict(zip(names, metrics.queue_depth.tolist(), strict=True))
    # At 0 the first is launched; at 60 all five are and one has begun.
    assert depth == {"ProfilerStep#0": 1, "train.py(7): step": 1, "launching": 1, "busy": 4, "late": 0, "after": 0}


def test_idle_time_is_that_in_which_the_queue_was_empty() -> None:
    trace = make_trace(*EMPTIED)
    metrics = event_metrics(trace)
    names = trace.events["name"].gather(metrics.row).to_list()
    idle = dict(zip(names, (metrics.idle_ns // 1000).tolist(), strict=True))
    # The last of five kernels begins at 130 and ends at 150: empty until the launch at 600.
    assert idle["busy"] == 10
    assert idle["late"] == 300
    assert idle["launching"] == 0


def test_the_event_with_the_most_idle_and_self_time_while_the_queue_emptied_comes_first() -> None:
    ranked = Report(make_trace(*EMPTIED)).ranking
    assert ranked["name"][0] == "late"
    # The queue has run empty for the last time when "after" begins.
    assert set(ranked["name"]) == {"ProfilerStep#0", "train.py(7): step", "launching", "busy", "late"}
    assert ranked["score"].is_sorted(descending=True)
    busy = ranked.filter(name="busy").row(0, named=True)
    assert (busy["file"], busy["line"], busy["idle_ns"], busy["idle_ratio"]) == ("train.py", 7, 10_000, 0.1)


def test_a_queue_that_was_never_deep_has_no_ranking() -> None:
    assert Report(make_trace(launch(0, 1, correlation=1), kernel("k", 5, 5, 1), span("op", 0, 10))).ranking.height == 0
    assert Report(make_trace(span("op", 0, 10))).ranking.height == 0


@pytest.mark.filterwarnings("ignore:std_mean")
@pytest.mark.parametrize("seed", sampled(range(40)))
def test_metrics_and_ranking_are_those_of_torch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch's own sum leaves out the interval behind one that lies inside another.
    monkeypatch.setattr(EventKey, "intervals_overlap", _covered)
    trace = _random_trace(np.random.default_rng(seed))
    torchs, keys = _torchs(trace)
    metrics = event_metrics(trace)
    assert {row: torchs.metrics[keys[row]].queue_depth for row in keys} == _by_row(metrics.row, metrics.queue_depth)
    assert {row: torchs.metrics[keys[row]].self_time_ns for row in keys} == _by_row(metrics.row, metrics.self_ns)
    assert {row: torchs.metrics[keys[row]].idle_time_ns for row in keys} == _by_row(metrics.row, metrics.idle_ns)
    ranked = Report(trace).ranking
    expected = [key.event.id for key in torchs.rank_events(10**6)]
    assert sorted(expected) == sorted(ranked["event"])
    score = dict(ranked.select("event", "score").rows())
    if ranked["idle_ratio"].n_unique() > 1:  # else torch divides by 0
        found = [score[row] for row in expected]
        assert found == pytest.approx(sorted(found, reverse=True), abs=1e-4)


def _covered(key: EventKey, intervals: list[Interval]) -> int:
    """Return for how long at least one of the intervals ran within an event."""
    covered = [
        range(max(interval.start, key.event.start_time_ns), min(interval.end, key.event.end_time_ns))
        for interval in intervals
    ]
    total, reach = 0, 0
    for part in sorted(filter(None, covered), key=lambda part: part.start):
        total += max(part.stop - max(part.start, reach), 0)
        reach = max(reach, part.stop)
    return total


def _by_row(row: Any, values: Any) -> dict[int, int]:
    return dict(zip(row.tolist(), values.tolist(), strict=True))


def _random_trace(random: np.random.Generator) -> Trace:
    """Return a trace of nested ops with launches at distinct times, and a stream that runs the kernels in order."""
    events, time, free, correlation = [], 0, 0, 0
    for number in range(int(random.integers(3, 15))):
        start = time
        inner = time + int(random.integers(1, 20))
        for _ in range(int(random.integers(0, 8))):
            inner += int(random.integers(2, 10))
            correlation += 1
            events.append(launch(inner, 1, correlation=correlation))
            free = max(free, inner + int(random.integers(3, 15))) + 0.5
            length = int(random.integers(1, 60))
            events.append(kernel("k", free, length, correlation=correlation))
            free += length
        end = inner + int(random.integers(2, 30))
        events += [span(f"op{number}", start, end - start), span(f"in{number}", start + 0.25, (end - start) / 2)]
        time = end + int(random.integers(1, 120))
    return make_trace(*events)


def _torchs(trace: Trace) -> tuple[BasicEvaluation, dict[int, Any]]:
    """Return torch's evaluation of the same events, and its key of each row."""
    events = trace.events
    columns = ("category", "name", "start_ns", "dur_ns", "correlation", "parent")
    rows = list(events.select(columns).iter_rows(named=True))
    nodes: dict[int, Any] = {}
    device = []
    for row, event in enumerate(rows):
        if event["category"] == "cpu_op":
            node = SimpleNamespace(
                id=row, name=event["name"], start_time_ns=event["start_ns"], duration_time_ns=event["dur_ns"],
                end_time_ns=event["start_ns"] + event["dur_ns"], children=[], parent=None,
            )  # fmt: skip
            nodes[row] = node
            if event["parent"] in nodes:
                nodes[event["parent"]].children.append(node)
                node.parent = nodes[event["parent"]]
        else:
            device.append(_Kineto(event))
    tree = [node for node in nodes.values() if node.parent is None]
    results = SimpleNamespace(experimental_event_tree=lambda: tree, events=lambda: device)
    found = BasicEvaluation(SimpleNamespace(kineto_results=results))  # type: ignore[arg-type]
    return found, {key.event.id: key for key in found.metrics}


class _Kineto:
    """What torch's evaluation asks of an event of its recorder."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event
        self.name = event["name"]

    def device_type(self) -> DeviceType:
        return DeviceType.CUDA if self._event["category"] == "kernel" else DeviceType.CPU

    def start_ns(self) -> int:
        return int(self._event["start_ns"])

    def duration_ns(self) -> int:
        return int(self._event["dur_ns"])

    def linked_correlation_id(self) -> int:
        return int(self._event["correlation"])
