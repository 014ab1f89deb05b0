"""Builders for small traces, so that expected numbers can be worked out by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.meta import Problem, Stepping
from torchprof_magic.model.recording import Cycle, Recording

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.model.trace import Trace

Event = dict[str, Any]
PID = 7


def span(name: str, start_us: float, dur_us: float, cat: str = "cpu_op", tid: int = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": tid, "ts": start_us, "dur": dur_us, "args": args}


def annotation(name: str, start_us: float, dur_us: float, tid: int = 1) -> Event:
    return span(name, start_us, dur_us, cat="user_annotation", tid=tid)


def frame(name: str, start_us: float, dur_us: float, tid: int = 1) -> Event:
    return span(name, start_us, dur_us, cat="python_function", tid=tid)


def launch(start_us: float, dur_us: float, correlation: int, tid: int = 1) -> Event:
    return span("cudaLaunchKernel", start_us, dur_us, cat="cuda_runtime", tid=tid, correlation=correlation)


def kernel(
    name: str, start_us: float, dur_us: float, correlation: int, stream: int = 7, device: int = 0, **args: Any
) -> Event:
    place = {"correlation": correlation, "stream": stream, "device": device}
    event = span(name, start_us, dur_us, cat="kernel", **place, **args)
    return event | {"pid": device, "tid": stream}


def allocation(
    at_us: float, delta: int, total: int | None = None, tid: int = 1, device: int = 0, address: int = 4096
) -> Event:
    args: Event = {"Device Type": device, "Device Id": -1 if device == 0 else 0, "Bytes": delta, "Addr": address}
    if total is not None:
        args |= {"Total Allocated": total, "Total Reserved": 0}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": PID, "tid": tid, "ts": at_us, "args": args}


def counter(name: str, at_us: float, pid: int | str = PID, **values: Any) -> Event:
    return {"ph": "C", "name": name, "pid": pid, "ts": at_us, "args": values}


def chrome(*events: Event, **head: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, **head, "traceEvents": list(events)}).encode()


def make_trace(*events: Event, **head: Any) -> Trace:
    return read_chrome([chrome(*events, **head)])


def recording(
    folder: Path, *cycles: Cycle, problems: tuple[Problem, ...] = (), snapshot: Path | None = None
) -> Recording:
    """A successful run whose raw files are in a folder."""
    return Recording(
        cycles=cycles,
        folder=folder,
        problems=problems,
        ended_in="done",
        steps_seen=len(cycles),
        torch_version="2.13.0",
        device_names=(),
        stepping=Stepping(how="cell"),
        schedule=None,
        plain_step_ns=(),
        snapshot=snapshot,
    )
