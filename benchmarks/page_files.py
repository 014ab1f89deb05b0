"""Makes the files that the page benchmark opens, in a process of its own whose memory ends with it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from make_training_trace import write_training_trace


class Files(NamedTuple):
    """A trace, its report as an HTML file, and the same trace for speedscope."""

    trace: Path
    report: Path
    speedscope: Path


def make_files(folder: Path, slices: int) -> Files:
    """Write the files for a trace of so many slices into a folder, and print how large they are."""
    folder.mkdir()
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, str(folder), "--slices", str(slices)], check=True)
    return _files_in(folder)


def _files_in(folder: Path) -> Files:
    return Files(folder / "trace.json", folder / "report.html", folder / "trace.speedscope.json")


def main() -> None:
    """Write the files and print their sizes."""
    import torchprof_magic as tp  # noqa: PLC0415 - the process that asks for files does without it
    from torchprof_magic.tables.timeline.slices import timeline_slices  # noqa: PLC0415 - the same

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slices", type=int, default=1_000_000)
    options = parser.parse_args()
    files = _files_in(options.folder)
    write_training_trace(files.trace, options.slices)
    report = tp.load(files.trace)
    report.to_html(files.report)
    report.export(files.speedscope)
    rows = f"{timeline_slices(report.trace).frame.height:,} slices, {report.ops.height:,} ops"
    sizes = (f"{path.name} {path.stat().st_size / 1e6:,.0f} MB" for path in files)
    print(f"\n{rows}: {', '.join(sizes)}")


if __name__ == "__main__":
    main()
