"""Small images of bars, for HTML whose styles a viewer may take away.

They have no ground and no text, so that they suit light and dark pages.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

from torchprof_magic.render.palette import phase_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.ImageDraw import ImageDraw

TRACK_PX = 220  # the longest bar
BAR_PX = 10
SWATCH_PX = 10
_HATCH_PX = 4  # from one diagonal line to the next
# The page's own gray has too little contrast on white, where its ground is not known.
_PYTHON = "#8b929b"


def track_image(parts: Sequence[tuple[str, float]], largest: float, *, is_out: bool = False) -> str:
    """Return the ``src`` of a bar of phases, one after the other; ``largest`` is as long as the track.

    What ``is_out`` does not count, and is crossed out.
    """
    edges, at = [0], 0.0
    for _, value in parts:
        at += value
        edges.append(round(at / largest * TRACK_PX) if largest > 0 else 0)
    pieces = [(phase, left, right) for (phase, _), left, right in zip(parts, edges, edges[1:], strict=False)]
    return _image(pieces, max(edges[-1], 1), BAR_PX, is_out=is_out)


def swatch_image(phase: str) -> str:
    """Return the ``src`` of a square in the color of a phase."""
    return _image([(phase, 0, SWATCH_PX)], SWATCH_PX, SWATCH_PX)


def _image(pieces: Sequence[tuple[str, int, int]], width_px: int, height_px: int, *, is_out: bool = False) -> str:
    # Imported with the first bar, as matplotlib is with the first figure.
    from PIL import Image, ImageColor, ImageDraw  # noqa: PLC0415

    # One byte a pixel: 0 is transparent, and each phase has a number.
    image = Image.new("P", (width_px, height_px))
    draw = ImageDraw.Draw(image)
    colours: list[int] = [0, 0, 0]
    for number, (phase, left, right) in enumerate(pieces, 1):
        colours += ImageColor.getrgb(_PYTHON if phase == "python" else phase_colour(phase))[:3]
        if right > left:
            _draw_piece(draw, phase, number, (left, 0, right - 1, height_px - 1))
    if is_out:
        # Of no color, so that the cross is seen on light and dark pages.
        draw.line((0, 0, width_px - 1, height_px - 1), fill=0, width=2)
        draw.line((0, height_px - 1, width_px - 1, 0), fill=0, width=2)
    image.putpalette(colours)
    buffer = io.BytesIO()
    image.save(buffer, format="png", optimize=True, transparency=0)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _draw_piece(draw: ImageDraw, phase: str, colour: int, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    if phase in ("waiting", "idle"):
        # Waiting is hatched, as in the page.
        for x in range(left, right + 1):
            for y in range(top, bottom + 1):
                if (x + y) % _HATCH_PX < _HATCH_PX // 2:
                    draw.point((x, y), fill=colour)
    else:
        draw.rectangle(box, fill=colour)
