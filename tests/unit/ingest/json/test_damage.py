"""Every bad file gives what was worked out for it, in blocks of any size, packed or not."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from amount import sampled, thorough
from bad_files import ALL, BadFile

from torchprof_magic.ingest import read_chrome
from torchprof_magic.ingest.json import blocks
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.problems import PROBLEMS

if TYPE_CHECKING:
    from pathlib import Path

# What a file gives: the events' names and times, and the counted problems; or the kind of error and its message.
Outcome = tuple[object, ...]


def titles(file: BadFile) -> str:
    return file.title


def outcome(content: bytes) -> Outcome:
    try:
        trace = read_chrome([content])
    except IngestError as error:
        return type(error), str(error)
    rows = trace.events.select("name", "lane", "start_ns", "dur_ns", "parent").rows()
    rows += trace.counters.rows()
    return rows, {problem.code: problem.count for problem in trace.problems}


@pytest.mark.parametrize("file", ALL, ids=titles)
def test_bad_files_give_their_whole_events_and_count_the_rest(file: BadFile) -> None:
    if file.error is not None:
        with pytest.raises(file.error, match=re.escape(file.says)) as error:
            read_chrome([file.content])
        assert type(error.value) is file.error
        return
    trace = read_chrome([file.content])
    names = trace.events["name"].to_list()
    assert (len(names) if isinstance(file.names, int) else names) == file.names
    assert {problem.code: problem.count for problem in trace.problems} == dict(file.problems)
    if file.starts_ns is not None:
        assert trace.events["start_ns"].to_list() == file.starts_ns
    if file.durs_ns is not None:
        assert trace.events["dur_ns"].to_list() == file.durs_ns


def lasting(file: BadFile, block_bytes: int) -> tuple[pytest.MarkDecorator, ...]:
    """Mark the case that takes a minute: its single event is read again with every block."""
    return (thorough,) if (file.title, block_bytes) == ("a counter with 10,000 values", 64) else ()


def in_blocks() -> list[Any]:
    """Return each file with each size of blocks that divides it."""
    return [
        pytest.param(file, block_bytes, id=f"{block_bytes}-{file.title}", marks=lasting(file, block_bytes))
        for block_bytes in (64, 1000, 1 << 16)
        for file in ALL
        # Any other is one block, as it was.
        if len(file.content) >= block_bytes or file.content.startswith(b"\x1f\x8b")
    ]


@pytest.mark.parametrize(("file", "block_bytes"), sampled(in_blocks(), 12))
def test_the_size_of_blocks_changes_nothing(file: BadFile, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if block_bytes < file.smallest_block:
        pytest.skip("would take minutes in blocks this small")
    whole = outcome(file.content)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(blocks, "_PACKED_BYTES", block_bytes)
    assert outcome(file.content) == whole


@pytest.mark.parametrize(
    "file",
    sampled([file for file in ALL if not file.content.startswith(b"\x1f\x8b") and len(file.content) < 1 << 22], 12),
    ids=titles,
)
def test_gzip_around_a_file_changes_nothing(file: BadFile) -> None:
    assert outcome(gzip.compress(file.content)) == outcome(file.content)


def test_there_are_many_bad_files_and_no_title_is_used_twice() -> None:
    assert len(ALL) > 250
    assert [title for title, count in Counter(map(titles, ALL)).items() if count > 1] == []


def test_every_kind_of_problem_is_met_by_some_bad_file() -> None:
    met = {code for file in ALL for code, count in file.problems.items() if count}
    of_files = {code for code in PROBLEMS if code.partition(".")[0] in ("file", "text", "json", "chrome", "memory")}
    assert met == of_files - {"file.newer_run"}  # of saved runs


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices_are_refused_unread(path: str) -> None:
    with pytest.raises(NotATraceError, match="device or pipe"):
        read_chrome([path])


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "trace.json"
    os.mkfifo(pipe)
    with pytest.raises(NotATraceError, match="device or pipe"):
        read_chrome([pipe])


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="folder"):
        read_chrome([tmp_path])


def test_a_link_to_a_device_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "trace.json"
    link.symlink_to("/dev/zero")
    with pytest.raises(NotATraceError, match="device or pipe"):
        read_chrome([link])


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_an_invalid_file_name_raises_our_error(name: str) -> None:
    with pytest.raises(IngestError):
        read_chrome([name])


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(b"{}")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(IngestError, match="cannot be read"):
        read_chrome([file])


@pytest.mark.parametrize("piece", ['\\"},', '\\",', '\\":', '"', '"x', "\\\\", "\\q"])
def test_a_string_is_repaired_in_one_pass_whatever_it_repeats(piece: str) -> None:
    # Looked at again for each of its quotes, this would take longer than a test may.
    name = piece * 200_000
    text = f'{{"traceEvents":[{{"ph":"X","cat":"cpu_op","name":"{name}\\ud800","pid":1,"tid":1,"ts":1,"dur":1}}]}}'
    trace = read_chrome([text.encode()])
    assert trace.events.height == 1
