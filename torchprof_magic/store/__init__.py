"""Where traces go: names from templates, files that are whole or not there, and uploads that outlive the kernel."""

from torchprof_magic.errors import StoreError
from torchprof_magic.store.template import (
    FIELDS,
    Template,
    TraceValues,
    numbered,
    parse_filename,
    parse_folder,
    rank_flaw,
    rank_values,
)
from torchprof_magic.store.tensorboard import tensorboard_name
from torchprof_magic.store.trace_store import SavedTrace, StoredTrace, TraceStore
from torchprof_magic.store.upload import Uploads, UploadStatus, resume

__all__ = [
    "FIELDS",
    "SavedTrace",
    "StoreError",
    "StoredTrace",
    "Template",
    "TraceStore",
    "TraceValues",
    "UploadStatus",
    "Uploads",
    "numbered",
    "parse_filename",
    "parse_folder",
    "rank_flaw",
    "rank_values",
    "resume",
    "tensorboard_name",
]
