"""Matplotlib figures of a report, with the colours of the live view.

matplotlib is imported with the first figure, because importing it takes longer than reading a small trace.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.facts.host.phases import PHASES, with_one_wait
from torchprof_magic.model.shapes import Series, Shape, Table, Tree, top_rows
from torchprof_magic.model.units import MIB
from torchprof_magic.render.palette import band_colour, category_colour, phase_colour, phase_title
from torchprof_magic.render.roof_plane import named_points, plane_of
from torchprof_magic.render.thinning import band_values, rows_to_draw
from torchprof_magic.system.process.python_warnings import warnings_to
from torchprof_magic.tables.memory.in_use import memory_peaks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from torchprof_magic.model.shapes import Column
    from torchprof_magic.render.thinning import FloatArray

WIDTH_IN = 9.0
DPI = 100
DRAWN_COLUMNS = 1800  # of a curve: figures that are saved with twice the pixels lose nothing
BAR_RATIO = 0.8  # height of a bar in its row
PALE = 0.4  # of what does not count
BAR_IN = 0.26  # height of one row of bars
TOP_OPS = 12
MAX_STEPS = 24
MAX_LANES = 8  # devices with a plot; a note gives the number of the others
MIN_BOX_RATIO = 0.002  # boxes narrower than this share of the graph are not drawn
LABEL_CHARS = 42  # of the name of an op
LANE_CHARS = 20  # of the name of a device, along the height of its plot
LABEL_RATIO = 0.045  # boxes wider than this have a label
MAX_DEPTH = 14
GREY = "#6b737c"
MIDDLE_GREY = "#777d84"  # 4.2 to 1 on white and 4.5 to 1 on #111111
TITLE_CHARS = 100
ROOFLINE_IN = 4.8
# Areas of points, and how many of the largest have their names beside them.
LARGEST_POINT, LEAST_POINT, NAMED_POINTS = 500, 10, 6
GAP_RATIO = 0.0008  # between boxes of the flame graph, of its width


def step_labels(steps: pl.DataFrame) -> list[str]:
    """Return what the bars of steps are called: their numbers, and why one does not count."""
    rows = steps.select("number", "left_out").iter_rows()
    return [f"step {number}: {left_out}" if left_out else f"step {number}" for number, left_out in rows]


def draw_steps(shape: Shape) -> Figure:
    """Return the steps as stacked bars on one scale; those that do not count are crossed out."""
    assert isinstance(shape, Table)
    steps = shape.frame.head(MAX_STEPS)
    figure, axes = new_canvas(max(steps.height, 1) * BAR_IN + 0.9)
    left = [0.0] * steps.height
    parts = with_one_wait({phase: steps[f"{phase}_ns"].to_numpy() / 1e6 for phase in PHASES})
    for phase, width in parts.items():
        if width.any():
            axes.barh(range(steps.height), width, left=left, color=phase_colour(phase), label=phase_title(phase))
        left = [a + b for a, b in zip(left, width, strict=True)]
    for row in np.flatnonzero((steps["left_out"] != "").to_numpy()).tolist():
        _cross_out(axes, row, left[row])
    axes.set_yticks(range(steps.height), step_labels(steps))
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, ncols=len(PHASES), loc="lower left", bbox_to_anchor=(0, 1))
    return _finished(figure)


def _cross_out(axes: Axes, row: int, width: float) -> None:
    """Cross out the bar of a row, which is paler than others."""
    for bars in axes.containers:
        bars[row].set_alpha(PALE)
    for ends in ((BAR_RATIO, -BAR_RATIO), (-BAR_RATIO, BAR_RATIO)):
        axes.plot((0, width), [row + end / 2 for end in ends], color=MIDDLE_GREY, linewidth=1)


def draw_ops(shape: Shape) -> Figure:
    """Return the ops with the most time as bars, colored by phase."""
    assert isinstance(shape, Table)
    by = shape.sort_by or "self_cpu_ns"
    title = next(column.title for column in shape.columns if column.name == by)
    ops = top_rows(shape).head(TOP_OPS)
    figure, axes = new_canvas(max(ops.height, 1) * BAR_IN + 0.6)
    colours = [phase_colour(str(phase)) for phase in ops["phase"].to_list()]
    bars = axes.barh(range(ops.height), [value / 1e6 for value in ops[by].fill_null(0).to_list()], color=colours)
    axes.bar_label(bars, fmt=" {:.2f}", fontsize=8, color=GREY)
    axes.set_yticks(range(ops.height), [plain_label(name) for name in ops["name"].to_list()], family="monospace")
    axes.invert_yaxis()
    axes.set_xlabel(f"{title}, ms")
    return _finished(figure)


def draw_flame(shape: Shape) -> Figure:
    """Return the merged call tree as an icicle, root on top, by its first weight, such as host time."""
    assert isinstance(shape, Tree)
    boxes = flame_boxes(shape)
    depth = max((box[2] for box in boxes), default=0) + 1
    figure, axes = new_canvas(depth * 0.22 + 0.4)
    for left, width, level, name, colour in boxes:
        # A gap, not an edge: the ground behind the figure is not known.
        axes.barh(level, width - GAP_RATIO, left=left, height=0.94, color=colour, linewidth=0)
        if width > LABEL_RATIO:
            text = plain_label(name, int(width * 150))
            axes.text(left + 0.003, level, text, va="center", fontsize=7, family="monospace", color=ink_on(colour))
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    axes.set_axis_off()
    return _finished(figure)


def draw_memory(shape: Shape) -> Figure:
    """Return the memory of each device over time, with its categories and its peak."""
    assert isinstance(shape, Series)
    every_lane = shape.frame["lane"].unique(maintain_order=True).to_list()
    lanes = every_lane[:MAX_LANES]
    figure = _figure(1.9 * max(len(lanes), 1))
    for row, lane in enumerate(lanes):
        axes = figure.add_subplot(len(lanes), 1, row + 1)
        rows = _drawn_rows(shape.frame.filter(shape.frame["lane"] == lane), shape.bands)
        time_ms = rows["time_ns"].to_numpy() / 1e6
        _stack_bands(axes, time_ms, rows, shape.stacked)
        for band in shape.bands:
            size = band_values(rows, band.name) / MIB
            axes.plot(
                time_ms, size, drawstyle="steps-post", color=band_colour(band.name), label=band.title, linewidth=1
            )
        _dress(axes)
        axes.set_ylabel(f"{plain_label(lane, LANE_CHARS)}, MiB")
        for mark in (mark for mark in memory_peaks(shape) if mark.lane == lane):
            axes.axvline(mark.time_ns / 1e6, color=GREY, linestyle=":", linewidth=1)
            axes.set_title(plain_label(mark.label), fontsize=9, loc="right", color=GREY)
        axes.set_xlabel("ms")
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    if len(every_lane) > len(lanes):
        text = f"{len(every_lane) - len(lanes)} more devices are not shown."
        figure.supxlabel(text, fontsize=8, color=GREY, x=0.99, ha="right")
    return _finished(figure)


def _drawn_rows(rows: pl.DataFrame, bands: Sequence[Column]) -> pl.DataFrame:
    """Return the rows of a device that its plot needs."""
    chosen = rows_to_draw(rows["time_ns"].to_numpy(), [band_values(rows, band.name) for band in bands], DRAWN_COLUMNS)
    return rows[chosen]


def _stack_bands(axes: Axes, time_ms: FloatArray, rows: pl.DataFrame, bands: Sequence[Column]) -> None:
    """Fill the bands on top of one another, the first at the bottom."""
    bottom = np.zeros(len(time_ms))
    for band in bands:
        top = bottom + band_values(rows, band.name) / MIB
        if (top != bottom).any():
            colour = category_colour(band.name.removesuffix("_bytes"))
            axes.fill_between(time_ms, bottom, top, step="post", color=colour, label=band.title, linewidth=0)
        bottom = top


def draw_roofline(shape: Shape) -> Figure:
    """Return ops as points below the roofs of the device: operations per second over operations per byte."""
    assert isinstance(shape, Table)
    figure, axes = new_canvas(ROOFLINE_IN)
    if shape.points is not None:
        plane = plane_of(shape)
        for number, line in enumerate(plane.lines):
            axes.plot(line.x, line.y, color=MIDDLE_GREY, linewidth=1.2, zorder=1)
            axes.annotate(
                line.title,
                line.label,
                (-2, 3),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=GREY,
            )
            if line.ridge:
                axes.vlines(line.ridge, 10 ** plane.y[0], line.y[0], MIDDLE_GREY, linestyles="dotted", linewidth=1)
                foot = (line.ridge, 10 ** plane.y[0])
                at = (-3, 4 + 9 * (len(plane.lines) - 1 - number))
                axes.annotate(
                    line.ridge_title, foot, at, textcoords="offset points", ha="right", fontsize=7, color=GREY
                )
        columns = [[getattr(point, name) for point in plane.points] for name in ("x", "y", "size", "colour")]
        sizes = [max(size * LARGEST_POINT, LEAST_POINT) for size in columns[2]]
        axes.scatter(columns[0], columns[1], s=sizes, c=columns[3], alpha=0.75, linewidths=0, zorder=2)
        for point in named_points(plane, NAMED_POINTS):
            axes.annotate(plain_label(point.name), (point.x, point.y), (6, -8), textcoords="offset points", fontsize=7)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*(10**end for end in plane.x))
        axes.set_ylim(*(10**end for end in plane.y))
    axes.spines["left"].set_visible(True)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_xlabel("FLOP/byte")
    axes.set_ylabel("FLOP/s")
    return _finished(figure)


FIGURES: Mapping[str, Callable[[Shape], Figure]] = {
    "steps": draw_steps,
    "ops": draw_ops,
    "flame": draw_flame,
    "memory": draw_memory,
    "roofline": draw_roofline,
}


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG bytes, without touching the user's pyplot state."""
    from matplotlib import rc, rc_context  # noqa: PLC0415 - see the docstring of the module

    buffer = io.BytesIO()
    # Numbers on an axis become texts only while the figure is drawn. Glyphs that the font lacks become boxes.
    with warnings_to(), rc_context():
        rc("text", usetex=False)
        figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


def _figure(height_in: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - see the docstring of the module
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_canvas(height_in: float) -> tuple[Figure, Axes]:
    """Return an empty figure of this height with one plot."""
    figure = _figure(height_in)
    axes = figure.add_subplot()
    _dress(axes)
    return figure, axes


def _dress(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.label.set_fontsize(8)
    axes.yaxis.label.set_fontsize(8)


def plain_label(text: str, most_chars: int = LABEL_CHARS) -> str:
    """Return a text from a trace as a label that matplotlib does not read as math text."""
    return short_label(text, most_chars).replace("$", r"\$")


def short_label(text: str, most_chars: int = LABEL_CHARS) -> str:
    """Return a text from a trace as a label: short, and on one line."""
    short = text if len(text) <= most_chars else f"{text[: max(most_chars - 1, 1)]}…"
    return "".join(char if char.isprintable() else "�" for char in short)


def _finished(figure: Figure) -> Figure:
    """Return the figure with texts that are never given to LaTeX, which a user may have turned on for own figures."""
    from matplotlib.text import Text  # noqa: PLC0415 - see the docstring of the module

    for text in figure.findobj(Text):
        text.set_usetex(False)
    return figure


def ink_on(colour: str) -> str:
    """Return the color of text that can be read on a color ``#rrggbb``."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128  # noqa: PLR2004 - half of 0..255
    return "white" if is_dark else "#1f2328"


def flame_boxes(shape: Tree) -> list[tuple[float, float, int, str, str]]:
    """Return ``(left, width, level, name, colour)`` of every box wide enough to print; rows are in preorder."""
    total = shape.frame[f"total_{shape.weights[0].name}"].to_numpy()
    share = total / max(float(total[0]), 1.0)
    rows = np.flatnonzero(share >= MIN_BOX_RATIO)
    frame = shape.frame[rows].select("parent", pl.col("name", "phase").cast(pl.String))
    filled, level, boxes = {0: 0.0}, {0: -1}, []
    for row, width, (above, name, phase) in zip(rows.tolist(), share[rows].tolist(), frame.iter_rows(), strict=True):
        # Bounded: at most one row per level and MIN_BOX_RATIO. The children of a skipped box are skipped as well.
        if row == 0 or above not in filled or level[above] + 1 >= MAX_DEPTH:
            continue
        left = filled[above]
        filled[above] += width
        filled[row], level[row] = left, level[above] + 1
        boxes.append((left, width, level[row], name, phase_colour(phase)))
    return boxes
