"""Files behind URLs: a local copy that is complete, and texts that show no credentials."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from torchprof_magic.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[int, int], None]

BLOCK_BYTES = 4 << 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+")
_INSTALL = "install it with `pip install 'torchprof-magic[remote]'`"


def is_url(path: object) -> bool:
    """Return whether a path is a URL: ``s3://...``, ``https://...``, or any other scheme of fsspec."""
    if not isinstance(path, str) or "://" not in path:
        return False
    schemes = path.partition("://")[0].split("::")
    return all(_SCHEME.fullmatch(scheme) for scheme in schemes)


def public_url(url: str) -> str:
    """Return a URL without user, password, query and fragment, which may hold credentials."""
    return "::".join(_public_part(part) for part in url.split("::"))


def _public_part(part: str) -> str:
    try:
        found = urlsplit(part)
    except ValueError:
        return part.partition("://")[0] + "://..."
    if not found.netloc and "://" not in part:
        return found.path.partition("@")[0]
    return f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}"


def name_of(url: str) -> str:
    """Return the last part of a URL's path, as a title."""
    place = next(part for part in public_url(url).split("::") if "://" in part).partition("://")[2]
    return unquote(PurePosixPath(place).name)


@contextmanager
def fetched(url: str, progress: Progress | None = None) -> Iterator[Path]:
    """Download a file and yield its path; it is deleted when the block ends.

    ``progress`` is called with the bytes received and the size of the file. Raises ``IngestError`` without any part of
    the URL that may be secret.
    """
    with tempfile.TemporaryDirectory(prefix="torchprof-fetch-") as folder:
        target = Path(folder) / "trace"
        failure = _fetch(url, target, progress)
        # Not raised in an except block: message and traceback of the original exception hold the URL.
        if failure:
            raise IngestError(f"{public_url(url)}: {failure}")
        yield target


def _fetch(url: str, target: Path, progress: Progress | None) -> str:
    """Download the file and return what failed, or an empty text."""
    try:
        import fsspec  # noqa: PLC0415 - optional: most traces are local
    except ImportError:
        return f"opening a URL needs fsspec; {_INSTALL}"
    try:
        with fsspec.open(url, "rb") as remote, target.open("wb") as local:
            size = getattr(remote, "size", None)
            for block in iter(lambda: remote.read(BLOCK_BYTES), b""):
                local.write(block)
                if progress is not None:
                    progress(local.tell(), size or 0)
            received = local.tell()
    except ImportError as exc:
        return f"this kind of URL needs another package ({exc.name or exc}); {_INSTALL}, or install that package"
    except Exception as exc:  # noqa: BLE001 - every file system raises its own errors, and their messages hold the URL
        return _reason(exc)
    if isinstance(size, int) and size != received:
        return f"the download is incomplete ({received:,} of {size:,} bytes); try again"
    return ""


def _reason(exc: Exception) -> str:
    cause = exc.__cause__ or exc
    if isinstance(exc, FileNotFoundError) and not isinstance(cause, (ConnectionError, TimeoutError)):
        if "Connect" not in type(cause).__name__:
            return "file not found"
        exc = cause if isinstance(cause, Exception) else exc
    if isinstance(exc, PermissionError):
        return "access was denied; check the credentials"
    if isinstance(exc, TimeoutError):
        return "the server did not answer in time; try again"
    if isinstance(exc, ValueError) and str(exc).startswith("Protocol not known"):
        return "fsspec does not support this kind of URL"
    status = getattr(exc, "status", None)  # of an HTTP answer
    detail = f"HTTP {status}" if isinstance(status, int) else type(exc).__name__
    return f"the download failed ({detail}); check the URL and the connection"
