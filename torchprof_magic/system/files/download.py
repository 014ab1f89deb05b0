"""Copies a file behind a URL to a local one, within limits of bytes and time."""

from __future__ import annotations

import errno
import stat
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchprof_magic.model.errors import IngestError, NotATraceError
from torchprof_magic.model.units import format_count, format_file_size
from torchprof_magic.system.files.free_space import free_bytes
from torchprof_magic.system.files.urls import local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchprof_magic.system.files.place import Place

    Progress = Callable[[int, int], None]

BLOCK_BYTES = 4 << 20
# An answer that does not say its size may have no end.
MAX_UNKNOWN_BYTES = 4 << 30
# In any period of this length at least so much must arrive. File systems that copy the whole file first take longer.
GRACE_S = 300.0
CHAINED_GRACE_S = 3600.0
LEAST_BYTES_PER_S = 1_000
_LOOK_S = 0.1
_MAX_CAUSES = 8
_DENIED = (401, 403, 407)
_MISSING = (404, 410)
_INSTALL = "install it with `pip install 'torchprof-magic[remote]'`"


@contextmanager
def fetched(place: Place, progress: Progress | None = None) -> Iterator[Path]:
    """Download a file and yield its path; it is deleted when the block ends.

    ``progress`` is called with the bytes received and the size of the file. Raises ``IngestError`` without any part of
    the URL that may be secret.
    """
    _check_origin(place)
    with tempfile.TemporaryDirectory(prefix="torchprof-fetch-", ignore_cleanup_errors=True) as folder:
        target = Path(folder) / "trace"
        failure = _fetch(place.text, target, progress)
        # Not raised in an except block: message and traceback of the original exception hold the URL.
        if failure:
            raise IngestError(f"{place.shown}: {failure}")
        yield target


def _check_origin(place: Place) -> None:
    """Refuse a device or pipe, of which reading may have no end, also at the end of a chain of file systems."""
    path = local_path(place.text.rpartition("::")[2])
    try:
        is_endless = path is not None and path.exists() and not stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return
    if is_endless:
        raise NotATraceError(f"{place.shown}: this is a device or pipe, not a file")


@dataclass(slots=True)
class _Transfer:
    """A download under way: the thread that does it writes here, and looks whether it is still wanted."""

    size: int | None = None
    received: int = 0
    failure: str = ""
    is_cancelled: bool = False
    done: threading.Event = field(default_factory=threading.Event)


def _fetch(url: str, target: Path, progress: Progress | None) -> str:
    """Download the file and return what failed, or an empty text.

    The work is done in a thread, because a file system can wait for ever in a call that nothing can interrupt.
    """
    transfer = _Transfer()
    threading.Thread(target=_copy, args=(url, target, transfer), name="torchprof-download", daemon=True).start()
    try:
        return _watch(transfer, CHAINED_GRACE_S if "::" in url else GRACE_S, progress)
    finally:
        transfer.is_cancelled = True


def _watch(transfer: _Transfer, grace_s: float, progress: Progress | None) -> str:
    since_s, before, reported = time.monotonic(), 0, -1
    is_done = False
    while not is_done:
        is_done = transfer.done.wait(_LOOK_S)
        received, now_s = transfer.received, time.monotonic()
        if progress is not None and received != reported:
            progress(received, transfer.size or 0)
            reported = received
        if received - before >= LEAST_BYTES_PER_S * grace_s:
            since_s, before = now_s, received
        elif not is_done and now_s - since_s > grace_s:
            return (
                f"the server is too slow ({format_file_size(received - before)} in {now_s - since_s:.0f} s); try "
                f"again later"
            )
    return transfer.failure


def _copy(url: str, target: Path, transfer: _Transfer) -> None:
    try:
        transfer.failure = _copied(url, target, transfer)
    except ImportError as exc:
        missing = exc.name or exc
        transfer.failure = f"this kind of URL needs another package ({missing}); {_INSTALL}, or install that package"
    except Exception as exc:  # noqa: BLE001 - every file system raises its own errors, and their messages hold the URL
        transfer.failure = _reason(exc)
    finally:
        transfer.done.set()


def _copied(url: str, target: Path, transfer: _Transfer) -> str:
    """Copy block by block and return what is wrong, or an empty text."""
    try:
        import fsspec  # noqa: PLC0415 - optional: most traces are local
    except ImportError:
        return f"opening a URL needs fsspec; {_INSTALL}"
    with fsspec.open(url, "rb") as remote, target.open("wb") as local:
        size = getattr(remote, "size", None)
        transfer.size = size if isinstance(size, int) else None
        free = free_bytes(target.parent)
        if transfer.size is not None and free is not None and transfer.size > free:
            whole, room = format_file_size(transfer.size), format_file_size(free)
            return f"the file has {whole}, and {target.parent.parent} has {room} free"
        most = MAX_UNKNOWN_BYTES if transfer.size is None else transfer.size
        most = most if free is None else min(most, free)
        while not transfer.is_cancelled and (block := remote.read(BLOCK_BYTES)):
            if transfer.received + len(block) > most:
                return (
                    f"the download did not end after {format_file_size(most)}; download it yourself, and load that file"
                )
            local.write(block)
            transfer.received += len(block)
    if transfer.size is not None and transfer.size != transfer.received:
        return (
            f"the download is incomplete ({format_count(transfer.received)} of {format_count(transfer.size)} "
            f"bytes); try again"
        )
    return ""


def _reason(exc: BaseException) -> str:
    """Return what failed. File systems tell a missing file when anything went wrong, and hide the rest in its cause."""
    causes = [exc]
    while (cause := causes[-1].__cause__) is not None and len(causes) < _MAX_CAUSES:
        causes.append(cause)
    statuses = [status for one in causes if isinstance(status := getattr(one, "status", None), int)]
    denied = [f" (HTTP {status})" for status in statuses if status in _DENIED]
    failed = [f"HTTP {status}" for status in statuses if status not in _MISSING]
    kinds = " ".join(type(one).__name__ for one in causes)
    is_denied = bool(denied) or any(isinstance(one, PermissionError) for one in causes)
    is_full = any(getattr(one, "errno", None) == errno.ENOSPC for one in causes)
    is_unknown = isinstance(exc, ValueError) and str(exc).startswith("Protocol not known")
    is_missing = isinstance(exc, FileNotFoundError) and not failed and "Connect" not in kinds
    reasons = (
        (is_denied, f"access was denied{denied[0] if denied else ''}; check the credentials"),
        ("TooManyRedirects" in kinds, "the server redirects in a circle; check the URL"),
        (any(isinstance(one, TimeoutError) for one in causes), "the server did not answer in time; try again"),
        (is_full, f"no space is left in {tempfile.gettempdir()}; free some, or set TMPDIR"),
        (is_unknown, "fsspec does not support this kind of URL"),
        (is_missing, "file not found"),
    )
    detail = failed[0] if failed else type(causes[-1]).__name__
    other = f"the download failed ({detail}); check the URL and the connection"
    return next((reason for is_so, reason in reasons if is_so), other)
