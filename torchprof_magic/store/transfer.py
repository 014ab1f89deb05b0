"""How does one file get somewhere else, and how is it known to have arrived?

Where the other side can rename, the file is written under another name, compared, and renamed. Object stores show a
file only when all of it is there, and would copy it to rename it, so there it is written directly.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from torchprof_magic.errors import StoreError
from torchprof_magic.files.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

BLOCK_BYTES = 4 << 20
INSTALL = "uploading needs fsspec; install it with `pip install torchprof-magic[remote]`"
S3 = frozenset({"s3", "s3a"})
# Over HTTP a file has no second name to be written under.
DIRECT = S3 | {"gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "hf", "http", "https"}


class FileSystem(Protocol):
    """What is used of a file system of fsspec."""

    protocol: str | tuple[str, ...]

    def info(self, path: str) -> dict[str, Any]: ...  # noqa: D102
    def open(self, path: str, mode: str) -> Any: ...  # noqa: D102
    def put_file(self, lpath: str, rpath: str) -> None: ...  # noqa: D102
    def mv(self, path1: str, path2: str) -> None: ...  # noqa: D102
    def makedirs(self, path: str, exist_ok: bool = False) -> None: ...  # noqa: D102
    def rm_file(self, path: str) -> None: ...  # noqa: D102
    def invalidate_cache(self, path: str | None = None) -> None: ...  # noqa: D102


class HopelessError(StoreError):
    """Trying again cannot help."""


class ArrivedBrokenError(StoreError):
    """What is there is not what was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What a file holds; ``stamp`` tells whether it was touched since."""

    size_bytes: int
    sha256: str
    md5: str
    stamp: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One file on its way. ``token`` is part of the temporary name, so that it is found again by a later process."""

    path: Path
    url: str
    token: str
    overwrite: bool
    is_started: bool


def destination(remote: str, name: str) -> str:
    """Return the address of a file in a remote folder; a query, as in signed addresses, stays at the end."""
    at = min((found for mark in "?#" if (found := remote.find(mark)) >= 0), default=len(remote))
    shown = quote(name) if remote.startswith(("http://", "https://")) else name
    return f"{remote[:at].rstrip('/')}/{shown}{remote[at:]}"


def check_remote(remote: str) -> str:
    """Return an address that files can be sent to, or raise ``StoreError`` before anything is sent."""
    if not is_url(remote) or "::" in remote or "\0" in remote:
        raise StoreError("--remote is the address of a folder, such as s3://bucket/traces")
    try:
        import fsspec  # noqa: PLC0415 - optional: most traces stay here
    except ImportError as exc:
        raise StoreError(INSTALL) from exc
    protocol = remote.partition("://")[0]
    try:
        fsspec.get_filesystem_class(protocol)
    except ValueError as exc:
        raise StoreError(f"fsspec knows no such kind of address as {protocol}://") from exc
    except ImportError as exc:
        raise StoreError(f"{protocol}:// needs another package ({exc})") from exc
    return remote


def fingerprint(path: Path) -> Fingerprint:
    """Read a file and return what it holds. A link is not followed."""
    sha, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    try:
        while block := os.read(handle, BLOCK_BYTES):
            sha.update(block)
            md5.update(block)
        found = os.fstat(handle)
    finally:
        os.close(handle)
    return Fingerprint(size_bytes=found.st_size, sha256=sha.hexdigest(), md5=md5.hexdigest(), stamp=_stamp(found))


def is_untouched(path: Path, local: Fingerprint) -> bool:
    """Return whether this is still the file that was read."""
    try:
        return _stamp(os.lstat(path)) == local.stamp
    except OSError:
        return False


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def has_arrived(url: str, options: Mapping[str, object], size_bytes: int, sha256: str) -> bool:
    """Return whether a file elsewhere has this content; for when the local one is gone."""
    system, place = _system(url, options)
    return _holds(system, place, Fingerprint(size_bytes=size_bytes, sha256=sha256, md5="", stamp=(0, 0, 0))) is True


def deliver(delivery: Delivery, options: Mapping[str, object], begin: Callable[[Fingerprint], None]) -> Fingerprint:
    """Send a file, compare what has come, and return what it held.

    ``begin`` is called before the first byte goes. Raises ``HopelessError`` when trying again cannot help, and whatever
    the file system raises.
    """
    try:
        local = fingerprint(delivery.path)
    except OSError as exc:
        raise HopelessError(f"the local file cannot be read ({exc.strerror or exc})") from exc
    system, place = _system(delivery.url, options)
    there = _holds(system, place, local)
    if there is True:
        return local
    if there is False and not (delivery.overwrite or delivery.is_started):
        raise HopelessError("another file of that name is there, and was left alone; rename one of them")
    begin(local)
    if _is_direct(system, place) or not _moved(system, place, delivery, local, is_taken=there is False):
        _send(system, delivery.path, place)
        _compare(system, place, local)
    return local


def _system(url: str, options: Mapping[str, object]) -> tuple[FileSystem, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - optional: most traces stay here

        system, place = url_to_fs(url, **options)
    except ImportError as exc:
        missing = exc.name if exc.name and exc.name != "fsspec" else ""
        raise HopelessError(f"this kind of address needs another package ({missing})" if missing else INSTALL) from exc
    except ValueError as exc:
        if str(exc).startswith("Protocol not known"):
            raise HopelessError("fsspec knows no such kind of address") from exc
        raise
    return system, place


def _is_direct(system: FileSystem, place: str) -> bool:
    return bool(_protocols(system) & DIRECT) or not _can_rename(system) or _is_pattern(system, place)


def _is_pattern(system: FileSystem, place: str) -> bool:
    """Return whether fsspec's own way to rename would take this name for a pattern, and rename something else."""
    from fsspec import AbstractFileSystem  # noqa: PLC0415 - optional: most traces stay here

    return getattr(type(system), "mv", None) is AbstractFileSystem.mv and bool(set(place) & set("*?["))


def _can_rename(system: FileSystem) -> bool:
    """Return whether the class says how to rename, or how to copy, of which fsspec makes a rename."""
    from fsspec import AbstractFileSystem  # noqa: PLC0415 - optional: most traces stay here
    from fsspec.asyn import AsyncFileSystem  # noqa: PLC0415

    base = AsyncFileSystem if isinstance(system, AsyncFileSystem) else AbstractFileSystem
    names = ("mv", "copy", "cp_file", "_copy", "_cp_file")
    return any(getattr(type(system), name, None) is not getattr(base, name, None) for name in names)


def _protocols(system: FileSystem) -> frozenset[str]:
    return frozenset((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def _holds(system: FileSystem, place: str, local: Fingerprint) -> bool | None:
    """Return whether the remote file has the same size and content, or ``None`` when there is none."""
    system.invalidate_cache()  # what was known of the folder is from before the upload
    try:
        info = system.info(place)
    except FileNotFoundError:
        return None
    size_bytes = info.get("size")
    if size_bytes is not None and size_bytes != local.size_bytes:
        return False
    if local.md5 and local.md5 in _checksums(system, info):
        return True
    return _remote_digest(system, place) == local.sha256


def _checksums(system: FileSystem, info: Mapping[str, Any]) -> set[str]:
    """Return the MD5 sums that the store computed itself, if it says any.

    S3's ETag is one only for some files, so it can prove that the content is right but never that it is wrong.
    """
    found = set()
    if _protocols(system) & S3:
        found.add(str(info.get("ETag", "")).strip('"').lower())
    with contextlib.suppress(ValueError, TypeError):
        found.add(base64.b64decode(info.get("md5Hash", ""), validate=True).hex())
    return found


def _remote_digest(system: FileSystem, place: str) -> str:
    sha = hashlib.sha256()
    with system.open(place, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            sha.update(block)
    return sha.hexdigest()


def _send(system: FileSystem, path: Path, place: str) -> None:
    try:
        system.put_file(str(path), place)
    except NotImplementedError as exc:
        raise HopelessError("files cannot be written to this kind of address") from exc


def _compare(system: FileSystem, place: str, local: Fingerprint) -> None:
    if not _holds(system, place, local):
        raise ArrivedBrokenError("what arrived is not what was sent")


def _moved(system: FileSystem, place: str, delivery: Delivery, local: Fingerprint, *, is_taken: bool) -> bool:
    """Send under another name and rename; return ``False`` when this kind of place knows no renaming."""
    folder, slash, name = place.rpartition("/")
    part = f"{folder}{slash}.{name}.{delivery.token}.part"
    with contextlib.suppress(Exception):
        system.makedirs(folder, exist_ok=True)
    try:
        _send(system, delivery.path, part)
        _compare(system, part, local)
        _rename(system, part, place, is_taken=is_taken)
        _compare(system, place, local)  # a rename that is a copy can go wrong too
    except NotImplementedError:
        return False
    else:
        return True
    finally:
        _clean(system, part)


def _rename(system: FileSystem, part: str, place: str, *, is_taken: bool) -> None:
    try:
        system.mv(part, place)
    except OSError:
        if not is_taken:
            raise
        system.rm_file(place)  # some places rename only to a name that is free
        system.mv(part, place)


def _clean(system: FileSystem, part: str) -> None:
    """Delete what is left under the other name; a later attempt uses the same name, so nothing piles up."""
    with contextlib.suppress(Exception):
        system.rm_file(part)
