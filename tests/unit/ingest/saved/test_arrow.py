from __future__ import annotations

import contextlib
import io
import struct
import zipfile
from pathlib import Path

import polars as pl
import pytest
from amount import sampled
from support import make_trace, span

from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.ingest.saved.reader import read_frame
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError
from torchprof_magic.model.trace import FRAME_SCHEMAS

TAIL_BYTES = 10
BLOCK = struct.Struct("<qi4xq")
FLOWS = pl.DataFrame({"kind": ["launch"] * 8, "source": [0] * 8, "target": [0] * 8}, schema=FRAME_SCHEMAS["flows"])
LANES = pl.DataFrame([("other", "x" * 500, "", 0, 0, "y" * 500)], schema=FRAME_SCHEMAS["lanes"], orient="row")
STACKS = pl.DataFrame(
    [(-1, f"{number:04}" + "n" * 500, None, None, "step") for number in range(4)],
    schema=FRAME_SCHEMAS["stacks"],
    orient="row",
)


def arrow(frame: pl.DataFrame, **options: int) -> bytearray:
    file = io.BytesIO()
    frame.write_ipc(file, compression="uncompressed", **options)
    return bytearray(file.getvalue())


def footer_at(data: bytes) -> int:
    (size,) = struct.unpack_from("<i", data, len(data) - TAIL_BYTES)
    return len(data) - TAIL_BYTES - size


def batches_of(data: bytes, count: int) -> list[int]:
    """Return where the footer says that each of ``count`` batches is; they are the longest list of such places."""
    for at in range(footer_at(data), len(data) - count * BLOCK.size):
        (found,) = struct.unpack_from("<I", data, at)
        places = (
            [BLOCK.unpack_from(data, at + 4 + BLOCK.size * index) for index in range(count)] if found == count else []
        )
        if places and all(8 <= begin < len(data) and 0 < header < len(data) for begin, header, _ in places):
            return [at + 4 + BLOCK.size * index for index in range(count)]
    raise AssertionError("no list of batches")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return write_saved(make_trace(span("aten::mm", 0, 5)), tmp_path / "run.torchprof")


def with_entry(path: Path, name: str, data: bytes) -> Path:
    with zipfile.ZipFile(path) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()} | {f"{name}.arrow": data}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return path


def refused(path: Path, name: str, data: bytes, why: str) -> None:
    with pytest.raises(IngestError, match=f"the {name} of the saved run .*{why}"):
        load(with_entry(path, name, bytes(data)))


def test_a_batch_that_is_listed_many_times_is_refused_before_it_is_read(saved: Path) -> None:
    rows = pl.concat([FLOWS] * 100)
    data = arrow(rows, record_batch_size=8)
    first, *others = batches_of(data, 100)
    for at in others:
        data[at : at + BLOCK.size] = data[first : first + BLOCK.size]
    assert pl.read_ipc(io.BytesIO(data)).height == rows.height
    refused(saved, "flows", data, "overlap")


@pytest.mark.parametrize(
    ("begin", "header", "body"), [(-8, 0, 0), (1 << 40, 0, 0), (0, 8, 0), (0, 0, 1 << 40), (0, 0, -400)]
)
def test_a_batch_that_does_not_lie_in_the_file_is_refused(saved: Path, begin: int, header: int, body: int) -> None:
    data = arrow(FLOWS)
    (at,) = batches_of(data, 1)[-1:]
    place = BLOCK.unpack_from(data, at)
    BLOCK.pack_into(data, at, place[0] + begin, place[1] + header * 1000, place[2] + body)
    refused(saved, "flows", data, "")


def test_more_rows_than_there_are_bytes_for_are_refused(saved: Path) -> None:
    data = arrow(FLOWS)
    for at in range(footer_at(data) - 8):
        if struct.unpack_from("<q", data, at) == (FLOWS.height,):
            struct.pack_into("<q", data, at, 1 << 31)
    refused(saved, "flows", data, "more rows than")


def test_texts_of_a_dictionary_that_share_their_bytes_are_refused(saved: Path) -> None:
    data = arrow(STACKS)
    view = struct.Struct("<i4sii")
    for at in range(footer_at(data) - view.size):
        size, begin, *_ = view.unpack_from(data, at)
        if size == 504 and begin[:3] == b"000":
            struct.pack_into("<i", data, at, 504 * 4)
    refused(saved, "stacks", data, "share their bytes")


def test_types_that_no_trace_has_are_refused(saved: Path) -> None:
    refused(saved, "flows", arrow(FLOWS.with_columns(pl.lit([[1, 2]] * 8).alias("source"))), "unexpected columns")
    refused(saved, "flows", arrow(FLOWS.with_columns(pl.lit(None).alias("source"))), "unexpected columns")


@pytest.mark.parametrize("value", [0x00, 0x7F, 0xFF])
@pytest.mark.parametrize("name", ["lanes", "stacks"])
def test_whatever_byte_is_changed_the_frame_is_read_or_refused(name: str, value: int) -> None:
    good = bytes(arrow({"lanes": LANES, "stacks": STACKS}[name]))
    for at in sampled(range(value % 4, len(good), 4), 3):
        data = bytearray(good)
        data[at] = value
        with contextlib.suppress(IngestError):
            assert read_frame(name, bytes(data)).height <= len(good)
