"""How long and how much memory does a trace of ten million events take, from file to op table?"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from make_trace import write_trace


def read(path: Path) -> None:
    """Read one file in this process and print what it took."""
    from torchprof_magic.loading import load  # noqa: PLC0415 - the process that writes the file does without it

    began = time.perf_counter()
    report = load(path)
    read_s = time.perf_counter() - began
    report.ops  # noqa: B018 - computed when first asked for
    whole_s = time.perf_counter() - began
    lines = Path("/proc/self/status").read_text().splitlines()
    peak_mb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    print(
        f"  {report.trace.events.height:,} spans; "
        f"trace after {read_s:.1f} s, op table after {whole_s:.1f} s, peak memory {peak_mb:,.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        events = write_trace(path, options.events)
        print(f"{events:,} events, {path.stat().st_size / 1e6:,.0f} MB of JSON")
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--read", str(path)], check=True)


if __name__ == "__main__":
    main()
