"""Checks that no broken file crashes the reader, hangs it, or leads to impossible results.

Small pieces of real traces (of ``TORCHPROF_TRACES``, or of traces made here) are damaged as real files are:
in bytes, texts, types, structure and compression. Every input has its own seed, so a failure can be repeated:
``python tests/stress/fuzz.py --first SEED --inputs 1``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import allocation, annotation, frame, kernel, launch, span

from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.trace import EVENTS_SCHEMA, Trace
from torchprof_magic.tables.flame.call_tree import flame_tree
from torchprof_magic.tables.ops.op_table import ops_table

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_S = 10
MEMORY_BYTES = 4 << 30
ANALYSED_EVERY = 10  # the analyses take as long as reading
PIECE_EVENTS = 40
REPRODUCERS = Path("build/fuzz")
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**53 + 1, 2**63, -(2**64), 10**400, 1.5, 1e300, -0.0, "", "0", "N/A", "stream 7", "\0",
    "\ud800", "a" * 5_000, "../..", "</script>", [], [None], [[[]]], {}, {"a": {"b": 1}}, "1e999", "-1", " 5 ",
    "__proto__", "ProfilerStep#\u0663", "\u0663", "\u00b3", "1_000", "CPU functions", "CUDA functions",
    "b", "e", "S", "F",
)  # fmt: skip
SNIPPETS = (
    b'"', b"\\", b"\\u12", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\0", b"\xff", b"\xc3(", b"NaN",
    b"-Infinity", b"nan", b"N/A", b"1e999", b"9" * 400, b"null", b"true", b"},{", b'{"ph":', b'"args":{', b"]}", b"//",
    b"{" * 2_000, b"}" * 2_000, b'{"ph":' * 300, b'{"ph":"X",' * 300, b'{"args":{' * 300, b'"' * 2_000, b"-," * 1_000,
    b"\xef\xbb\xbf", b"\x1f\x8b", b'"traceEvents":[', b"'", b"[" * 300, b'"dur":-1,',
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first input")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.every or options.inputs == 1:
        return work(range(options.first, options.first + options.inputs, options.every or 1))
    began = time.perf_counter()
    command = [sys.executable, __file__, "--inputs", str(options.inputs), "--every", str(options.workers)]
    workers = [subprocess.Popen([*command, "--first", str(options.first + n)]) for n in range(options.workers)]
    failed = sum(worker.wait() != 0 for worker in workers)
    print(f"{options.inputs:,} inputs in {time.perf_counter() - began:.0f} s; {failed} workers met failures")
    return failed


def work(seeds: range) -> int:
    """Try one input per seed; return how many failed, and save those in ``REPRODUCERS``."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _too_long)
    pieces = seed_pieces()
    failures = opened = 0
    slowest = 0.0
    for done, seed in enumerate(seeds, 1):
        content = broken(pieces, random.Random(seed))  # noqa: S311 - must be repeatable
        began = time.perf_counter()
        try:
            signal.alarm(LONGEST_S)
            opened += attempt(content, is_analysed=seed % ANALYSED_EVERY == 0)
        except BaseException:  # noqa: BLE001 - any exception is a finding
            failures += 1
            _keep(seed, content)
        finally:
            signal.alarm(0)
        slowest = max(slowest, time.perf_counter() - began)
        if done % 5_000 == 0 or done == len(seeds):
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"  {done:,} of {len(seeds):,}: {opened:,} opened, {failures} failed, "
                f"slowest {slowest:.2f} s, peak {peak_mb:,.0f} MB",
                flush=True,
            )
    return failures


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {LONGEST_S} s")


def _keep(seed: int, content: bytes) -> None:
    REPRODUCERS.mkdir(parents=True, exist_ok=True)
    (REPRODUCERS / f"{seed}.bin").write_bytes(content)
    print(f"seed {seed} failed, see {REPRODUCERS / f'{seed}.bin'}\n{traceback.format_exc()}", flush=True)


def attempt(content: bytes, *, is_analysed: bool) -> bool:
    """Read one input and check the result; return False when the reader refused it with its own error."""
    try:
        trace = read_chrome([content])
    except IngestError as exc:
        if not str(exc):
            raise AssertionError("an error without words") from exc
        return False
    check(trace)
    if is_analysed:
        assert (ops_table(trace).frame["self_cpu_ns"] >= 0).all()
        assert flame_tree(trace).frame.height >= 1
    return True


def check(trace: Trace) -> None:
    """Assert the invariants of every trace."""
    events = trace.events
    assert dict(events.schema) == EVENTS_SCHEMA
    start, end = events["start_ns"], events["start_ns"] + events["dur_ns"]
    assert events.height == 0 or (start.min() >= 0 and (end >= start).all())  # type: ignore[operator]
    inner = events.with_row_index("row").filter(pl.col("parent") >= 0)
    parent = inner["parent"]
    assert (parent < inner["row"]).all()
    assert (start.gather(parent) <= inner["start_ns"]).all()
    assert (end.gather(parent) >= inner["start_ns"] + inner["dur_ns"]).all()
    assert (events["lane"].gather(parent) == inner["lane"]).all()
    assert events["lane"].max() is None or int(events["lane"].max()) < trace.lanes.height  # type: ignore[call-overload]
    for side in ("source", "target"):
        assert trace.flows[side].is_between(0, max(events.height - 1, 0)).all()
    assert trace.memory["event"].is_between(-1, events.height - 1).all()
    assert all(problem.count > 0 and problem.message for problem in trace.problems)


def seed_pieces() -> list[dict[str, Any]]:
    """Return small valid traces to damage: slices of real ones if there are any."""
    pieces: list[dict[str, Any]] = [{"schemaVersion": 1, "baseTimeNanoseconds": 10**18, "traceEvents": _made()}]
    pieces += [{"traceEvents": _of_autograd()}] * 20
    folder = Path(os.environ.get("TORCHPROF_TRACES", ""))
    for path in sorted(folder.rglob("*.json.gz")) if folder.name else []:
        if "bad" in path.parent.name:
            continue
        whole = json.loads(gzip.decompress(path.read_bytes()))
        events = whole if isinstance(whole, list) else whole.pop("traceEvents", None)
        if events is None:
            continue
        whole = {} if isinstance(whole, list) else whole
        step = max(len(events) // 12, 1)
        pieces += [whole | {"traceEvents": events[at : at + PIECE_EVENTS]} for at in range(0, len(events), step)]
    return pieces


def _made() -> list[dict[str, Any]]:
    return [
        annotation("ProfilerStep#0", 0, 100),
        frame("train.py(3): step", 1, 98),
        span("aten::linear", 2, 50, **{"Sequence number": 3, "Fwd thread id": 0, "Input Dims": [[4, 8], []]}),
        span("aten::addmm", 4, 40, **{"Sequence number": 3, "Fwd thread id": 0}),
        launch(6, 3, correlation=9),
        kernel("gemm", 12, 30, correlation=9),
        allocation(7, 4096, total=4096),
        span("AddmmBackward0", 60, 20, tid=2, **{"Sequence number": 3, "Fwd thread id": 1}),
        {"ph": "B", "name": "range", "pid": 7, "tid": 3, "ts": 5.25},
        {"ph": "E", "pid": 7, "tid": 3, "ts": "9.5"},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
        {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 7, "tid": 1, "ts": 4},
        {"ph": "f", "cat": "fwdbwd", "id": 1, "pid": 7, "tid": 2, "ts": 60, "bp": "e"},
        {"ph": "b", "cat": "request", "id": "0x1", "name": "GET", "pid": 7, "tid": 1, "ts": 3},
        {"ph": "b", "cat": "request", "id": 2, "name": "PUT", "pid": 7, "tid": 1, "ts": 5},
        {"ph": "e", "cat": "request", "id": "0x1", "name": "GET", "pid": 7, "tid": 2, "ts": 8.5},
        {"ph": "e", "cat": "request", "id": 2, "name": "PUT", "pid": 8, "tid": 1, "ts": 70},
    ]


def _of_autograd() -> list[dict[str, Any]]:
    """Events as torch's autograd profiler wrote them: without categories, and with a flow to the device."""
    host, device = {"pid": "CPU functions", "tid": 1}, {"pid": "CUDA functions", "tid": 0}
    return [
        {"name": "aten::linear", "ph": "X", "ts": 100.5, "dur": 40.25, "args": {}} | host,
        {"name": "aten::linear", "ph": "s", "ts": 100.5, "id": 0, "cat": "cpu_to_cuda", "args": {}} | host,
        {"name": "aten::linear", "ph": "f", "ts": 200.0, "id": 0, "cat": "cpu_to_cuda", "args": {}} | device,
        {"name": "aten::linear", "ph": "X", "ts": 200.0, "dur": 30.0, "args": {}} | device,
        {"name": "aten::addmm", "ph": "X", "ts": 110.125, "dur": 20.0, "args": {}} | host,
        {"name": "aten::addmm", "ph": "s", "ts": 110.125, "id": 1, "cat": "cpu_to_cuda", "args": {}} | host,
        {"name": "aten::addmm", "ph": "f", "ts": 202.0, "id": 1, "cat": "cpu_to_cuda", "args": {}} | device,
        {"name": "aten::addmm", "ph": "X", "ts": 202.0, "dur": 25.0, "args": {}} | device,
    ]


def broken(pieces: list[dict[str, Any]], chance: random.Random) -> bytes:
    """Return one input: a piece with a few values changed, then a few bytes, then perhaps packed."""
    piece = json.loads(json.dumps(chance.choice(pieces)))
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        chance.choice(_VALUE_CHANGES)(piece["traceEvents"], chance)
    whole: Any = piece["traceEvents"] if chance.random() < 0.1 else piece
    data = json.dumps(whole, indent=chance.choice((None, None, 1)), ensure_ascii=chance.random() < 0.5).encode(
        errors="surrogatepass"
    )
    for _ in range(chance.choice((0, 1, 1, 2, 6))):
        data = chance.choice(_BYTE_CHANGES)(data, chance)
    if chance.random() < 0.15:
        data = gzip.compress(data, 1)
        data = chance.choice((_same, _flipped, _cut, _snippet))(data, chance)
    return data


def _changed_value(events: list[dict[str, Any]], chance: random.Random) -> None:
    target = chance.choice(events)
    if isinstance(target, dict) and isinstance(target.get("args"), dict) and chance.random() < 0.5:
        target = target["args"]
    if isinstance(target, dict) and target:
        target[chance.choice(sorted(target))] = chance.choice(HOSTILE)


def _changed_key(events: list[dict[str, Any]], chance: random.Random) -> None:
    target = chance.choice(events)
    if isinstance(target, dict) and target:
        target[chance.choice(("ph", "ts", "dur", "args", "cat", "x", ""))] = target.pop(chance.choice(sorted(target)))


def _changed_entry(events: list[Any], chance: random.Random) -> None:
    events[chance.randrange(len(events))] = chance.choice(HOSTILE)


def _shuffled(events: list[Any], chance: random.Random) -> None:
    chance.shuffle(events)


def _moved(events: list[Any], chance: random.Random) -> None:
    """Give one event a time like another's, so that they touch or overlap."""
    one, other = chance.choice(events), chance.choice(events)
    if isinstance(one, dict) and isinstance(other, dict):
        one["ts"] = other.get("ts")
        one["dur"] = chance.choice((0, 1, 1_000_000, other.get("dur")))
        one["tid"], one["pid"] = other.get("tid"), other.get("pid")


def _same(data: bytes, _chance: random.Random) -> bytes:
    return data


def _flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) or 1)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) or 1)]


def _snippet(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) or 1)
    return data[:at] + chance.choice(SNIPPETS) + data[at:]


def _removed(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) or 1)
    return data[:at] + data[at + chance.choice((1, 1, 2, 30)) :]


def _doubled(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) or 1)
    end = at + chance.choice((1, 10, 300))
    return data[:end] + data[at:end] + data[end:]


def _unescaped(data: bytes, _chance: random.Random) -> bytes:
    return data.replace(b"/", b"\\")


_VALUE_CHANGES: tuple[Callable[[list[Any], random.Random], None], ...] = (
    _changed_value, _changed_value, _changed_value, _changed_key, _changed_entry, _shuffled, _moved, _moved,
)  # fmt: skip
_BYTE_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flipped, _flipped, _cut, _snippet, _snippet, _snippet, _removed, _doubled, _unescaped,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
