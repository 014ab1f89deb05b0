"""Which modules of Python a step imports."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
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


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of which nothing is loaded, with an inner one, and a library that imports it when it is first used."""
    inner = tmp_path / "late_package" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "leaf.py").write_text("import late_package")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("late_package", "late_package.inner", "late_package.inner.leaf"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "late_package.inner.leaf"


def lines_of(session: CaptureSession) -> list[tuple[str, int]]:
    return [(each.module, each.line) for each in session.stop().program[0].imports]


@pytest.mark.parametrize(
    "source",
    [
        "def use():\n    x = 1\n    import {}\n\nuse()\n",  # in a function
        "import importlib\n\nimportlib.import_module('{}')\n",  # by a library
    ],
)
def test_an_import_has_the_line_of_the_user_and_the_module_that_is_asked_for(
    source: str, make_session: Make, package: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(source.format(package))
    session = make_session(schedule=(0, 0, 1, 1))
    session.start()
    work()
    runpy.run_path(str(program))
    session.step()
    assert lines_of(session) == [(package, 3)]


def test_imports_of_steps_that_are_not_recorded_are_not_kept(make_session: Make, package: str) -> None:
    session = make_session(schedule=(1, 0, 1, 1))
    session.start()
    importlib.import_module(package)
    session.step()
    work()
    session.step()
    assert lines_of(session) == []


def test_a_failure_of_the_watch_does_not_reach_the_import(
    make_session: Make, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr(imports.ImportTimes, "_note", fail)
    session = make_session(schedule=(0, 0, 1, 1))
    session.start()
    work()
    assert importlib.import_module(package).__name__ == package
    session.step()
    (found,) = [each for each in session.stop().problems if each.code == "capture.part_failed"]
    assert "imports" in found.message
