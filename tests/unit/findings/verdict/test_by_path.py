"""What the verdict takes from the critical path, in two steps of 10 ms whose shares are worked out by hand."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from support import Event, annotation, kernel, launch, make_trace, span

import torchprof_magic as tp
from torchprof_magic.findings.verdict.by_path import path_shares
from torchprof_magic.findings.verdict.decision import Verdict, find_verdict
from torchprof_magic.model.trace import Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def trace(*events: Event) -> Trace:
    numbers = itertools.count(1)
    found = [annotation(f"ProfilerStep#{at}", at * 10_000, 10_000) for at in (0, 1)]
    for at in (0, 1):
        own: dict[int, int] = {}
        for event in events:
            args = dict(event.get("args", {}))
            if "correlation" in args:
                args["correlation"] = own.setdefault(args["correlation"], next(numbers))
            found.append(event | {"ts": event["ts"] + at * 10_000, "args": args})
    return make_trace(*found)


def launched(count: int, kernel_us: float, every_us: float = 1_000) -> list[Event]:
    """Return ops that take all of their time on the host, each with a kernel."""
    events = []
    for at in range(count):
        start = at * every_us
        events += [span("aten::linear", start, every_us - 10), launch(start + 100, 5, correlation=at + 1)]
        events.append(kernel("gemm", start + 110, kernel_us, correlation=at + 1))
    return events


def verdict(*events: Event) -> Verdict:
    return find_verdict(trace(*events))


def test_a_device_that_is_busy_beside_a_host_that_never_waits_is_not_the_limit() -> None:
    # The device works 6.5 of 10 ms, and each step ends when the host has called its last op.
    events = launched(10, 650)
    shares = path_shares(trace(*events))
    assert shares is not None
    assert (shares.host, shares.device) == (1.0, 0.0)
    assert verdict(*events).kind == "dispatch"


def test_a_device_that_the_host_waits_for_is_the_limit() -> None:
    # The host has called all by 1 ms, and waits from 1 ms until the last kernel has ended at 6.61 ms.
    events = launched(10, 650, every_us=100)
    starts = [110 + 650 * at for at in range(10)]
    kernels = [each | {"ts": ts} for each, ts in zip(events[2::3], starts, strict=True)]
    wait = span("cudaDeviceSynchronize", 1_000, 5_620, cat="cuda_runtime", correlation=90)
    made = (*(each for at, each in enumerate(events) if at % 3 < 2), *kernels, wait)
    shares = path_shares(trace(*made))
    assert shares is not None
    assert shares.device == pytest.approx(0.65, abs=0.01)
    assert verdict(*made).kind == "compute"


def test_between_the_host_and_communication_that_take_the_same_the_path_decides() -> None:
    # A collective takes 4.5 of 10 ms, in which the host calls ops. It does nothing for the device in another 4.5 ms.
    ops = [span("aten::add", at * 1_000, 990) for at in range(10)]
    exchange = launch(100, 5, correlation=1), kernel(NCCL, 110, 4_500, correlation=1)
    work = launch(9_100, 5, correlation=2), kernel("add", 9_110, 800, correlation=2)
    assert verdict(*ops, *exchange, *work).kind == "dispatch"
    # If the host waits for it, and then does the rest, communication takes its 4.5 ms of the path.
    wait = span("cudaStreamSynchronize", 200, 4_500, cat="cuda_runtime", correlation=3)
    after = [span("aten::add", 4_800 + at * 1_000, 990) for at in range(4)]
    late = launch(4_810, 5, correlation=2), kernel("add", 4_820, 1_000, correlation=2)
    made = (span("aten::add", 0, 150), *exchange, wait, *after, *late)
    shares = path_shares(trace(*made))
    assert shares is not None
    assert shares.communication == pytest.approx(0.45, abs=0.01)


def test_a_path_that_is_mostly_assumed_decides_nothing() -> None:
    work = [kernel("gemm", at * 1_000 + 100, 650, correlation=700 + at) for at in range(10)]
    assert path_shares(trace(span("aten::mm", 0, 9_000), *work)) is None


@pytest.mark.parametrize("rank", range(8))
def test_the_ranks_of_a_job_have_the_limit_that_an_independent_script_found(traces: Path, rank: int) -> None:
    name = f"06_v100_dlrm_8ranks/rank{rank}.json.gz"
    limits = {row["file"]: row["verdict"]["kind"] for row in json.loads((traces / "limits.json").read_text())}
    kinds = {"communication": "communication", "launch/host dispatch": "dispatch"}
    assert tp.load(traces / name).verdict.kind == kinds[limits[name]]
