"""Under the locale ``C`` Python knows ASCII only: other names are bytes, and other characters cannot be shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from amount import thorough

if TYPE_CHECKING:
    from pathlib import Path

ENV = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
EVENTS = [
    {"ph": "X", "name": "ProfilerStep#1", "ts": 0, "dur": 9, "pid": 1, "tid": 1, "cat": "user_annotation"},
    {"ph": "X", "name": "aten::mm é", "ts": 1, "dur": 5, "pid": 1, "tid": 1, "cat": "cpu_op"},
]
BEGIN = """
import os, sys
import torchprof_magic as tp
assert sys.getfilesystemencoding() == sys.stdout.encoding == "ascii"
folder = sys.argv[1]
file = os.path.join(folder, sorted(name for name in os.listdir(folder) if name.startswith("rank0"))[0])
"""
PROGRAMS = {
    "what is loaded is shown": "print(tp.load(file), [ascii(tp.load(file).summary())])",
    "a page": "tp.load(file).to_html(os.path.join(folder, 'page.html'))",
    "a saved run": "assert tp.load(tp.load(file).save(os.path.join(folder, 'a.torchprof'))).ops.height == 1",
    "exports": "for end in ('json', 'csv', 'txt', 'html'): tp.load(file).export(os.path.join(folder, 'a.' + end))",
    "what a notebook gets": "bundle = tp.load(file)._repr_mimebundle_(); ''.join(map(str, bundle.values())).encode()",
    "the ranks of a folder": "ranks = tp.load(folder); print(ranks); ranks.to_html(os.path.join(folder, 'ranks.html'))",
    "a list of ranks": "assert tp.load([file, file]).summary()",
    "an error": """
try:
    tp.load(os.path.join(folder, 'no.json'))
except tp.TorchProfError as error:
    print(error)
""",
    "a name that cannot be written is refused": """
for write in (tp.load(file).save, tp.load(file).to_html, tp.load(file).export):
    for end in ('torchprof', 'html', 'json'):
        try:
            write(os.path.join(folder, 'sp\\u00e4t.' + end))
        except (tp.TorchProfError, OSError) as error:
            assert 'locale' in str(error), error
        else:
            assert False, 'it was written'
""",
    "a file name that no list of traces can hold is refused before anything runs": """
try:
    tp.profile(trace_dir='.', filename=os.fsdecode(bytes((195, 169)) + b'.json')).__enter__()
except tp.TorchProfError as error:
    assert 'a file name cannot contain' in str(error), error
else:
    assert False, 'it was begun'
""",
    "a recording": """
import torch
with tp.profile(trace_dir=os.path.join(folder, 'kept')) as profiler:
    torch.ones(2)
    profiler.step()
assert profiler.report.saved_traces.height == 1
assert os.listdir(os.path.join(folder, 'kept'))
""",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> bytes:
    path = os.path.join(os.fsencode(tmp_path), "модель é".encode())  # noqa: PTH118 - bytes
    os.mkdir(path)  # noqa: PTH102
    for rank in range(2):
        name = os.path.join(path, f"rank{rank} トレース.json".encode())  # noqa: PTH118
        with open(name, "wb") as file:  # noqa: PTH123 - a Path holds no bytes
            file.write(json.dumps({"traceEvents": EVENTS}).encode())
    return path


def run(*command: str | bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *command], env=ENV, capture_output=True, check=False)


def test_a_folder_outside_ascii_can_be_used(folder: bytes) -> None:
    done = run("-c", BEGIN + "".join(f"print({what!r})\n{program}\n" for what, program in PROGRAMS.items()), folder)
    assert (done.returncode, done.stderr) == (0, b""), done.stdout  # which ends with what failed


def test_the_command_line_shows_what_it_can_and_escapes_the_rest(folder: bytes) -> None:
    file = os.path.join(folder, "rank0 トレース.json".encode())  # noqa: PTH118
    done = run("-m", "torchprof_magic", file)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"aten::mm \xe9" in done.stdout


@thorough
def test_the_command_line_escapes_the_name_of_a_file_that_is_missing(folder: bytes) -> None:
    missing = run("-m", "torchprof_magic", os.path.join(folder, b"no.json"))  # noqa: PTH118
    assert missing.returncode == 1
    assert missing.stderr.endswith(b"no.json: no such file\n")
