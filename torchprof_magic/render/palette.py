"""The colors of phases, bands and categories of memory, from the file that the front end uses as well."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Literal

_PALETTE = json.loads(files("torchprof_magic.render").joinpath("palette.json").read_text(encoding="utf-8"))


def phase_colour(phase: str, theme: Literal["light", "dark"] = "light") -> str:
    """Return the color of a phase as ``#rrggbb``."""
    return str(_PALETTE["phases"][phase][theme])


def phase_title(phase: str) -> str:
    """Return the name of a phase in the report."""
    return str(_PALETTE["phases"][phase]["title"])


def band_colour(band: str, theme: Literal["light", "dark"] = "light") -> str:
    """Return the color of a band of a series as ``#rrggbb``."""
    return str(_PALETTE["bands"][band][theme])


def category_colour(category: str, theme: Literal["light", "dark"] = "light") -> str:
    """Return the color of a category of memory as ``#rrggbb``; that of the phase that makes it, where there is one."""
    return str(_PALETTE["categories"][category][theme])
