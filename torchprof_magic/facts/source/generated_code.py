"""Where each kernel stands in the code that Inductor generated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.facts.shared import once_per_trace

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace

_DEFINED = re.compile(r"^(?:def )?([A-Za-z_]\w*)(?: = async_compile\.|\()", re.MULTILINE)
_CALLED = re.compile(r"^ *# \[Provenance debug handles\] (\S+):[0-9]+$", re.MULTILINE)


@once_per_trace
def places_in_code(trace: Trace) -> pl.Series:
    """Return the file and line in generated code of each row of ``fx_nodes``: ``/tmp/c1.py:33``.

    Of a generated kernel it is where it is defined, else where it is called. There is no line if the text is not known.
    """
    lines = {file: _Lines(text) for file, text in trace.fx_code.select(pl.col("file").cast(pl.String), "text").rows()}
    nodes = trace.fx_nodes.select(pl.col("code", "kernel", "graph").cast(pl.String), "call")
    places: list[str | None] = []
    seen: dict[tuple[str, str, str], int] = {}
    for code, kernel, graph, call in nodes.iter_rows():
        if call >= 0:
            places.append(places[call])
        elif code is None or kernel is None:
            places.append(code)
        else:
            number = seen[graph, code, kernel] = seen.get((graph, code, kernel), -1) + 1
            line = lines[code].of(kernel, number) if code in lines else None
            places.append(f"{code}:{line}" if line else code)
    return pl.Series(places, dtype=pl.String)


class _Lines:
    """The lines of a file in which kernels are defined, and those in which they are called, in order."""

    def __init__(self, text: str) -> None:
        ends = [0, *(match.end() for match in re.finditer("\n", text))]
        line_of = dict(zip(ends, range(1, len(ends) + 1), strict=True))
        self._defined: dict[str, int] = {}
        self._called: dict[str, list[int]] = {}
        for match in _DEFINED.finditer(text):
            self._defined.setdefault(match[1], line_of[match.start()])
        for match in _CALLED.finditer(text):
            self._called.setdefault(match[1], []).append(line_of[match.start()] + 1)

    def of(self, kernel: str, number: int) -> int | None:
        """Return the line of the call of a kernel with a number, from 0; None if it is not there."""
        calls = self._called.get(kernel, [])
        return self._defined.get(kernel) or (calls[number] if number < len(calls) else None)
