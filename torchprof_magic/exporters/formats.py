"""The output formats, one entry each. A new format is a new entry of ``EXPORTERS`` and its function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchprof_magic.exporters.chrome import write_chrome
from torchprof_magic.exporters.collapsed import write_collapsed
from torchprof_magic.exporters.csv import write_csv
from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.exporters.speedscope import write_speedscope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from torchprof_magic.model.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a report offers to an exporter. Whatever has to be computed is computed on the call.

    Attributes:
        trace: The recording.
        table: Returns the chosen table, for formats that hold one table.
        write_html: Writes the interactive page to a path.
        metric: A key of ``collapsed.METRICS``, for formats that hold one number per stack.
        is_safe: Whether to escape text that a spreadsheet would run as a formula.
    """

    trace: Trace
    table: Callable[[], pl.DataFrame]
    write_html: Callable[[Path], Path]
    metric: str
    is_safe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """One output format.

    Attributes:
        name: Name of the format, as in ``report.export(path, format=name)``.
        endings: Endings of file names that choose it. Of several that fit, the longest decides.
        description: One line of Markdown for the documentation.
        write: Writes the complete file or nothing, and returns its path. Raises ``ExportError`` if it cannot.
    """

    name: str
    endings: tuple[str, ...]
    description: str
    write: Callable[[Source, Path], Path]


EXPORTERS = (
    Exporter(
        name="chrome",
        endings=(".json", ".json.gz"),
        description="A repaired trace in the Chrome trace format, for Perfetto and `chrome://tracing`.",
        write=lambda source, path: write_chrome(source.trace, path),
    ),
    Exporter(
        name="speedscope",
        endings=(".speedscope.json", ".speedscope.json.gz"),
        description="For [speedscope](https://www.speedscope.app), one profile per thread and stream.",
        write=lambda source, path: write_speedscope(source.trace, path),
    ),
    Exporter(
        name="collapsed",
        endings=(".collapsed", ".folded", ".txt"),
        description="Collapsed stacks for flame graph tools: one line per stack with its `metric` in µs.",
        write=lambda source, path: write_collapsed(source.trace, path, source.metric),
    ),
    Exporter(
        name="csv",
        endings=(".csv", ".csv.gz"),
        description="One `table` with a header line. Text that a spreadsheet would run is made harmless.",
        write=lambda source, path: write_csv(source.table(), path, safe=source.is_safe),
    ),
    Exporter(
        name="html",
        endings=(".html", ".htm"),
        description="The interactive report in one file that needs no network and no server.",
        write=lambda source, path: source.write_html(path),
    ),
    Exporter(
        name="torchprof",
        endings=(".torchprof",),
        description="A saved run: everything that was recorded, for `load()`.",
        write=lambda source, path: write_saved(source.trace, path),
    ),
)


def choose_exporter(path: Path, named: str | None = None) -> Exporter:
    """Return the exporter of that name, or else the one that the end of the path chooses.

    Raises ``ValueError`` with the available choices if none fits.
    """
    if named is not None:
        by_name = {exporter.name: exporter for exporter in EXPORTERS}
        if named not in by_name:
            raise ValueError(f"unknown export format {named!r}; choose from {', '.join(by_name)}")
        return by_name[named]
    by_ending = {ending: exporter for exporter in EXPORTERS for ending in exporter.endings}
    fitting = [ending for ending in by_ending if path.name.lower().endswith(ending)]
    if not fitting:
        raise ValueError(
            f"cannot tell the export format from {path.name!r}; end it in one of {', '.join(by_ending)}, "
            "or pass format="
        )
    return by_ending[max(fitting, key=len)]
