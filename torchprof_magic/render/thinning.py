"""The rows of a curve that a picture of some pixels needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from torchprof_magic.model.intervals import IntArray

    FloatArray = NDArray[np.float64]

ROWS_PER_COLUMN = 4


def rows_to_draw(time_ns: IntArray, curves: Sequence[FloatArray], columns_px: int) -> IntArray:
    """Return the rows, in order, that draw all curves over so many columns of pixels as every row would.

    Of each column its first and last row stay, and for each curve the first row of its lowest and of its highest value,
    so that every peak stays where it is: at most two rows, and two per curve, in a column. Whole rows are chosen, so
    bands that add up to a curve still do. Few rows are all kept. ``time_ns`` ascends; a value holds until the next row,
    and nan is a gap, which stays if it is wider than a column.
    """
    count = len(time_ns)
    if count <= ROWS_PER_COLUMN * columns_px:
        return np.arange(count)
    column = columns_of(time_ns, columns_px)
    first = np.flatnonzero(np.diff(column, prepend=-1))
    last = np.append(first[1:], count) - 1
    kept = [first, last]
    for values in curves:
        kept += [_extremes(values, first, np.fmin), _extremes(values, first, np.fmax)]
    return np.unique(np.concatenate(kept))


def band_values(frame: pl.DataFrame, band: str) -> FloatArray:
    """Return the values of a band as floats; nan where it has none."""
    return frame[band].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def columns_of(time_ns: IntArray, columns_px: int) -> IntArray:
    """Return the column of pixels, from 0, in which each moment lies; the first and the last moment are the edges."""
    since_ns = (time_ns - time_ns[0]).astype(np.float64)
    span_ns = max(float(since_ns[-1]), 1.0)
    column: IntArray = (since_ns / span_ns * columns_px).astype(np.int64)
    return np.minimum(column, columns_px - 1)


def _extremes(values: FloatArray, first: IntArray, choose: np.ufunc) -> IntArray:
    """Return the first row of the chosen value of each column that has a value; columns begin at the ``first`` rows."""
    found = choose.reduceat(values, first)
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(values)))
    rows: IntArray = np.flatnonzero(values == found[group])
    is_first = np.diff(group[rows], prepend=-1) != 0
    chosen: IntArray = rows[is_first]
    return chosen
