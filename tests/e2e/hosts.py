"""Pages that hold a report as VS Code, Colab, marimo and a plain page do, with a stand-in for the kernel."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Frame, Page

import torchprof_magic as tp
from torchprof_magic.model.errors import TorchProfError
from torchprof_magic.render.front_end import built

Host = Literal["plain", "vscode", "colab", "marimo"]
CHUNK_BYTES = 1 << 20

# What anywidget does: the module comes from a blob, and render gets a model.
_SCRIPT = Template(
    """
    const traits = {
      _header: $header,
      _data: new DataView(Uint8Array.from(atob("$data"), (char) => char.charCodeAt(0)).buffer),
    };
    const listeners = [];
    window.asked = [];
    window.emit = (event, ...values) => {
      for (const each of listeners.filter((one) => one.event === event)) each.listener(...values);
    };
    const model = {
      get: (name) => traits[name],
      set() {},
      save_changes() {},
      on: (event, listener) => listeners.push({ event, listener }),
      off: (event, listener) => {
        const at = listeners.findIndex((one) => one.event === event && one.listener === listener);
        if (at >= 0) listeners.splice(at, 1);
      },
      async send(content) {
        window.asked.push(content);
        const answer = await window.askKernel(content);
        if (answer === null) return;
        const { data, ...head } = answer;
        const bytes = Uint8Array.from(atob(data ?? ""), (char) => char.charCodeAt(0));
        window.emit("msg:custom", head, [new DataView(bytes.buffer)]);
      },
    };
    const source = new Blob([$bundle], { type: "text/javascript" });
    const module = await import(URL.createObjectURL(source));
    window.show = (el) => module.default.render({ model, el });
    window.unmount = await window.show($place);
    """
)

_VSCODE = Template(
    """<!DOCTYPE html><html lang="en" style="$variables"><head><meta charset="utf-8"><title>Output</title><style>
    body { margin: 0; padding: 0 24px; background: var(--vscode-editor-background); font: 13px system-ui; }
    .cell-output-ipywidget-background { background: white !important; }
    $css</style></head>
    <body class="$kind" data-vscode-theme-kind="$kind">
    <div id="container"><div class="output_container"><div class="cell-output-ipywidget-background"><div id="output">
    </div></div></div></div><script type="module">$script</script></body></html>"""
)
VSCODE_GROUNDS = {"light": "#fffffe", "dark": "#1f1f1e"}

# Colab makes the frame as high as its content whenever that changes.
_COLAB = Template(
    """<!DOCTYPE html><html lang="en" theme="$theme"><head><meta charset="utf-8"><title>Output</title><style>
    body { margin: 8px; }
    html[theme=dark] body { color: white; }
    $css</style></head>
    <body><div id="output-area"><div id="output"></div></div><script>
    const tell = () => parent.postMessage({ height: document.documentElement.offsetHeight }, "*");
    new ResizeObserver(tell).observe(document.documentElement);
    </script><script type="module">$script</script></body></html>"""
)
_FRAME = Template(
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Notebook</title><style>
    body { margin: 0; padding: 20px; }
    iframe { display: block; width: 100%; height: $height; border: 0; }</style></head>
    <body><h1>Notebook</h1><iframe title="Output" src="output.html"></iframe><script>
    window.heights = [];
    addEventListener("message", ({ data }) => {
      window.heights.push(data.height);
      document.querySelector("iframe").style.height = data.height + "px";
    });
    </script></body></html>"""
)
# The style sheet is inside the shadow tree, and the theme on the body outside.
_MARIMO = Template(
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>marimo</title><style>
    body { margin: 0; padding: 20px; background: $ground; }</style></head>
    <body class="$theme $theme-theme" data-theme="$theme">
    <main><h1>marimo</h1><marimo-anywidget></marimo-anywidget></main>
    <script type="module">
    const shadow = document.querySelector("marimo-anywidget").attachShadow({ mode: "open" });
    const style = document.createElement("style");
    style.textContent = $css;
    const place = document.createElement("div");
    place.id = "output";
    shadow.append(style, place);
    $script</script></body></html>"""
)
_PLAIN = Template(
    """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page</title><style>
    body { margin: 0; padding: 20px; background: $ground; color: gray; font: 13px system-ui; }
    $css</style></head>
    <body><main><h1>Page</h1><div id="output"></div></main><script type="module">$script</script></body></html>"""
)
GROUNDS = {"light": "#ffffff", "dark": "#181818"}


def write_host(folder: Path, host: Host, report: tp.Report, theme: str = "light") -> Path:
    """Write the page of a host with a report, and return the file to open."""
    bundle, css = built()
    place = "place" if host == "marimo" else 'document.getElementById("output")'
    page = report._forms.page
    script = _SCRIPT.substitute(
        header=_quoted(page.header),
        data=base64.b64encode(gzip.compress(page.data)).decode(),
        bundle=_quoted(bundle),
        place=place,
    )
    parts = {"script": script, "css": css, "theme": theme, "ground": GROUNDS[theme]}
    if host == "plain":
        return _written(folder / "page.html", _PLAIN.substitute(parts))
    if host == "marimo":
        return _written(folder / "page.html", _MARIMO.substitute(parts | {"css": _quoted(css)}))
    if host == "vscode":
        inside = _VSCODE.substitute(parts, kind=f"vscode-{theme}", variables=vscode_variables(theme))
        height = "90vh"
    else:
        inside = _COLAB.substitute(parts)
        height = "40px"
    _written(folder / "output.html", inside)
    return _written(folder / "page.html", _FRAME.substitute(height=height))


def vscode_variables(theme: str) -> str:
    """Return the style attribute that VS Code gives to the page of its outputs."""
    text = {"light": "#3b3b3b", "dark": "#cccccc"}[theme]
    return (
        f"--vscode-editor-background: {VSCODE_GROUNDS[theme]}; --vscode-editor-foreground: {text}; "
        "--vscode-font-family: system-ui; --vscode-editor-font-family: monospace;"
    )


def _quoted(text: str) -> str:
    return json.dumps(text).replace("<", "\\u003c")


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


class Kernel:
    """Answers the page as the widget does, unless it is ``silent``."""

    def __init__(self, report: tp.Report) -> None:
        self.report = report
        self.is_silent = False

    def answer(self, _source: Any, content: dict[str, Any]) -> dict[str, Any] | None:
        if self.is_silent:
            return None
        head = {"id": content["id"], "name": content["name"], "chunk": content["chunk"]}
        try:
            data = self._data(content)
        except TorchProfError as exc:
            return head | {"kind": "error", "message": str(exc)}
        chunks = max(1, -(-len(data) // CHUNK_BYTES))
        part = data[content["chunk"] * CHUNK_BYTES : (content["chunk"] + 1) * CHUNK_BYTES]
        return head | {"kind": "chunk", "chunks": chunks, "data": base64.b64encode(part).decode()}

    def _data(self, content: dict[str, Any]) -> bytes:
        page = self.report._forms.page
        if content.get("start_ns") is None:
            return page.pulled[content["name"]]()
        assert page.ranges is not None
        return page.ranges.encoded(content["name"], content["start_ns"], content["end_ns"])


class Hosted:
    """A report in the page of a host."""

    def __init__(self, page: Page, host: Host, kernel: Kernel) -> None:
        self.page = page
        self.kernel = kernel
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        self._is_framed = host in ("vscode", "colab")

    @property
    def frame(self) -> Frame:
        """The frame that the report is in: that of the output, or the page itself."""
        return self.page.frames[1] if self._is_framed else self.page.main_frame

    @property
    def report(self) -> Any:
        return self.frame.locator('.tp-report[data-tp-ready="true"]').first


@contextmanager
def hosted(
    browser: Browser,
    folder: Path,
    host: Host,
    report: tp.Report,
    theme: str = "light",
    **options: Any,
) -> Iterator[Hosted]:
    """Yield a report that a host shows; ``options`` are those of the browser's context."""
    context = browser.new_context(**({"viewport": {"width": 1100, "height": 900}, "color_scheme": "light"} | options))
    try:
        yield open_host(context, folder, host, report, theme)
    finally:
        context.close()


def open_host(context: BrowserContext, folder: Path, host: Host, report: tp.Report, theme: str = "light") -> Hosted:
    """Open a page of the context with a report in the page of a host."""
    page = context.new_page()
    kernel = Kernel(report)
    page.expose_binding("askKernel", kernel.answer)
    shown = Hosted(page, host, kernel)
    page.goto(write_host(folder, host, report, theme).as_uri())
    shown.report.wait_for()
    return shown


def escaped(text: str) -> str:
    """Return a text for an attribute of HTML."""
    return html.escape(text, quote=True)
