from __future__ import annotations

import io
import struct
from importlib import util

import pytest
from PIL import Image

from torchprof_magic.render.painting import LINE_PX, Axis, Canvas, Legend, font, ticks, width_px


@pytest.mark.parametrize(
    ("low", "high", "most", "numbers"),
    [
        (0.0, 9.1, 4, ["0.0", "2.5", "5.0", "7.5"]),
        (0.0, 1600.0, 9, ["0", "200", "400", "600", "800", "1000", "1200", "1400", "1600"]),
        (15.2, 47.0, 4, ["20", "30", "40"]),
        (0.0, 0.031, 4, ["0.00", "0.01", "0.02", "0.03"]),
        (0.0, 16.8, 4, ["0", "5", "10", "15"]),
        (3.0, 3.0, 4, []),
        (0.0, 0.0, 4, []),
    ],
)
def test_an_axis_has_round_numbers(low: float, high: float, most: int, numbers: list[str]) -> None:
    found = ticks(low, high, most)
    assert [text for _, text in found] == numbers
    assert [float(text) for text in numbers] == pytest.approx([number for number, _ in found])


def test_a_number_lies_where_the_axis_says() -> None:
    axis = Axis(10.0, 30.0, 100.0, 500.0)
    assert [axis.x(number) for number in (10.0, 15.0, 30.0)] == [100.0, 200.0, 500.0]


def test_an_axis_of_one_moment_has_it_on_the_left() -> None:
    assert Axis(5.0, 5.0, 100.0, 500.0).x(5.0) == 100.0


def test_a_legend_goes_on_in_the_next_row_where_it_is_too_wide() -> None:
    entries = [("Optimizer state", "#112233", 7)] * 3
    wide = 3 * (width_px("Optimizer state") + 60)
    assert Legend(entries, 0, wide).height_px == LINE_PX
    assert Legend(entries, 0, wide / 2).height_px == 3 * LINE_PX
    assert Legend([], 0, wide).height_px == 0


def test_a_legend_paints_a_sample_of_each_color() -> None:
    canvas = Canvas(300, LINE_PX)
    Legend([("a", "#ff0000", 7), ("b", "#00ff00", 1)], 0, 300).paint(canvas, 0)
    found = {colour for _, colour in canvas.image.getcolors(10_000) or []}
    assert {(255, 0, 0, 255), (0, 255, 0, 255)} <= found


def test_a_box_is_at_least_a_pixel() -> None:
    canvas = Canvas(10, 10)
    canvas.box(2.2, 3.0, 2.3, 3.1, "#ff0000")
    assert canvas.image.getbbox() == (2, 3, 3, 4)


def test_a_canvas_without_ground_is_transparent_and_text_on_it_has_one_color() -> None:
    canvas = Canvas(100, 20)
    canvas.text(5, 10, "Allocated")
    with Image.open(io.BytesIO(canvas.to_png())) as image:
        pixels = {colour for _, colour in image.convert("RGBA").getcolors(10_000) or []}
    assert {pixel[:3] for pixel in pixels} == {(0x77, 0x7D, 0x84)}
    alphas = [pixel[3] for pixel in pixels]
    assert min(alphas) == 0
    assert max(alphas) > 200


def test_an_image_has_few_colors_and_its_size() -> None:
    canvas = Canvas(256, 4)
    for x in range(256):
        canvas.box(x, 0, x + 1, 4, f"#{x:02x}{255 - x:02x}80")
    png = canvas.to_png()
    assert struct.unpack(">II", png[16:24]) == (256, 4)
    with Image.open(io.BytesIO(png)) as image:
        assert len(image.getcolors(256) or []) <= 64


def test_text_is_written_in_the_font_of_the_figures() -> None:
    assert font(8.0).getname() == ("DejaVu Sans", "Book")
    assert font(7.0, is_code=True).getname() == ("DejaVu Sans Mono", "Book")


def test_text_is_written_where_matplotlib_lies_without_its_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchprof_magic.render.painting.find_spec", lambda _: util.spec_from_loader("x", None))
    font.cache_clear()
    try:
        canvas = Canvas(100, 20)
        canvas.text(5, 10, "aten::mm")
        assert canvas.image.getbbox() is not None
        assert width_px("aten::mm") > 0
    finally:
        font.cache_clear()
