"""No interrupt breaks an import off, and one that was broken off before is repaired."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest
from amount import sampled

from torchprof_magic.system.process.imports import _WITHOUT_POLARS, import_whole, uninterrupted

INTERRUPTED = """
import os, signal, sys, threading, time, torch
threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    import torchprof_magic as tp
    tp.profile
    time.sleep(30)
except KeyboardInterrupt:
    pass
import torchprof_magic as tp
with tp.profile() as p:
    torch.ones(3).sum()
print(p.report.ops.height > 0)
"""
BROKEN = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "polars.lazyframe":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
try:
    import polars
except KeyboardInterrupt:
    pass
del sys.meta_path[0]
import torchprof_magic as tp
print(tp.load(sys.argv[1]).events.height)
"""


def run(code: str, argument: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize("delay_s", sampled(["0.12", "0.03", "0.25"]))
def test_an_interrupt_during_the_first_import_comes_after_it_and_breaks_nothing(delay_s: str) -> None:
    assert run(INTERRUPTED, delay_s) == "True"


def test_an_import_that_was_broken_off_before_is_repaired(tmp_path: object) -> None:
    path = f"{tmp_path}/small.json"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(
            '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
        )
    assert run(BROKEN, path) == "1"


def test_a_deferred_interrupt_is_raised_once_at_the_end_of_the_block() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():  # noqa: PT012 - the end of the block is what is tested
        os.kill(os.getpid(), signal.SIGINT)
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_on_another_thread_modules_are_imported_as_usual() -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(import_whole("torchprof_magic.model.errors")))
    thread.start()
    thread.join()
    assert found == [sys.modules["torchprof_magic.model.errors"]]


@pytest.mark.parametrize("is_on", [True, False])
def test_an_import_looks_for_no_garbage_and_leaves_that_on_or_off_as_it_was(
    monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    seen = []
    monkeypatch.setattr("importlib.import_module", lambda _name: seen.append(gc.isenabled()))
    (gc.enable if is_on else gc.disable)()
    try:
        import_whole("torchprof_magic.no_such_module")
        assert (seen, gc.isenabled()) == ([False], is_on)
    finally:
        gc.enable()


def test_modules_that_do_without_polars_are_named_correctly() -> None:
    names = ", ".join(_WITHOUT_POLARS)
    assert run(f"import sys, {names}\nprint('polars' in sys.modules)", "") == "False"
