"""Count the rooms of the package, the arrows of imports between them, the floors, and the circles.

A room is a folder of ``torchprof_magic`` or of ``js/src``, and a module of the top level; with ``--all``, folders in
folders are rooms of their own. An arrow goes from a room to one that it imports from, for types as well. The floor of a
room is the longest way down from it. Run
``python scripts/house.py [FOLDER]``; with ``--lines`` it also lists the rooms with their lines.
"""

from __future__ import annotations

import argparse
import ast
import graphlib
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).parents[1]
PACKAGE = "torchprof_magic"
_IMPORT = re.compile(r"""(?:import|export)\s[^;]*?from\s+["'](\.[^"']+)["']""")


def main() -> None:
    """Print what the house looks like."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT, help="a checkout; by default this one")
    parser.add_argument("--lines", action="store_true", help="list the rooms with their lines")
    parser.add_argument("--all", action="store_true", help="count folders in folders as rooms of their own")
    given = parser.parse_args()
    for title, all_arrows, all_lines in (
        ("Python", python_arrows(given.folder), lines_of(given.folder / PACKAGE, "*.py")),
        ("TypeScript", script_arrows(given.folder), lines_of(given.folder / "js" / "src", "*.ts*")),
        ("Tests", {}, lines_of(given.folder / "tests", "*.py")),
    ):
        arrows = all_arrows if given.all else _by_first_folder(all_arrows)
        lines = all_lines if given.all else _lines_by_first_folder(all_lines)
        if arrows:
            circles = circles_of(arrows)
            print(
                f"{title}: {len(arrows)} rooms, {sum(map(len, arrows.values()))} arrows, "
                f"{floors_of(arrows, circles)} floors, {len(circles)} circles"
            )
            for circle in circles:
                print(f"  circle: {', '.join(sorted(circle))}")
        print(f"{title}: {sum(lines.values()):,} lines")
        if given.lines:
            for room, count in sorted(lines.items()):
                print(f"  {room:<40}{count:>8,}")


def _by_first_folder(arrows: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    merged: defaultdict[str, set[str]] = defaultdict(set)
    for room, others in arrows.items():
        own = room.split("/")[0]
        merged[own] |= {other.split("/")[0] for other in others} - {own}
    return merged


def _lines_by_first_folder(lines: Mapping[str, int]) -> dict[str, int]:
    merged: defaultdict[str, int] = defaultdict(int)
    for room, count in lines.items():
        merged[room.split("/")[0]] += count
    return merged


def room_of(path: Path, top: Path) -> str:
    """Return the room of a file: its folder, or on the top level the file itself."""
    inside = path.relative_to(top)
    return str(inside.parent) if len(inside.parts) > 1 else inside.stem


def lines_of(top: Path, pattern: str) -> dict[str, int]:
    """Return how many lines each room has."""
    lines: defaultdict[str, int] = defaultdict(int)
    for path in top.rglob(pattern):
        lines[room_of(path, top)] += path.read_text(encoding="utf-8").count("\n")
    return lines


def python_arrows(folder: Path) -> dict[str, set[str]]:
    """Return the rooms of the package, each with those that it imports from."""
    top = folder / PACKAGE
    arrows: dict[str, set[str]] = {}
    for path in top.rglob("*.py"):
        room = room_of(path, top)
        arrows.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in _imported(node):
                target = _module(top, name.split(".")[1:])
                if target is not None and room_of(target, top) != room:
                    arrows[room].add(room_of(target, top))
    return arrows


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE}.")]
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _module(top: Path, parts: list[str]) -> Path | None:
    """Return the file of a dotted name; its last parts may be names in the file."""
    while parts:
        path = top.joinpath(*parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return file
        parts = parts[:-1]
    return None


def script_arrows(folder: Path) -> dict[str, set[str]]:
    """Return the rooms of the front end, each with those that it imports from."""
    top = (folder / "js" / "src").resolve()
    arrows: dict[str, set[str]] = {}
    for path in top.rglob("*.ts*"):
        if ".test." in path.name:
            continue
        room = room_of(path, top)
        arrows.setdefault(room, set())
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            target = (path.parent / name).resolve()
            if top in target.parents and room_of(target, top) != room:
                arrows[room].add(room_of(target, top))
    return arrows


def circles_of(arrows: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Return the groups of rooms that import one another, directly or through others."""
    reached = {room: _reachable(arrows, room) for room in arrows}
    circles: list[set[str]] = []
    for room in arrows:
        circle = {other for other in reached[room] if room in reached.get(other, set())}
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def _reachable(arrows: Mapping[str, Iterable[str]], room: str) -> set[str]:
    found: set[str] = set()
    waiting = list(arrows[room])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += arrows.get(other, ())
    return found


def floors_of(arrows: Mapping[str, Iterable[str]], circles: list[set[str]]) -> int:
    """Return how many floors there are; a circle is on one."""
    name = {room: min(circle) for circle in circles for room in circle}
    merged: defaultdict[str, set[str]] = defaultdict(set)
    for room, others in arrows.items():
        own = name.get(room, room)
        merged[own] |= {name.get(other, other) for other in others} - {own}
    floor: dict[str, int] = {}
    for room in graphlib.TopologicalSorter(merged).static_order():
        floor[room] = 1 + max((floor[other] for other in merged[room]), default=0)
    return max(floor.values(), default=0)


if __name__ == "__main__":
    main()
