from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from generate_header import TARGET, check_of, compact, written
from msgspec.inspect import type_info

from torchprof_magic.model.shapes import Column, Fact, Facts, Section, Table
from torchprof_magic.render.header import as_json, view_header
from torchprof_magic.render.view import View

VIEW: View[object] = View(name="facts", sentence="", title="Facts", empty="Nothing.", is_counted=True)


def facts(value: object, label: str = "Peak") -> Facts:
    fact = Fact(label=label, value=value, unit="bytes")  # type: ignore[arg-type]
    return Facts(sections=(Section(title="Memory", facts=(fact,)),))


def test_the_checks_of_the_page_are_those_of_the_structs() -> None:
    assert compact(TARGET.read_text(encoding="utf-8")) == compact(written()), "run scripts/generate_header.py"


def test_a_type_that_the_page_has_no_check_for_is_refused() -> None:
    with pytest.raises(TypeError, match="no check is known"):
        check_of({}, type_info(bytes))


@pytest.mark.parametrize("value", [np.float64(2), np.float32(2), np.int64(2), np.uint8(2)], ids=lambda each: each.dtype)
def test_numbers_of_numpy_come_through(value: np.generic) -> None:
    header = json.loads(as_json(view_header(VIEW, facts(value))))
    assert header["sections"][0]["facts"][0]["value"] == 2


def test_half_of_a_surrogate_pair_comes_through() -> None:
    header = json.loads(as_json(view_header(VIEW, facts(1.5, "\ud800"))))
    fact = header["sections"][0]["facts"][0]
    assert (fact["value"], fact["label"], header["count"], header["empty"]) == (1.5, "\ud800", 1, None)


def test_a_value_that_is_neither_text_nor_number_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="ndarray is not for a header"):
        as_json(view_header(VIEW, facts(np.zeros(2))))


def test_a_view_without_rows_says_so_and_keeps_its_columns() -> None:
    column = Column(name="calls", title="Calls", unit="count", definition="How often.", is_sum=True)
    table = Table(frame=pl.DataFrame(schema={"calls": pl.Int64}), columns=(column,), sort_by="calls")
    header = json.loads(as_json(view_header(VIEW, table, (64, 8))))
    assert (header["shape"], header["count"], header["empty"]) == ("table", 0, "Nothing.")
    assert (header["offset"], header["length"], header["sort_by"], header["bars"]) == (64, 8, "calls", None)
    assert header["columns"][0]["is_sum"] is True
