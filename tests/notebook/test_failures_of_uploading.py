"""Failures of uploading traces, in a real kernel against a fault-injecting server: rows 39 and 40 of docs/failures.md.

Each test checks what the user sees, what survives, and that the next cell is recorded.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aftermath import (
    LOOP,
    PATIENCE_SECONDS,
    SETUP,
    assert_ended_well,
    assert_is_trace,
    assert_off_and_usable,
    problems,
    wait_for_end,
)
from amount import thorough
from kernels import Kernel, started

from torchprof_magic.store.records import records_of

STUB = Path(__file__).parents[1] / "unit" / "store"
SECRET = "hunter2"  # noqa: S105 - the tests check that it is not shown anywhere


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(SETUP) as found:
        yield found


def wait_until(kernel: Kernel, command: str, says: str) -> str:
    """Run a command repeatedly until its output contains some words."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        text = kernel.run(command).text
        if says in text:
            return text
        time.sleep(0.05)
    pytest.fail(f"{command} never said {says!r} but {text!r}")


@pytest.fixture
def stub() -> ModuleType:
    pytest.importorskip("fsspec")
    if str(STUB) not in sys.path:
        sys.path.append(str(STUB))
    return importlib.import_module("stub")


@pytest.fixture
def server(stub: ModuleType) -> Iterator[Any]:
    with stub.serving() as store:
        yield store


KNOWS_STUB = f"""
sys.path.append({str(STUB)!r})
import fsspec, stub
for kind in stub.KINDS:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
import torchprof_magic.store.upload as upload
upload.FIRST_PAUSE_SECONDS = 0.01
"""


def remote_of(server: Any, *, is_secret: bool = False) -> str:
    user, query = (f"ann:{SECRET}@", f"?token={SECRET}") if is_secret else ("", "")
    return f"stub://{user}127.0.0.1:{server.port}/bucket/runs{query}"


@pytest.mark.parametrize("faults", [["503", "429", "drop half-way", "truncate"], ["drop", "spoil", "403"]])
def test_an_upload_that_fails_is_tried_again_until_what_arrived_is_right(
    kernel: Kernel, tmp_path: Path, server: Any, faults: list[str]
) -> None:
    """Row 39: errors, refusals, broken connections and damaged uploads, one after the other."""
    kernel.run(KNOWS_STUB)
    server.faults["PUT"] = list(faults)
    flags = f"--trace-dir {tmp_path} --filename run.json --remote {remote_of(server, is_secret=True)}"
    cell = kernel.run(f"%%torchprof {flags}\n{LOOP}")
    assert_ended_well(cell)
    listed = wait_until(kernel, "%torchprof uploads", f"{server.port}/bucket/runs/run.json: done")
    assert server.faults["PUT"] == []
    assert server.files["/bucket/runs/run.json"] == (tmp_path / "run.json").read_bytes()
    assert sorted(server.files) == ["/bucket/runs/run.json"]
    shown = listed + cell.text + "".join(cell.static) + problems(kernel) + (tmp_path / "run.json").read_text()
    assert SECRET not in shown
    assert not any(SECRET in path.read_text() for path in tmp_path.iterdir())
    assert_off_and_usable(kernel)


def test_an_upload_that_keeps_failing_is_said_keeps_the_file_and_can_be_tried_again(
    kernel: Kernel, tmp_path: Path, server: Any
) -> None:
    """Row 39: five refusals. The state and the reason are listed, without credentials; --retry sends it."""
    kernel.run(KNOWS_STUB)
    server.faults["PUT"] = ["403"] * 5
    flags = f"--trace-dir {tmp_path} --filename run.json --remote {remote_of(server, is_secret=True)}"
    assert_ended_well(kernel.run(f"%%torchprof {flags}\n{LOOP}"))
    listed = wait_until(kernel, "%torchprof uploads", f"{server.port}/bucket/runs/run.json: failed (5/5, ")
    assert "403" in listed
    assert SECRET not in listed
    assert_is_trace(tmp_path / "run.json")
    assert server.files == {}
    assert "uploading" in kernel.run(f"%torchprof traces {tmp_path}").text
    assert kernel.run("%torchprof uploads --retry").text == "Retrying 1 failed upload.\n"
    wait_until(kernel, "%torchprof uploads", f"{server.port}/bucket/runs/run.json: done")
    assert server.files["/bucket/runs/run.json"] == (tmp_path / "run.json").read_bytes()
    assert_off_and_usable(kernel)


def test_an_upload_that_hangs_holds_up_neither_the_cell_nor_the_next(
    kernel: Kernel, tmp_path: Path, server: Any
) -> None:
    """Row 39: a server that does not respond. The kernel continues, and the state is listed."""
    kernel.run(KNOWS_STUB)
    server.faults["PUT"] = ["stall"]
    flags = f"--trace-dir {tmp_path} --filename run.json --remote {remote_of(server)}"
    assert_ended_well(kernel.run(f"%%torchprof {flags}\n{LOOP}"))
    assert server.stalled.wait(PATIENCE_SECONDS)
    assert f"{server.port}/bucket/runs/run.json: uploading" in kernel.run("%torchprof uploads").text
    assert_off_and_usable(kernel)
    server.released.set()
    wait_until(kernel, "%torchprof uploads", f"{server.port}/bucket/runs/run.json: done")


@thorough
def test_an_upload_that_is_under_way_when_the_kernel_ends_goes_on_in_the_next(
    kernel: Kernel, tmp_path: Path, server: Any
) -> None:
    """Row 40: the kernel is shut down while its upload hangs; a later kernel with the same URL finishes it."""
    server.faults["PUT"] = ["stall"]
    flags = f"--trace-dir {tmp_path} --filename {{run_name}}.json --remote {remote_of(server)}"
    with started(SETUP + KNOWS_STUB) as first:
        assert_ended_well(first.run(f"%%torchprof {flags} --run-name first\n{LOOP}"))
        assert server.stalled.wait(PATIENCE_SECONDS)
        first.client.execute("exit()")
        wait_for_end(first)
    assert not any(name.endswith("first.json") and not name.startswith("/bucket/runs/.") for name in server.files)
    assert_is_trace(tmp_path / "first.json")
    server.released.set()
    kernel.run(KNOWS_STUB)
    assert_ended_well(kernel.run(f"%%torchprof {flags} --run-name second\n{LOOP}"))
    for name in ("first", "second"):
        wait_until(kernel, "%torchprof uploads", f"{server.port}/bucket/runs/{name}.json: done")
        assert server.files[f"/bucket/runs/{name}.json"] == (tmp_path / f"{name}.json").read_bytes()
    assert not list(records_of(tmp_path).glob("upload-*"))
    assert not list(tmp_path.glob(".*"))
    assert_off_and_usable(kernel)
