"""Tests of acting once a module is imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from torchprof_magic.capture.torch_api.imported import once_imported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

NAME = "imported_later_by_a_test"


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text("VALUE = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield
    sys.modules.pop(NAME, None)
    assert sys.meta_path == before


def test_a_module_is_seen_when_it_has_been_imported_and_not_before() -> None:
    seen: list[ModuleType] = []
    once_imported(NAME, seen.append)
    assert seen == []
    import imported_later_by_a_test as module  # type: ignore[import-not-found]  # noqa: PLC0415 - made by the test

    assert [each.VALUE for each in seen] == [5]
    assert seen == [module]


def test_a_module_that_is_there_is_seen_at_once() -> None:
    __import__(NAME)
    seen: list[ModuleType] = []
    once_imported(NAME, seen.append)()
    assert [each.VALUE for each in seen] == [5]


def test_nothing_is_seen_after_the_end_and_a_module_that_is_nowhere_is_not_found() -> None:
    seen: list[ModuleType] = []
    once_imported(NAME, seen.append)()
    __import__(NAME)
    assert seen == []
    end = once_imported("nowhere_at_all", seen.append)
    with pytest.raises(ModuleNotFoundError):
        __import__("nowhere_at_all")
    end()


def test_a_module_that_raises_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text("raise ValueError('mine')\n")
    seen: list[ModuleType] = []
    once_imported(NAME, seen.append)
    with pytest.raises(ValueError, match="mine"):
        __import__(NAME)
    assert seen == []
