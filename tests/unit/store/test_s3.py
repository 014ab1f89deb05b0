"""The same against a whole S3, where there is one to be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from torchprof_magic.store.upload import Uploads, UploadStatus, resume

s3fs = pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")
SECRET = "hunter2-of-s3"  # noqa: S105 - the point is that it shows nowhere
SMALL, LARGE = b"small " * 1000, b"large " * 2_000_000
PATIENCE_SECONDS = 120.0
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, object]]:
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    found = {"key": "ann", "secret": SECRET, "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    s3fs.S3FileSystem(**found).mkdir("bucket")
    yield found
    server.stop()


def sent(path: Path, remote: str, options: dict[str, object], *, attempts: int = 2) -> UploadStatus:
    uploads = Uploads(remote, options=options, delete_local=True, attempts=attempts, pause=lambda _: 0.0)
    uploads.submit(path)
    assert uploads.wait(PATIENCE_SECONDS)
    uploads.close()
    return uploads.statuses()[0]


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_a_file_arrives_in_a_bucket(tmp_path: Path, options: dict[str, object], content: bytes) -> None:
    path = tmp_path / f"{len(content)}.json"
    path.write_bytes(content)
    status = sent(path, "s3://bucket/runs", options)
    assert status.state == "done", status
    assert s3fs.S3FileSystem(**options).cat_file(f"bucket/runs/{path.name}") == content
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_is_not_there_is_not_made_and_the_secret_not_shown(
    tmp_path: Path, options: dict[str, object]
) -> None:
    path = tmp_path / "0.json"
    path.write_bytes(SMALL)
    status = sent(path, "s3://nowhere/runs", options)
    assert status.state == "failed"
    assert path.read_bytes() == SMALL
    assert not s3fs.S3FileSystem(**options).exists("nowhere")
    assert SECRET not in str(status) + "".join(file.read_text() for file in tmp_path.glob(".torchprof*"))


def test_the_next_kernel_goes_on_once_it_has_the_credentials(tmp_path: Path, options: dict[str, object]) -> None:
    path = tmp_path / "later.json"
    path.write_bytes(SMALL)
    wrong = {**options, "client_kwargs": {"endpoint_url": "http://127.0.0.1:1"}, "config_kwargs": {"retries": {}}}
    assert sent(path, "s3://bucket/runs", wrong, attempts=1).state == "failed"
    later = resume(tmp_path, "s3://bucket/runs", options=options)
    assert later.retry() == 1
    assert later.wait(PATIENCE_SECONDS)
    later.close()
    assert later.statuses()[0].state == "done"
    assert s3fs.S3FileSystem(**options).cat_file("bucket/runs/later.json") == SMALL
