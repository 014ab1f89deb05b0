"""Which Python frames of a recording are this package's own: they are neither the user's nor of use to them.

A frame is hidden if it is ours. What is called by the code that records is hidden with it, down to the builtins. What
is called by the rest of ours is kept, because it is the user's: the cell, a decorated function, an iterator.
"""

from __future__ import annotations

from typing import Final

_FOLDER: Final = r"(?:^|[/\\])torchprof_magic[/\\]"
_HOOK: Final = r"^<frozen torchprof_magic hook>"
# With the names that earlier versions had: a project of the user's may lie in a folder of the same name.
_ROOMS: Final = (
    r"(?:agents|analysis|capture|exporters|facts|files|findings|ingest|ipython|jobs|model|options|process|render|report|run"
    r"|runs|store|system|tables|trainers|trials)[/\\]"
)
_FILES: Final = r"(?:__init__|__main__|distributed|errors|loading|profiling|pytest_plugin|units)\.py\("
# Regular expressions for the names that torch gives Python frames: path(line): function.
OWN_FRAME: Final = rf"{_FOLDER}(?:{_ROOMS}|{_FILES})|{_HOOK}"
RECORDING_FRAME: Final = rf"{_FOLDER}capture[/\\]|{_HOOK}"
# Of those, the ones that stand in for functions of torch and Python, which they call.
STAND_IN_FRAME: Final = r"[/\\]capture[/\\](?:watch[/\\](?:open_ranges|threads)|torch_api[/\\]cuda_graphs)\.py\("
BUILTIN: Final = "<built-in "
