"""speedscope, opened on the same trace in the same browser: from npm, served from this machine."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from page_acts import pan, zoom
from page_measure import PROBE, Act, Spread, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

VERSION = "1.25.0"
# It writes names on its chart with a 2D canvas, and nothing else; the first one is the first picture.
MARK_FIRST_NAME = """
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (...args) {
  CanvasRenderingContext2D.prototype.fillText = draw;
  document.documentElement.dataset.drawn = "true";
  return draw.apply(this, args);
};
"""
CHART = "canvas >> nth=-1"


class Rival(NamedTuple):
    """How long it takes to open, and its gaps between frames, all in ms."""

    open_ms: float
    pan: Spread
    zoom: Spread


def install(folder: Path) -> Path:
    """Install speedscope into a folder, and return the folder of its page."""
    package = f"speedscope@{VERSION}"
    command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), package]
    subprocess.run(command, check=True)
    return folder / "node_modules" / "speedscope" / "dist" / "release"


def measure(browser: Browser, app: Path, profile: Path) -> Rival:
    """Open a profile in it, and pan and zoom its view in order of time."""
    shown = app / profile.name
    shown.hardlink_to(profile)
    try:
        with _served(app) as address:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.add_init_script(path=PROBE)
            page.add_init_script(MARK_FIRST_NAME)
            page.goto(f"{address}/index.html#profileURL={address}/{profile.name}")
            opened = float(page.evaluate("__probe.sinceStart('[data-drawn]')"))
            stage = Stage(page, page.locator("body"))
            acts = [Act(name="pan", do=pan, prepare=_begin_zoomed), Act(name="zoom", do=zoom, prepare=_begin)]
            panned, zoomed = (stage.measure(act).gaps for act in acts)
            page.close()
    finally:
        shown.unlink()
    return Rival(opened, panned, zoomed)


def _begin(stage: Stage) -> None:
    """Show the whole recording."""
    stage.press("0")
    stage.page.mouse.move(*stage.point(CHART, 0.5, 0.3))


def _begin_zoomed(stage: Stage) -> None:
    _begin(stage)
    for at in range(6):
        zoom(stage, at)


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
