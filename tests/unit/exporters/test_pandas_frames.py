"""Frames become frames of pandas without pyarrow, with every value and number unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest
from made_ranks import write_job
from support import allocation, annotation, kernel, launch, make_trace, span

from torchprof_magic.exporters.pandas_frames import to_pandas
from torchprof_magic.jobs.report import RanksReport
from torchprof_magic.jobs.views import TABLES as RANK_TABLES
from torchprof_magic.loading import load
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABLES


def report() -> Report:
    return Report(
        make_trace(
            annotation("ProfilerStep#2", 0, 100),
            span("aten::mm", 5, 60),
            launch(10, 2, correlation=1),
            kernel("gemm", 20, 70, correlation=1),
            allocation(12, 512, 512),
        )
    )


def values(frame: pl.DataFrame) -> list[list[object]]:
    """Return the values column by column; NaN counts as missing, as it does in pandas."""
    return [[None if str(value) == "nan" else value for value in frame[name].to_list()] for name in frame.columns]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_the_same_values_in_pandas_without_pyarrow(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ours, made = report()._tables.flat(table), report().to_pandas(table)
    assert list(made.columns) == ours.columns
    assert len(made) == ours.height
    gaps = made.isna()
    cells = [[None if is_gap else value for value, is_gap in zip(made[name], gaps[name], strict=True)] for name in made]
    assert cells == values(ours)


def test_numbers_keep_their_types_and_whole_numbers_with_gaps_are_not_rounded() -> None:
    pytest.importorskip("pandas")
    huge = 2**62 + 1
    frame = pl.DataFrame(
        {"whole": [1, 2], "gap": [huge, None], "half": [0.5, None], "flag": [True, None], "lane": [[1], []]},
        schema={"whole": pl.Int32, "gap": pl.Int64, "half": pl.Float32, "flag": pl.Boolean, "lane": pl.List(pl.Int64)},
    )
    made = to_pandas(frame)
    assert [str(dtype) for dtype in made.dtypes] == ["int32", "Int64", "float32", "boolean", "object"]
    assert made["gap"][0] == huge
    assert list(made["gap"].isna()) == list(made["flag"].isna()) == list(made["half"].isna()) == [False, True]
    assert list(made["lane"]) == [[1], []]


def test_texts_that_repeat_are_categories_and_those_of_an_enum_keep_their_order() -> None:
    pytest.importorskip("pandas")
    kinds = pl.Enum(["small", "large"])
    made = to_pandas(
        pl.DataFrame(
            {"kind": ["large", None, "small"], "name": ["b", "a", None], "text": ["x", None, "y"]},
            schema={"kind": kinds, "name": pl.Categorical(), "text": pl.String},
        )
    )
    assert (list(made["kind"].cat.categories), made["kind"].cat.ordered) == (["small", "large"], True)
    assert (list(made["name"].cat.categories), made["name"].cat.ordered) == (["b", "a"], False)
    assert list(made["name"][:2]) == ["b", "a"]
    assert list(made["name"].isna()) == [False, False, True]
    assert list(made["text"].fillna("-")) == ["x", "-", "y"]  # missing is None or NaN, as this pandas has it


@pytest.mark.parametrize("dtype", [pl.Categorical(), pl.Enum([]), pl.Int64, pl.Boolean, pl.String])
def test_an_empty_column_and_one_of_nothing_but_gaps_stay_so(dtype: pl.DataType) -> None:
    pytest.importorskip("pandas")
    assert len(to_pandas(pl.DataFrame({"a": []}, schema={"a": dtype}))) == 0
    assert list(to_pandas(pl.DataFrame({"a": [None, None]}, schema={"a": dtype}))["a"].isna()) == [True, True]


def test_a_frame_that_a_method_returned_is_accepted_too() -> None:
    pytest.importorskip("pandas")
    by_step = report().ops_by("step")
    assert list(report().to_pandas(by_step)["name"]) == by_step["name"].to_list()


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown table 'pie'; choose from graph_ops, graph_tensors, ops"):
        report().to_pandas("pie")


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'to_pandas\(\) needs pandas: pip install "torchprof-magic\[pandas\]"'):
        report().to_pandas()


@pytest.mark.parametrize("table", RANK_TABLES)
def test_the_tables_of_a_job_of_many_ranks_are_in_pandas_too(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    write_job(tmp_path, {1: 100.0})
    ranks = load(tmp_path)
    assert isinstance(ranks, RanksReport)
    ours, made = getattr(ranks, table), ranks.to_pandas(table)
    assert (list(made.columns), len(made)) == (ours.columns, ours.height)
    assert len(made) > 0
    assert len(ranks.to_pandas(ours.head(1))) == 1
    with pytest.raises(ValueError, match="unknown table 'ops'; choose from ranks, collectives"):
        ranks.to_pandas("ops")
