"""A memory timeline as an HTML page with a picture, like torch's, and with its numbers."""

from __future__ import annotations

import base64
import html
import json
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from torchprof_magic.model.memory_categories import TORCH_ORDER
from torchprof_magic.model.units import MIB, format_bytes
from torchprof_magic.render.figures import DRAWN_COLUMNS, GREY, new_canvas, plain_label, to_png
from torchprof_magic.render.palette import category_colour
from torchprof_magic.render.thinning import rows_to_draw
from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

HEIGHT_IN = 5.0
# The page loads nothing and runs nothing; its picture is inside.
_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="torchprof-magic memory timeline">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:">
<title>$title</title>
</head>
<body>
<h1>$title</h1>
<p>$peak</p>
<img alt="$alt" src="data:image/png;base64,$picture">
<script type="application/json" id="memory-timeline">$data</script>
</body>
</html>
"""
)


def write_memory_page(
    times_us: Sequence[int], sizes: Sequence[Sequence[int]], path: Path, *, device: str, title: str
) -> Path:
    """Write the picture of the bytes of each category over time, with the numbers as JSON, and return the path.

    ``load`` opens the page again. Raises ``ExportError`` if it cannot be written.
    """
    peak = max((sum(row) for row in sizes), default=0)
    name = f"{title}: memory on {device}" if title else f"Memory on {device}"
    picture = base64.b64encode(to_png(_picture(times_us, sizes))).decode()
    data = json.dumps({"device": device, "timeline": [times_us, sizes]})
    return write_text(
        path,
        [
            _PAGE.substitute(
                title=html.escape(name),
                peak=html.escape(f"Peak {format_bytes(peak)}"),
                alt=html.escape(f"Bytes of each category over time on {device}"),
                picture=picture,
                data=data.replace("<", "\\u003c"),  # cannot end the element
            )
        ],
    )


def _picture(times_us: Sequence[int], sizes: Sequence[Sequence[int]]) -> Figure:
    figure, axes = new_canvas(HEIGHT_IN)
    if not times_us:
        return figure
    levels = np.array(sizes, np.float64)[:, 1:] / MIB
    rows = rows_to_draw(np.array(times_us, np.int64), [levels.sum(axis=1)], DRAWN_COLUMNS)
    time_ms, levels = (np.array(times_us)[rows] - min(times_us)) / 1e3, levels[rows]
    bottom = np.zeros(len(time_ms))
    for name, level in zip(TORCH_ORDER, levels.T, strict=True):
        if level.any():
            label, colour = name.replace("_", " "), category_colour(name)
            axes.fill_between(time_ms, bottom, bottom + level, step="post", color=colour, label=label, linewidth=0)
        bottom += level
    axes.set_xlabel("ms")
    axes.set_ylabel(plain_label("MiB"))
    axes.legend(frameon=False, fontsize=8, loc="upper left", labelcolor=GREY)
    return figure
