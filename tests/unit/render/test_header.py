from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from torchprof_magic.model.shapes import Column, Fact, Facts, Section, Table
from torchprof_magic.render.header import as_json, view_header
from torchprof_magic.render.view import View

ROOT = Path(__file__).parents[3]
VIEW: View[object] = View(name="facts", sentence="", title="Facts", empty="Nothing.", is_counted=True)


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_header", ROOT / "scripts" / "generate_header.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def facts(value: object, label: str = "Peak") -> Facts:
    fact = Fact(label=label, value=value, unit="bytes")  # type: ignore[arg-type]
    return Facts(sections=(Section(title="Memory", facts=(fact,)),))


def test_the_checks_of_the_page_are_those_of_the_structs(generator: ModuleType) -> None:
    written = generator.TARGET.read_text(encoding="utf-8")
    assert generator.compact(written) == generator.compact(generator.written()), "run scripts/generate_header.py"


def test_a_type_that_the_page_has_no_check_for_is_refused(generator: ModuleType) -> None:
    with pytest.raises(TypeError, match="no check is known"):
        generator._check({}, generator.types.type_info(bytes))


def test_numbers_of_numpy_and_half_of_a_surrogate_pair_come_through() -> None:
    header = json.loads(as_json(view_header(VIEW, facts(np.float64(1.5), "\ud800"))))
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
