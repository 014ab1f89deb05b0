"""What a worker does with one file. Every engine can send these functions: they take and return plain values."""

from __future__ import annotations

import tempfile
from pathlib import Path

from torchprof_magic.findings.ranks.frames import rank_frames
from torchprof_magic.jobs.wire import Sent, failed, packed
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.report.opening import open_report
from torchprof_magic.system.files.place import place_of


def frames_of(source: str) -> Sent:
    """Read one file where it lies and return the frames of its rank, or why it cannot be read."""
    place = place_of(source)
    file = place.shown
    try:
        return packed(source, file, rank_frames(open_report(place).trace))
    except TorchProfError as exc:
        return failed(source, file, str(exc))
    except Exception as exc:  # noqa: BLE001 - one damaged file must not end the job
        return failed(source, file, f"{file}: it cannot be analysed ({type(exc).__name__}: {exc})")


def saved_of(source: str) -> bytes:
    """Return the whole recording of one file as a saved run, for the report of a rank that lies elsewhere."""
    with tempfile.TemporaryDirectory(prefix="torchprof-rank-") as folder:
        place = place_of(source)
        return open_report(place).save(Path(folder) / f"{place.name}.torchprof").read_bytes()
