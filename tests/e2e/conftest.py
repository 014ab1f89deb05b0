"""One browser and one JupyterLab for all tests of a worker, and one page for all notebooks in JupyterLab."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from driver import Lab, Server, Shared
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
    yield shared().browser()
    shared().tidy()


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


@pytest.fixture(scope="module")
def open_notebook(browser: Browser, server_of: Callable[[str], Server]) -> Iterator[Callable[..., Lab]]:
    """Return a function that opens a notebook in place of the one before, or in a new page of Notebook 7."""
    from driver import Lab  # noqa: PLC0415 - the path above leads to it

    def find(notebook: Path, app: str = "lab", width: int = 1280, height: int = 1000) -> Lab:
        page = shared().lab_page() if app == "lab" else browser.new_page()
        page.set_viewport_size({"width": width, "height": height})
        return Lab(page, server_of(app), notebook, app)

    yield find
    shared().close_notebooks()
