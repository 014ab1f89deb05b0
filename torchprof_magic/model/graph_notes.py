"""What a program says of the work of CUDA graphs while it captures them, with ``torch.cuda.graph_annotations``.

torch calls it the annotation of a node. A trace has it as text in ``events.annotation``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# The keys that are read. ``name`` and ``autograd_phase`` are torch's own, ``str`` was the name in torch 2.13.
_NAME, _OLD_NAME, _PHASE, _MODULE, _OP = "name", "str", "autograd_phase", "module", "op"
_KEYS = (_NAME, _OLD_NAME, _MODULE, _OP, _PHASE)
# How many items of an annotation are looked at: torch writes one, and 2.13 one for each scope around the work.
_MOST_SCOPES = 100


class GraphNote(NamedTuple):
    """What is said of one node of a graph; empty texts where nothing is.

    ``name`` is that of the scope around it, ``module`` a path of attributes, ``op`` the name of an op, ``phase`` the
    part of autograd (``backward``), and ``stack`` the lines that launched it, as ``file:line:function``, one a line and
    the innermost first.
    """

    name: str = ""
    module: str = ""
    op: str = ""
    phase: str = ""
    stack: str = ""

    def or_else(self, other: GraphNote) -> GraphNote:
        """Return this note with what another one says in addition."""
        return GraphNote(*(own or theirs for own, theirs in zip(self, other, strict=True)))

    @property
    def as_text(self) -> str:
        """The note as JSON with the keys that torch writes, without the stack; empty if there is nothing in it."""
        said = {_NAME: self.name, _MODULE: self.module, _OP: self.op, _PHASE: self.phase}
        said = {key: text for key, text in said.items() if text}
        return json.dumps(said, ensure_ascii=False) if said else ""


NO_NOTE = GraphNote()


def note_of(annotation: object) -> GraphNote:
    """Return what an annotation says: a text, a dict, or a list of these, of which the first one wins."""
    if isinstance(annotation, str):
        return GraphNote(name=annotation)
    if isinstance(annotation, dict):
        return _note_of_keys(annotation)
    found = NO_NOTE
    for each in annotation[:_MOST_SCOPES] if isinstance(annotation, list) else ():
        found = found.or_else(note_of(each) if not isinstance(each, list) else NO_NOTE)
    return found


def note_of_text(text: str) -> GraphNote:
    """Return what JSON says, or a text that is none."""
    try:
        return note_of(json.loads(text))
    except (ValueError, RecursionError):
        return GraphNote(name=text)


def _note_of_keys(said: Mapping[Any, object]) -> GraphNote:
    name, old_name, module, op, phase = (_text_of(said.get(key)) for key in _KEYS)
    return GraphNote(name or old_name, module, op, phase)


def _text_of(value: object) -> str:
    return "" if value is None or isinstance(value, (dict, list, tuple)) else str(value)
