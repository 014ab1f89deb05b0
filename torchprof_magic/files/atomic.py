"""How does a file appear whole or not at all?"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import IO, TYPE_CHECKING

from isal import igzip

from torchprof_magic.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GZIP_LEVEL = 2  # of 0-3: within a few percent of the smallest file, at several times the speed of zlib


def target_of(path: str | os.PathLike[str]) -> Path:
    """Return where to write, with ``~`` for the home folder.

    Raises ``ExportError`` for what can be no name of a file.
    """
    try:
        target = Path(path).expanduser()
    except (TypeError, RuntimeError) as exc:
        raise ExportError(f"{path!r}: this is no name of a file ({exc})") from exc
    if "\0" in str(target) or not target.name:
        raise ExportError(f"{path!r}: this is no name of a file")
    return target


def write_text(path: Path, pieces: Iterable[str]) -> Path:
    """Write the pieces as UTF-8, packed when the name ends in ``.gz``, and return the path.

    Raises ``ExportError`` when that is not possible; a file that was there before is then untouched.
    """
    with replacing(path) as file:
        if path.suffix.lower() != ".gz":
            file.writelines(piece.encode() for piece in pieces)
            return path
        with _packing(file) as packed:
            packed.writelines(piece.encode() for piece in pieces)
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file in the folder of ``path`` that takes its place when the block ends well, and goes otherwise."""
    target = Path(os.path.realpath(path))  # a link stays a link to the new file
    if _is_there(target) and not target.is_file():
        raise ExportError(f"{path}: this is {'a folder' if target.is_dir() else 'no file'}; choose another path")
    temporary = target.with_name(f".torchprof-{secrets.token_hex(6)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as exc:
        reason = exc.strerror or exc
        raise ExportError(f"{path}: this could not be written ({reason}); choose another path") from exc
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _is_there(target: Path) -> bool:
    try:
        return target.exists()
    except OSError:  # a name that is too long; opening it will say so
        return False


def _packing(file: IO[bytes]) -> IO[bytes]:
    return igzip.IGzipFile(  # type: ignore[no-untyped-call, return-value]
        filename="", mode="wb", fileobj=file, compresslevel=GZIP_LEVEL, mtime=0
    )


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a crash of the machine, where the system lets folders be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
