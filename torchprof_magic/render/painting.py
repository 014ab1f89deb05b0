"""Text, bars, axes and legends on an image, painted by Pillow.

The static copy is painted, because a cell waits for it: importing Matplotlib and drawing three figures with it takes as
long as torch takes to end and export a recording of 150,000 events.
"""

from __future__ import annotations

import io
from functools import lru_cache
from importlib.util import find_spec
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.render.figures import DPI, MIDDLE_GREY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.ImageFont import FreeTypeFont, ImageFont

POINTS_PER_IN = 72
TEXT_PT = 8.0
GAP_PX = 5
LINE_PX = 17  # from one line of text to the next
SWATCH_PX = (20, 7)
_FONTS = "mpl-data/fonts/ttf"  # in Matplotlib, which need not be imported for them
_COLOURS = 64
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


class Canvas:
    """An image to paint on, with the origin at its top left; without ``ground`` it is transparent."""

    def __init__(self, width_px: int, height_px: int, ground: str = "") -> None:
        # Pillow takes as long to import as a small report to make.
        from PIL import Image, ImageColor, ImageDraw  # noqa: PLC0415

        # A transparent ground has the color of the text, so that the edges of the letters are not darker than it.
        colour = ImageColor.getrgb(ground or MIDDLE_GREY)
        self.image = Image.new("RGBA", (width_px, height_px), (*colour[:3], 255 if ground else 0))
        self.ink = "black" if ground else MIDDLE_GREY
        self._draw = ImageDraw.Draw(self.image)

    def box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        """Fill the pixels between four edges; at least one in each direction."""
        x, y = round(left), round(top)
        self._draw.rectangle((x, y, max(round(right) - 1, x), max(round(bottom) - 1, y)), fill=colour)

    def cross(self, left: float, top: float, right: float, bottom: float) -> None:
        """Cross out what lies between four edges."""
        ends = (round(left), round(top), max(round(right) - 1, round(left)), round(bottom) - 1)
        for line in (ends, (ends[0], ends[3], ends[2], ends[1])):
            self._draw.line(line, fill=self.ink)

    def line(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draw a line from one point to another."""
        self._draw.line((round(x), round(y), round(to_x), round(to_y)), fill=self.ink)

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        """Fill a circle around a point."""
        self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour, outline=self.ink)

    def text(self, x: float, y: float, text: str, *, place: str = "lm", look: Look | None = None) -> None:
        """Write one line of text at a point; ``place`` says, as Pillow's anchors do, where in the text the point is."""
        look = look or Look()
        self._draw.text((x, y), text, fill=look.colour or self.ink, font=font(look.points, look.is_code), anchor=place)

    def to_png(self) -> bytes:
        """Return the image as PNG bytes, of few colors: a quarter of the bytes of one of many, in half of the time."""
        from PIL import Image  # noqa: PLC0415 - as above

        buffer = io.BytesIO()
        # Among few colors, one that is opaque may become one that nearly is; an image without alpha has no such color.
        image = self.image.convert("RGB") if self.image.getchannel("A").getextrema() == (255, 255) else self.image
        image.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE).save(buffer, format="png")
        return buffer.getvalue()


class Look(NamedTuple):
    """How a text looks; without ``colour`` it has that of the canvas."""

    points: float = TEXT_PT
    is_code: bool = False
    colour: str = ""


@lru_cache(maxsize=8)
def font(points: float, is_code: bool = False) -> FreeTypeFont | ImageFont:
    """Return the font of the figures; Pillow's own where Matplotlib lies without its fonts."""
    from PIL import ImageFont  # noqa: PLC0415 - as above

    found = find_spec("matplotlib")
    folders = found.submodule_search_locations if found is not None else None
    name = "DejaVuSansMono.ttf" if is_code else "DejaVuSans.ttf"
    for folder in folders or ():
        path = Path(folder) / _FONTS / name
        if path.is_file():
            return ImageFont.truetype(str(path), points * DPI / POINTS_PER_IN, layout_engine=ImageFont.Layout.BASIC)
    return ImageFont.load_default()


def width_px(text: str, points: float = TEXT_PT) -> float:
    """Return how wide a text is."""
    return float(font(points).getlength(text))


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return round numbers from ``low`` to ``high``, at most ``most`` steps, with as many decimals as they need."""
    if not high > low:
        return []
    raw = (high - low) / most
    unit = 10.0 ** floor(log10(raw))
    step = unit * next(factor for factor in _ROUND if factor * unit >= raw * (1 - 1e-9))
    decimals = next((places for places in range(20) if abs(round(step, places) - step) < step * 1e-6), 0)
    numbers = [at * step for at in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    return [(number, f"{number:.{decimals}f}") for number in numbers]


class Legend:
    """Names beside their colors, in rows that are as wide as the canvas allows."""

    def __init__(self, entries: Sequence[tuple[str, str, int]], left: float, right: float) -> None:
        """Lay out the entries: a name, its color, and the height of its sample in px."""
        self._placed: list[tuple[float, int, tuple[str, str, int]]] = []
        x, row = left, 0
        for entry in entries:
            wide = SWATCH_PX[0] + GAP_PX + width_px(entry[0])
            if x + wide > right and x > left:
                x, row = left, row + 1
            self._placed.append((x, row, entry))
            x += wide + 3 * GAP_PX
        self.height_px = (row + 1) * LINE_PX if entries else 0

    def paint(self, canvas: Canvas, top: float) -> None:
        """Paint the legend below ``top``."""
        for x, row, (name, colour, high) in self._placed:
            middle = top + (row + 0.5) * LINE_PX
            canvas.box(x, middle - high / 2, x + SWATCH_PX[0], middle + high / 2, colour)
            canvas.text(x + SWATCH_PX[0] + GAP_PX, middle, name)


class Axis(NamedTuple):
    """A horizontal axis: from which number at which pixel, to which one."""

    low: float
    high: float
    left: float
    right: float

    def x(self, number: float) -> float:
        """Return where a number lies."""
        span = self.high - self.low
        return self.left + ((number - self.low) / span if span > 0 else 0.0) * (self.right - self.left)

    def paint(self, canvas: Canvas, y: float, title: str, most: int = 9) -> None:
        """Paint the line at ``y``, the numbers below it, and the title under them."""
        canvas.box(self.left, y, self.right, y + 1, canvas.ink)
        for number, text in ticks(self.low, self.high, most):
            canvas.text(self.x(number), y + LINE_PX * 0.6, text, place="mm")
        canvas.text((self.left + self.right) / 2, y + LINE_PX * 1.5, title, place="mm")
