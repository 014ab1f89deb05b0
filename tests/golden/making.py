"""Write the golden page and the grid of numbers again: ``python tests/golden/making.py``, after an intended change."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))
import polars as pl
from golden.number_cases import NUMBERS, made_grid, numbers_text, read_numbers
from support import allocation, annotation, counter, kernel, launch, make_trace, span

from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.report.trace_report import Report

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace
    from torchprof_magic.render.page import Page

HEADER = Path(__file__).with_name("header.json")
DATA = Path(__file__).with_name("data.bin")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def golden_report() -> Report:
    """Return a report that has rows in every view: two steps of 100 and 120 us, a device with a counter, a problem."""
    trace = make_trace(
        annotation("ProfilerStep#2", 0, 100),
        span("aten::mm", 5, 60),
        launch(10, 2, correlation=1),
        kernel("gemm", 20, 70, correlation=1),
        allocation(12, 512, 512),
        span(HOSTILE, 70, 5),
        annotation("ProfilerStep#3", 100, 120),
        span("aten::mm", 105, 80),
        launch(110, 2, correlation=2),
        kernel("gemm", 120, 70, correlation=2),
        allocation(112, 256, 768, address=8192),
        span("aten::add", 200, -1),
        counter("Power (W)", 0, pid="GPU 0 Counters", **{"": 80}),
        counter("Power (W)", 20, pid="GPU 0 Counters", **{"": 320}),
        model="resnet",
        distributedInfo={"rank": 1, "world_size": 2, "backend": "nccl"},
    )
    return Report(watched(trace), run_id="golden")


def watched(trace: Trace) -> Trace:
    """Return the trace with two lines and a module with one inside it, which ran for the first 50 us."""
    line = {"kind": "line", "parent": -1, "file": "cell", "line": 1}
    module = {"kind": "module", "parent": -1, "name": "", "class_name": "Net", "parameters": 6, "bytes": 24}
    sites = [
        line | {"name": "for batch in loader:"},
        line | {"name": "    loss = model(batch)", "line": 2},
        module,
        module | {"parent": 2, "name": "layers.0", "class_name": "Linear"},
    ]
    scopes = [(0, 0, 0, 5_000, 0), (1, 0, 5_000, 90_000, 0), (2, 0, 5_000, 50_000, 0), (3, 0, 6_000, 40_000, 0)]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )


def header_text(page: Page) -> str:
    """Return the header as it is kept: indented, so that a change can be read."""
    return json.dumps(json.loads(page.header), indent=1) + "\n"


if __name__ == "__main__":
    page = golden_report()._forms.page
    HEADER.write_text(header_text(page), encoding="utf-8")
    DATA.write_bytes(page.data)
    NUMBERS.write_text(numbers_text(read_numbers() | {"grid": made_grid()}), encoding="utf-8")
