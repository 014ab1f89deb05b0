from __future__ import annotations

import functools
import http.server
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import chrome, span

from torchprof_magic.errors import IngestError
from torchprof_magic.files.urls import is_url, name_of, public_url
from torchprof_magic.loading import load
from torchprof_magic.report import Report

fsspec = pytest.importorskip("fsspec")
SECRET = "hunter2"  # noqa: S105 - the point of the tests is that it shows nowhere


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"127.0.0.1:{found.server_address[1]}"
        found.shutdown()
        thread.join()


@pytest.fixture
def stored() -> Iterator[str]:
    with fsspec.open("memory://runs/rank0.json", "wb") as file:
        file.write(chrome(span("aten::mm", 0, 5)))
    yield "memory://runs/rank0.json"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_trace_behind_a_url_is_read_and_its_copy_deleted(stored: str, temporary: Path) -> None:
    report = load(stored)
    assert report.events["name"].to_list() == ["aten::mm"]
    assert report.trace.meta.title == "rank0.json"
    assert report.trace_paths == ()
    assert list(temporary.iterdir()) == []


def test_a_saved_run_behind_a_url_is_recognized_by_its_content(tmp_path: Path, stored: str) -> None:
    saved = load(stored).save(tmp_path / "run")
    with fsspec.open("memory://runs/odd.name", "wb") as file:
        file.write(saved.read_bytes())
    assert load("memory://runs/odd.name").trace.meta.title == "rank0.json"


def test_progress_reports_the_bytes_received(stored: str) -> None:
    seen: list[tuple[int, int]] = []
    load(stored, progress=lambda done, total: seen.append((done, total)))
    size = len(chrome(span("aten::mm", 0, 5)))
    assert seen[-1] == (size, size)


def test_a_trace_from_a_web_server_is_read(server: str, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "rank 0.json").write_bytes(chrome(span("aten::mm", 0, 5)))
    report = load(f"http://user:{SECRET}@{server}/rank%200.json?token={SECRET}")
    assert report.events["name"].to_list() == ["aten::mm"]
    assert report.trace.meta.title == "rank 0.json"
    assert SECRET not in repr(report)
    assert SECRET not in report.summary()


def everything_said(exc: BaseException) -> str:
    return "".join(traceback.format_exception(exc)) + repr(exc.__context__)


def test_a_failed_request_names_the_status_and_no_secret(server: str, temporary: Path) -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(IngestError, match=r"/none\.json: file not found") as caught:
        load(f"http://user:{SECRET}@{server}/none.json?token={SECRET}")
    assert SECRET not in everything_said(caught.value)
    assert list(temporary.iterdir()) == []


def test_a_page_that_is_not_a_trace_is_refused_without_a_secret(temporary: Path) -> None:
    with fsspec.open(f"memory://{SECRET}@runs/page.html", "wb") as file:
        file.write(b"<html></html>")
    with pytest.raises(IngestError, match=r"memory://runs/page\.html: this is an HTML or XML page") as caught:
        load(f"memory://{SECRET}@runs/page.html")
    assert SECRET not in everything_said(caught.value)
    assert list(temporary.iterdir()) == []
    fsspec.filesystem("memory").store.clear()


def test_a_missing_file_and_an_unknown_kind_of_url_are_reported() -> None:
    with pytest.raises(IngestError, match=r"^memory://runs/none\.json: file not found$"):
        load("memory://runs/none.json")
    with pytest.raises(IngestError, match="fsspec does not support this kind of URL"):
        load("nowhere://runs/none.json")


def test_an_incomplete_download_is_not_read(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file_type = type(fsspec.filesystem("memory").open("/runs/rank0.json"))
    monkeypatch.setattr(file_type, "size", 1_000_000, raising=False)
    with pytest.raises(IngestError, match=r"the download is incomplete \(\d+ of 1,000,000 bytes\); try again"):
        load(stored)


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(IngestError, match=r"needs fsspec; .*pip install 'torchprof-magic\[remote\]'"):
        load(f"s3://key:{SECRET}@bucket/rank0.json")


def test_a_file_system_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "open", refuse)
    with pytest.raises(
        IngestError, match=r"s3://bucket/a\.json: .*Install s3fs to access S3.*torchprof-magic\[remote\]"
    ):
        load("s3://bucket/a.json")


@pytest.mark.parametrize(
    ("url", "public", "name"),
    [
        ("s3://bucket/runs/rank0.json", "s3://bucket/runs/rank0.json", "rank0.json"),
        (f"https://me:{SECRET}@host:81/a/b.json?sig={SECRET}#x", "https://host:81/a/b.json", "b.json"),
        (f"simplecache::s3://{SECRET}@bucket/a.json", "simplecache::s3://bucket/a.json", "a.json"),
        (f"zip://in.json::https://me:{SECRET}@host/a.zip", "zip://in.json::https://host/a.zip", "in.json"),
        (f"https://[broken{SECRET}", "https://...", "..."),
    ],
)
def test_only_the_public_part_of_a_url_is_shown(url: str, public: str, name: str) -> None:
    assert is_url(url)
    assert public_url(url) == public
    assert name_of(url) == name


@pytest.mark.parametrize(
    "path", ["trace.json", "/runs/a.json", "C:\\runs\\a.json", "C:/a", Path("s3://bucket/a.json"), ""]
)
def test_a_path_is_not_a_url(path: object) -> None:
    assert not is_url(path)


def test_a_report_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    (tmp_path / "a.json").write_bytes(chrome(span("aten::mm", 0, 5)))
    assert isinstance(load(tmp_path / "a.json"), Report)
