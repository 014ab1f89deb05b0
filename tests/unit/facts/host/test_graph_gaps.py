"""The time between two graphs, worked out by hand."""

from __future__ import annotations

import numpy as np
from support import make_trace, span

from torchprof_magic.facts.host.graph_gaps import graph_gaps


def test_a_gap_goes_from_the_last_op_before_a_region_to_its_first() -> None:
    trace = make_trace(
        span("Torch-Compiled Region: 0/0", 0, 100),
        span("aten::add", 10, 20),
        span("TorchDynamo Cache Lookup", 35, 5),
        span("Torch-Compiled Region: 1/0", 50, 40),
        span("Pregraph bytecode", 52, 2),
        span("aten::mul", 60, 10),
        span("Torch-Compiled Region: 2/0", 92, 5),
    )
    rows = np.flatnonzero(trace.events["name"].cast(str).str.contains("Region: [12]").to_numpy())
    gaps = graph_gaps(trace, rows)
    assert (gaps.end_ns - gaps.start_ns).tolist() == [30_000, 0]  # from 30 to 60 us; the last region has no op
    assert gaps.start_ns[0] == 30_000
