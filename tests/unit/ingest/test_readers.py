from __future__ import annotations

import gzip
import pickle
import re
from typing import TYPE_CHECKING

import pytest
from bad_files.other_kinds import OF_OTHER_PROGRAMS
from support import chrome, make_trace, span

from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.ingest import READERS, read_file
from torchprof_magic.ingest.readers import Reader
from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.meta import Meta

if TYPE_CHECKING:
    from pathlib import Path


def example(name: str, folder: Path) -> Path:
    file = folder / "named-like-nothing"
    if name == "torchprof":
        return write_saved(make_trace(span("a", 0, 1)), file)
    if name == "memory timeline":
        file.write_text("[[-1, 1, 4096, 7]]")
        return file
    if name == "compile log":
        file.write_text('V0101 10:00:00.0 7 torch/x.py:1] {"compilation_metrics": {"compile_id": "0/0"}}')
        return file
    if name == "execution trace":
        file.write_text('{"schema": "1.1.1", "nodes": [{"id": 1, "name": "a"}]}')
        return file
    snapshot = {"segments": [], "device_traces": []}
    file.write_bytes(pickle.dumps(snapshot) if name == "snapshot" else chrome(span("a", 0, 1)))
    return file


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_file_is_read_by_the_first_reader_that_recognises_its_content(reader: Reader, tmp_path: Path) -> None:
    file = example(reader.name, tmp_path)
    assert next(other for other in READERS if other.recognises(file)) is reader
    assert read_file(file, Meta(title="t")) is not None


def test_the_last_reader_takes_what_no_other_recognises(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="no such file"):
        read_file(tmp_path / "missing.json", Meta())


def test_readers_have_names_and_endings_of_their_own() -> None:
    for values in ([reader.name for reader in READERS], [end for reader in READERS for end in reader.endings]):
        assert len(values) == len(set(values))


@pytest.mark.parametrize(("name", "content", "advice"), OF_OTHER_PROGRAMS, ids=[name for name, *_ in OF_OTHER_PROGRAMS])
def test_a_file_of_another_program_is_named_with_what_opens_it(
    tmp_path: Path, name: str, content: bytes, advice: str
) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(content)
    with pytest.raises(NotATraceError, match=re.escape(f"this is {name}")) as plain:
        load(file)
    assert advice in str(plain.value)
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(content))
    with pytest.raises(NotATraceError, match=re.escape(f"this is {name}")):
        load(packed)


def test_a_pickle_of_torchs_flight_recorder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps({"version": "2.5", "pg_config": {}, "entries": [{"profiling_name": "nccl:all"}]}))
    with pytest.raises(NotATraceError, match=r"torch's flight recorder, .*torchfrtrace"):
        load(file)
