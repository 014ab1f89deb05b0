"""Where points and roofs are on a plane whose axes both grow by factors, for the figure and the static picture."""

from __future__ import annotations

from math import ceil, floor, log10, sqrt
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.model.units import format_flop
from torchprof_magic.render.palette import phase_colour

if TYPE_CHECKING:
    from torchprof_magic.model.shapes import Roof, Table

MOST_POINTS = 300
# Where rows without operations stand, in powers of ten from the left edge.
_AT_THE_EDGE = 0.2
_LEAST_INTENSITY = 0.1
# Between names, in powers of ten across and up.
_NAME_ROOM = (1.0, 0.3)


class Point(NamedTuple):
    """A row: operations per byte, operations per second, its share of the largest row, and its color."""

    name: str
    x: float
    y: float
    size: float
    colour: str


class Line(NamedTuple):
    """A roof from one end to the other, and what it is called.

    ``ridge`` is where a level roof meets that of the memory, 0 where it meets none: with fewer operations a byte the
    memory limits work, with more the operations.
    """

    title: str
    x: tuple[float, float]
    y: tuple[float, float]
    ridge: float = 0.0

    @property
    def ridge_title(self) -> str:
        """What its ridge is called."""
        return f"ridge {float(f'{self.ridge:.3g}'):,g}"

    @property
    def label(self) -> tuple[float, float]:
        """The place of its title: in the middle of a roof that rises, at the end of others."""
        is_level = self.y[0] == self.y[1]
        return (self.x[1], self.y[1]) if is_level else (sqrt(self.x[0] * self.x[1]), sqrt(self.y[0] * self.y[1]))


class Plane(NamedTuple):
    """All points and roofs, and the powers of ten at the ends of both axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    points: list[Point]
    lines: list[Line]


def plane_of(shape: Table) -> Plane:
    """Return the plane of a table with points, the largest first."""
    assert shape.points is not None
    at = shape.points
    rows = shape.frame.sort(at.size, descending=True).head(MOST_POINTS).to_dicts()
    bandwidth = max((roof.bytes_per_s for roof in at.roofs), default=0.0)
    highest = max((roof.flops_per_s for roof in at.roofs), default=0.0)
    ridge = highest / bandwidth if bandwidth else 0.0
    x = _ends([_LEAST_INTENSITY, ridge, *(row[at.x] or 0.0 for row in rows)])
    least, most = 10 ** (x[0] + _AT_THE_EDGE), max((row[at.size] for row in rows), default=1)
    points = []
    for row in rows:
        x_at, y_at = row[at.x] or 0.0, row[at.y] or 0.0
        if not (x_at and y_at):
            x_at, y_at = least, row[at.x_of_none] * least
        points.append(
            Point(str(row["name"]), x_at, y_at, row[at.size] / max(most, 1), phase_colour(str(row[at.phase])))
        )
    y = _ends([highest, bandwidth * 10 ** x[0], *(point.y for point in points)])
    return Plane(x, y, points, [_line(roof, bandwidth, ridge, x) for roof in at.roofs])


def named_points(plane: Plane, most: int) -> list[Point]:
    """Return the largest points whose names have room beside them, at most so many."""
    named: list[Point] = []
    for point in plane.points:
        is_free = all(
            abs(log10(point.x / other.x)) > _NAME_ROOM[0] or abs(log10(point.y / other.y)) > _NAME_ROOM[1]
            for other in named
        )
        if is_free and point.y > 0 and len(named) < most:
            named.append(point)
    return named


def _ends(values: list[float]) -> tuple[float, float]:
    powers = [log10(value) for value in values if value > 0] or [0.0]
    low = floor(min(powers) * 2 - 0.2) / 2
    return low, max(ceil(max(powers) * 2 + 0.2) / 2, low + 1)


def _line(roof: Roof, bandwidth: float, ridge: float, x: tuple[float, float]) -> Line:
    left, right = 10 ** x[0], 10 ** x[1]
    if roof.bytes_per_s:
        end = min(ridge, right) if ridge else right
        title = f"{roof.title} {_rate(roof.bytes_per_s)}B/s"
        return Line(title, (left, end), (left * roof.bytes_per_s, end * roof.bytes_per_s))
    begin = max(roof.flops_per_s / bandwidth, left) if bandwidth else left
    title, level = f"{roof.title} {_rate(roof.flops_per_s)}FLOP/s", (roof.flops_per_s, roof.flops_per_s)
    return Line(title, (begin, right), level, begin if bandwidth and left < begin < right else 0.0)


def _rate(value: float) -> str:
    return format_flop(value).removesuffix("FLOP")
