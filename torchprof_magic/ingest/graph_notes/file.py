"""Reads what a program said of the nodes of graphs in a file of its own: JSON, packed or not.

``torch.cuda.graph_annotations.dump_kernel_py_stacks`` writes such a file, with the lines that launched each node. The
map of annotations in JSON is another one. torch's own example pickles it, and unpickling can run code, so that is not
read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from torchprof_magic.ingest.regular import beginning_of
from torchprof_magic.model.graph_notes import GraphNote, note_of

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = re.compile(rb'\s*\{\s*"[0-9]{1,19}"\s*:')
_HEAD_BYTES = 1000
_NODE = re.compile(r"[0-9]{1,19}")
# A few lines for each of a hundred thousand nodes.
_MOST_BYTES = 256 << 20


def read_graph_notes(path: Path) -> dict[int, GraphNote] | None:
    """Return what a file says of the nodes of graphs, by their numbers; None if it is a file of another kind."""
    if not _HEAD.match(beginning_of(path, _HEAD_BYTES)):
        return None
    try:
        found = msgspec.json.decode(beginning_of(path, _MOST_BYTES))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(map(_NODE.fullmatch, found)):
        return None
    return {
        int(node): GraphNote(stack=said) if isinstance(said, str) else note_of(said) for node, said in found.items()
    }
