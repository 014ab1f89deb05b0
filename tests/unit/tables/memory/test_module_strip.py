"""Which modules run over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
from support import annotation, frame, make_trace, span

from torchprof_magic.model.trace import SCOPES_SCHEMA, SITES_SCHEMA
from torchprof_magic.tables.memory.module_strip import module_strip

if TYPE_CHECKING:
    from torchprof_magic.model.trace import Trace


def watched(*sites: tuple[str, str, int], calls: list[tuple[int, int, int]]) -> Trace:
    """Return a trace of modules, each a path, a class and the number of its parent, with calls in µs."""
    described = [{"kind": "module", "name": path, "class_name": name, "parent": above} for path, name, above in sites]
    rows = [(site, 0, start * 1000, dur * 1000, 0) for site, start, dur in calls]
    return replace(
        make_trace(annotation("ProfilerStep#0", 0, 100), span("aten::mm", 1, 1)),
        sites=pl.DataFrame(described, schema=SITES_SCHEMA),
        scopes=pl.DataFrame(rows, schema=SCOPES_SCHEMA, orient="row"),
    )


def spans(trace: Trace, most: int = 100) -> list[tuple[str, int, int]]:
    return [(each.name, each.start_ns // 1000, each.end_ns // 1000) for each in module_strip(trace, most)]


MODEL = (("", "Net", -1), ("embed", "Embedding", 0), ("head", "Linear", 0))


def test_a_model_is_divided_into_its_parts() -> None:
    assert spans(watched(*MODEL, calls=[(0, 0, 50), (1, 1, 20), (2, 30, 20)])) == [("embed", 1, 21), ("head", 30, 50)]


def test_the_part_that_takes_most_is_divided_too_and_a_loss_beside_the_model_stays() -> None:
    sites = (("", "Net", -1), ("body", "Body", 0), ("body.0", "Linear", 1), ("body.1", "Linear", 1), ("", "Loss", -1))
    trace = watched(*sites, calls=[(0, 0, 60), (1, 2, 50), (2, 3, 20), (3, 30, 20), (4, 70, 10)])
    assert spans(trace) == [("body.0", 3, 23), ("body.1", 30, 50), ("Loss", 70, 80)]


def test_what_all_names_begin_with_is_left_out() -> None:
    sites = (("", "Net", -1), ("body", "Body", 0), ("body.0", "Linear", 1), ("body.1", "Linear", 1))
    trace = watched(*sites, calls=[(0, 0, 60), (1, 2, 50), (2, 3, 20), (3, 30, 20)])
    assert spans(trace) == [("0", 3, 23), ("1", 30, 50)]


def test_a_model_without_parts_is_one_span_a_call_by_its_class() -> None:
    assert spans(watched(("", "Linear", -1), calls=[(0, 0, 10), (0, 50, 10)])) == [
        ("Linear", 0, 10),
        ("Linear", 50, 60),
    ]


def test_of_too_many_calls_the_longest_stay_in_order_of_time() -> None:
    trace = watched(*MODEL, calls=[(0, 0, 90), (1, 1, 20), (2, 30, 5), (1, 40, 30)])
    assert spans(trace, most=2) == [("embed", 1, 21), ("embed", 40, 70)]


def test_recorded_python_frames_of_modules_do_as_well() -> None:
    trace = make_trace(
        frame("nn.Module: Net_0", 0, 50),
        frame("nn.Module: Linear_0", 5, 20),
        frame("nn.Module: Linear_1", 30, 15),
    )
    assert spans(trace) == [("Linear_0", 5, 25), ("Linear_1", 30, 45)]


def test_without_modules_there_is_nothing() -> None:
    assert module_strip(make_trace(span("aten::mm", 0, 1)), 10) == ()
