"""What every test may use. Real traces of other people are not part of this repository; tests that need them skip."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).parent))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as after `make test &` or nohup; tests interrupt themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels that a test kills leave unfinished runs, which the next kernel of a user would offer to load."""
    tmp_path_factory.getbasetemp()  # pytest's own folder stays where it is looked for after a failure
    with (
        tempfile.TemporaryDirectory(prefix="tp-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(scope="session")
def traces() -> Path:
    folder = os.environ.get("TORCHPROF_TRACES")
    if not folder:
        pytest.skip("TORCHPROF_TRACES does not name a folder of real traces")
    return Path(folder)


@pytest.fixture(scope="session")
def facts(traces: Path) -> dict[str, Any]:
    rows = json.loads((traces / "facts.json").read_text())
    return {Path(row["file"]).name: row for row in rows}


@pytest.fixture(autouse=True)
def _no_steps_are_counted_afterwards() -> Iterator[None]:
    """torch counts steps for a profiler that was not left; all later recordings would look for it in all objects."""
    yield
    if profiler := sys.modules.get("torch.autograd.profiler"):
        profiler.KinetoStepTracker.erase_step_count("ProfilerStep")
