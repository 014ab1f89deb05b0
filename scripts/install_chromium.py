"""Print the path of a Chromium for the tests that need a browser, and install one where there is none.

The first one that starts is taken: $CHROMIUM, a command on PATH, playwright's own; else the system's package; else
playwright's download. stdout gets the path, and stderr one line that says which was taken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from playwright.sync_api import sync_playwright

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE_MANAGERS = {
    "apt-get": (
        "apt-get update -qq",
        # The tests draw text, and a small Debian image has no fonts.
        (
            "env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "
            "chromium fonts-dejavu-core fonts-liberation"
        ),
    ),
    "dnf": ("dnf install -y -q chromium",),
    "pacman": ("pacman -S --noconfirm --needed chromium",),
}
ADVICE = """\
Chromium: none was found, and none could be installed.
Install Chromium or Google Chrome with the system's package manager, or set CHROMIUM to the path of one; then try again.
If playwright downloaded a Chromium that does not start, `playwright install-deps chromium` installs its libraries."""


class Chromium(NamedTuple):
    """The path of a Chromium, and how it got there."""

    path: str
    source: str


def find() -> Chromium | None:
    """Return a Chromium of this machine, or None. $CHROMIUM is taken at its word."""
    if path := os.environ.get("CHROMIUM"):
        return Chromium(path, "set by CHROMIUM")
    if path := _on_path():
        return Chromium(path, "found on PATH")
    path = _of_playwright()
    return Chromium(path, "found in playwright's cache") if _starts(path) else None


def install() -> Chromium | None:
    """Install a Chromium from the system's packages, or else with playwright. Return None if neither works."""
    for manager in filter(shutil.which, PACKAGE_MANAGERS):
        print(f"Chromium: not found; trying {manager} ...", file=sys.stderr)
        if all(_run_as_root(command) for command in PACKAGE_MANAGERS[manager]) and (path := _on_path()):
            return Chromium(path, f"installed by {manager}")
    print("Chromium: not found; trying playwright's download ...", file=sys.stderr)
    # The headless shell is another 100 MB, and the tests start the full browser.
    installed = _run(sys.executable, "-m", "playwright", "install", "--no-shell", "chromium")
    path = _of_playwright()
    return Chromium(path, "downloaded by playwright") if installed and _starts(path) else None


def main() -> int:
    """Print the path of a Chromium, or say what to install."""
    chromium = find() or install()
    if chromium is None:
        print(ADVICE, file=sys.stderr)
        return 1
    print(f"Chromium: {chromium.path} ({chromium.source})", file=sys.stderr)
    print(chromium.path)
    return 0


def _on_path() -> str | None:
    return next(filter(_starts, filter(None, map(shutil.which, COMMANDS))), None)


def _of_playwright() -> str:
    """Return where playwright keeps its own Chromium, whether or not it is there."""
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def _starts(path: str) -> bool:
    """Return whether the browser runs: Ubuntu's command can be a stub that only names a snap."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _run_as_root(command: str) -> bool:
    """Run a command as root; without root's rights, only if sudo needs no password."""
    return _run(*(() if os.geteuid() == 0 else ("sudo", "-n")), *command.split())


def _run(*command: str) -> bool:
    """Run a command, with its output on stderr, and return whether it succeeded."""
    try:
        return subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
