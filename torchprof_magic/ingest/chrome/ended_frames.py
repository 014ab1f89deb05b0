"""Ends the Python frames that were open when stacks ended before their recording did.

torch never hears that they return, and lets them last until the end of the recording: what comes later would seem to be
called by them. All that is known of such a frame is that it lasts as long as what began in it while it was recorded.
"""

from __future__ import annotations

import numpy as np
import polars as pl


def with_frames_ended(spans: pl.DataFrame, places: pl.DataFrame, ended_ns: int | None) -> pl.DataFrame:
    """Return the spans of a file, in which no Python frame is longer than is known.

    ``ended_ns`` is when stacks ended, on the clock of the spans; None if they lasted to the end. ``places`` names the
    process and thread of each span.
    """
    if ended_ns is None:
        return spans
    start_ns, dur_ns = spans["start_ns"].to_numpy(), spans["dur_ns"].to_numpy()
    is_open = (start_ns <= ended_ns) & (start_ns + dur_ns > ended_ns)
    is_frame = (places["category"].cast(pl.String) == "python_function").gather(spans["place"]).to_numpy()
    threads = places.select(pl.struct("pid", "tid").rank("dense")).to_series().gather(spans["place"]).to_numpy()
    known_ns = dur_ns.copy()
    # Few spans are open at one moment: no more than the stack is deep.
    for thread in np.unique(threads[is_open & is_frame]):
        rows = np.flatnonzero(is_open & (threads == thread))
        rows = rows[np.argsort(start_ns[rows], kind="stable")[::-1]]
        last_ns = ended_ns
        for row in rows.tolist():
            if is_frame[row]:
                known_ns[row] = min(last_ns - start_ns[row], dur_ns[row])
            else:
                last_ns = max(last_ns, int(start_ns[row] + dur_ns[row]))
    late = is_frame & (start_ns > ended_ns)  # the clocks differ by less than a call takes
    known_ns[late] = 0
    return spans.with_columns(pl.Series("dur_ns", known_ns, dtype=spans.schema["dur_ns"]))
