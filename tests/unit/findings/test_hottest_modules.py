from __future__ import annotations

from dataclasses import replace

import polars as pl
from support import annotation, kernel, launch, make_trace, span

from torchprof_magic.findings.hottest_modules import hottest_classes, modules_shown
from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA, Trace


def module(path: str, class_name: str, parent: int) -> dict[str, object]:
    return {"kind": "module", "parent": parent, "name": path, "class_name": class_name, "parameters": 6, "bytes": 24}


def two_layers(kernel_us: float) -> Trace:
    """A Net of 80 us with two of Linear, of 25 us and 35 us; the kernel of the first one takes so long."""
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 12, 20),
        span("aten::mm", 52, 30),
        launch(13, 1, correlation=1),
        kernel("gemm", 14, kernel_us, correlation=1),
    )
    sites = [module("", "Net", -1), module("a", "Linear", 0), module("b", "Linear", 0)]
    scopes = [(0, 0, 5_000, 80_000, 0), (1, 0, 11_000, 25_000, 0), (2, 0, 50_000, 35_000, 0)]
    return replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )


def test_classes_are_named_by_their_own_time() -> None:
    # Net has 80 - 60 = 20 us of its own.
    answer = "`Linear` takes most self CPU time, 60 µs per step in 2 modules of 25 to 35 µs, then `Net` 20 µs."
    assert hottest_classes(two_layers(5)) == answer
    assert modules_shown(two_layers(5)).answer == answer


def test_the_largest_module_of_the_class_is_named_with_both_passes_where_it_has_both() -> None:
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 12, 20, **{"Sequence number": 1}),
        span("MmBackward0", 60, 22, **{"Sequence number": 1, "Fwd thread id": 1}),
    )
    sites = [module("", "Net", -1), module("a", "Linear", 0), module("b", "Linear", 0)]
    scopes = [(0, 0, 5_000, 50_000, 0), (1, 0, 11_000, 25_000, 0), (2, 0, 40_000, 10_000, 0)]
    trace = replace(
        trace,
        sites=pl.DataFrame(sites, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"),
    )
    assert hottest_classes(trace) == (
        "`Linear` takes most self CPU time, 57 µs per step in 2 modules of 10 to 47 µs "
        "(most in `a`: 25 µs forward, 22 µs backward), then `Net` 15 µs."
    )
    assert modules_shown(trace).answer == hottest_classes(trace)


def test_classes_without_time_where_it_decides_are_not_named() -> None:
    answer = "`Linear` takes most self device time, 85 µs per step in 2 modules of 0 to 85 µs."
    assert hottest_classes(two_layers(85)) == answer


def test_without_modules_there_is_no_answer() -> None:
    assert hottest_classes(make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 12, 20))) == ""
