"""What was run: which versions a line had, and the outcome of each cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

OK = "ok"
REFUSED = "refused"
UNAVAILABLE = "not run"


class Result(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line: the outcome of its cells, the versions that it had, what its torch lacks, or why it could not be run."""

    cells: dict[str, str] = {}
    versions: dict[str, str] = {}
    lacks: dict[str, list[str]] = {}
    unavailable: str = ""

    @property
    def failed(self) -> list[str]:
        """The names of the cells that failed."""
        return [name for name, outcome in self.cells.items() if outcome != OK and not outcome.startswith(REFUSED)]


def read_results(path: Path) -> dict[str, Result]:
    """Return the results of earlier runs by line; none if there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Result]) if path.exists() else {}


def write_results(path: Path, results: Mapping[str, Result]) -> None:
    """Write the results of all lines."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def matrix(results: Mapping[str, Result]) -> str:
    """Return a table of lines and cells as text, and below it what failed."""
    cells = list(dict.fromkeys(name for result in results.values() for name in result.cells))
    wide = max((len(name) for name in cells), default=0)
    heads = [f"{number}" for number in range(1, len(results) + 1)]
    rows = [f"{number:>2}  {name}: {_summary(result)}" for number, (name, result) in enumerate(results.items(), 1)]
    rows += ["", f"{'cell':<{wide}}  {'  '.join(f'{head:>4}' for head in heads)}"]
    for name in cells:
        outcomes = (_short(result.cells.get(name, "")) for result in results.values())
        rows.append(f"{name:<{wide}}  {'  '.join(f'{outcome:>4}' for outcome in outcomes)}")
    rows += ["", "ok = as expected; old = this torch lacks it, and says so; FAIL = anything else"]
    rows += [f"{line}: {name}: {result.cells[name]}" for line, result in results.items() for name in result.failed]
    return "\n".join(rows)


def _summary(result: Result) -> str:
    if result.unavailable:
        return result.unavailable
    good = len(result.cells) - len(result.failed)
    shown = ", ".join(
        f"{name} {result.versions[name]}" for name in ("torch", "polars", "numpy", "ipython", "ipykernel")
    )
    return f"{good} of {len(result.cells)} cells; {shown}"


def _short(outcome: str) -> str:
    if outcome.startswith(REFUSED):
        return "old"
    return outcome if outcome in (OK, "") else "FAIL"
