from __future__ import annotations

import io
import json
from typing import Any

import polars as pl
import pytest
from golden.making import DATA, HEADER, golden_report, header_text
from polars.testing import assert_frame_equal
from support import make_trace, span

from torchprof_magic.report.trace_report import Report

REMAKE = "run python tests/golden/making.py and look at the diff"


def frames(header: dict[str, Any], data: bytes) -> dict[str, pl.DataFrame]:
    """Decode every frame of a page; their bytes may differ from one release of polars to the next."""
    views = [view for view in header["views"] if view.get("length")]
    return {
        view["name"]: pl.read_ipc_stream(io.BytesIO(data[view["offset"] : view["offset"] + view["length"]]))
        for view in views
    }


def without_places(header: dict[str, Any]) -> dict[str, Any]:
    views = [{key: view[key] for key in view if key not in ("offset", "length")} for view in header["views"]]
    return header | {"views": views}


def test_the_page_equals_the_golden_page_that_typescript_reads() -> None:
    page = golden_report()._forms.page
    kept, now = json.loads(HEADER.read_text(encoding="utf-8")), json.loads(header_text(page))
    assert without_places(now) == without_places(kept), REMAKE
    expected, found = frames(kept, DATA.read_bytes()), frames(now, page.data)
    assert found.keys() == expected.keys(), REMAKE
    for name in expected:
        assert_frame_equal(found[name], expected[name])


def test_every_shape_is_in_the_golden_page() -> None:
    header = json.loads(HEADER.read_text(encoding="utf-8"))
    shapes = {"table", "tree", "series", "slices", "waiting", "facts", "problems"}
    assert {view["shape"] for view in header["views"]} == shapes
    assert [view["name"] for view in header["views"] if view["empty"]] == []


def test_unknown_values_are_null_because_json_has_no_nan() -> None:
    trace = make_trace(
        span("ProfilerStep#1", 0, 0, cat="user_annotation"), span("ProfilerStep#2", 9, 0, "user_annotation")
    )
    header = json.loads(Report(trace)._forms.page.header, parse_constant=pytest.fail)
    facts = [fact for view in header["views"] for section in view.get("sections", ()) for fact in section["facts"]]
    assert [fact["label"] for fact in facts if fact["value"] is None] == ["Spread"]


def test_what_to_record_in_place_of_what_is_done_once_is_no_doubt_but_what_to_change() -> None:
    compiling = span("CompiledFxGraph (dynamo_timed)", 0, 90), span("aten::mm", 90, 10)
    verdict = json.loads(Report(make_trace(*compiling))._forms.page.header)["verdict"]
    assert verdict["without_advice"] == "Record a later call in the same process: this is done once."
    assert verdict["without_advice"] not in verdict["doubts"]
