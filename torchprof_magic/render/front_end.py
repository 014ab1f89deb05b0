"""The built front end: its module, its style sheet, and what loads them in a notebook."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from torchprof_magic.model.errors import TorchProfError

_NOT_BUILT = "the front end is not built: run `npm ci && npm run build` in js/"


class Packed(NamedTuple):
    """The module and the style sheet, packed with gzip, and a digest that tells one version from another."""

    module: bytes
    style: bytes
    digest: str


def built() -> tuple[str, str]:
    """Return the built module and style sheet. Raises ``TorchProfError`` when they are not built."""
    return _read("report.js"), _read("report.css")


def loader() -> str:
    """Return the module that finds the shared front end. Raises ``TorchProfError`` when it is not built."""
    return _read("loader.js")


@cache
def packed() -> Packed:
    """Return the built files packed. Raises ``TorchProfError`` when they are not built."""
    module, style = (gzip.compress(text.encode(), compresslevel=6, mtime=0) for text in built())
    return Packed(module, style, hashlib.sha256(module + style).hexdigest()[:16])


@cache
def _read(name: str) -> str:
    try:
        return files("torchprof_magic").joinpath("static", name).read_text("utf-8")
    except FileNotFoundError as exc:
        raise TorchProfError(_NOT_BUILT) from exc
