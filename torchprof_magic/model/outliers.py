"""Which steps take far longer than others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from torchprof_magic.model.intervals import BoolArray

# A step that takes this many times the median is an outlier, and does not count where there are others.
OUTLIER_RATIO = 1.5
LEAST_STEPS_WITH_OUTLIERS = 3


def are_outliers(dur_ns: npt.NDArray[np.float64], among: int | None = None) -> BoolArray:
    """Return which durations are far above the median, if there are enough steps; ``among`` is how many, if more."""
    if len(dur_ns) == 0 or (len(dur_ns) if among is None else among) < LEAST_STEPS_WITH_OUTLIERS:
        return np.zeros(len(dur_ns), np.bool_)
    found: BoolArray = dur_ns > OUTLIER_RATIO * np.median(dur_ns)
    return found
