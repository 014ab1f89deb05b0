"""Bytes from outside become a ``Trace``; nothing in them is trusted, and torch is never imported."""

from torchprof_magic.ingest.chrome import read_chrome

__all__ = ["read_chrome"]
