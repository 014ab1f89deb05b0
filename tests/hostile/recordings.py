"""Recordings that carry hostile texts in every field that a trace has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from support import Event, allocation, annotation, counter, frame, kernel, launch, make_trace, span

from torchprof_magic.model.meta import CellSource, Problem, Stepping, shortened
from torchprof_magic.model.trace import MAX_NAME_CHARS, SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchprof_magic.model.trace import Trace

SLOT_US = 100  # of the main thread, for each text
SLOT_NS = SLOT_US * 1000
FIRST_NAMED_TID = 1_000


def report_of(texts: Sequence[str]) -> Report:
    """Return a report in which each text is the name of everything that a file names, with stacks as Python frames."""
    trace = _watched(_read(texts, with_frames=True), texts)
    return Report(trace, run_id="hostile")


def report_with_call_stacks(texts: Sequence[str]) -> Report:
    """Return the same with stacks as torch wrote them in 2021: one text at each op."""
    return Report(_read(texts, with_frames=False), run_id="hostile2021")


def report_about(text: str) -> Report:
    """Return a small report in which the text is whatever there is once: title, cell, machine, rank, problem."""
    trace = make_trace(
        annotation("ProfilerStep#1", 0, 100),
        annotation("ProfilerStep#2", 100, 100),
        span("aten::mm", 10, 80, **{"External id": 1}),
        launch(20, 5, 1),
        kernel("gemm", 30, 50, 1),
        deviceProperties=[{"id": 0, "name": text}],
        distributedInfo={"rank": 1, "world_size": 2, "backend": text},
        **{text: text},
    )
    sites = [{"kind": "line", "parent": -1, "name": encodable(text), "file": encodable(text), "line": 3}]
    meta = replace(
        trace.meta,
        title=text,
        torch_version=text,
        cell=CellSource(label=text, filename=text, source=text),
        cell_labels=((text, text),),
        stepping=Stepping(how="loop", line=3, code=text),
        is_partial=True,
    )
    trace = replace(
        trace,
        meta=meta,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame([(0, 0, 0, 90_000, 0)], schema=SCOPES_SCHEMA, orient="row"),
        problems=(Problem(code=text, severity="data_loss", count=2, message=text, fix=text),),
    )
    return Report(trace, run_id="about")


def encodable(text: str) -> str:
    """Return a text as a frame can hold it: short enough, and without unpaired surrogates, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode()[:MAX_NAME_CHARS]


def _read(texts: Sequence[str], *, with_frames: bool) -> Trace:
    steps = [annotation(f"ProfilerStep#{number}", *_step(number, len(texts))) for number in range(4)]
    events = [event for number, text in enumerate(texts) for event in _events(number, text, with_frames=with_frames)]
    named = [event for number, text in enumerate(texts) for event in _named(number, text)]
    # One unpaired surrogate there, and all metadata is lost: see ``report_about``.
    head = {text: text for text in texts if encodable(text) == text} | {"record_shapes": 1, "with_stack": 1}
    return make_trace(*named, *steps, *events, **head)


def _step(number: int, texts: int) -> tuple[float, float]:
    length = SLOT_US * max(texts, 1) / 4
    return number * length, length


def _events(number: int, text: str, *, with_frames: bool) -> Iterator[Event]:
    """Yield what runs in one slot: frames around a range around an op that launches a kernel and a copy."""
    at, call, copy = number * SLOT_US, 2 * number + 1, 2 * number + 2
    inputs = {"Input Dims": [[text], [8, 8]], "Input type": [text, "float"], "External id": call}
    if with_frames:
        yield frame(f"{text}(3): {text}", at + 1, 97)
        yield frame(f"nn.Module: {text}_0", at + 2, 95)
    else:
        inputs["Call stack"] = f"{text}(12): {text};train.py(40): main"
        inputs["Module Hierarchy"] = f"TOP({text})::forward.{text}({text})::forward."
    yield annotation(text, at + 3, 90)
    yield span(text, at + 5, 80, **inputs)
    yield span(text, at + 10, 5, cat="cuda_runtime", correlation=call)
    yield kernel(text, at + 12, 30, call)
    yield span(text, at + 50, 20, cat="cuda_runtime", correlation=copy)
    yield kernel(text, at + 55, 10, copy, stream=8) | {"cat": "gpu_memcpy"}
    yield span(text, at + 12, 60, cat="gpu_user_annotation", tid=7) | {"pid": 0}
    yield span(text, at + 88, 1, cat="overhead")
    yield span(text, at + 90, 1, cat=text)
    yield allocation(at + 20, 512, 512 * number)
    yield counter(text, at + 20) | {"id": text, "args": {text: number, f"{text} (W)": -number}}
    yield counter("Power (W)", at + 20, pid=f"GPU {text} Counters") | {"args": {text: number}}


def _named(number: int, text: str) -> Iterator[Event]:
    """Yield a thread, a process and an id of each, called like the text."""
    tid = FIRST_NAMED_TID + number
    yield {"ph": "M", "name": "thread_name", "pid": 7, "tid": tid, "args": {"name": text}}
    yield span("aten::add", number * SLOT_US + 10, 30, tid=tid)
    yield {"ph": "M", "name": "process_name", "pid": text, "tid": 0, "args": {"name": text}}
    yield {"ph": "M", "name": "process_labels", "pid": text, "tid": 0, "args": {"labels": text}}
    yield span("aten::add", number * SLOT_US + 10, 30) | {"pid": text, "tid": text}


def _watched(trace: Trace, texts: Sequence[str]) -> Trace:
    """Return the trace as one of a live run, whose lines and modules are the texts; each device is one of them, too."""
    kept = [encodable(text) for text in texts]
    lines = [{"kind": "line", "parent": -1, "name": text, "file": text, "line": 1} for text in kept]
    module = {"kind": "module", "parent": -1, "parameters": 6, "bytes": 24}
    modules = [module | {"name": text, "class_name": text, "inputs": text, "outputs": text} for text in kept]
    lane = trace.lanes.with_row_index("row").filter(pl.col("tid") == "1")["row"][0]
    scopes = [
        (first + number, lane, number * SLOT_NS + 4_000, 90_000, 0)
        for number in range(len(kept))
        for first in (0, len(kept))
    ]
    devices = pl.Series("device", [shortened(text) for text in kept], dtype=pl.String).cast(
        trace.memory.schema["device"]
    )
    return replace(
        trace,
        sites=pl.DataFrame([*lines, *modules], schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
        memory=trace.memory.with_columns(devices),
    )
