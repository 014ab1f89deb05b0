"""``load`` looks at the size of a file before it reads it."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pytest
from support import chrome, span

import torchprof_magic as tp
from torchprof_magic.ingest import opening
from torchprof_magic.system.process.memory import Lack

if TYPE_CHECKING:
    from pathlib import Path

TRACE = chrome(span("mm", 0, 10)).ljust(20_000)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    monkeypatch.setattr(opening, "lack_for_reading", sizes.append)
    return sizes


def test_memory_is_looked_at_before_polars_is_used_and_for_the_whole_file(tmp_path: Path, asked: list[int]) -> None:
    (tmp_path / "plain.json").write_bytes(TRACE)
    tp.load(tmp_path / "plain.json")
    assert asked == [1, 20_000]


def test_a_packed_file_counts_with_its_unpacked_size(tmp_path: Path, asked: list[int]) -> None:
    mixed = chrome(span(os.urandom(2_000).hex(), 0, 10)).ljust(20_000)  # packs to a bit over 2 kB
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(mixed))
    tp.load(tmp_path / "packed.json.gz")
    assert asked == [1, 20_000]


def test_a_packed_file_without_its_end_counts_30_times_at_most(tmp_path: Path, asked: list[int]) -> None:
    cut = gzip.compress(TRACE)[:-8] + b"\xff\xff\xff\xff"
    (tmp_path / "cut.json.gz").write_bytes(cut)
    tp.load(tmp_path / "cut.json.gz")
    assert asked == [1, 30 * len(cut)]


def test_a_file_that_does_not_fit_is_refused_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain.json").write_bytes(TRACE)
    lack = Lack(40_000, 5_000, is_limit=False)
    monkeypatch.setattr(opening, "lack_for_reading", lambda file_bytes: lack if file_bytes == 20_000 else None)
    with pytest.raises(tp.IngestError) as caught:
        tp.load(tmp_path / "plain.json")
    assert str(caught.value) == (
        f"{tmp_path / 'plain.json'}: reading it takes about 40 kB of memory, and 5 kB are free. "
        "Free memory, or use a machine with more"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_nothing_is_taken_from_a_pipe(tmp_path: Path, asked: list[int]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tp.IngestError):
        tp.load(tmp_path / "pipe")
    assert asked == [1, 0]
