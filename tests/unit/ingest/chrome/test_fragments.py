"""Tests of fragments of JSON as columns."""

from __future__ import annotations

import pytest
from msgspec import Raw

from torchprof_magic.ingest.chrome import columns
from torchprof_magic.ingest.json.schema import NO_RAW

VALUES = [Raw(b"[1, 2]"), NO_RAW, Raw(b'"\xff"'), Raw('"é"'.encode())]


@pytest.fixture(params=[0, 1_000_000], ids=["split by polars", "split by Python"], autouse=True)
def _splits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MANY_VALUES", request.param)


def test_fragments_are_texts_and_empty_where_they_are_missing() -> None:
    assert columns.fragments(VALUES).to_list() == ["[1, 2]", "", '"\ufffd"', '"é"']
    assert columns.raw_text(VALUES).to_list() == ["[1, 2]", None, '"\ufffd"', '"é"']


def test_fragments_with_line_feeds_stay_whole() -> None:
    assert columns.fragments([Raw(b"[1,\n2]"), NO_RAW, Raw(b"3")]).to_list() == ["[1,\n2]", "", "3"]


def test_arrays_have_null_for_missing_members_and_are_null_without_the_first() -> None:
    grid = [Raw(b"[32,\n 1]"), NO_RAW, Raw(b"[8, 1]")]
    found = columns.json_arrays(grid, [Raw(b"64"), Raw(b"64"), NO_RAW])
    assert found.to_list() == ["[[32,1],64]", None, "[[8,1],null]"]
    assert columns.json_arrays([NO_RAW, NO_RAW], [Raw(b"1"), Raw(b"2")]).to_list() == [None, None]
