"""How fast does a trace file become an op table, beside torch, HolisticTraceAnalysis, and the bare JSON decode?

torch starts from the results that it holds in memory, all others from the file that torch wrote, each in a process of
its own, so that peak memory is its own too. HolisticTraceAnalysis needs another environment: ``--hta PYTHON`` names the
interpreter of one.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.profiler import profile

REPEATS = 3
_HTA = """
import sys, time, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
began = time.perf_counter()
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
seconds = time.perf_counter() - began
print(seconds, next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


class Cost(NamedTuple):
    """Wall time in seconds and peak resident memory of the whole process in MB."""

    seconds: float
    peak_mb: float


def record(events: int, folder: Path) -> tuple[profile, Path]:
    """Record a training loop of small ops until the trace has about that many events, and export it once."""
    import torch  # noqa: PLC0415 - the measured processes do without it
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415

    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(20)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    per_step = 1_000
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(max(events // per_step, 1)):
            model(torch.randn(4, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    return profiler, path


def of_torch(profiler: profile) -> Cost:
    """Measure ``events()`` and ``key_averages()`` once: the second call would find the first one's work."""
    began = time.perf_counter()
    profiler.events()
    profiler.key_averages()
    return Cost(time.perf_counter() - began, _peak_mb())


def of_this_package(path: Path) -> Cost:
    """Measure file to op table."""
    from torchprof_magic.loading import load  # noqa: PLC0415

    return _median(lambda: load(path).ops)


def of_bare_decode(path: Path) -> Cost:
    """Measure the typed decode of the events, and nothing else: no reader of these types can be faster."""
    import msgspec  # noqa: PLC0415

    from torchprof_magic.ingest.findings import Findings  # noqa: PLC0415
    from torchprof_magic.ingest.json.blocks import read_blocks  # noqa: PLC0415
    from torchprof_magic.ingest.json.schema import Event  # noqa: PLC0415

    file = msgspec.defstruct("File", [("events", list[Event], msgspec.field(name="traceEvents"))])
    return _median(
        lambda: msgspec.json.decode(b"".join(block.text for block in read_blocks(path, Findings())), type=file)
    )


def _median(run: Callable[[], object]) -> Cost:
    run()  # imports and first-call costs are not what is measured
    seconds = []
    for _ in range(REPEATS):
        gc.collect()
        gc.disable()  # the decode alone would otherwise be slowed threefold by walks over its own results
        began = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - began)
        gc.enable()
        del result
    return Cost(statistics.median(seconds), _peak_mb())


def _peak_mb() -> float:
    """Return the peak of this program alone; ``getrusage`` would begin with that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


_MEASURED = {"ours": of_this_package, "floor": of_bare_decode}


def _apart(what: str, path: Path) -> Cost:
    command = [sys.executable, __file__, "--only", what, "--file", str(path)]
    return _parsed(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _of_hta(python: str, path: Path) -> Cost | None:
    """Measure file to linked frames; ``None`` when HolisticTraceAnalysis cannot read the file."""
    command = [python, "-c", _HTA, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return _parsed(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def _parsed(line: str) -> Cost:
    seconds, peak_mb = map(float, line.split())
    return Cost(seconds, peak_mb)


def compare(title: str, path: Path, hta: str | None, torch_cost: Cost | None) -> None:
    """Print one table: every tool on the same file."""
    costs = {"bare typed decode": _apart("floor", path), "torchprof_magic": _apart("ours", path)}
    if torch_cost is not None:
        costs["torch events() + key_averages()"] = torch_cost
    if hta is not None:
        hta_cost = _of_hta(hta, path)
        costs |= {"HolisticTraceAnalysis": hta_cost} if hta_cost else {}
    ours = costs["torchprof_magic"].seconds
    print(f"{title}: {path.stat().st_size / 1e6:,.0f} MB on disk")
    for name, (seconds, peak_mb) in costs.items():
        print(f"  {name:<34}{seconds:9.2f} s {seconds / ours:8.2f}x ours   peak {peak_mb:8,.0f} MB")
    if hta is not None and "HolisticTraceAnalysis" not in costs:
        print("  HolisticTraceAnalysis              stopped with an error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="*", default=[], help="sizes of traces to record")
    parser.add_argument("--file", type=Path, nargs="*", default=[], help="traces to read; torch cannot time these")
    parser.add_argument("--hta", help="a Python interpreter with HolisticTraceAnalysis")
    parser.add_argument("--only", choices=_MEASURED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(*_MEASURED[options.only](options.file[0]))
        return
    for events in options.events:
        with tempfile.TemporaryDirectory() as folder:
            profiler, path = record(events, Path(folder))
            torch_cost = of_torch(profiler)
            del profiler
            compare(f"{events:,} events recorded", path, options.hta, torch_cost)
    for path in options.file:
        compare(path.name, path, options.hta, None)


if __name__ == "__main__":
    main()
