from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from support import chrome, make_trace, span

from torchprof_magic.errors import IngestError
from torchprof_magic.exporters.saved import write_saved
from torchprof_magic.ingest import READERS, read_file
from torchprof_magic.ingest.readers import Reader
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
