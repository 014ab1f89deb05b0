"""Packing and unpacking of gzip, by isal where there is one, and by Python's own zlib elsewhere.

isal is several times as fast, and has no wheels for some systems, such as Windows on ARM.
"""

from __future__ import annotations

import gzip
import zlib
from typing import IO, TYPE_CHECKING, Any

try:
    from isal import igzip, igzip_lib, isal_zlib

    HAS_ISAL = True
except ImportError:
    HAS_ISAL = False

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

_zlib: Any = isal_zlib if HAS_ISAL else zlib
_gzip: Any = igzip if HAS_ISAL else gzip
_GZIP = 31  # zlib's code for "gzip header and checksum"; the header holds no time and no name
# isal has 0-3: within a few percent of the smallest size. zlib has 1-9, and takes twice as long for each few percent.
GZIP_LEVEL = 2 if HAS_ISAL else 3
# What unpacking raises for data that is damaged, or not gzip.
_OF_ISAL: tuple[type[Exception], ...] = (igzip_lib.IsalError,) if HAS_ISAL else ()  # type: ignore[assignment]
DAMAGED: tuple[type[Exception], ...] = (OSError, ValueError, EOFError, zlib.error, *_OF_ISAL)

crc32 = _zlib.crc32


def packer() -> Any:
    """Return an object whose ``compress`` and ``flush`` make one gzip member, the same for the same data."""
    return _zlib.compressobj(GZIP_LEVEL, _zlib.DEFLATED, _GZIP)


def unpacker(window: int) -> Any:
    """Return an object that unpacks one gzip member, with the methods of ``zlib.decompressobj(window)``."""
    return _zlib.decompressobj(wbits=window)


def opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    """Open a gzip file to read what is in it."""
    found: AbstractContextManager[IO[bytes]] = _gzip.open(path, "rb")
    return found


def packing(file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """Return a file whose content is written to ``file`` as gzip, without a time and a name."""
    make = igzip.IGzipFile if HAS_ISAL else gzip.GzipFile
    made: Any = make(filename="", mode="wb", fileobj=file, compresslevel=GZIP_LEVEL, mtime=0)
    return made
