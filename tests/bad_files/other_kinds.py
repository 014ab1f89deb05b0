"""Bytes that were never a trace."""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile

from bad_files.making import ABC, BadFile, refused


def _tar() -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as tar:
        entry = tarfile.TarInfo("../../x.json")
        entry.size = len(ABC)
        tar.addfile(entry, io.BytesIO(ABC))
    return memory.getvalue()


def _zip() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("../../x.json", ABC)
    return memory.getvalue()


# A protobuf trace is a row of packets: field 1, its length, then fields such as a clock and a process.
PERFETTO = (
    b"\x0a\x1a\x32\x14\x08\x01\x10\xe8\x07\x18\x02\x22\x05\x08\x06\x10\xff\x01\x2a\x03\x08\x07\x10\x50\x03\x58\x01" * 9
)

FILES: tuple[BadFile, ...] = (
    refused("a PNG image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
    refused("a JPEG image", b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
    refused("a GIF image", b"GIF89a\x01\0", "a GIF image"),
    refused(
        "a zip archive with a path that leads out of it",
        _zip(),
        "a zip archive, not a PyTorch trace (.json or .json.gz); unpack it",
    ),
    refused("a tar archive with a path that leads out of it", _tar(), "a tar archive; unpack it", smallest_block=1000),
    refused("a bzip2 archive", b"BZh91AY&SY", "a bzip2 archive, not a PyTorch trace (.json or .json.gz); unpack it"),
    refused("an xz archive", b"\xfd7zXZ\0\0", "an xz archive, not a PyTorch trace (.json or .json.gz); unpack it"),
    refused(
        "a zstandard archive",
        b"\x28\xb5\x2f\xfd\x04",
        "a zstandard archive, not a PyTorch trace (.json or .json.gz); unpack it",
    ),
    *(
        refused(f"a pickle of protocol {number}", pickle.dumps({"segments": []}, number), "a pickle")
        for number in range(2, 6)
    ),
    refused("a pickle that would run a command", b"cos\nsystem\n(S'exit'\ntR.", "not JSON"),
    refused("a program", b"\x7fELF\x02\x01\x01\0", "a program"),
    refused("an HTML page", b"<!DOCTYPE html><html>", "an HTML or XML page"),
    refused("a Perfetto trace", PERFETTO, "a Perfetto protobuf trace"),
    refused("a PDF document", b"%PDF-1.7\n", "a PDF document"),
    refused("an SQLite database", b"SQLite format 3\0", "an SQLite database"),
    refused("a Parquet file", b"PAR1\x15\x04", "a Parquet file"),
    refused("an Arrow file", b"ARROW1\0\0", "an Arrow file"),
    refused("plain text", b"hello, world", "not JSON"),
    refused("a number alone", b"42", "not JSON"),
    refused("a JSON text alone", b'"traceEvents"', "not JSON"),
    refused("an execution trace", b'{"schema": "1.1.0", "pid": 7, "nodes": [{"id": 1}]}', "execution trace"),
    refused("bytes at random", bytes((i * 197 + 31) % 256 for i in range(999)), "not JSON"),
    refused("a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "not JSON"),
)
