"""Uploads to an S3 server, where the packages for one are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchprof_magic.store import upload
from torchprof_magic.store.upload import Uploads, UploadStatus

s3fs = pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")
SECRET = "hunter2-of-s3"  # noqa: S105 - the point is that it shows nowhere
SMALL, LARGE = b"small " * 1000, b"large " * 2_000_000
PATIENCE_SECONDS = 120.0
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the file system with a bucket, to which the environment has address and credentials."""
    found = {"AWS_ACCESS_KEY_ID": "ann", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": server}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(upload, "FIRST_PAUSE_SECONDS", 0.0)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.makedirs("bucket", exist_ok=True)
    return system


def sent(path: Path, remote: str) -> UploadStatus:
    uploads = Uploads(remote)
    uploads.submit(path)
    return settled(uploads)


def settled(uploads: Uploads) -> UploadStatus:
    with uploads._changed:
        done = lambda: uploads.statuses()[0].state in ("done", "failed")  # noqa: E731
        assert uploads._changed.wait_for(done, PATIENCE_SECONDS)
    return uploads.statuses()[0]


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_a_file_arrives_in_a_bucket(tmp_path: Path, bucket: Any, content: bytes) -> None:
    path = tmp_path / f"{len(content)}.json"
    path.write_bytes(content)
    status = sent(path, "s3://bucket/runs")
    assert status.state == "done", status
    assert bucket.cat_file(f"bucket/runs/{path.name}") == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_bucket_is_not_created_and_no_secret_is_shown(tmp_path: Path, bucket: Any) -> None:
    path = tmp_path / "0.json"
    path.write_bytes(SMALL)
    status = sent(path, "s3://nowhere/runs")
    assert status.state == "failed"
    assert not bucket.exists("nowhere")
    assert SECRET not in str(status) + "".join(file.read_text() for file in tmp_path.glob(".torchprof*"))


def test_the_next_kernel_continues_once_the_bucket_exists(tmp_path: Path, bucket: Any) -> None:
    path = tmp_path / "later.json"
    path.write_bytes(SMALL)
    first = Uploads("s3://later/runs")
    first.submit(path)
    assert settled(first).state == "failed"
    for job in first._jobs.values():
        job.drop()
    bucket.mkdir("later")
    later = Uploads("s3://later/runs")
    later.resume(tmp_path)
    assert later.retry() == 1
    assert settled(later).state == "done"
    assert bucket.cat_file("later/runs/later.json") == SMALL
