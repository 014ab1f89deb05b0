"""Bytes from outside become a ``Trace``; nothing in them is trusted, and torch is never imported."""

from torchprof_magic.ingest.chrome.reader import read_chrome
from torchprof_magic.ingest.saved.reader import is_saved, read_saved
from torchprof_magic.ingest.snapshot.reader import is_snapshot, read_snapshot
from torchprof_magic.ingest.two_pass.join import join_passes

__all__ = ["is_saved", "is_snapshot", "join_passes", "read_chrome", "read_saved", "read_snapshot"]
