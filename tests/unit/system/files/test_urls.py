from __future__ import annotations

import functools
import http.server
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_server import Hostile
from support import chrome, span

from torchprof_magic.loading import load
from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.report.trace_report import Report
from torchprof_magic.system.files import download
from torchprof_magic.system.files.urls import is_url, name_of, public_url

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
def hostile() -> Iterator[str]:
    pytest.importorskip("aiohttp")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as found:
        found.daemon_threads = True
        found.block_on_close = False
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{found.server_address[1]}"
        found.shutdown()


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
        (f"https:///me:{SECRET}@host/a.json", "https://host/a.json", "a.json"),
        (f"https://me:{SECRET}/x@host/a.json", "https://host/a.json", "a.json"),
        (f"https://me:42{SECRET}/x@host/a.json", "https://host/a.json", "a.json"),
        (f"https://me:42/{SECRET}@host/a.json", "https://host/a.json", "a.json"),
        ("https://host/me@work/a.json", "https://host/me@work/a.json", "a.json"),
        (f"zip://in.json::me:{SECRET}@host/a.zip", "zip://in.json::host/a.zip", "in.json"),
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


@pytest.mark.parametrize(
    "url", ["file:///dev/zero", "local:///dev/zero", "simplecache::file:///dev/zero", "zip://a.json::/dev/zero"]
)
def test_a_device_behind_a_url_is_refused_as_behind_a_path(url: str) -> None:
    with pytest.raises(NotATraceError, match="this is a device or pipe, not a file"):
        load(url)


def test_a_pipe_behind_a_url_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotATraceError, match="this is a device or pipe, not a file"):
        load(f"file://{tmp_path}/pipe")


def test_a_file_behind_a_url_is_read_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    path = tmp_path / "rank 0.json"
    path.write_bytes(chrome(span("aten::mm", 0, 5)))
    for url in (f"file://{path}", f"file://{tmp_path}/rank%200.json", f"file://localhost{path}"):
        report = load(url)
        assert report.trace.meta.title == "rank 0.json"
        assert report.trace_paths == (path,)


def test_an_endless_answer_ends_at_the_limit_of_bytes(
    hostile: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_UNKNOWN_BYTES", 1 << 20)
    with pytest.raises(IngestError, match=r"/endless: the download did not end after 1(\.\d+)? MB"):
        load(f"http://{hostile}/endless")
    assert list(temporary.iterdir()) == []


def test_an_answer_that_trickles_ends_at_the_limit_of_time(
    hostile: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "GRACE_S", 0.5)
    with pytest.raises(IngestError, match=r"/drip: the server is too slow \([\d.]+ k?B in \d+ s\)"):
        load(f"http://{hostile}/drip")
    assert list(temporary.iterdir()) == []


def test_a_download_ends_at_once_when_it_is_interrupted(hostile: str, temporary: Path) -> None:
    threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        load(f"http://{hostile}/drip")
    assert time.monotonic() - began < 5
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("401", r"access was denied \(HTTP 401\); check the credentials"),
        ("403", r"access was denied \(HTTP 403\); check the credentials"),
        ("404", "file not found"),
        ("500", r"the download failed \(HTTP 500\)"),
        ("circle", "the server redirects in a circle; check the URL"),
    ],
)
def test_a_server_that_refuses_is_named_as_what_it_does(hostile: str, path: str, says: str) -> None:
    with pytest.raises(IngestError, match=says) as caught:
        load(f"http://me:{SECRET}@{hostile}/{path}?token={SECRET}")
    assert SECRET not in everything_said(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        f"https:/me:{SECRET}@host/a.json",
        Path(f"https://me:{SECRET}@host/a.json"),
        f"https:/host/a.json?token={SECRET}",
        f"https:me:{SECRET}@host/a.json",
        f"https:\\\\me:{SECRET}@host\\a.json",
        f"//me:{SECRET}@host/a.json",
        f"me:{SECRET}@host/a.json",
        f"s3:/me:{SECRET}/x@bucket/a.json",
        f" https://me:{SECRET}@host/a.json",
        f"https ://me:{SECRET}@host/a.json",
    ],
)
def test_a_path_that_looks_like_a_url_is_not_repeated_with_its_secrets(path: str | Path) -> None:
    with pytest.raises(IngestError, match=r"a\.json: no such file") as caught:
        load(path)
    assert SECRET not in everything_said(caught.value)


def test_an_unknown_home_directory_is_an_error_of_ours() -> None:
    with pytest.raises(IngestError, match="cannot resolve this home directory"):
        load("~nobody-has-this-name/a.json")
