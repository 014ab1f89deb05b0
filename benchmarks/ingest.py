"""How much faster is a trace file to an op table than torch's own `events()` and `key_averages()`?

Both start from the same recording, in the same process: torch from the results it holds in memory, this package from
the file that torch wrote. The bare msgspec decode of the file stands beside them as the floor.
"""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile

from torchprof_magic.ingest.schema import ChromeTrace
from torchprof_magic.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable


def record(events: int, folder: Path) -> tuple[profile, Path]:
    """Record a training loop of small ops until the trace has about that many events, and export it once."""
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


def timed(what: str, run: Callable[[], Any]) -> tuple[float, Any]:
    """Run once, print seconds and the growth of peak memory, and return both seconds and result."""
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"  {what:<44}{seconds:8.2f} s   peak memory +{grown_mb:,.0f} MB")
    return seconds, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=150_000)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as folder:
        profiler, path = record(events, Path(folder))
        load(path).ops  # noqa: B018 - imports and first-call costs are not what is measured
        floor_s, head = timed("bare typed msgspec decode of the file", lambda: decode(path))
        print(f"  ({len(head.trace_events):,} records, {path.stat().st_size / 1e6:.0f} MB)")
        del head
        ours_s, ops = timed("torchprof_magic: file -> op table", lambda: load(path).ops)
        events_s, _ = timed("torch: events()", profiler.events)
        table_s, rows = timed("torch: key_averages()", profiler.key_averages)
        assert {"aten::addmm"} <= set(ops["name"]) & {row.key for row in rows}
    print(f"  torch / ours: {(events_s + table_s) / ours_s:.1f}x, ours / floor: {ours_s / floor_s:.1f}x")


def decode(path: Path) -> ChromeTrace:
    return msgspec.json.decode(path.read_bytes(), type=ChromeTrace)


if __name__ == "__main__":
    main()
