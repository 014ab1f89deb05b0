"""When the thread of the steps waited or collected garbage outside of ops, in fetches, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from torchprof_magic.facts.host.host_states import DATA
from torchprof_magic.facts.host.seen_waits import seen_waits
from torchprof_magic.facts.host.step_pieces import step_pieces
from torchprof_magic.facts.shared import once_per_trace

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray, IntArray
    from torchprof_magic.model.trace import Trace


# A call that takes as long as it is told to. Any other waits for what is done elsewhere.
SLEEP_CALL = r"(^|\.)sleep$"


class Asleep(NamedTuple):
    """The waits of the thread of the steps: ``row`` is one of ``trace.waits``, and ``in_fetch`` those of a fetch."""

    row: IntArray
    start_ns: IntArray
    end_ns: IntArray
    in_fetch: BoolArray


@once_per_trace
def asleep(trace: Trace) -> Asleep:
    """Return the waits of the thread of the steps, as long as all that they stand for, and those in fetches."""
    seen, pieces = seen_waits(trace), step_pieces(trace)
    fetched = np.flatnonzero((pieces.wait >= 0) & (pieces.state == DATA))
    return Asleep(
        np.concatenate((seen.row, pieces.wait[fetched])),
        np.concatenate((seen.start_ns, pieces.start_ns[fetched])),
        np.concatenate((seen.whole_end_ns, pieces.end_ns[fetched])),
        np.arange(len(seen.row) + len(fetched)) >= len(seen.row),
    )
