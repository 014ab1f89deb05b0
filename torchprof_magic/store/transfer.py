"""A single file on its way to a remote folder, and the check that it arrived.

Where the remote side can rename, the file is sent under a temporary name, compared, and renamed. Object stores show a
file only when it is complete, and rename by copying, so there it is sent under its final name.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from torchprof_magic.model.errors import StoreError
from torchprof_magic.system.files.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fsspec import AbstractFileSystem

BLOCK_BYTES = 4 << 20
INSTALL = "uploading needs fsspec; install it with `pip install torchprof-magic[remote]`"
S3 = frozenset({"s3", "s3a"})
# HTTP cannot rename.
DIRECT = S3 | {"gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "hf", "http", "https"}


class HopelessError(StoreError):
    """An upload failed in a way that another attempt cannot change."""


class DamagedUploadError(StoreError):
    """The remote file differs from the local one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The size and the checksums of a file."""

    size_bytes: int
    sha256: str
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A file to be sent. ``token`` is part of its temporary name, so that a later process finds that again.

    ``is_started`` means that a remote file of this name may be an incomplete one of ours.
    """

    path: Path
    url: str
    token: str
    overwrite: bool
    is_started: bool


def destination(remote: str, name: str) -> str:
    """Return the URL of a file in a remote folder; a query, as in signed URLs, stays at the end."""
    at = min((found for mark in "?#" if (found := remote.find(mark)) >= 0), default=len(remote))
    shown = quote(name) if remote.startswith(("http://", "https://")) else name
    return f"{remote[:at].rstrip('/')}/{shown}{remote[at:]}"


def check_remote(remote: str) -> str:
    """Return the URL of a folder that files can be sent to; raises ``StoreError`` before anything is sent."""
    if not is_url(remote) or "::" in remote or "\0" in remote:
        raise StoreError("--remote must be the URL of a folder, such as s3://bucket/traces")
    try:
        import fsspec  # noqa: PLC0415 - optional: most traces stay on this machine
    except ImportError as exc:
        raise StoreError(INSTALL) from exc
    protocol = remote.partition("://")[0]
    try:
        fsspec.get_filesystem_class(protocol)
    except ValueError as exc:
        raise StoreError(f"--remote: fsspec does not support {protocol}:// URLs") from exc
    except ImportError as exc:
        raise StoreError(f"--remote: {protocol}:// needs another package ({exc})") from exc
    return remote


def deliver(delivery: Delivery, begin: Callable[[], None]) -> None:
    """Send a file and compare what arrived. ``begin`` is called before the first byte is sent.

    Raises ``HopelessError`` when another attempt cannot help, and whatever the file system raises.
    """
    try:
        local = _fingerprint(delivery.path)
    except OSError as exc:
        raise HopelessError(f"the local file cannot be read ({exc.strerror or exc})") from exc
    from fsspec.core import url_to_fs  # noqa: PLC0415 - optional: most traces stay on this machine

    system, place = url_to_fs(delivery.url)
    there = _holds(system, place, local)
    if there is True:
        return
    if there is False and not (delivery.overwrite or delivery.is_started):
        raise HopelessError("another file of this name exists there; rename one of them, or use --overwrite")
    begin()
    if _is_direct(system) or not _sent_and_renamed(system, place, delivery, local, is_taken=there is False):
        _send(system, delivery.path, place)
        _compare(system, place, local)


def _fingerprint(path: Path) -> Fingerprint:
    """Read a local file; a link is not followed."""
    sha, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    size_bytes = 0
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            sha.update(block)
            md5.update(block)
            size_bytes += len(block)
    return Fingerprint(size_bytes=size_bytes, sha256=sha.hexdigest(), md5=md5.hexdigest())


def _is_direct(system: AbstractFileSystem) -> bool:
    """Return whether a file is sent under its final name, because this file system cannot rename, or not cheaply."""
    from fsspec import AbstractFileSystem as Base  # noqa: PLC0415 - optional: most traces stay on this machine

    can_rename = type(system).mv is not Base.mv or type(system).cp_file is not Base.cp_file or system.async_impl
    return bool(_protocols(system) & DIRECT) or not can_rename


def _protocols(system: AbstractFileSystem) -> frozenset[str]:
    return frozenset((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def _holds(system: AbstractFileSystem, place: str, local: Fingerprint) -> bool | None:
    """Return whether the remote file has the same content, or ``None`` when there is none."""
    system.invalidate_cache()  # the listing may be from before the upload
    try:
        info = system.info(place)
    except FileNotFoundError:
        return None
    size_bytes = info.get("size")
    if size_bytes is not None and size_bytes != local.size_bytes:
        return False
    return local.md5 in _checksums(system, info) or _remote_digest(system, place) == local.sha256


def _checksums(system: AbstractFileSystem, info: Mapping[str, Any]) -> set[str]:
    """Return the MD5 sums that the object store itself reports.

    S3's ETag is an MD5 sum only for some files: it can prove that the content is right, but never that it is wrong.
    """
    found = set()
    if _protocols(system) & S3:
        found.add(str(info.get("ETag", "")).strip('"').lower())
    with contextlib.suppress(ValueError, TypeError):
        found.add(base64.b64decode(info.get("md5Hash", ""), validate=True).hex())
    return found


def _remote_digest(system: AbstractFileSystem, place: str) -> str:
    sha = hashlib.sha256()
    with system.open(place, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            sha.update(block)
    return sha.hexdigest()


def _send(system: AbstractFileSystem, path: Path, place: str) -> None:
    try:
        system.put_file(str(path), place)
    except NotImplementedError as exc:
        raise HopelessError("this kind of URL is read-only") from exc


def _compare(system: AbstractFileSystem, place: str, local: Fingerprint) -> None:
    if not _holds(system, place, local):
        raise DamagedUploadError("the remote file differs from what was sent")


def _sent_and_renamed(
    system: AbstractFileSystem, place: str, delivery: Delivery, local: Fingerprint, *, is_taken: bool
) -> bool:
    """Send under a temporary name and rename; return ``False`` when this file system cannot rename."""
    folder, slash, name = place.rpartition("/")
    part = f"{folder}{slash}.{name}.{delivery.token}.part"
    with contextlib.suppress(Exception):
        system.makedirs(folder, exist_ok=True)
    try:
        _send(system, delivery.path, part)
        _compare(system, part, local)
        _rename(system, part, place, is_taken=is_taken)
        _compare(system, place, local)  # a rename may be a copy, and that can fail too
    except NotImplementedError:
        return False
    else:
        return True
    finally:
        with contextlib.suppress(Exception):  # a later attempt uses the same name, so nothing piles up
            system.rm_file(part)


def _rename(system: AbstractFileSystem, part: str, place: str, *, is_taken: bool) -> None:
    from fsspec import AbstractFileSystem as Base  # noqa: PLC0415 - optional: most traces stay on this machine

    if type(system).mv is Base.mv:  # it would take special characters in the name for a pattern
        system.cp_file(part, place)
        return
    try:
        system.mv(part, place)
    except OSError:
        if not is_taken:
            raise
        system.rm_file(place)  # some file systems rename only to a free name
        system.mv(part, place)
