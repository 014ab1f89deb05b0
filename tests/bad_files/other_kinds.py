"""Bytes that were never a trace."""

from __future__ import annotations

import contextlib
import io
import json
import marshal
import pickle
import sqlite3
import tarfile
import tempfile
import zipfile
from pathlib import Path

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


def _text(value: object) -> bytes:
    return json.dumps(value).encode()


def _profile() -> bytes:
    """Return what cProfile writes for one function."""
    return marshal.dumps({("a.py", 1, "f"): (1, 1, 0.5, 0.5, {})})


def _database(*tables: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as database:
            for table in tables:
                database.execute(f"create table {table} (a int)")
            database.commit()
        return path.read_bytes()


def _archive(entry: str) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr(entry, b"\x80\x02}q\x00.")
    return memory.getvalue()


# A space of XLA: planes in field 1, each with an id and a name. A profile of pprof: types of samples in field 1.
XPLANE = b"\x0a\x80\x02\x08\x01\x12\x09/host:CPU\x1a\x10\x08\x01\x12\x0cpython-tracer"
PPROF = b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x12\x07\x0a\x02\x01\x02"
REQUEST = {"id": 0, "timestamps": [{"name": "HTTP_RECV_START", "ns": 5}]}
SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
CHROME_PROFILE = {"nodes": [{"id": 1, "callFrame": {}}], "startTime": 0, "samples": [], "timeDeltas": []}
NSIGHT = ("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds")
# What tells the files of each program from others, as it documents them, and a phrase of what to do with them.
OF_OTHER_PROGRAMS: tuple[tuple[str, bytes, str], ...] = (
    (
        "a speedscope profile",
        _text({"$schema": SPEEDSCOPE, "profiles": [], "shared": {}}),
        "https://www.speedscope.app",
    ),
    ("a recording of rocprofv3", _text({"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}]}), "pftrace"),
    ("a table of rocprofv3", b'"Kind","Agent_Id","Queue_Id"\n"KERNEL_DISPATCH",1,2\n', "pftrace"),
    ("a database of rocprofv3", _database("rocpd_kernel_dispatch"), "pftrace"),
    ("an XPlane profile of XLA", XPLANE, "XProf"),
    ("an SQLite database of Nsight Systems", _database(*NSIGHT), "open it in Nsight Systems"),
    ("a dump of torch's flight recorder", _text({"version": "2.5", "pg_config": {}, "entries": []}), "torchfrtrace"),
    ("a trace of requests of Triton Inference Server", _text([REQUEST, REQUEST]), "trace_summary.py"),
    ("a CPU profile of Chrome or Node.js", _text(CHROME_PROFILE), "developer tools"),
    ("a profile of Firefox", _text({"meta": {}, "libs": [], "threads": []}), "profiler.firefox.com"),
    ("a profile of pprof", PPROF, "go tool pprof"),
    ("a profile of cProfile", _profile(), "pstats"),
    ("a recording of memray", b"memray\x00\x0c\x00", "memray flamegraph"),
    ("a HAR file of network requests", _text({"log": {"version": "1.2", "creator": {}, "entries": []}}), "browser"),
    ("a file of torch.save", _archive("archive/data.pkl"), "torch.load"),
    ("an archive of NumPy arrays", _archive("arr_0.npy"), "numpy.load"),
    ("a file of stacks for flame graphs", b"main (a.py:1);f (a.py:2) 12\n", "speedscope"),
    ("a Jupyter notebook", _text({"cells": [], "nbformat": 4}), "Jupyter"),
)

FILES: tuple[BadFile, ...] = (
    *(
        refused(f"{name}, with what opens it", content, f"this is {name}", smallest_block=1000)
        for name, content, _ in OF_OTHER_PROGRAMS
    ),
    refused("a PNG image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
    refused("a JPEG image", b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
    refused("a GIF image", b"GIF89a\x01\0", "a GIF image"),
    refused(
        "a zip archive with a path that leads out of it",
        _zip(),
        "a zip archive, not a PyTorch trace (.json or .json.gz); unpack it",
    ),
    refused(
        "a tar archive with a path that leads out of it",
        _tar(),
        "a tar archive, not a PyTorch trace (.json or .json.gz); unpack it",
        smallest_block=1000,
    ),
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
