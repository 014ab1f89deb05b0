from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
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


def test_a_module_is_named_that_takes_more_than_half_of_its_class() -> None:
    # b takes 35 of the 60 us of both, and Net has 80 - 60 = 20 us of its own.
    answer = "`b` (`Linear`) takes the most self CPU time: 35 µs per step."
    assert hottest_classes(two_layers(5)) == answer
    assert modules_shown(two_layers(5)).answer == "`b` (`Linear`) takes the most self CPU time: 35.00 µs per step."


@pytest.mark.parametrize("net_us", [80, 105])
def test_a_class_is_named_whose_modules_share_its_time(net_us: int) -> None:
    trace = two_layers(5)
    scopes = [(0, 0, 5_000, net_us * 1_000, 0), (1, 0, 11_000, 30_000, 0), (2, 0, 50_000, 30_000, 0)]
    trace = replace(trace, scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"))
    # The Net of 105 us has 45 us of its own, more than each of Linear and less than both.
    assert (
        hottest_classes(trace)
        == "`Linear` takes the most self CPU time: 60 µs per step, 30 µs in each of its 2 modules."
    )


def test_a_module_whose_path_says_its_class_and_the_model_itself_are_named_once() -> None:
    trace = two_layers(5)
    sites = [module("", "Net", -1), module("a", "Linear", 0), module("Net_0.Linear_1", "Linear", 0)]
    trace = replace(trace, sites=pl.DataFrame(sites, schema=SITES_SCHEMA))
    assert hottest_classes(trace) == "`Net_0.Linear_1` takes the most self CPU time: 35 µs per step."
    scopes = [(0, 0, 5_000, 90_000, 0), (1, 0, 11_000, 10_000, 0)]
    trace = replace(trace, scopes=pl.DataFrame(scopes, schema=SCOPES_SCHEMA, orient="row"))
    assert hottest_classes(trace) == "`Net` takes the most self CPU time: 80 µs per step."


def test_the_module_is_named_with_both_passes_where_it_has_both() -> None:
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
    said = "`a` (`Linear`) takes the most self CPU time: 47 µs per step (25 µs forward, 22 µs backward)."
    assert hottest_classes(trace) == said
    # As in the row.
    said = "`a` (`Linear`) takes the most self CPU time: 47.00 µs per step (25.00 µs forward, 22.00 µs backward)."
    assert modules_shown(trace).answer == said


def test_classes_without_time_where_it_decides_are_not_named() -> None:
    answer = "`a` (`Linear`) takes the most self device time: 85 µs per step."
    assert hottest_classes(two_layers(85)) == answer


def test_without_modules_there_is_no_answer() -> None:
    assert hottest_classes(make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 12, 20))) == ""


@pytest.mark.parametrize(("own_us", "said"), [(20, "60 µs per step is outside of modules; of the modules, "), (60, "")])
def test_what_is_outside_of_modules_is_said_first_where_it_is_more_than_in_them(own_us: float, said: str) -> None:
    # The module launches so much work, and an op after it the rest of 80 us.
    trace = make_trace(
        annotation("ProfilerStep#0", 0, 100),
        span("aten::mm", 2, 4),
        launch(3, 1, correlation=1),
        kernel("gemm", 4, own_us, correlation=1),
        span("aten::add", 12, 4),
        launch(13, 1, correlation=2),
        kernel("add", 4 + own_us, 80 - own_us, correlation=2),
    )
    sites = pl.DataFrame([module("a", "Linear", -1)], schema=SITES_SCHEMA)
    scopes = pl.DataFrame([(0, 0, 1_000, 6_000, 0)], schema=SCOPES_SCHEMA, orient="row")
    trace = replace(trace, sites=sites, scopes=scopes)
    assert hottest_classes(trace) == f"{said}`a` (`Linear`) takes the most self device time: {own_us} µs per step."
