"""How long the first ``tp.load`` takes in a new process, imports included.

Each round starts every program once, in turn, in a process of its own; the least of all rounds is taken, because
everything else that runs on a machine only ever adds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from make_trace import write_trace

EVENTS = 1_000


def seconds(code: str) -> float:
    """Return how long a new Python process takes to run the code."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def main() -> None:
    """Print a line for each program, with its ratio to importing torch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.json"
        events = write_trace(path, EVENTS)
        programs = {
            "bare Python": "pass",
            "import torchprof_magic": "import torchprof_magic",
            "import polars, numpy": "import numpy, polars",
            f"first load of {events:,} events": f"import torchprof_magic as tp; tp.load({str(path)!r})",
            "import torch": "import torch",
        }
        found: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(rounds):
            for name, code in programs.items():
                found[name].append(seconds(code))
    torch_s = min(found["import torch"])
    for name, times in found.items():
        print(f"{name:<30} {min(times) * 1e3:6.0f} ms   {min(times) / torch_s:5.2f} x import torch")


if __name__ == "__main__":
    main()
