"""Every public frame says the unit of its numbers in the names of their columns; see "Names" in docs/definitions.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from generate_docs import OTHER_FRAMES, OTHER_TABLES
from made_ranks import write_job
from made_snapshots import at, entry, segment, snapshot_of

import torchprof_magic as tp
from torchprof_magic.jobs.views import TABLES as RANK_TABLES
from torchprof_magic.model.shapes import Column
from torchprof_magic.model.trace import FrameColumn
from torchprof_magic.report.changed_views import TABLES as CHANGED_TABLES
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABLES

GPU = Path(__file__).parents[2] / "data" / "gpu"
# The units of dimensions, the last word of a name that has them, and how a rate goes on.
ENDINGS = {"ns": "ns", "bytes": "bytes", "flop": "flops", "ratio": "ratio"}
NUMBERS = {"count", "number", "step", "row", "id"}  # without a dimension


def unit_in(name: str) -> str:
    """The unit that a name says, empty for none: that of its last word, or of the one before ``_per_``."""
    words = name.partition("_per_")[0].split("_")
    return next((unit for unit, ending in ENDINGS.items() if words[-1] == ending), "")


def declared() -> Iterator[tuple[str, Column | FrameColumn]]:
    for views in (TABLES, RANK_TABLES, CHANGED_TABLES):
        for name, view in views.items():
            yield from ((name, column) for column in view.columns)
    for title, _, columns in (*OTHER_TABLES, *OTHER_FRAMES):
        yield from ((title, column) for column in columns)


def test_every_column_with_a_dimension_says_its_unit_in_its_name_and_no_other_does() -> None:
    wrong = {
        (table, column.name, column.unit)
        for table, column in declared()
        if unit_in(column.name) != (column.unit if column.unit in ENDINGS else "")
    }
    assert wrong == set()


@pytest.mark.parametrize("name", ["bandwidth", "before", "size", "duration", "bytes_of_it"])
def test_a_name_without_a_unit_says_none(name: str) -> None:
    assert unit_in(name) == ""


def snapshot() -> Report:
    held = segment(100, at(0, 60), at(64, 36, state="inactive"))
    return Report(snapshot_of(entry("alloc", 0, 50, 1), entry("free_completed", 2, 50, 1), segments=(held,)))


def frames_of(owner: str, folder: Path) -> Iterator[tuple[str, pl.DataFrame]]:
    if owner == "Report":
        for file in ("train_memory.json.gz", "session_0.json.gz"):
            report = tp.load(GPU / file)
            yield from ((name, report._tables[name]) for name in TABLES)
            yield from (("torch_events", report.torch_events), ("saved_traces", report.saved_traces))
            yield "ops_by", report.ops_by("shapes", "stack")
            yield from (("key_averages", report.key_averages()), ("memory_at", report.memory_at()))
    elif owner == "RanksReport":
        write_job(folder, {2: 200.0})
        ranks = tp.load(folder)
        yield from ((name, ranks._tables[name]) for name in RANK_TABLES)
    elif owner == "Comparison":
        pairs = [("session_0", "session_1"), ("train_memory", "train_memory")]
        for before, after in pairs:
            changes = tp.load(GPU / f"{after}.json.gz").compare(tp.load(GPU / f"{before}.json.gz"))
            yield from ((name, changes._tables[name]) for name in CHANGED_TABLES)
    else:
        made = snapshot().snapshot
        for name in ("devices", "pools", "segments", "blocks", "history", "annotations", "peak"):
            yield name, getattr(made, name)
        yield from (("alive", made.alive(0)), ("by_line", made.by_line(0)))


@pytest.mark.parametrize("owner", ["Report", "RanksReport", "Comparison", "Snapshot"])
def test_every_number_of_every_frame_is_a_declared_column(owner: str, tmp_path: Path) -> None:
    numbers = {column.name for _, column in declared() if column.unit in {*ENDINGS, *NUMBERS}}
    views = {"Report": TABLES, "RanksReport": RANK_TABLES, "Comparison": CHANGED_TABLES}.get(owner, {})
    found = {
        (table, name)
        for table, frame in frames_of(owner, tmp_path)
        for name, dtype in frame.schema.items()
        if dtype.is_numeric()
    }
    own = {table: {column.name for column in view.columns} for table, view in views.items()}
    assert {(table, name) for table, name in found if name not in own.get(table, numbers) & numbers} == set()
    assert len(found) > 10
