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
# Of others, so many that take as long are no accident.
LEAST_USUAL = 2


def are_outliers(dur_ns: npt.NDArray[np.float64], among: int | None = None) -> BoolArray:
    """Return which durations are far above the median, if there are enough steps; ``among`` is how many, if more."""
    if len(dur_ns) == 0 or (len(dur_ns) if among is None else among) < LEAST_STEPS_WITH_OUTLIERS:
        return np.zeros(len(dur_ns), np.bool_)
    found: BoolArray = dur_ns > OUTLIER_RATIO * np.median(dur_ns)
    return found


def are_usual(dur_ns: npt.NDArray[np.float64], others_ns: npt.NDArray[np.float64]) -> BoolArray:
    """Return which durations far above the median are no outliers, because of other steps as many take as long.

    Such are the steps of a loop that does something in every fourth one only. To leave one of three out is further
    from the truth than to let it count, if more than a sixth of the others are like it.
    """
    found = are_outliers(dur_ns)
    for place in np.flatnonzero(found):
        share = float(are_alike(dur_ns, int(place), others_ns).mean()) if len(others_ns) else 0.0
        own = float((dur_ns >= dur_ns[place] / OUTLIER_RATIO).mean())
        found[place] = share * len(others_ns) >= LEAST_USUAL and share > own / 2
    return found


def are_alike(dur_ns: npt.NDArray[np.float64], place: int, others_ns: npt.NDArray[np.float64]) -> BoolArray:
    """Return which other steps take about as long as one of these, or longer, where recording makes these longer."""
    slower = min(float(np.median(others_ns)) / max(float(np.median(dur_ns)), 1.0), 1.0)
    found: BoolArray = others_ns >= dur_ns[place] / OUTLIER_RATIO * slower
    return found
