"""Bytes from outside become a ``Trace``; nothing in them is trusted, and torch is never imported."""

from torchprof_magic.ingest.chrome import read_chrome
from torchprof_magic.ingest.files import read_file

__all__ = ["read_chrome", "read_file"]
