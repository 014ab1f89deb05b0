"""One browser and one JupyterLab for all tests of a worker."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from driver import Server, Shared
    from playwright.sync_api import Browser

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@cache
def shared() -> Shared:
    """Return what the tests of this worker share."""
    from driver import Shared  # noqa: PLC0415 - the path above leads to it

    return Shared()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the browser and the server after the last test of this folder."""
    if nextitem is None or HERE not in nextitem.path.parents:
        shared().end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the browser; the pages of a file of tests are closed after it."""
    found = shared().browser()
    yield found
    for context in found.contexts:
        context.close()


@pytest.fixture(scope="module")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Return a function that gives the server of an app, which shows what is below the folder of all tests."""
    used: list[Server] = []

    def find(app: str) -> Server:
        used.append(shared().server(tmp_path_factory.getbasetemp(), app))
        return used[-1]

    yield find
    for each in used:
        each.tidy()


@pytest.fixture(scope="module")
def server(server_of: Callable[[str], Server]) -> Server:
    """Return the JupyterLab."""
    return server_of("lab")
