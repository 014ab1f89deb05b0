"""Reads a log that torch.compile writes with ``TORCH_TRACE``, which tlparse reads, too: compilations, and their times.

A record is a line with a JSON object; what belongs to it follows in lines that begin with a tab.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from torchprof_magic.ingest.chrome.reader import read_chrome
from torchprof_magic.ingest.findings import Findings
from torchprof_magic.ingest.json.blocks import read_blocks
from torchprof_magic.ingest.regular import beginning_of
from torchprof_magic.model.compile_metrics import compilation_of, why_broken, without_number
from torchprof_magic.model.errors import NotATraceError
from torchprof_magic.model.meta import GraphBreak, Meta
from torchprof_magic.model.problems import problem

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from torchprof_magic.model.compile_metrics import Names
    from torchprof_magic.model.meta import Compilation
    from torchprof_magic.model.trace import Trace

_HEAD_BYTES = 4096
# More of the file is not kept: generated code and graphs are long, and nothing here asks for them.
_MOST_PAYLOAD_BYTES = 1 << 20
_MOST_LINE_BYTES = 4 << 20
_MOST_COMPILATIONS = 10_000
_RECORD = re.compile(rb"[VDIWEC][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9.]+ [0-9]+ [^\]\n]{1,300}\] (?P<json>\{.*)", re.DOTALL)
_BREAK = re.compile(r"Graph break in user code at (?P<file>[^\n]+):(?P<line>[0-9]{1,9})\s*\n(?:Graph Break )?Reason: ")
_WANTED = ("chromium_event", "artifact")
_REASONS = ("dynamo_graph_break_reason", "recompile_reasons", "torch_version")


class _Record(NamedTuple):
    values: dict[str, Any]
    payload: bytes


class _Log:
    """What a log has told so far."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.events: list[bytes] = []
        self.compilations: list[Compilation] = []
        self.breaks: dict[str, list[GraphBreak]] = {}
        self.reasons: dict[str, str] = {}
        self.torch_version = ""
        self._names: Names = {}

    def add(self, record: _Record) -> None:
        """Add what one record tells, if that is asked for here."""
        values = record.values
        for name in ("compilation_metrics", "bwd_compilation_metrics"):
            if not isinstance(metrics := values.get(name), dict):
                continue
            if len(self.compilations) < _MOST_COMPILATIONS:
                self._add_compilation({"is_forward": not name.startswith("bwd"), **metrics}, _region_of(values))
            else:
                self._findings.add("compile_log.too_many")
        if "chromium_event" in values:
            self.events.append(_event_of(record.payload))
        elif isinstance(artifact := values.get("artifact"), dict):
            self._add_text(artifact.get("name"), record.payload.decode("utf-8", "replace"), _region_of(values))

    def _add_compilation(self, metrics: dict[str, Any], region: str) -> None:
        found = compilation_of({"compile_id": region, **metrics}.get, self._names)
        breaks = () if found.is_backward else tuple(self.breaks.pop(found.region, ()))
        reason = found.reason or ("" if found.is_backward else self.reasons.pop(found.region, ""))
        self.compilations.append(replace(found, breaks=breaks, reason=reason))

    def _add_text(self, name: object, text: str, region: str) -> None:
        if name == "dynamo_graph_break_reason":
            self.breaks.setdefault(region, []).append(_break_of(text))
        elif name == "recompile_reasons":
            self.reasons[region] = without_number(_first_of(text))
        elif name == "torch_version":
            self.torch_version = str(_decoded(text.encode()).get("pytorch_version", ""))


def is_compile_log(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is such a log, by its first line."""
    return _RECORD.match(beginning_of(Path(path), _HEAD_BYTES)) is not None


def read_compile_log(path: str | os.PathLike[str], meta: Meta | None = None) -> Trace:
    """Return the trace of a log: the times of compiling as events, and what was compiled in its metadata.

    Records that cannot be read are counted. Raises ``IngestError`` when the file cannot be read, and ``NotATraceError``
    when nothing was compiled.
    """
    findings = Findings()
    log = _Log(findings)
    for record in _records(path, findings):
        log.add(record)
    events = b",".join(filter(None, log.events))
    if not log.compilations and not events:
        raise NotATraceError("this is a log of torch.compile (TORCH_TRACE) in which nothing was compiled")
    trace = read_chrome([b'{"traceEvents": [' + events + b"]}"], meta)
    version = trace.meta.torch_version or log.torch_version
    began = trace.meta.start_unix_ns if events else min(each.start_unix_ns for each in log.compilations)
    found = replace(trace.meta, torch_version=version, start_unix_ns=began, compilations=tuple(log.compilations))
    notes = (problem("compile_log.no_run"), *findings.problems())
    return replace(trace, meta=found, problems=(*notes, *trace.problems))


def _records(path: str | os.PathLike[str], findings: Findings) -> Iterator[_Record]:
    """Yield the records of a log, each with what belongs to it where that is asked for."""
    values: dict[str, Any] | None = None
    payload: list[bytes] = []
    size_bytes = 0
    for line in _lines(path, findings):
        if line.startswith(b"\t"):
            size_bytes += len(line)
            if values is not None and size_bytes <= _MOST_PAYLOAD_BYTES and any(name in values for name in _WANTED):
                payload.append(line[1:])
            continue
        if values is not None:
            yield _Record(values, b"\n".join(payload))
        values, payload, size_bytes = None, [], 0
        if line.strip():
            match = _RECORD.match(line)
            values = (_decoded(match["json"]) or None) if match is not None else None
            findings.add("compile_log.damaged", int(values is None))
    if values is not None:
        yield _Record(values, b"\n".join(payload))


def _lines(path: str | os.PathLike[str], findings: Findings) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is far too long, only its beginning."""
    rest = b""
    for block in read_blocks(path, findings):
        *whole, rest = (rest + bytes(block.text)).split(b"\n")
        yield from whole
        rest = rest[:_MOST_LINE_BYTES]
    yield rest


def _decoded(text: bytes) -> dict[str, Any]:
    """Return a JSON object; an empty one for everything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_of(text: str) -> str:
    """Return the first of a JSON list of texts; a single one is written as it is."""
    try:
        found = msgspec.json.decode(text, type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return text.strip()
    return found[0] if found else ""


def _event_of(payload: bytes) -> bytes:
    """Return the event of a Chrome trace in a record, without the settings of the compiler that it also holds."""
    event = _decoded(payload)
    args = event.get("args")
    kept = {name: args[name] for name in ("compile_id", "fn_name") if name in args} if isinstance(args, dict) else {}
    return msgspec.json.encode({**event, "args": kept}) if event else b""


def _region_of(values: dict[str, Any]) -> str:
    frame, times = values.get("frame_id"), values.get("frame_compile_id")
    return "" if frame is None or times is None else f"{frame}/{times}"


def _break_of(text: str) -> GraphBreak:
    match = _BREAK.match(text)
    if match is None:
        return GraphBreak(reason=why_broken(text))
    reason = text[match.end() :]
    return GraphBreak(reason=why_broken(reason), file=match["file"], line=int(match["line"]))
