"""A real JupyterLab or Notebook 7, and a real Chromium, all without the user's configuration.

A worker starts one of each for all its tests.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import install_chromium
import nbformat
import pytest
from forking import jupyter_environment
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
# What a page of tests needs none of. Each window loads both pages of the address bar's suggestions, which takes longer
# than all else about a window, and each site gets a process in reserve. The others are those that Playwright leaves
# out, whose list this one replaces.
LEFT_OUT = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "SpareRendererForSitePerProcess",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
# Without these, Chromium contacts its vendor's hosts at every start.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(LEFT_OUT)}",
]
PRIVATE_FOLDERS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "IPYTHONDIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
)
KERNEL_IS_IDLE = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const session = panel?.context?.sessionContext;
  const kernel = session?.session?.kernel;
  return Boolean(session?.isReady && kernel?.connectionStatus === 'connected' && kernel.status === 'idle');
}"""
OPEN_IN_LIGHT = """(path) => {
  void jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
  void jupyterapp.commands.execute('docmanager:open', { path });
}"""
IS_OPEN = """(path) => jupyterapp.shell.currentWidget?.context?.path === path
  && document.querySelector('.jp-Notebook') !== null && document.body.dataset.jpThemeLight === 'true'"""
CUT_TEXT = (Path(__file__).parent / "cut_text.js").read_text(encoding="utf-8")
START_S = 60
SERVER_APPS = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the Chromium that scripts/install_chromium.py finds; skip the test where there is none."""
    found = install_chromium.find()
    if found is None:
        pytest.skip("no Chromium on this machine: run `make chromium`, or set CHROMIUM to the path of one")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


class Server:
    """A running JupyterLab (``lab``) or Notebook 7 (``notebook``), which shows all notebooks below ``root``."""

    def __init__(self, address: str, root: Path, private: dict[str, str]) -> None:
        self.address = address
        self.root = root
        self._private = private

    def trust(self, *notebooks: Path) -> None:
        """Sign notebooks, as those are that were run by the same user."""
        notary = NotebookNotary(data_dir=self._private["JUPYTER_DATA_DIR"])
        for notebook in notebooks:
            notary.sign(nbformat.read(notebook, as_version=4))
        notary.store.close()

    def tidy(self) -> None:
        """End the kernels of the tests before, and go back to the light theme."""
        for session in json.loads(self._ask("api/sessions")):
            self._ask(f"api/sessions/{session['id']}", "DELETE")
        self.set_look()

    def set_look(self) -> None:
        """Choose the light theme, and no news."""
        settings = Path(self._private["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "themes.jupyterlab-settings").write_text('{"theme": "JupyterLab Light"}')
        (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')

    def _ask(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(f"{self.address}/{path}", method=method)  # noqa: S310 - our own server
        with urllib.request.urlopen(request, timeout=START_S) as answer:  # noqa: S310 - the same
            return bytes(answer.read())


@contextmanager
def jupyter(root: Path, app: str = "lab") -> Iterator[Server]:
    """Yield a server; it is always stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        private = {name: str(Path(folder) / name.lower()) for name in PRIVATE_FOLDERS}
        for each in private.values():
            Path(each).mkdir()
        # Notebook 7 reads this one from its file alone.
        exposed = {name: {"expose_app_in_browser": True} for name in SERVER_APPS.values()}
        for config in ("jupyter_server_config", "jupyter_notebook_config", "jupyter_lab_config"):
            (Path(private["JUPYTER_CONFIG_DIR"]) / f"{config}.json").write_text(json.dumps(exposed))
        port = free_port()
        found = Server(f"http://127.0.0.1:{port}", root, private)
        found.set_look()
        log = Path(folder) / "server.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                _server_command(root, port, app),
                env=os.environ | private | jupyter_environment(),
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_for(f"{found.address}/api", process, log)
            yield found
        finally:
            stop(process)


class Shared:
    """The browser, the servers and the page of JupyterLab of this worker: each is there when a test first needs it."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None
        self._servers: dict[str, Server] = {}
        self._lab_page: Page | None = None

    def browser(self) -> Browser:
        """Return the browser."""
        if self._browser is None:
            self._browser = self._running.enter_context(chromium())
        return self._browser

    def server(self, root: Path, app: str) -> Server:
        """Return the server of an app."""
        if app not in self._servers:
            self._servers[app] = self._running.enter_context(jupyter(root, app))
        return self._servers[app]

    def lab_page(self) -> Page:
        """Return the page that shows JupyterLab from the first notebook on."""
        if self._lab_page is None:
            self._lab_page = self.browser().new_page()
        return self._lab_page

    def close_notebooks(self) -> None:
        """Close all notebooks that JupyterLab shows."""
        if self._lab_page is not None:
            close_notebooks(self._lab_page)

    def tidy(self) -> None:
        """Close all pages but that of JupyterLab."""
        for context in self.browser().contexts:
            if self._lab_page is None or context is not self._lab_page.context:
                context.close()

    def end(self) -> None:
        """End what is running: Playwright's event loop would be in the way of other tests."""
        self._running.close()
        self._browser = None
        self._lab_page = None
        self._servers.clear()


def _server_command(root: Path, port: int, app: str) -> list[str]:
    name = SERVER_APPS[app]
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": str(port),
        "ServerApp.port_retries": "0",
        "IdentityProvider.token": "",
        "ServerApp.password": "",
        "ServerApp.disable_check_xsrf": "True",
        "ServerApp.root_dir": str(root),
        f"{name}.news_url": "",
        f"{name}.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        f"{name}.extension_manager": "readonly",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [
        sys.executable,
        "-m",
        {"lab": "jupyterlab", "notebook": "notebook"}[app],
        "--no-browser",
        "--allow-root",
        *flags,
    ]


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(server: subprocess.Popen[bytes]) -> None:
    """End a server and all its kernels, which are in its group of processes."""
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; fail the test with the end of its log if it does not."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=2):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")


def write_notebook(path: Path, *cells: str) -> Path:
    """Write a notebook with these code cells."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells], metadata={"kernelspec": kernel}
    )
    nbformat.write(notebook, path)
    return path


class Lab:
    """One notebook, open in JupyterLab or Notebook 7.

    A page that shows JupyterLab already opens the notebook without being loaded again, which takes most of the time.
    """

    def __init__(self, page: Page, server: Server, notebook: Path, app: str = "lab") -> None:
        self.page = page
        self.app = app
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", self._note_error)
        path = notebook.relative_to(server.root).as_posix()
        if page.url.startswith(f"{server.address}/lab/"):
            close_notebooks(page)
            page.evaluate(OPEN_IN_LIGHT, path)
            page.wait_for_function(IS_OPEN, arg=path, timeout=START_S * 1000)
            self.wait_until_idle()
            return
        # A workspace of its own: the others remember which notebooks were open.
        workspace = path.removesuffix(".ipynb").replace("/", "-")
        place = f"lab/workspaces/{workspace}/tree" if app == "lab" else "notebooks"
        page.goto(f"{server.address}/{place}/{path}")
        page.wait_for_selector(".jp-Notebook", timeout=START_S * 1000)
        self.wait_until_idle()
        if app == "lab":
            self.command("application:toggle-left-area")

    def _note_error(self, error: Any) -> None:
        # Notebook 7 itself throws at its start, with any notebook: its shortcuts come before their settings. And on a
        # busy machine the manager of widgets of both asks for those of a notebook that is not there yet.
        stack = error.stack or ""
        is_of_notebook = "/static/notebook/notebook_core" in stack and "'schema'" in error.message
        places = ("/static/notebook/notebook_core", "/jupyterlab-manager/static/")
        is_of_manager = any(place in stack for place in places) and "'widgets'" in error.message
        if not is_of_notebook and not is_of_manager:
            self.errors.append(f"{error.message}\n{error.stack}")

    def command(self, name: str) -> None:
        """Run a command of JupyterLab without waiting for its promise, which may never settle."""
        self.page.evaluate(f"() => {{ void jupyterapp.commands.execute('{name}') }}")

    def wait_until_idle(self) -> None:
        """Wait until the kernel is idle."""
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=START_S * 1000)

    def run_all(self) -> None:
        """Run every cell, and wait for the last one that will run."""
        self.command("notebook:run-all-cells")
        waiting = "() => [...document.querySelectorAll('.jp-InputPrompt')].some((one) => one.innerText.includes('*'))"
        self.page.wait_for_function(f"() => !({waiting})() && ({KERNEL_IS_IDLE})()", timeout=120_000)

    def report(self, index: int = 0, timeout_s: float = START_S) -> Any:
        """Return one live report, scrolled into view."""
        found = self.page.locator('.tp-report[data-tp-ready="true"]').nth(index)
        found.wait_for(timeout=timeout_s * 1000)
        found.scroll_into_view_if_needed()
        return found

    def state(self) -> Any:
        """Return what shortcuts could have changed: the number of cells, the active one, and their text."""
        return self.page.evaluate(
            "() => { const book = jupyterapp.shell.currentWidget.content;"
            " return [book.widgets.length, book.activeCellIndex, book.mode, "
            "book.widgets.map((cell) => cell.model.sharedModel.getSource())]; }"
        )


def close_notebooks(page: Page) -> None:
    """Close all notebooks that JupyterLab shows, without asking whether to save them."""
    page.evaluate("() => { for (const each of Array.from(jupyterapp.shell.widgets('main'))) each.dispose(); }")


def screenshot(target: Any, name: str) -> None:
    """Save a screenshot for people to look at; no test compares pixels."""
    target.screenshot(path=str(screenshot_file(name)))


def screenshot_file(name: str) -> Path:
    """Return where a screenshot is saved."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return SCREENSHOTS / f"{name}.png"


def show_file(page: Page, file: Path) -> Any:
    """Open the HTML file of a report, and return the report when it is there."""
    page.goto(file.as_uri())
    report = page.locator('.tp-report[data-tp-ready="true"]')
    report.wait_for()
    return report


def open_tab(report: Any, name: str) -> None:
    """Show one view of a report; a tab that does not fit is in the menu behind them."""
    report.wait_for(timeout=START_S * 1000)
    tab = report.locator(f'[data-tp-tab="{name}"]')
    menu = report.locator(".tp-tabs .tp-menu-box:not(.tp-missing) > button").first
    for _ in range(10):
        if tab.count() > 0:
            break
        # After the window has become wider, the menu goes when its tabs find room.
        with suppress(PlaywrightTimeoutError):
            menu.click(timeout=1_000)
    tab.click()
    # Not a function of the page: a report can be in a frame.
    expect(report).to_have_attribute("data-tp-view", name, timeout=10_000)


def walk_by_keys(page: Page, report: Any) -> None:
    """Go through all views of a report twice by keys alone, then search, and open and close the help."""
    views = report.locator("[data-tp-tab]").evaluate_all("(tabs) => tabs.map((tab) => tab.dataset.tpTab)")
    assert len(views) > 3
    for view in [*views, *reversed(views)]:
        page.keyboard.press(str(1 + views.index(view)))
        expect(report).to_have_attribute("data-tp-view", view)
        # What takes the arrow keys, as soon as it is there.
        expect(report.locator(".tp-panel :focus")).to_have_count(1)
    page.keyboard.press(str(1 + views.index("flame")))
    canvas = report.locator(".tp-flame-canvas")
    expect(canvas).to_be_focused()
    page.keyboard.press("/")
    search = report.locator(".tp-search:visible")
    expect(search).to_be_focused()
    page.keyboard.type("mm")
    expect(search).to_have_value("mm")
    page.keyboard.press("Escape")
    expect(search).to_have_value("")
    page.keyboard.press("Escape")
    expect(canvas).to_be_focused()
    page.keyboard.press("?")
    expect(report.locator(".tp-help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(report.locator(".tp-help")).to_have_count(0)
    expect(canvas).to_be_focused()


def cut_texts(report: Any) -> list[str]:
    """Return the texts of a report that are cut without an ellipsis, or whose whole text is nowhere on hover."""
    return list(report.evaluate(CUT_TEXT))
