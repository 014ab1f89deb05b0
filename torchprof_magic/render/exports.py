"""What the page can export: files to save, and the trace for the Perfetto UI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torchprof_magic.render.header import ExportHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One entry of the export menu.

    Attributes:
        name: Stable name; the page requests the bytes as ``export:<name>``.
        title: What the entry is called.
        aside: What the title does not say.
        kind: A file to save, or the trace for the Perfetto UI.
        ending: Ending of the file name.
        mime: Type of the file.
    """

    name: str
    title: str
    aside: str = ""
    kind: Literal["save", "perfetto"] = "save"
    ending: str
    mime: str


HTML = Export(name="html", title="Interactive HTML file", ending=".html", mime="text/html")
CHROME = Export(name="chrome", title="Chrome trace (.json.gz)", ending=".json.gz", mime="application/gzip")
PERFETTO = Export(
    name="perfetto",
    title="Open in Perfetto",
    aside="opens ui.perfetto.dev",
    kind="perfetto",
    ending=CHROME.ending,
    mime=CHROME.mime,
)
# Those that need the trace, which an HTML file contains only on request.
TRACE_EXPORTS = (CHROME, PERFETTO)
EXPORTS = (HTML, *TRACE_EXPORTS)


def file_name(export: Export, run_id: str) -> str:
    """Return what the saved file is called."""
    return f"torchprof-{run_id}{export.ending}"


def export_header(export: Export, run_id: str) -> ExportHeader:
    """Return what the page is told about an export."""
    return ExportHeader(
        name=export.name,
        title=export.title,
        aside=export.aside,
        kind=export.kind,
        filename=file_name(export, run_id),
        mime=export.mime,
    )
