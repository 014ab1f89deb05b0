"""A report as a self-contained HTML file that works offline."""

from __future__ import annotations

import base64
import gzip
import html
import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from torchprof_magic.errors import TorchProfError
from torchprof_magic.files.atomic import write_text
from torchprof_magic.units import printable

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.render.page import Page

# The file may not fetch anything; the bundle runs from a blob: URL, as in a notebook.
_POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:"

_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; }
body { margin: 0; background: Canvas; color: CanvasText; font: 13px/1.45 system-ui, sans-serif; }
h1 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
pre { white-space: pre-wrap; }
</style>
<style>$css</style>
</head>
<body>
<main id="report"><h1>$title</h1><noscript><div style="padding: 12px 16px">$static</div></noscript></main>
<script type="application/json" id="header">$header</script>
<script type="application/octet-stream" id="data">$data</script>
<script type="text/plain" id="bundle">$bundle</script>
<script type="module">
const text = (id) => document.getElementById(id).textContent;
const unzip = async (base64) => {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(stream).arrayBuffer();
};
const main = document.getElementById("report");
try {
  const traits = { _standalone: true, _header: text("header"), _data: new DataView(await unzip(text("data"))) };
  const model = { get: (name) => traits[name], set() {}, save_changes() {}, on() {}, off() {} };
  const source = new Blob([await unzip(text("bundle"))], { type: "text/javascript" });
  const module = await import(URL.createObjectURL(source));
  module.default.render({ model, el: main });
} catch (error) {
  const message = document.createElement("pre");
  message.textContent = "This report could not be shown: " + error + "\\nOpen the file in a current browser.";
  main.append(message);
}
</script>
</body>
</html>
"""
)


def write_html(page: Page, path: Path, title: str, static: str) -> Path:
    """Write the page and the front end into one file and return its path.

    The static copy is for viewers that run no scripts.

    Raises ``TorchProfError`` when the front end is not built and ``ExportError`` when the file cannot be written.
    """
    bundle, css = front_end()
    text = _PAGE.substitute(
        policy=_POLICY,
        title=html.escape(printable(f"{title or 'Report'} · torchprof")),
        css=css,
        static=static,
        header=_for_script(json.loads(page.header)),
        data=_packed(page.data),
        bundle=_packed(bundle.encode()),
    )
    return write_text(path, (text,))


@cache
def front_end() -> tuple[str, str]:
    """Return the built module and style sheet."""
    static = files("torchprof_magic").joinpath("static")
    try:
        return static.joinpath("report.js").read_text("utf-8"), static.joinpath("report.css").read_text("utf-8")
    except FileNotFoundError as exc:
        raise TorchProfError("the front end is not built: run `npm ci && npm run build` in js/") from exc


def _for_script(value: object) -> str:
    """Return JSON that is safe inside a script element: no ``</script>``, no ``<!--``, no line separators."""
    text = json.dumps(value)  # ASCII only, so U+2028 is escaped already
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode("ascii")
