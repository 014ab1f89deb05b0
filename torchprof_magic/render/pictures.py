"""The pictures of a static copy: flame graph, memory and steps, painted without Matplotlib and as few colors.

They show what the figures of these names show. A picture costs what its pixels cost, however long the recording is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.facts.host.phases import PHASES, with_one_wait
from torchprof_magic.model.shapes import Series, Shape, Table, Tree
from torchprof_magic.model.units import column_unit, format_flop
from torchprof_magic.render.figures import (
    DPI,
    LABEL_RATIO,
    LANE_CHARS,
    MAX_LANES,
    MAX_STEPS,
    TITLE_CHARS,
    WIDTH_IN,
    flame_boxes,
    ink_on,
    short_label,
    step_labels,
)
from torchprof_magic.render.painting import GAP_PX, LINE_PX, SWATCH_PX, Axis, Canvas, Legend, Look, ticks, width_px
from torchprof_magic.render.palette import band_colour, category_colour, phase_colour, phase_title
from torchprof_magic.render.roof_plane import plane_of
from torchprof_magic.render.thinning import band_values, columns_of, rows_to_draw
from torchprof_magic.tables.memory.in_use import memory_peaks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchprof_magic.model.intervals import IntArray
    from torchprof_magic.model.shapes import Column
    from torchprof_magic.render.thinning import FloatArray

WIDTH_PX = round(WIDTH_IN * DPI)
MARGIN_PX = 4
BOX_PX, BOX_GAP_PX = 22, 1  # of the flame graph
STEP_PX, STEP_GAP_PX = 24, 5
CURVE_PX = 120
ROOFLINE_PX, POINT_PX = 300, 14
AXIS_PX = 2 * LINE_PX + MARGIN_PX
HEADROOM_RATIO = 1.05  # of the axis over its largest number
PEAK_PX = (2, 4)  # of the dotted line at a peak: how long a dot is, and from one to the next
_CODE = Look(points=7, is_code=True)
_CHARS_PER_PICTURE = 150  # of code over the whole width


def flame_picture(shape: Shape) -> bytes:
    """Return the merged call tree as an icicle, root on top."""
    assert isinstance(shape, Tree)
    boxes = flame_boxes(shape)
    depth = max((box[2] for box in boxes), default=0) + 1
    canvas = Canvas(WIDTH_PX, depth * BOX_PX + 2 * MARGIN_PX)
    whole_px = WIDTH_PX - 2 * MARGIN_PX
    for left, width, level, name, colour in boxes:
        x, y = MARGIN_PX + left * whole_px, MARGIN_PX + level * BOX_PX
        # A gap, not an edge: the ground behind the picture is not known.
        canvas.box(x, y, x + width * whole_px - BOX_GAP_PX, y + BOX_PX - BOX_GAP_PX, colour)
        if width > LABEL_RATIO:
            text = short_label(name, int(width * _CHARS_PER_PICTURE))
            canvas.text(x + 3, y + BOX_PX / 2 - 1, text, look=_CODE._replace(colour=ink_on(colour)))
    return canvas.to_png()


def steps_picture(shape: Shape, title: str) -> bytes:
    """Return the steps as stacked bars on one scale, under a title, on white; those that do not count are crossed."""
    assert isinstance(shape, Table)
    steps = shape.frame.head(MAX_STEPS)
    parts = with_one_wait({phase: steps[f"{phase}_ns"].to_numpy() / 1e6 for phase in PHASES})
    shown = {phase: width_ms for phase, width_ms in parts.items() if width_ms.any()}
    names, out = step_labels(steps), (steps["left_out"] != "").to_list()
    left = max((width_px(name) for name in names), default=0.0) + 2 * MARGIN_PX + GAP_PX
    largest_ms = float(np.sum(list(shown.values()), axis=0).max()) if shown else 0.0
    axis = Axis(0.0, largest_ms * HEADROOM_RATIO, left, WIDTH_PX - 2 * MARGIN_PX)
    legend = Legend([(phase_title(phase), phase_colour(phase), SWATCH_PX[1]) for phase in shown], left, axis.right)
    top = 2 * MARGIN_PX + LINE_PX + legend.height_px + GAP_PX
    canvas = Canvas(WIDTH_PX, top + len(names) * STEP_PX + AXIS_PX, "white")
    canvas.text(2 * MARGIN_PX, MARGIN_PX + LINE_PX / 2, short_label(title, TITLE_CHARS), look=Look(points=10))
    legend.paint(canvas, MARGIN_PX + LINE_PX + GAP_PX)
    for row, name in enumerate(names):
        y = top + row * STEP_PX
        _paint_step(canvas, axis, y, name, {phase: float(ms[row]) for phase, ms in shown.items()})
        if out[row]:
            whole_ms = sum(float(ms[row]) for ms in shown.values())
            canvas.cross(axis.left, y, axis.x(whole_ms), y + STEP_PX - STEP_GAP_PX)
    axis.paint(canvas, top + len(names) * STEP_PX, "ms")
    return canvas.to_png()


def _paint_step(canvas: Canvas, axis: Axis, top: float, name: str, parts_ms: Mapping[str, float]) -> None:
    canvas.text(axis.left - GAP_PX, top + (STEP_PX - STEP_GAP_PX) / 2, name, place="rm")
    at_ms = 0.0
    for phase, part_ms in parts_ms.items():
        x, right = axis.x(at_ms), axis.x(at_ms + part_ms)
        if round(right) > round(x):
            canvas.box(x, top, right, top + STEP_PX - STEP_GAP_PX, phase_colour(phase))
        at_ms += part_ms


def memory_picture(shape: Shape) -> bytes:
    """Return the memory of each device over time, with its categories and its peak."""
    assert isinstance(shape, Series)
    every_lane = shape.frame["lane"].unique(maintain_order=True).to_list()
    plots = [_MemoryPlot(shape, lane) for lane in every_lane[:MAX_LANES]]
    rest = len(every_lane) - len(plots)
    canvas = Canvas(WIDTH_PX, sum(plot.height_px for plot in plots) + (LINE_PX if rest else 0) + MARGIN_PX)
    top = 0
    for plot in plots:
        plot.paint(canvas, top)
        top += plot.height_px
    if rest:
        canvas.text(WIDTH_PX - MARGIN_PX, top + LINE_PX / 2, f"{rest} more devices are not shown.", place="rm")
    return canvas.to_png()


class _MemoryPlot:
    """The memory of one device."""

    def __init__(self, shape: Series, lane: str) -> None:
        self._shape, self._lane = shape, lane
        frame = shape.frame.filter(shape.frame["lane"] == lane)
        self._right = WIDTH_PX - 2 * MARGIN_PX
        lines = [band_values(frame, band.name) for band in shape.bands]
        rows = rows_to_draw(frame["time_ns"].to_numpy(), lines, WIDTH_PX)
        self._time_ns = frame["time_ns"].to_numpy()[rows]
        self._lines = [(band, values[rows]) for band, values in zip(shape.bands, lines, strict=True)]
        stacked = ((band, band_values(frame, band.name)[rows]) for band in shape.stacked)
        self._stacked = [(band, values) for band, values in stacked if values.any()]
        tops = [values for _, values in self._lines] + [sum((v for _, v in self._stacked), np.zeros(len(rows)))]
        self._largest = float(np.nanmax(np.concatenate(tops), initial=0.0))
        unit = column_unit("bytes", self._largest)
        self._suffix, self._size = unit.suffix, unit.size
        self._ticks = ticks(0.0, self._largest / self._size * HEADROOM_RATIO, 4)
        self._left = max((width_px(text) for _, text in self._ticks), default=0.0) + 2 * MARGIN_PX + GAP_PX
        samples = [(band.title, _colour_of(band), SWATCH_PX[1]) for band, _ in self._stacked]
        samples += [(band.title, band_colour(band.name), 1) for band, _ in self._lines]
        self._legend = Legend(samples, self._left, self._right)

    @property
    def height_px(self) -> int:
        """The height of the plot with its words."""
        return LINE_PX + GAP_PX + self._legend.height_px + CURVE_PX + AXIS_PX + GAP_PX

    def paint(self, canvas: Canvas, top: int) -> None:
        """Paint the plot below ``top``."""
        canvas.text(self._left, top + LINE_PX / 2 + MARGIN_PX, f"{short_label(self._lane, LANE_CHARS)}, {self._suffix}")
        self._legend.paint(canvas, top + LINE_PX + GAP_PX)
        curve_top = top + LINE_PX + GAP_PX + self._legend.height_px
        self._paint_curves(canvas, curve_top)
        bottom = curve_top + CURVE_PX
        scale = CURVE_PX / (self._largest * HEADROOM_RATIO) if self._largest > 0 else 0.0
        for number, text in self._ticks:
            canvas.text(self._left - GAP_PX, bottom - number * self._size * scale, text, place="rm")
        axis = Axis(float(self._time_ns[0]) / 1e6, float(self._time_ns[-1]) / 1e6, self._left, self._right)
        axis.paint(canvas, bottom, "ms")
        for mark in (mark for mark in memory_peaks(self._shape) if mark.lane == self._lane):
            x = axis.x(mark.time_ns / 1e6)
            for y in range(curve_top, bottom, PEAK_PX[1]):
                canvas.box(x, y, x + 1, y + PEAK_PX[0], canvas.ink)
            peak = Look(points=9)
            canvas.text(self._right, top + LINE_PX / 2 + MARGIN_PX, short_label(mark.label), place="rm", look=peak)

    def _paint_curves(self, canvas: Canvas, top: int) -> None:
        """Paint the bands on top of one another, the first at the bottom, and the lines over them."""
        from PIL import Image, ImageColor  # noqa: PLC0415 - as in ``painting``

        width = round(self._right - self._left)
        pixels = np.asarray(canvas.image.crop((round(self._left), top, round(self._left) + width, top + CURVE_PX)))
        pixels = pixels.copy()
        height = np.arange(CURVE_PX, 0, -1)[:, None] - 0.5  # of the middle of each row of pixels
        scale = CURVE_PX / (self._largest * HEADROOM_RATIO) if self._largest > 0 else 0.0
        column = columns_of(self._time_ns, width)
        shown = _highest_rows(column, sum((v for _, v in self._stacked), np.zeros(len(column))), width)
        bottom = np.zeros(width)
        for band, values in self._stacked:
            level = bottom + values[shown] * scale
            pixels[(height > bottom) & (height < level)] = (*ImageColor.getrgb(_colour_of(band)), 255)
            bottom = level
        for band, values in self._lines:
            low, high = (np.floor(edge * scale) for edge in _reach(column, values, width))
            pixels[(height > low) & (height < high + 1)] = (*ImageColor.getrgb(band_colour(band.name)), 255)
        canvas.image.paste(Image.fromarray(pixels, "RGBA"), (round(self._left), top))


def _highest_rows(column: IntArray, total: FloatArray, width: int) -> IntArray:
    """Return the row to show in each column: the highest that begins in it, or else the last one before."""
    before = np.maximum(np.searchsorted(column, np.arange(width), "right") - 1, 0)
    order = np.lexsort((total, column))
    highest = order[np.append(np.diff(column[order]) != 0, True)]
    before[column[highest]] = highest
    return before


def _reach(column: IntArray, values: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest value in each column, with the one that it begins with; nan where none is."""
    low, high = np.full(width, np.nan), np.full(width, np.nan)
    before = np.searchsorted(column, np.arange(width)) - 1
    known = before >= 0
    low[known] = high[known] = values[before[known]]
    np.fmin.at(low, column, values)
    np.fmax.at(high, column, values)
    return low, high


def _colour_of(band: Column) -> str:
    return category_colour(band.name.removesuffix("_bytes"))


def roofline_picture(shape: Shape) -> bytes:
    """Return ops as points below the roofs of the device."""
    assert isinstance(shape, Table)
    canvas = Canvas(WIDTH_PX, ROOFLINE_PX + AXIS_PX + LINE_PX)
    plane = plane_of(shape)
    left, right, top = width_px("100 GFLOP/s") + 2 * MARGIN_PX, WIDTH_PX - 4 * MARGIN_PX, LINE_PX

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = ((np.log10(value) - ends[0]) / (ends[1] - ends[0]) for value, ends in ((x, plane.x), (y, plane.y)))
        return left + float(np.clip(across, 0, 1)) * (right - left), top + (1 - float(np.clip(up, 0, 1))) * ROOFLINE_PX

    bottom = top + ROOFLINE_PX
    canvas.line(left, bottom, right, bottom)
    canvas.line(left, top, left, bottom)
    for power in range(int(np.ceil(plane.x[0])), int(plane.x[1]) + 1):
        canvas.text(place(10.0**power, 1)[0], bottom + LINE_PX / 2, f"{10.0**power:g}", place="mm")
    for power in range(int(np.ceil(plane.y[0])), int(plane.y[1]) + 1):
        canvas.text(left - GAP_PX, place(1, 10.0**power)[1], f"{format_flop(10.0**power)}/s", place="rm")
    canvas.text(right, bottom + 1.5 * LINE_PX, "FLOP/byte", place="rm")
    for number, line in enumerate(plane.lines):
        ends = [place(x, y) for x, y in zip(line.x, line.y, strict=True)]
        canvas.line(*ends[0], *ends[1])
        x, y = place(*line.label)
        canvas.text(x, y - LINE_PX / 2, line.title, place="rm")
        if line.ridge:
            at = place(line.ridge, line.y[0])
            canvas.line(*at, at[0], bottom)
            up = (len(plane.lines) - number - 0.5) * LINE_PX
            canvas.text(at[0] - GAP_PX, bottom - up, line.ridge_title, place="rm")
    for point in plane.points:
        canvas.dot(*place(point.x, point.y), max(POINT_PX * np.sqrt(point.size), 2), point.colour)
    return canvas.to_png()


PICTURES: Mapping[str, Callable[[Shape], bytes]] = {
    "flame": flame_picture,
    "memory": memory_picture,
    "roofline": roofline_picture,
}
