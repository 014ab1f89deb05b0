"""More than 500 hostile texts through everything that is written without a browser: text, figures, HTML and files."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from amount import sampled, thorough
from hostile.recordings import encodable, report_about, report_of, report_with_call_stacks
from hostile.texts import FAMILIES, TEXTS, in_parts, sample
from matplotlib.text import Text
from polars.testing import assert_frame_equal

import torchprof_magic as tp
from torchprof_magic.exporters.collapsed import METRICS
from torchprof_magic.ingest.chrome.metadata import MAX_FACTS
from torchprof_magic.model.meta import MAX_MESSAGE_CHARS, MAX_TEXT, shortened
from torchprof_magic.model.units import printable
from torchprof_magic.render.figures import TOP_OPS, to_png
from torchprof_magic.render.static_html import NAME_CHARS
from torchprof_magic.report.trace_report import Report
from torchprof_magic.report.views import TABLES

FORMULA = re.compile(r"[=+\-@\t\r\n\0\uff1d\uff0b\uff0d\uff20]")
STEP = "ProfilerStep#1"  # a range of this name is a step
VIEWS = ("steps", "ops", "flame", "memory")


@pytest.fixture(
    scope="module",
    params=[report_of, pytest.param(report_with_call_stacks, marks=thorough)],
    ids=["frames", "call stacks"],
)
def report(request: pytest.FixtureRequest) -> Report:
    return request.param(TEXTS)


@pytest.fixture(scope="module")
def abouts() -> list[Report]:
    return [report_about(text) for text in sample(1)]


def names_of(report: Report) -> set[str]:
    return set(report.events["name"].cast(str))


def test_there_are_500_texts_of_many_kinds() -> None:
    assert len(TEXTS) >= 500
    assert all(set(family()) & set(sample(2)) for family in FAMILIES)


def test_every_text_is_in_every_field_that_a_file_names(report: Report) -> None:
    # Unpaired surrogates are replaced, and long texts are cut.
    texts = {text for text in TEXTS if encodable(text) == text} - {STEP}
    short = {text for text in texts if len(text) < MAX_TEXT - len("thread ")}
    events = report.events.with_columns(report.events["name"].cast(str))
    for category in ("cpu_op", "user_annotation", "runtime", "kernel", "memcpy", "gpu_user_annotation", "overhead"):
        assert texts - set(events.filter(events["category"] == category)["name"]) == set(), category
    assert short - set(report.lanes["name"]) == set()
    assert len(report.metadata) == MAX_FACTS
    assert len(texts & set(report.stacks["function"].cast(str))) > 450


def test_the_summary_is_one_screen_of_printable_text(report: Report, abouts: list[Report]) -> None:
    for each in (report, *sampled(abouts, 6)):
        summary = each.summary()
        assert all(line.isprintable() for line in summary.split("\n"))
        # Two texts of a problem, which are bounded, are the longest.
        assert all(len(line) < 2 * MAX_MESSAGE_CHARS + 100 for line in summary.split("\n"))
        assert printable(repr(each)) == repr(each)
        json.loads(each.summary("json")).keys()


@pytest.mark.parametrize("view", sampled(VIEWS, 2))
def test_figures_show_every_text_without_reading_it_as_mathematics(view: str) -> None:
    for part in in_parts(sample(1), TOP_OPS):
        figure = report_of(part).figure(view)
        assert to_png(figure).startswith(b"\x89PNG")
        assert all(text.get_text().isprintable() and not text.get_usetex() for text in figure.findobj(Text))


class Elements(HTMLParser):
    """Collects the elements, attributes and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.names: list[str] = []
        self._in_name = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "bdi":
            self._in_name = True
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_name = self._in_name and tag != "bdi"

    def handle_data(self, data: str) -> None:
        if self._in_name:
            self.names[-1] += data


TAGS = {
    "details",
    "summary",
    "b",
    "p",
    "br",
    "small",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "bdi",
    "code",
    "img",
}
TAGS |= {"pre", "style"}  # the source line of the verdict; the rule that hides JupyterLab's error above the copy
ATTRIBUTES = {"open", "data-tp-static", "class", "style", "alt", "src", "align", "cellpadding", "colspan", "scope"}


def test_the_static_copy_has_its_own_elements_only_and_the_names_as_text(abouts: list[Report]) -> None:
    parts = in_parts(sample(1), 8)
    reports = [*map(report_of, parts), *abouts[::6]]
    pages = []
    for report in reports:
        page = Elements()
        page.feed(report._repr_html_())
        page.close()
        assert page.tags <= TAGS
        assert page.attributes <= ATTRIBUTES
        pages.append(page)
    for part, page in zip(parts, pages, strict=False):
        shown = {printable(shortened(text, NAME_CHARS)) for text in part if encodable(text) == text} - {STEP}
        assert shown <= set(page.names)


def test_names_in_the_static_copy_are_not_typeset_as_mathematics() -> None:
    opening = re.search(r"<details[^>]*>", report_of(("$x$",))._repr_html_())
    assert opening
    assert 'class="mathjax_ignore tex2jax_ignore"' in opening[0]


def test_a_chrome_trace_reads_back_with_the_same_names(report: Report, tmp_path: Path) -> None:
    again = tp.load(report.export(tmp_path / "trace.json.gz"))
    assert names_of(again) == names_of(report)
    assert set(again.kernels.select("name", "calls").rows()) == set(report.kernels.select("name", "calls").rows())
    assert again.metadata == report.metadata


def test_a_speedscope_file_has_every_name_once(report: Report, tmp_path: Path) -> None:
    written = json.loads(report.export(tmp_path / "a.speedscope.json").read_text("utf-8"))
    assert sorted(frame["name"] for frame in written["shared"]["frames"]) == sorted(names_of(report))


@pytest.mark.parametrize("metric", METRICS)
def test_collapsed_stacks_are_one_line_each(report: Report, tmp_path: Path, metric: str) -> None:
    text = report.export(tmp_path / "a.collapsed", metric=metric).read_bytes().decode("utf-8")
    lines = text.split("\n")[:-1]
    assert lines == text.splitlines()
    assert all(re.fullmatch(r"[^ ]+ \d+", line) for line in lines)


@pytest.mark.parametrize("table", TABLES)
def test_no_cell_of_a_csv_file_is_a_formula_and_every_cell_reads_back(
    report: Report, tmp_path: Path, table: str
) -> None:
    path = report.export(tmp_path / "a.csv", table=table)
    frame = report._tables.flat(table)
    heads, *rows = csv.reader(io.StringIO(path.read_bytes().decode("utf-8"), newline=""))
    assert len(rows) == frame.height
    for at, head in enumerate(heads):
        cells = [row[at] for row in rows]
        if frame[head].dtype in (pl.String, pl.Categorical, pl.Enum):
            assert not [cell for cell in cells if FORMULA.match(cell)]
            texts = frame[head].cast(str).fill_null("").to_list()
            assert [cell.removeprefix("'") for cell in cells] == [text.removeprefix("'") for text in texts]


def test_a_saved_run_reads_back_exactly(report: Report, abouts: list[Report], tmp_path: Path) -> None:
    for each in (report, *sampled(abouts, 6)):
        again = tp.load(each.save(tmp_path / "run.torchprof"))
        assert_frame_equal(again.events, each.events)
        assert_frame_equal(again.trace.sites, each.trace.sites)
        assert again.trace.meta == each.trace.meta
        assert again.problems == each.problems


def test_the_page_of_every_text_is_json_that_any_reader_takes(abouts: list[Report]) -> None:
    for report in abouts:
        header = json.loads(report._forms.page.header, parse_constant=pytest.fail)
        header["title"].encode()
        assert header["title"] == report.trace.meta.title


def test_a_file_can_have_any_name_that_its_system_allows(tmp_path: Path) -> None:
    source = report_of(TEXTS[:2]).export(tmp_path / "trace.json").read_bytes()
    for text in sampled(sample(1), 2):
        name = (
            os.fsencode(text.replace("/", "").replace("\0", "")[:60].encode("utf-8", "replace").decode()) + b"\xff.json"
        )
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        path.write_bytes(source)
        report = tp.load(path)
        report.trace.meta.title.encode()
        assert report.summary().split("\n")[0].isprintable()
        assert tp.load(report.save(tmp_path / "a.torchprof")).trace.meta.title == report.trace.meta.title
    report.to_html(tmp_path / "a.html").read_text("utf-8")


def test_a_memory_snapshot_names_its_places_in_printable_text(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    for text in sample(1):
        frames = [{"filename": text, "line": 3, "name": text}]
        oom = {"action": "oom", "size": 9, "stream": 0, "time_us": 5, "device_free": 1, "frames": frames}
        block = {"size": 512, "requested_size": 512, "address": 0, "state": "active_allocated", "frames": frames}
        held = {"device": 0, "address": 0, "total_size": 1024, "blocks": [block]}
        path.write_bytes(pickle.dumps({"segments": [held], "device_traces": [[oom]], text: text}))
        report = tp.load(path)
        assert report.problems
        assert all(problem.message.isprintable() for problem in report.problems)
        assert all(line.isprintable() for line in report.summary().split("\n"))
        json.loads(report._forms.page.header)
