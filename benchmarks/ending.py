"""Memory that torch needs to end and export a recording, as a multiple of what the process grew while recording.

    python benchmarks/ending.py [--ops 200000] [--presets quick memory stack full]

Each preset runs in a process of its own. The largest factors are ``ENDING_FACTORS`` in ``capture/budget.py``.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import torch
from torch.profiler import ProfilerActivity
from torch.profiler.profiler import _KinetoProfile

FLAGS: dict[str, dict[str, bool]] = {
    "quick": {},
    "memory": {"record_shapes": True, "profile_memory": True},
    "stack": {"with_stack": True},
    "full": {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_flops": True},
}
POLL_S = 0.005


class Peak:
    """Watches the resident memory of this process on a thread of its own."""

    def __init__(self) -> None:
        self.bytes = 0
        self._process = psutil.Process()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:  # noqa: PYI034 - Self needs Python 3.11
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def now(self) -> int:
        """Return the resident memory in bytes."""
        return int(self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._is_over.wait(POLL_S):
            self.bytes = max(self.bytes, self.now())


def work(ops: int) -> None:
    """Run so many small ops."""
    a = torch.ones(4)
    for _ in range(ops // 2):
        a.add(1).mul(2)


def measure(preset: str, ops: int) -> None:
    """Record, and print the growth while recording, the growth at the peak, and their ratio."""
    for count in (100, ops):  # the first run loads what torch needs
        gc.collect()
        profiler = _KinetoProfile(activities=[ProfilerActivity.CPU], **FLAGS[preset])
        profiler.prepare_trace()
        profiler.start_trace()
        with tempfile.TemporaryDirectory() as folder, Peak() as peak:
            begin = peak.now()
            work(count)
            grown = peak.now() - begin
            profiler.stop_trace()
            profiler.export_chrome_trace(str(Path(folder) / "trace.json"))
        del profiler
    top = peak.bytes - begin
    print(f"{preset:>8}  {grown / 1e6:8.0f} MB recording  {top / 1e6:8.0f} MB at the end  factor {top / grown:5.1f}")


def main() -> None:
    """Measure each preset."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", type=int, default=200_000)
    parser.add_argument("--presets", nargs="+", choices=FLAGS, default=list(FLAGS))
    parser.add_argument("--here", action="store_true", help="measure the only preset in this process")
    arguments = parser.parse_args()
    for preset in arguments.presets:
        if arguments.here:
            measure(preset, arguments.ops)
        else:
            command = [sys.executable, __file__, "--here", "--ops", str(arguments.ops), "--presets", preset]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
