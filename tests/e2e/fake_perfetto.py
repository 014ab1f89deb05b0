"""A page of our own in the place of ui.perfetto.dev, which answers as Perfetto does and keeps what it is given."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page, Route

ADDRESS = "https://ui.perfetto.dev"
# As in Perfetto: only the opener is heard, and a trace is taken once. The first pings find it still loading.
_PAGE = """<!DOCTYPE html><title>Perfetto</title><script>
let pings = 0;
addEventListener("message", ({ data, source }) => {
  if (source !== window.opener) return;
  if (data === "PING") {
    pings += 1;
    if (pings >= 3) source.postMessage("PONG", "*");
  } else if (data.perfetto !== undefined && window.given === undefined) {
    window.given = data.perfetto;
  }
});
</script>"""
_BASE64 = """() => {
  let text = "";
  for (const byte of new Uint8Array(given.buffer)) text += String.fromCharCode(byte);
  return btoa(text);
}"""


class FakePerfetto:
    """Answers for ui.perfetto.dev in a browser context; ``requests`` are all that were made of it."""

    def __init__(self, context: BrowserContext) -> None:
        self.requests: list[str] = []
        context.route(f"{ADDRESS}/**", self._answer)

    def _answer(self, route: Route) -> None:
        self.requests.append(route.request.url)
        route.fulfill(body=_PAGE, content_type="text/html")


def given_trace(perfetto: Page, path: Path) -> dict[str, Any]:
    """Wait until the page has a trace, write its bytes to a file, and return what came with them."""
    perfetto.wait_for_function("() => window.given !== undefined")
    path.write_bytes(base64.b64decode(perfetto.evaluate(_BASE64)))
    return perfetto.evaluate("() => ({ title: given.title, fileName: given.fileName, keys: Object.keys(given) })")
