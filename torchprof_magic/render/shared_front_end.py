"""The front end as one model that all reports of a kernel share."""

from __future__ import annotations

import sys

import anywidget
from traitlets import Bytes, Unicode

from torchprof_magic.render.front_end import packed


class FrontEnd(anywidget.AnyWidget):
    """What shows reports, as one model for all of them: a notebook that is saved with its live views holds it once."""

    _esm = Unicode("export default {}").tag(sync=True)
    _module = Bytes().tag(sync=True)
    _style = Bytes().tag(sync=True)


_shared: FrontEnd | None = None


def shared_front_end() -> FrontEnd:
    """Return the model that all reports of this process share; a new one if it was closed."""
    global _shared  # noqa: PLW0603 - one per process
    if _shared is None or _shared.comm is None:
        module, style, _ = packed()
        _shared = FrontEnd(_module=module, _style=style)
    return _shared


def can_share() -> bool:
    """Return whether the models of different outputs find one another: in Jupyter, but not in marimo."""
    marimo = sys.modules.get("marimo")
    return marimo is None or not marimo.running_in_notebook()
