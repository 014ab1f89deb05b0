"""The input formats, one entry each. A new format is a new entry of ``READERS`` and its function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchprof_magic.ingest.chrome.reader import read_chrome
from torchprof_magic.ingest.compile_log.reader import is_compile_log, read_compile_log
from torchprof_magic.ingest.execution_trace.reader import is_graph, read_graph
from torchprof_magic.ingest.graph_notes.made_capture import with_graph_notes
from torchprof_magic.ingest.memory_timeline.reader import is_timeline, read_timeline
from torchprof_magic.ingest.saved.reader import is_saved, read_saved
from torchprof_magic.ingest.snapshot.reader import is_snapshot, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchprof_magic.model.meta import Meta
    from torchprof_magic.model.trace import Trace

    Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One input format.

    Attributes:
        name: Short name of the format.
        endings: How file names of this format usually end. The content decides, so these are for people only.
        description: One line of Markdown for the documentation.
        recognises: Returns whether a file has this format, and never raises for a file that cannot be read.
        read: Returns the trace of a file. Gets what is known of it beforehand, and a callback for the bytes read so
            far and in all. Raises ``IngestError`` for a file that cannot be read.
    """

    name: str
    endings: tuple[str, ...]
    description: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path, Meta, Progress | None], Trace]


# The first entry that recognises a file reads it. The last one takes every file, and says what is wrong with it.
READERS = (
    Reader(
        name="torchprof",
        endings=(".torchprof",),
        description="A saved run, written by `report.save()`. It reads back exactly, with its problems.",
        recognises=is_saved,
        read=lambda file, _meta, _progress: read_saved(file),
    ),
    Reader(
        name="snapshot",
        endings=(".pickle", ".pkl"),
        description="A memory snapshot of `torch.cuda.memory._dump_snapshot()`. It is parsed without unpickling.",
        recognises=is_snapshot,
        read=lambda file, meta, _progress: read_snapshot(file, meta),
    ),
    Reader(
        name="memory timeline",
        endings=(".raw.json.gz", ".html"),  # and .json and .json.gz, which nearly always are traces
        description="A memory timeline of `export_memory_timeline()`, torch's or ours: the bytes of each category "
        "over time. torch's HTML pages hold a picture and no numbers, so they cannot be opened; ours can.",
        recognises=is_timeline,
        read=lambda file, meta, _progress: read_timeline(file, meta),
    ),
    Reader(
        name="execution trace",
        endings=(".et.json",),  # and any other .json and .json.gz that --execution-trace names
        description="An execution trace of `ExecutionTraceObserver`: ops and tensors, without times.",
        recognises=is_graph,
        read=lambda file, meta, _progress: read_graph(file, meta),
    ),
    Reader(
        name="compile log",
        endings=(".log",),
        description="A log of `torch.compile`, which `TORCH_TRACE=folder` has it write and which tlparse reads, too: "
        "what was compiled, why, and how long that took (`report.compilations`).",
        recognises=is_compile_log,
        read=lambda file, meta, _progress: read_compile_log(file, meta),
    ),
    Reader(
        name="chrome",
        endings=(".json", ".json.gz"),
        description="A trace of `torch.profiler` in the Chrome trace format, plain or gzipped. Damage is repaired.",
        recognises=lambda _file: True,
        read=lambda file, meta, progress: with_graph_notes(read_chrome([file], meta, progress=progress)),
    ),
)


def read_file(file: Path, meta: Meta, progress: Progress | None = None) -> Trace:
    """Return the trace of a file of any known format; raises ``IngestError`` when it cannot be read."""
    __tracebackhide__ = True
    reader = next(reader for reader in READERS if reader.recognises(file))
    return reader.read(file, meta, progress)
