"""Without isal, gzip is read and written as with it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.system.files.gzip_streams import HAS_ISAL

if TYPE_CHECKING:
    from pathlib import Path

HIDE = "import sys; sys.modules['isal'] = None\n"
WORK = r"""
import gzip, io, json, os, sys
from pathlib import Path
import torchprof_magic as tp
from torchprof_magic.system.files import gzip_streams
from torchprof_magic.system.files.atomic import part_file, write_text
from torchprof_magic.ingest import read_chrome
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.store.copying import copy_verified

folder = Path(sys.argv[1])
events = [dict(ph="X", name=f"aten::op{i % 7}", cat="cpu_op", pid=1, tid=1, ts=i * 10, dur=5) for i in range(4000)]
text = json.dumps({"traceEvents": events}).encode()
said = {"isal": gzip_streams.HAS_ISAL}

def outcome(content):
    try:
        trace = read_chrome([content])
    except TorchProfError as exc:
        return type(exc).__name__, str(exc)
    return trace.events.height, sorted((p.code, p.count) for p in trace.problems)

packed = gzip.compress(text)
damaged = bytearray(packed); damaged[len(packed) // 2] ^= 0x55
said["whole"] = outcome(packed)
said["two members"] = outcome(gzip.compress(text[:9000]) + gzip.compress(text[9000:]))
said["cut"] = outcome(packed[: len(packed) // 2])
said["damaged"] = outcome(bytes(damaged))
said["bomb"] = outcome(gzip.compress(b'{"traceEvents": [' + b" " * (200 << 20)))
said["layers"] = outcome(gzip.compress(gzip.compress(gzip.compress(text))))
said["trailing"] = outcome(packed + b"\0" * 100)
said["header alone"] = outcome(packed[:8])
write_text(folder / "a.json.gz", ["{}", "x" * 10])
said["written"] = gzip.open(folder / "a.json.gz").read().decode(), (folder / "a.json.gz").read_bytes()[3:10].hex()
(folder / "source.json").write_bytes(text)
with part_file(folder) as part:
    copy_verified(folder / "source.json", part, is_packed=True, store_id="id")
    part.place(folder / "copy.json.gz", may_replace=False)
copy = gzip.open(folder / "copy.json.gz").read()
said["copied"] = len(copy), outcome((folder / "copy.json.gz").read_bytes())
report = tp.load(folder / "copy.json.gz")
report.export(folder / "out.json.gz")
said["exported"] = tp.load(folder / "out.json.gz").trace.events.height
print(json.dumps(said))
"""


def work(folder: Path, before: str) -> dict[str, object]:
    folder.mkdir()
    run = subprocess.run(
        [sys.executable, "-c", before + WORK, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """Return the folder that was worked in without isal, and what was said there."""
    folder = tmp_path_factory.mktemp("gzip") / "plain"
    return folder, work(folder, HIDE)


@pytest.mark.skipif(not HAS_ISAL, reason="there is nothing to compare with")
def test_zlib_reads_and_writes_what_isal_does(tmp_path: Path, plain: tuple[Path, dict[str, object]]) -> None:
    fast, said = work(tmp_path / "fast", ""), plain[1]
    assert (fast["isal"], said["isal"]) == (True, False)
    assert said | {"isal": True} == fast
    assert said["whole"] == [4000, []]


def test_a_packed_file_holds_no_name_and_no_time(plain: tuple[Path, dict[str, object]]) -> None:
    folder, said = plain
    assert said["written"][0] == "{}" + "x" * 10  # type: ignore[index]
    header = (folder / "a.json.gz").read_bytes()[:10]
    assert header[3] == 0  # no name
    assert header[4:8] == bytes(4)  # no time
    assert gzip.decompress((folder / "a.json.gz").read_bytes())[:2] == b"{}"
