"""A report as a self-contained HTML file that works offline."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from string import Template
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.model.units import printable
from torchprof_magic.render.front_end import built
from torchprof_magic.system.files.atomic import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from torchprof_magic.render.page import Page

# What the file may do. `default-src` governs whatever a page loads or connects to; base address, forms, and the making
# of scripts and markup out of texts have directives of their own. Only the report's two scripts and its style sheet
# are let in, by their hashes, and nothing needs a Trusted Types policy.
# No directive governs new windows: `navigate-to` was dropped, and a <meta> cannot set `sandbox`. So the first script
# takes `window.open` away unless the file was exported for Perfetto, and the report opens only what its header lists.
# The policy is the same for both.
_POLICY = (
    "default-src 'none'; script-src $scripts; style-src $styles; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; background: Canvas; color: CanvasText; font: 13px/1.45 system-ui, sans-serif; }
h1 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
pre { white-space: pre-wrap; }
noscript { display: block; padding: 12px 16px; }
"""

# Runs before the bundle, which calls the function that is left for it.
_START = """
const main = document.getElementById("report");
const embedded = (id) => document.getElementById(id)?.textContent;
const bytesOf = (base64) => {
  if (Uint8Array.fromBase64 !== undefined) return Uint8Array.fromBase64(base64);
  const chars = atob(base64);
  const bytes = new Uint8Array(chars.length);
  for (let at = 0; at < chars.length; at += 1) bytes[at] = chars.charCodeAt(at);
  return bytes;
};
const unzip = async (bytes) => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(stream).arrayBuffer();
};
const fail = (error) => {
  const message = document.createElement("pre");
  message.textContent = "This report could not be shown: " + error + "\\nOpen the file in a current browser.";
  main.append(message);
};
if (embedded("trace") === undefined) {
  Object.defineProperty(window, "open", { value: () => null, writable: false, configurable: false });
}
let isStarted = false;
globalThis[Symbol.for("torchprof-magic.show-saved")] = async (render) => {
  isStarted = true;
  try {
    const data = new DataView(await unzip(bytesOf(embedded("data"))));
    const traits = {
      _standalone: true,
      _header: embedded("header"),
      _data: data,
      get _trace() { return bytesOf(embedded("trace")); },
    };
    const readSaved = (view) => unzip(bytesOf(embedded("view-" + view)));
    const model = { get: (name) => traits[name], readSaved, set() {}, save_changes() {}, on() {}, off() {} };
    render({ model, el: main });
  } catch (error) {
    fail(error);
  }
};
document.addEventListener("DOMContentLoaded", () => {
  if (!isStarted) fail("its script did not run.");
});
"""

_PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main id="report"><h1>$title</h1><noscript>$static</noscript></main>
<script type="application/json" id="header">$header</script>
<script type="application/octet-stream" id="data">$data</script>
$views$trace<script type="module">$start</script>
<script type="module">$bundle</script>
</body>
</html>
"""
)


def write_html(page: Page, path: Path, title: str, *, static: str, packed_trace: bytes = b"") -> Path:
    """Write the page and the front end into one file and return its path.

    Large views have elements of their own, which are read when the views are shown. ``static`` is the copy for viewers
    that run no scripts, and ``packed_trace`` a gzipped Chrome trace for a page that exports it. Raises
    ``TorchProfError`` when the front end is not built and ``ExportError`` when the file cannot be written.
    """
    bundle, css = (_for_element(text) for text in built())
    style = _STYLE + css
    views = (_data_element(f"view-{name}", _packed(encode())) for name, encode in page.pulled.items())
    text = _PAGE.substitute(
        policy=Template(_POLICY).substitute(scripts=_hashes(_START, bundle), styles=_hashes(style)),
        title=html.escape(printable(f"{title or 'Report'} · torchprof")),
        style=style,
        static=static,
        header=_for_script(json.loads(page.header)),
        data=_base64(_packed(page.data)),
        views="".join(views),
        trace=_data_element("trace", packed_trace) if packed_trace else "",
        start=_START,
        bundle=bundle,
    )
    return write_text(path, (text,))


def _hashes(*texts: str) -> str:
    """Return the sources of a policy that let in these texts of elements, and no others."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)


def _for_element(text: str) -> str:
    """Return a built file as the text of an element, as a browser reads it and as its hash is computed.

    The build writes no text that ends the element, or that makes a browser look for its end elsewhere.
    """
    if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
        raise TorchProfError("the front end is damaged: run `npm ci && npm run build` in js/")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _for_script(value: object) -> str:
    """Return JSON that is safe inside a script element: no ``</script>``, no ``<!--``, no line separators."""
    text = json.dumps(value)  # ASCII only, so U+2028 is escaped already
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _data_element(name: str, packed: bytes) -> str:
    return f'<script type="application/octet-stream" id="{name}">{_base64(packed)}</script>\n'


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=6, mtime=0)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
