"""Which modules of Python a step imports."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from capturing import work

from torchprof_magic.capture import CaptureSession

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

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
