"""Fixtures for all tests. Tests that need real traces, which are not part of this repository, are skipped without."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))

from amount import IS_WHOLE
from forking import CAN_FORK, forks

# jsonschema, which nbformat imports, compiles the grammars of addresses for seconds; without, it checks no addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# By default OpenMP's threads spin while they wait for one another. Where several test processes share the cores, a
# small training step took ten times as long that way, and five times as much processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

COMPILED = "tests are compiled"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited from nohup or `make test &`
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a sample what is marked ``thorough``, and begin with the files that are nearest to the root.

    They try the whole product and take the longest; what comes last must be short, or one worker ends alone.
    """
    if not IS_WHOLE:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    items.sort(key=lambda item: len(item.path.parts))


@cache
def _opens_notebooks(file: str) -> bool:
    """Return whether the tests of a file need a server of notebooks."""
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    return "open_notebook" in text or "server" in text


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Give what opens notebooks in a browser to one worker in a sample, and what opens other pages to another one.

    A JupyterLab and a browser take long to start.
    """
    if IS_WHOLE or config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - not everyone has it

    class ByFileAndBrowser(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if not nodeid.startswith("tests/e2e/"):
                return str(super()._split_scope(nodeid))
            return f"tests/e2e/ {_opens_notebooks(nodeid.partition('::')[0])}"

    return ByFileAndBrowser(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect no garbage among what is imported, and leave it and the tests out wherever all objects are looked at."""
    gc.disable()
    try:
        with _one_compiles_for_all(session.config):
            return (yield)
    finally:
        gc.enable()
        _leave_out_what_is_there()


@contextmanager
def _one_compiles_for_all(config: pytest.Config) -> Iterator[None]:
    """Let the first worker compile the tests alone; the others would compile all of them at the same time."""
    given = getattr(config, "workerinput", {})
    if not given or not forks().is_shared():
        yield
        return
    done = forks().folder() / COMPILED
    ends = time.monotonic() + LastResort.AFTER_S
    while given["workerid"] != "gw0" and not done.exists() and time.monotonic() < ends:
        time.sleep(0.1)
    try:
        yield
    finally:
        done.touch()


def _leave_out_what_is_there() -> None:
    """Keep what is there by now, which no later test makes or frees, from being looked at again and again.

    Collections and the search for what holds a tensor look at all objects of the process. Thousands of tests, and the
    modules that they have imported, are many of them.
    """
    gc.collect()
    gc.freeze()


class LastResort:
    """Ends a process whose test neither ends nor can be interrupted, and writes where each thread is.

    pytest-timeout interrupts Python code of the main thread. Code in a library that waits for a lock hears nothing.
    """

    AFTER_S = 100.0

    def __init__(self, config: pytest.Config) -> None:
        self._after_s = float(config.getoption("timeout") or config.getini("timeout")) + self.AFTER_S
        self._file = os.fdopen(os.dup(2), "w")

    def _begin(self, more_s: float = 0.0) -> None:
        faulthandler.dump_traceback_later(self._after_s + more_s, exit=True, file=self._file)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        marked = item.get_closest_marker("timeout")
        self._begin(float(marked.args[0]) if marked and marked.args else 0.0)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        self._begin()  # pytest has cancelled it if the test failed


def pytest_sessionfinish() -> None:
    """End the process that is forked into kernels."""
    forks().end()


def pytest_configure(config: pytest.Config) -> None:
    """Watch the tests of each process that runs some, and start what is forked for all workers of ``make test``."""
    config.pluginmanager.register(LastResort(config))
    # The package holds no assertions to explain. As its plugin is installed, pytest would compile all of it once more.
    config.pluginmanager.rewrite_hook._must_rewrite.discard("torchprof_magic")
    if CAN_FORK and config.getoption("dist", None) == "loadfile" and not hasattr(config, "workerinput"):
        forks().share()
        if any((Path(__file__).parent / "unit" / "__pycache__").glob("*-pytest-*")):
            (forks().folder() / COMPILED).touch()


@pytest.fixture(scope="session", autouse=True)
def _temporary_files_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the unfinished runs of killed test kernels away from the user's own kernels."""
    tmp_path_factory.getbasetemp()  # created first, so that pytest's own folder stays in its usual place
    with (
        tempfile.TemporaryDirectory(prefix="tp-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        patch.setenv("TORCHPROF_RUNS", str(Path(folder) / "runs"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _records_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the records of folders of traces out of the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHPROF_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module", autouse=True)
def _main_as_it_was() -> Iterator[None]:
    """Take away the main module of a shell that a test made: new processes cannot be spawned with it."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(scope="module", autouse=True)
def _what_was_there_before_is_left_out() -> None:
    _leave_out_what_is_there()


@pytest.fixture(autouse=True)
def _garbage_is_collected_after_each_test() -> Iterator[None]:
    """Fail what leaves Python's collection of garbage off, for all tests that follow, as for all cells of a user."""
    yield
    was_on = gc.isenabled()
    gc.enable()
    assert was_on, "garbage is not collected any more"


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
    """Reset torch's step count of a profiler that was not exited, which slows down all later recordings."""
    yield
    if profiler := sys.modules.get("torch.autograd.profiler"):
        profiler.KinetoStepTracker.erase_step_count("ProfilerStep")
