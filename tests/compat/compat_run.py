"""Run cells in a real kernel on every line of the matrix: ``compat_run.py [--only NAME ...] [--out FILE]``.

For each line, the wheel is installed into a new environment, which is deleted afterwards. The result of each cell is
printed, and written to ``results.json`` with the versions that were installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "notebook"))
from environments import UnavailableError, build_wheel, installed, lacks_of, versions_in
from groups import GROUPS, run_group
from lines import LINES, Line
from results import OK, UNAVAILABLE, Result, matrix, read_results, write_results


def run_line(line: Line, wheel: Path) -> Result:
    """Run all groups of cells on a line."""
    try:
        with installed(line, wheel) as python:
            cells: dict[str, str] = {}
            for name, cases in GROUPS.items():
                for case, outcome in run_group(python, cases, line.torch).items():
                    cells[f"{name}: {case}"] = outcome
                    if outcome != OK and not outcome.startswith("refused"):
                        print(f"  {line.name}: {name}: {case}: {outcome}", flush=True)
            return Result(cells=cells, versions=versions_in(python), lacks=lacks_of(python))
    except UnavailableError as exc:
        print(f"  {line.name}: {exc}", flush=True)
        return Result(unavailable=f"{UNAVAILABLE}: {str(exc).splitlines()[-1]}")


def main() -> int:
    """Run the chosen lines, and return 1 if a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="LINE", help="lines to run, by default all")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    chosen = parser.parse_args()
    if unknown := set(chosen.only) - {line.name for line in LINES}:
        parser.error(
            f"no such line: {', '.join(sorted(unknown))}; choose from {', '.join(line.name for line in LINES)}"
        )
    lines = [line for line in LINES if not chosen.only or line.name in chosen.only]
    results = read_results(chosen.out)
    with tempfile.TemporaryDirectory(prefix="torchprof-compat-") as folder:
        wheel = build_wheel(Path(folder))
        for line in lines:
            print(f"{line.name}: Python {line.python}, torch {line.torch}", flush=True)
            results[line.name] = run_line(line, wheel)
            write_results(chosen.out, results)
    ran = {line.name: results[line.name] for line in lines}
    print(matrix(ran))
    return int(any(result.failed for result in ran.values()))


if __name__ == "__main__":
    sys.exit(main())
