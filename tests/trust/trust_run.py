"""Are recordings that lie believed? Every mutation of every trace, and what is said of it.

    python tests/trust/trust_run.py [--only 02] [TRACE ...]

Without files, the traces of ``tests/data/gpu`` are taken, and those of the folder ``TORCHPROF_TRACES``. A mutation is
judged by three things: the count of what is missing is the exact one; the verdict is doubtful, or the same as of the
original; and what is wrong is said. The originals must say nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trust.judging import Row, judged, judged_original, table_of
from trust.mutations import mutations, read, written

import torchprof_magic as tp

DATA = Path(__file__).resolve().parents[1] / "data" / "gpu"
# Traces whose account is clean: with work of a device, whole, and warm.
DEVELOPMENT = ("0[2-8]*.json.gz", "06*/*.json.gz", "1[2-57]*.json.gz", "18*/s0*")


def trace_files() -> list[Path]:
    """Return the traces to change: those of the project, and those of the folder of traces if there is one."""
    files = sorted(DATA.glob("*.json.gz"))
    if folder := os.environ.get("TORCHPROF_TRACES"):
        files += [path for pattern in DEVELOPMENT for path in sorted(Path(folder).glob(pattern))]
    return files


def rows_of(path: Path) -> list[Row]:
    """Return what is said of a trace and of its mutations."""
    trace = read(path)
    original = tp.load(path)
    rows = [judged_original(path, original)]
    with tempfile.TemporaryDirectory() as folder:
        rows += [
            judged(path, original, mutation, tp.load(written(mutation, Path(folder)))) for mutation in mutations(trace)
        ]
    return rows


def main() -> int:
    """Print a line per mutation that fails, and a table of how many pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    rows = [row for path in given.files or trace_files() if given.only in str(path) for row in rows_of(path)]
    for row in rows:
        if not row.passes:
            print(row)
    print(table_of(rows))
    return 0 if all(row.passes for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
