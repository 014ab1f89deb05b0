"""Small files that were made to fill memory, each read in a process of its own whose memory is measured."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from amount import sampled, thorough
from support import make_trace, span

from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_MB = 400
# Prints for each file how much memory it and those before take beyond an empty trace, and what came of it.
READ = """
import resource, sys
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError
load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        said = f"{load(path).events.height} events"
    except IngestError as error:
        said = str(error)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, said.replace("\\n", " "))
"""


def read(file: Path) -> tuple[int, str]:
    """Return the MB that reading a file takes, and what came of it."""
    (found,) = read_each([file])
    return found


def read_each(files: list[Path]) -> list[tuple[int, str]]:
    """Return for each file the MB that it and those before it take at most, and what came of it."""
    empty = files[0].with_name("empty.json")
    empty.write_text('{"traceEvents": []}')
    command = [sys.executable, "-c", READ, str(empty), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return [(int(mb), said) for mb, _, said in lines]


BEGINNINGS = {"a list": b'{"traceEvents": [', "arguments": b'{"traceEvents": [{"ph": "X", "name": "a", "args": '}
PIECES = sampled(
    (b"{", b"}", b"[", b"[{", b"{}", b"{,", b'{"a":', b'{"ph":', b'{"ph":"X",', b'{"args":{', b'"', b'\\"', b"-,"),
    6,
)


@pytest.mark.parametrize("beginning", [pytest.param("a list", marks=thorough), "arguments"])
def test_two_megabytes_of_one_piece_take_little_memory(tmp_path: Path, beginning: str) -> None:
    files = [tmp_path / f"bomb{number}.json" for number in range(len(PIECES))]
    for file, piece in zip(files, PIECES, strict=True):
        file.write_bytes(BEGINNINGS[beginning] + piece * (2_000_000 // len(piece)))
    taken = dict(zip(PIECES, read_each(files), strict=True))
    assert {piece: mb for piece, (mb, _) in taken.items() if mb >= MOST_MB} == {}


def saved_with(folder: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """Write a saved run of which one entry was changed."""
    good = write_saved(make_trace(span("aten::mm", 0, 5)), folder / "good.torchprof")
    with zipfile.ZipFile(good) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    entries = {entry: data for entry, data in entries.items() if entry != name} | {name: change(entries[name])}
    with zipfile.ZipFile(folder / "bomb.torchprof", "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in entries.items():
            archive.writestr(entry, data)
    return folder / "bomb.torchprof"


def test_an_entry_that_says_that_it_is_small_is_unpacked_no_further(tmp_path: Path) -> None:
    file = saved_with(tmp_path, "tags.arrow", lambda data: data + bytes(450_000_000))
    with zipfile.ZipFile(tmp_path / "good.torchprof") as archive:
        whole = archive.read("tags.arrow")
    data = bytearray(file.read_bytes())
    listed = data.rindex(b"PK\x01\x02")  # the last entry in the list at the end of the file
    struct.pack_into("<I", data, listed + 16, zlib.crc32(whole))
    struct.pack_into("<I", data, listed + 24, len(whole))
    file.write_bytes(data)
    assert len(data) < 1_000_000
    assert read(file)[0] < MOST_MB


def test_a_list_of_entries_that_is_as_long_as_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.torchprof"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("torchprof.json", b"{}")
        for number in range(20_000):
            archive.writestr(f"{number:060}", b"")
    mb, said = read(file)
    assert mb < MOST_MB
    assert "its list of entries is longer than that of any saved run" in said


def test_rows_without_any_difference_are_not_read_in_any_number(tmp_path: Path) -> None:
    events = make_trace(span("aten::mm", 0, 5)).events

    def many(_: bytes) -> bytes:
        file = io.BytesIO()
        events[np.zeros(2_000_000, np.uint32)].write_ipc(file, compression="uncompressed")
        return file.getvalue()

    mb, said = read(saved_with(tmp_path, "events.arrow", many))
    assert mb < MOST_MB
    assert "would expand far more than any real run" in said


def test_a_head_of_empty_lists_is_not_made_of_them(tmp_path: Path) -> None:
    def with_lists(data: bytes) -> bytes:
        return json.dumps(json.loads(data)).encode()[:-1] + b', "more": [' + b"[]," * 8_000_000 + b"[]]}"

    mb, said = read(saved_with(tmp_path, "torchprof.json", with_lists))
    assert mb < MOST_MB
    assert said == "1 events"


def with_long_header(file: Path, field: str, *, ends: bool) -> Path:
    """Write a trace whose gzip header has a field of megabytes, with the trace after it or cut off within."""
    text = b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}'
    packed = zlib.compress(text, wbits=31)
    flag = {"name": 8, "comment": 16, "extra": 4}[field]
    content = struct.pack("<H", 65_535) + bytes(65_535) if field == "extra" else b"n" * 5_000_000 + b"\0"
    data = packed[:3] + bytes((flag,)) + packed[4:10] + (content + packed[10:] if ends else content[:-1])
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("ends", [True, False], ids=["long", "endless"])
def test_a_gzip_header_of_megabytes_is_read_over(tmp_path: Path, *, ends: bool) -> None:
    fields = ("name", "comment", "extra")
    files = [with_long_header(tmp_path / f"{field}.json.gz", field, ends=ends) for field in fields]
    for field, (mb, said) in zip(fields, read_each(files), strict=True):
        assert mb < MOST_MB, field
        assert said == "1 events" if ends else "cut off" in said, field
    if ends:
        assert [load(file).problems for file in files] == [[]] * len(files)
