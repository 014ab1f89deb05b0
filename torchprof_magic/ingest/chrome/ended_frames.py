"""Ends the Python frames that were open when stacks ended before their recording did.

torch never hears that they return, and lets them last until the end of the recording: what comes later would seem to be
called by them. All that is known of such a frame is that it lasts as long as what began in it while it was recorded.
torch also lets the last call of a builtin last to the end, whether it returned or not: its length is unknown.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from torchprof_magic.model.own_frames import BUILTIN


def with_frames_ended(spans: pl.DataFrame, places: pl.DataFrame, ended_ns: int | None) -> pl.DataFrame:
    """Return the spans of a file, in which no Python frame is longer than is known.

    ``ended_ns`` is when stacks ended, on the clock of the spans; None if they lasted to the end. ``places`` names the
    process and thread of each span.
    """
    if ended_ns is None:
        return spans
    start_ns, dur_ns = spans["start_ns"].to_numpy(), spans["dur_ns"].to_numpy()
    end_ns = start_ns + dur_ns
    has_begun, lasts = start_ns <= ended_ns, end_ns > ended_ns
    is_frame = (places["category"].cast(pl.String) == "python_function").gather(spans["place"]).to_numpy()
    threads = places.select(pl.struct("pid", "tid").rank("dense")).to_series().gather(spans["place"]).to_numpy()
    known_ns = dur_ns.copy()
    known_ns[is_frame & ~has_begun] = 0  # the clocks differ by less than a call takes
    for thread in np.unique(threads[has_begun & lasts & is_frame]):
        began = has_begun & (threads == thread)
        # What returned ends then, and of what is open the beginning is known, and the end if it is no frame.
        last_ns = max(end_ns[began & ~lasts].max(initial=0), start_ns[began].max())
        # Few spans are open at one moment: no more than the stack is deep.
        rows = np.flatnonzero(began & lasts)
        rows = rows[np.argsort(start_ns[rows], kind="stable")[::-1]]
        names = spans["name"].gather(rows).cast(pl.String)
        for row, is_builtin in zip(rows.tolist(), names.str.starts_with(BUILTIN), strict=True):
            if not is_frame[row]:
                last_ns = max(last_ns, end_ns[row])
            else:
                known_ns[row] = 0 if is_builtin else last_ns - start_ns[row]
    return spans.with_columns(pl.Series("dur_ns", known_ns, dtype=spans.schema["dur_ns"]))
