"""Names the files of other programs, and says what opens them. They are often mistaken for traces of torch."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from torchprof_magic.model.meta import encodable
from torchprof_magic.model.units import format_count, printable

_LOOKED_AT_BYTES = 64 << 10
_MOST_KEYS = 5
_MOST_KEY_CHARS = 40
_NSIGHT = "open it in Nsight Systems"
_UNPACK = "unpack it and open the trace inside"
_PICKLE = "a pickle, perhaps a memory snapshot; unpack it and open the file inside"


class Kind(NamedTuple):
    """A kind of file: what it is called, and what to do with it."""

    name: str
    advice: str = ""

    def __str__(self) -> str:
        """Return a message for the user."""
        end = f"; {self.advice}" if self.advice else ""
        return f"this is {self.name}, not a PyTorch trace (.json or .json.gz){end}"


FLIGHT_RECORDER = Kind(
    "a dump of torch's flight recorder", "analyze it with the command torchfrtrace, which comes with torch"
)
# By how the bytes begin.
_BEGINNINGS = (
    (b"\x89PNG", Kind("a PNG image")),
    (b"\xff\xd8\xff", Kind("a JPEG image")),
    (b"GIF8", Kind("a GIF image")),
    (b"PK\x03\x04", Kind("a zip archive", _UNPACK)),
    (b"BZh", Kind("a bzip2 archive", _UNPACK)),
    (b"\xfd7zXZ", Kind("an xz archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", Kind("a zstandard archive", _UNPACK)),
    *((bytes((0x80, number)), Kind(*_PICKLE.split("; "))) for number in range(2, 6)),
    (b"SQLite format 3", Kind("an SQLite database, perhaps from Nsight Systems", _NSIGHT)),
    (b"memray", Kind("a recording of memray", "open it with memray flamegraph")),
    (b"PERFILE2", Kind("a recording of perf", "open it with perf report")),
    (b"\x89HDF", Kind("an HDF5 file")),
    (b"PAR1", Kind("a Parquet file")),
    (b"ARROW1", Kind("an Arrow file")),
    (b"\x7fELF", Kind("a program")),
    (b"%PDF", Kind("a PDF document")),
    (b"<", Kind("an HTML or XML page")),
)
_TAR = (257, b"ustar", Kind("a tar archive", _UNPACK))
# The same beginning in several formats: what else is in the first bytes.
_ZIP_ENTRIES = (
    (re.compile(rb"[^\0]{1,200}data\.pkl|[^\0]{1,200}\.format_version"),
     Kind("a file of torch.save", "load it with torch.load")),
    (re.compile(rb"[^\0]{1,200}\.npy"), Kind("an archive of NumPy arrays", "load it with numpy.load")),
)  # fmt: skip
_ZIP_NAME_AT = 30
_DATABASES = (
    (b"rocpd_", Kind("a database of rocprofv3", "record with --output-format pftrace and open that in Perfetto")),
    (b"CUPTI_ACTIVITY_KIND", Kind("an SQLite database of Nsight Systems", _NSIGHT)),
    (b"TARGET_INFO_", Kind("an SQLite database of Nsight Systems", _NSIGHT)),
)
# How pstats.dump_stats writes a dictionary whose first key has three parts.
_PSTATS = re.compile(rb"[{\xfb][\xa8\xa9()]\x03")
_PROTOBUF = b"\x0a"
_XPLANE = re.compile(rb"/(?:host|device):|Task Environment|python-tracer")
_PPROF = re.compile(
    rb"\x0a[\x02-\x06]\x08[\x01-\x7f](?:\x10[\x01-\x7f])?\x0a[\x02-\x06]\x08|\x0a\x04\x08[\x01-\x7f]\x10[\x01-\x7f]"
)
_PROTOBUFS = (
    (_XPLANE, Kind("an XPlane profile of XLA", "open it in TensorBoard or XProf")),
    (_PPROF, Kind("a profile of pprof", "open it with go tool pprof, or in speedscope")),
)
_PERFETTO = Kind("a Perfetto protobuf trace", "open it in https://ui.perfetto.dev")
_TEXTS = (
    (re.compile(rb'"?(?:Kind|Domain)"?,"?(?:Agent_Id|Function|Name|Operation)"?,'),
     Kind("a table of rocprofv3", "record with --output-format pftrace and open that in Perfetto")),
    (re.compile(rb"(?:[^\n;{\[]{1,300};){1,20}[^\n;]{1,300} [0-9]{1,12}\r?\n"),
     Kind("a file of stacks for flame graphs, as of py-spy", "open it in https://www.speedscope.app")),
    (re.compile(rb"version https://git-lfs"), Kind("not JSON but a pointer of Git LFS", "fetch it with git lfs pull")),
)  # fmt: skip
# By the keys of a JSON object; the first kind all of whose keys are there.
_OBJECTS = (
    (("$schema", "shared", "profiles"), Kind("a speedscope profile", "open it in https://www.speedscope.app")),
    (("exporter", "shared", "profiles"), Kind("a speedscope profile", "open it in https://www.speedscope.app")),
    (("rocprofiler-sdk-tool",),
     Kind("a recording of rocprofv3", "record with --output-format pftrace and open that in Perfetto")),
    (("nodes", "timeDeltas"),
     Kind("a CPU profile of Chrome or Node.js", "open it in Chrome's developer tools, or in speedscope")),
    (("nodes", "callFrame"),
     Kind("a CPU profile of Chrome or Node.js", "open it in Chrome's developer tools, or in speedscope")),
    (("meta", "threads", "libs"), Kind("a profile of Firefox", "open it in https://profiler.firefox.com")),
    (("log", "entries", "creator"), Kind("a HAR file of network requests", "open it in the browser's developer tools")),
    (("entries", "pg_config"), FLIGHT_RECORDER),
    (("nbformat", "cells"), Kind("a Jupyter notebook", "open it in Jupyter")),
    (("resourceSpans",), Kind("traces of OpenTelemetry")),
    (("root_frame", "sample_count"), Kind("a profile of pyinstrument", "open it with pyinstrument --load")),
    (("files", "elapsed_time_sec"), Kind("a profile of Scalene", "open it with scalene view")),
    (("nodes",), Kind("a PyTorch execution trace (nodes, no times)")),
)  # fmt: skip
# By the keys of the objects in a JSON list.
_ENTRIES = (
    (("timestamps", "id"),
     Kind("a trace of requests of Triton Inference Server", "summarize it with Triton's trace_summary.py")),
    (("model_name", "id"),
     Kind("a trace of requests of Triton Inference Server", "summarize it with Triton's trace_summary.py")),
    (("traceId", "id"), Kind("traces of Zipkin")),
)  # fmt: skip
_KEY = re.compile(rb'"((?:[^"\\]|\\.){1,200})"\s*:')
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def kind_of_bytes(text: bytes) -> Kind | None:
    """Return what a file is that is no JSON, by how it begins; ``None`` for one that may be a trace."""
    head = text[:_LOOKED_AT_BYTES]
    at, magic, tar = _TAR
    if head.startswith(magic, at):
        return tar
    found = next((kind for beginning, kind in _BEGINNINGS if head.startswith(beginning)), None)
    if head.startswith(b"PK\x03\x04"):
        return next((kind for form, kind in _ZIP_ENTRIES if form.match(head, _ZIP_NAME_AT)), found)
    if head.startswith(b"SQLite"):
        return next((kind for name, kind in _DATABASES if name in head), found)
    if found is None and _PSTATS.match(head):
        return Kind("a profile of cProfile", "open it with pstats or snakeviz")
    if found is None and _is_protobuf(head):
        return next((kind for form, kind in _PROTOBUFS if form.search(head)), _PERFETTO)
    return found or next((kind for form, kind in _TEXTS if form.match(head)), None)


# Bytes that lengths and numbers in a protobuf have, and no text.
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def _is_protobuf(head: bytes) -> bool:
    """Return whether a line feed is the beginning of a protobuf: bytes that no text has follow it."""
    if not head.startswith(_PROTOBUF) or head.lstrip()[:1] in (b"{", b"[", b""):
        return False
    return _CONTROLS.search(head) is not None or b"\xff" in head


def known_object(text: bytes) -> Kind | None:
    """Return what a JSON object without events is, by its keys and those of the first values in it."""
    inner = (key.decode(errors="replace") for key in _KEY.findall(text[:_LOOKED_AT_BYTES]))
    known = {*_keys(text), *inner}
    return next((kind for keys, kind in _OBJECTS if known.issuperset(keys)), None)


def unknown_object(text: bytes) -> str:
    """Return a message about a JSON object that is nothing known."""
    keys = _quoted(" (its keys are {})", _keys(text))
    return f'this is JSON without a list "traceEvents"{keys}, so it is no profiler trace'


def kind_of_list(text: bytes) -> str:
    """Return a message that says what a list without events is; ``text`` begins with its first entry."""
    entry = text.lstrip(b"[, \t\r\n")[:_LOOKED_AT_BYTES]
    if not entry.startswith(b"{"):
        return "this is a JSON list without any event, not a PyTorch trace (.json or .json.gz)"
    keys = _keys_of_first(entry)
    for wanted, kind in _ENTRIES:
        if set(keys).issuperset(wanted):
            return str(kind)
    what = _quoted(" with the keys {}", keys)
    return f"this is a JSON list of objects{what} and without events, not a PyTorch trace (.json or .json.gz)"


def _keys_of_first(entry: bytes) -> list[str]:
    try:
        _KEYS.decode(entry)
    except msgspec.DecodeError as exc:
        if found := re.search(r"trailing characters \(byte ([0-9]+)\)", str(exc)):
            return _keys(entry[: int(found[1])].rstrip(b", \t\r\n]"))
    except (UnicodeDecodeError, RecursionError):
        pass
    return _keys(entry) or [key.decode(errors="replace") for key in dict.fromkeys(_KEY.findall(entry[:4096]))]


def _keys(text: bytes) -> list[str]:
    try:
        return list(_KEYS.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _quoted(template: str, keys: list[str]) -> str:
    """Return the first keys in a sentence; empty if there are none."""
    shown = [f'"{printable(encodable(key[:_MOST_KEY_CHARS]))}"' for key in keys[:_MOST_KEYS] if key]
    more = [f"{format_count(len(keys) - _MOST_KEYS)} more"] if len(keys) > _MOST_KEYS else []
    return template.format(", ".join([*shown, *more])) if shown else ""
