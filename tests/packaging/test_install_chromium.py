"""Which Chromium the end-to-end tests take, in which order, and what is printed about it.

Nothing leaves the machine: the package manager is a script, and playwright downloads from a server of this test.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from threading import Thread

import pytest
from amount import thorough
from playwright.sync_api import sync_playwright

SCRIPT = Path(__file__).parents[2] / "scripts" / "install_chromium.py"
BROWSER = "#!/bin/sh\necho Chromium 1.0\n"
STUB = "#!/bin/sh\necho 'install the snap'; exit 1\n"
NO_SERVER = "http://127.0.0.1:1"


class Machine:
    """A machine whose PATH and whose playwright cache start empty."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.cache = folder / "browsers"
        self.bin.mkdir()

    def add(self, name: str, text: str) -> Path:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def install_chromium(self, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"PATH": str(self.bin), "PLAYWRIGHT_BROWSERS_PATH": str(self.cache)}
        known = {name: value for name, value in os.environ.items() if name != "CHROMIUM"}
        offline = {"PLAYWRIGHT_DOWNLOAD_HOST": NO_SERVER}
        return subprocess.run(
            [sys.executable, str(SCRIPT)], env=known | own | offline | env, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def add_package_manager(machine: Machine, package: str) -> None:
    """Let apt-get put ``package`` on PATH as chromium; users other than root need a sudo."""
    script = f"""\
#!{sys.executable}
import pathlib, sys
if sys.argv[1] == "install":
    command = pathlib.Path({str(machine.bin / "chromium")!r})
    command.write_text({package!r})
    command.chmod(0o755)
"""
    machine.add("apt-get", script)
    machine.add("sudo", '#!/bin/sh\nshift\nexec "$@"\n')
    (machine.bin / "env").symlink_to("/usr/bin/env")


@contextmanager
def downloads(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a server whose every archive holds a browser, and a tool of the archive's name."""
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(machine.cache))
    with sync_playwright() as playwright:
        browser = Path(playwright.chromium.executable_path)
    _, *inside = browser.relative_to(machine.cache).parts

    class Archives(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = io.BytesIO()
            with zipfile.ZipFile(body, "w") as archive:
                archive.writestr("/".join(inside), BROWSER)
                if (tool := PurePosixPath(self.path).stem) != inside[0]:
                    archive.writestr(tool, BROWSER)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body.getvalue())))
            self.end_headers()
            self.wfile.write(body.getvalue())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Archives) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_chromium_on_path_is_taken_and_one_line_says_so(machine: Machine) -> None:
    path = machine.add("chromium", BROWSER)
    done = machine.install_chromium()
    assert done.stdout == f"{path}\n"
    assert done.stderr == f"Chromium: {path} (found on PATH)\n"


def test_a_command_that_does_not_start_is_skipped(machine: Machine) -> None:
    machine.add("chromium-browser", STUB)
    path = machine.add("google-chrome", BROWSER)
    assert machine.install_chromium().stdout == f"{path}\n"


def test_the_environment_variable_takes_precedence_over_path(machine: Machine) -> None:
    machine.add("chromium", BROWSER)
    assert machine.install_chromium(CHROMIUM="/opt/chromium").stdout == "/opt/chromium\n"


def test_the_systems_package_takes_precedence_over_playwrights_download(machine: Machine) -> None:
    add_package_manager(machine, BROWSER)
    done = machine.install_chromium()
    assert done.stdout == f"{machine.bin}/chromium\n"
    assert done.stderr.endswith(f"Chromium: {machine.bin}/chromium (installed by apt-get)\n")
    assert not machine.cache.exists()


@thorough
def test_playwright_downloads_where_the_systems_package_does_not_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_package_manager(machine, STUB)
    with downloads(machine, monkeypatch) as address:
        done = machine.install_chromium(PLAYWRIGHT_DOWNLOAD_HOST=address)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert machine.cache in path.parents
    assert done.stderr.endswith(f"Chromium: {path} (downloaded by playwright)\n")
    again = machine.install_chromium()
    assert (again.stdout, again.stderr) == (f"{path}\n", f"Chromium: {path} (found in playwright's cache)\n")


@thorough
def test_a_machine_without_chromium_prints_what_to_install(machine: Machine) -> None:
    done = machine.install_chromium()
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Install Chromium or Google Chrome with the system's package manager" in done.stderr
