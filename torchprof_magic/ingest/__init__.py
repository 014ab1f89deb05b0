"""Readers: bytes of trace files become a ``Trace``. Files are not trusted, and torch is never imported."""

from torchprof_magic.ingest.chrome.metadata import facts_of
from torchprof_magic.ingest.chrome.reader import read_chrome, with_what_files_say
from torchprof_magic.ingest.graph_notes.file import read_graph_notes
from torchprof_magic.ingest.graph_notes.made_capture import with_graph_notes
from torchprof_magic.ingest.opening import read_place
from torchprof_magic.ingest.readers import READERS, read_file
from torchprof_magic.ingest.saved.reader import read_saved
from torchprof_magic.ingest.snapshot.attach import with_snapshot
from torchprof_magic.ingest.two_pass.join import join_passes
from torchprof_magic.ingest.two_pass.scopes import moved_scopes

__all__ = [
    "READERS",
    "facts_of",
    "join_passes",
    "moved_scopes",
    "read_chrome",
    "read_file",
    "read_graph_notes",
    "read_place",
    "read_saved",
    "with_graph_notes",
    "with_snapshot",
    "with_what_files_say",
]
