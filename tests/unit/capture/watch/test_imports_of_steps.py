"""Which modules of Python a step imports."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from capturing import work

from torchprof_magic.capture import CaptureSession
from torchprof_magic.capture.watch import imports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., CaptureSession]


def test_a_step_knows_how_many_modules_it_imported_and_of_which_packages(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "slow_to_import"
    package.mkdir()
    (package / "__init__.py").write_text("from slow_to_import import inner")
    (package / "inner.py").write_text("")
    (tmp_path / "another_one.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    session = make_session(schedule=(0, 0, 3, 1))
    session.start()
    for step in range(3):
        work()
        if step == 1:
            importlib.import_module("slow_to_import")
            importlib.import_module("another_one")
        session.step()
    (cycle,) = session.stop().cycles
    assert [mark.imported for mark in cycle.steps] == [0, 3, 0]
    assert cycle.steps[1].imports == ("slow_to_import", "another_one")


def test_a_step_knows_how_long_its_imports_took(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(ns=1)
    monkeypatch.setitem(sys.modules, "fake_clock", clock)  # type: ignore[arg-type]
    monkeypatch.setattr(imports, "perf_counter_ns", lambda: clock.ns)
    for name, inner in (("outer_slow", "import inner_slow"), ("inner_slow", "import innermost"), ("innermost", "")):
        (tmp_path / f"{name}.py").write_text(f"import fake_clock\nfake_clock.ns += 20\n{inner}")
    (tmp_path / "another_one.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    session = make_session(schedule=(0, 0, 3, 1))
    session.start()
    for step in range(3):
        work()
        if step == 1:
            importlib.import_module("outer_slow")
            clock.ns += 500  # between two imports
            importlib.import_module("another_one")
        session.step()
    (cycle,) = session.stop().cycles
    assert [mark.import_ns for mark in cycle.steps] == [0, 60, 0]
    assert sys.meta_path == finders


@pytest.mark.parametrize("body", ["", "\n1 / 0"])
def test_an_import_without_others_in_it_is_measured_also_if_it_fails(
    body: str, make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(ns=1)
    monkeypatch.setitem(sys.modules, "fake_clock", clock)  # type: ignore[arg-type]
    monkeypatch.setattr(imports, "perf_counter_ns", lambda: clock.ns)
    (tmp_path / "alone_and_slow.py").write_text(f"import sys\nsys.modules['fake_clock'].ns += 70{body}")
    (tmp_path / "looked_for.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("alone_and_slow", "looked_for"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    session = make_session(schedule=(0, 0, 1, 1))
    session.start()
    work()
    importlib.util.find_spec("looked_for")
    clock.ns += 500  # by Python that imports nothing
    with suppress(ZeroDivisionError):
        importlib.import_module("alone_and_slow")
    clock.ns += 500
    importlib.import_module("looked_for")
    session.step()
    (cycle,) = session.stop().cycles
    assert [mark.import_ns for mark in cycle.steps] == [70]


def test_an_import_in_which_a_recording_runs_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(ns=1)
    monkeypatch.setitem(sys.modules, "fake_clock", clock)  # type: ignore[arg-type]
    monkeypatch.setattr(imports, "perf_counter_ns", lambda: clock.ns)
    (tmp_path / "recording_program.py").write_text(
        "import fake_clock, torch, torchprof_magic as tp\n"
        "with tp.profile() as p:\n"
        "    for step in range(3):\n"
        "        torch.ones(2)\n"
        "        import colorsys; fake_clock.ns += 500; import chunk_of_it\n"
        "        p.step()\n"
    )
    (tmp_path / "chunk_of_it.py").write_text("import fake_clock\nfake_clock.ns += 30")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("colorsys", "chunk_of_it", "recording_program"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    report = importlib.import_module("recording_program").p.report
    assert [mark.import_ns for mark in report.trace.meta.recorded_steps] == [30, 0, 0]
