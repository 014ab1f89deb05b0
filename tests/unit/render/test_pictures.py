"""The pictures of a static copy; expected pixels are worked out by hand from the colors and the scale."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from PIL import Image
from support import annotation, make_trace, span

from torchprof_magic.model.shapes import Column, Mark, Series
from torchprof_magic.render.painting import Canvas
from torchprof_magic.render.palette import band_colour, category_colour, phase_colour
from torchprof_magic.render.pictures import (
    MAX_LANES,
    PICTURES,
    WIDTH_PX,
    flame_picture,
    memory_picture,
    steps_picture,
)
from torchprof_magic.report.trace_report import Report
from torchprof_magic.tables.memory.in_use import memory_series

HOSTILE = ["", "$x$ \\frac", "\n\r\t\x00", "\u202e\u0661", "x" * 100_000, "模型", "\U0001f600" * 50]


def pixels_of(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGBA")).astype(int)


def near(pixels: np.ndarray, colour: str) -> np.ndarray:
    """Return where the pixels have a color; few colors of an image are not exact."""
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return (np.abs(pixels[..., :3] - wanted).max(axis=-1) <= 8) & (pixels[..., 3] > 200)


def curve(time_ns: list[int] | np.ndarray, **bands: object) -> Series:
    """Return the memory of one device; ``allocated_bytes`` is a line, and the other bands are stacked."""
    columns = {name: Column(name=name, title=name, unit="bytes", definition="") for name in bands}
    frame = pl.DataFrame({"lane": ["cpu"] * len(time_ns), "time_ns": time_ns, **bands})
    return Series(
        frame=frame,
        bands=(columns["allocated_bytes"],),
        stacked=tuple(column for name, column in columns.items() if name != "allocated_bytes"),
    )


def plot_of(pixels: np.ndarray) -> tuple[int, int, int, int]:
    """Return the left, top, right and bottom edge of the curve: above the axis, which is the longest gray line."""
    is_ink = (np.abs(pixels[..., :3] - [0x77, 0x7D, 0x84]).max(axis=-1) <= 8) & (pixels[..., 3] > 200)
    bottom = int(is_ink.sum(axis=1).argmax())
    inked = np.flatnonzero(is_ink[bottom])
    line = max(np.split(inked, np.flatnonzero(np.diff(inked) > 1) + 1), key=len)  # beside it is the number 0
    return int(line[0]), bottom - 120, int(line[-1]) + 1, bottom


def test_one_allocation_among_many_is_seen_as_high_as_it_is() -> None:
    allocated = np.full(200_000, 1_000_000)
    allocated[50_000] = 4_000_000
    zero = np.zeros_like(allocated)
    pixels = pixels_of(
        memory_picture(curve(np.arange(200_000), allocated_bytes=allocated, unknown_bytes=allocated, input_bytes=zero))
    )
    left, top, right, bottom = plot_of(pixels)
    height_px = (pixels[top:bottom, left:right, 3] > 200).sum(axis=0)
    peak = int(height_px.argmax())
    assert peak == (right - left) // 4
    # The axis is 120 px high, and ends 5 % above the peak.
    assert height_px[peak] == pytest.approx(120 / 1.05, abs=2)
    assert np.median(height_px) == pytest.approx(120 / 1.05 / 4, abs=2)


def test_the_categories_lie_on_one_another() -> None:
    half, whole = [500_000, 500_000], [1_000_000, 1_000_000]
    shape = curve([0, 10**6], allocated_bytes=whole, parameter_bytes=half, unknown_bytes=half)
    pixels = pixels_of(memory_picture(shape))
    left, top, _, bottom = plot_of(pixels)
    column = pixels[top:bottom, left + 100]
    parameters, unknown = (np.flatnonzero(near(column, category_colour(name))) for name in ("parameter", "unknown"))
    assert parameters.max() == 119
    assert unknown.max() + 1 == parameters.min()
    assert (len(parameters), len(unknown)) == pytest.approx((57, 56), abs=1)


def test_a_line_joins_its_steps_and_leaves_a_gap_where_it_has_no_value() -> None:
    size = [1_000_000, 3_000_000, None, 2_000_000, 2_000_000]
    pixels = pixels_of(memory_picture(curve([0, 250, 500, 750, 1000], allocated_bytes=size)))
    left, top, right, bottom = plot_of(pixels)
    drawn = near(pixels, band_colour("allocated_bytes"))[top:bottom, left:right]
    quarter = (right - left) // 4
    high_px = {
        name: int(drawn[:, at].sum()) for name, at in (("flat", 50), ("rise", quarter), ("gap", 2 * quarter + 50))
    }
    # From 1 to 3 of 3.15 MB.
    assert high_px == pytest.approx({"flat": 1, "rise": 120 * 2 / 3.15, "gap": 0}, abs=1.5)


def test_the_moment_of_the_peak_is_a_dotted_line_with_its_label() -> None:
    shape = curve([0, 500, 1000], allocated_bytes=[1, 4, 1])
    peak = Mark(lane="cpu", time_ns=500, label="peak 4 B", kind="peak")
    pixels = pixels_of(memory_picture(Series(frame=shape.frame, bands=shape.bands, marks=(peak,))))
    left, top, right, bottom = plot_of(pixels)
    ink = near(pixels, "#777d84")
    # Two of four pixels in the middle column, and none beside it.
    assert ink[top:bottom].sum(axis=0)[(left + right) // 2 - 1 :][:3].tolist() == [0, 60, 0]
    assert ink[:20, right - 60 : right].any()


def test_memory_that_was_always_zero_has_a_picture() -> None:
    assert memory_picture(curve([0, 1], allocated_bytes=[0, 0])).startswith(b"\x89PNG")


def test_one_moment_has_a_picture() -> None:
    assert memory_picture(curve([7], allocated_bytes=[5])).startswith(b"\x89PNG")


def test_devices_beyond_the_limit_are_counted_in_the_picture() -> None:
    lanes = [f"cuda:{at}" for at in range(MAX_LANES + 3)]
    frame = pl.DataFrame({"lane": lanes, "time_ns": [0] * len(lanes), "allocated_bytes": [1] * len(lanes)})
    band = Column(name="allocated_bytes", title="Allocated", unit="bytes", definition="")
    all_of_them = pixels_of(memory_picture(Series(frame=frame, bands=(band,)))).shape[0]
    shown = pixels_of(memory_picture(Series(frame=frame.head(MAX_LANES), bands=(band,)))).shape[0]
    assert 10 < all_of_them - shown < 30


def test_a_recording_without_memory_has_no_curve() -> None:
    assert memory_series(make_trace(span("a", 0, 1))).frame.height == 0


def test_the_flame_graph_has_a_box_per_call_as_wide_as_its_share() -> None:
    report = Report(make_trace(annotation("ProfilerStep#2", 0, 100), span("aten::mm", 0, 50)))
    pixels = pixels_of(flame_picture(report._analysis["flame"]))
    assert pixels.shape[1] == WIDTH_PX
    row = near(pixels[4 + 22 + 2], phase_colour("forward"))
    assert row.sum() == pytest.approx((WIDTH_PX - 8) / 2 - 1, abs=2)


def test_the_steps_are_bars_of_their_phases() -> None:
    trace = make_trace(
        annotation("ProfilerStep#2", 0, 100),
        span("aten::mm", 0, 100),
        annotation("ProfilerStep#3", 100, 50),
        span("aten::mm", 100, 50),
    )
    pixels = pixels_of(steps_picture(Report(trace)._analysis["steps"], "Two steps"))
    assert (pixels[..., 3] == 255).all()
    bars = near(pixels, phase_colour("forward"))[44:].sum(axis=1)
    lengths = sorted({int(length) for length in bars if length})
    assert len(lengths) == 2
    assert lengths[0] / lengths[1] == pytest.approx(0.5, abs=0.01)


def test_a_step_that_does_not_count_is_crossed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed: list[tuple[float, ...]] = []
    monkeypatch.setattr(Canvas, "cross", lambda _self, *edges: crossed.append(edges))
    steps = [annotation(f"ProfilerStep#{number}", number * 100, 90) for number in (2, 3, 5)]
    trace = make_trace(*steps, annotation("ProfilerStep#6", 600, 225))
    pixels = pixels_of(steps_picture(Report(trace)._analysis["steps"], "Steps"))
    ((left, top, right, bottom),) = crossed
    # The fourth bar, in the whole of its length.
    inside = near(pixels[round(top) : round(bottom), round(left) : round(right)], phase_colour("python"))
    assert inside.all()


def test_a_cross_leads_from_corner_to_corner() -> None:
    canvas = Canvas(30, 20, "white")
    canvas.cross(0, 0, 30, 20)
    dark = near(pixels_of(canvas.to_png()), "#000000")
    assert all(dark[y, x] for y in (0, 19) for x in (0, 29))
    assert dark[9:11, 14:16].any()
    assert not dark[0, 15]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_picture_is_painted_whatever_its_names_are(name: str) -> None:
    report = Report(make_trace(annotation("ProfilerStep#2", 0, 100), span(name, 5, 60)))
    assert flame_picture(report._analysis["flame"]).startswith(b"\x89PNG")
    assert steps_picture(report._analysis["steps"], name).startswith(b"\x89PNG")
    shape = curve([0, 1], allocated_bytes=[1, 2])
    renamed = Series(frame=shape.frame.with_columns(lane=pl.lit(name)), bands=shape.bands, marks=shape.marks)
    assert memory_picture(renamed).startswith(b"\x89PNG")


def test_every_picture_of_the_static_copy_is_listed() -> None:
    assert list(PICTURES) == ["flame", "memory", "roofline"]


def test_the_static_copy_does_without_matplotlib() -> None:
    code = """
import sys
from support import allocation, annotation, make_trace, span
from torchprof_magic.report.trace_report import Report
report = Report(make_trace(annotation("ProfilerStep#2", 0, 9), span("a", 1, 5), allocation(2, 512, 512)))
forms = report._repr_mimebundle_()
assert forms["text/html"].count('<img alt="Flame graph"') == forms["text/html"].count('<img alt="Memory"') == 1
assert "image/png" in forms
print("matplotlib" in sys.modules)
"""
    path = os.pathsep.join(filter(None, (*sys.path, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "False", done.stderr
