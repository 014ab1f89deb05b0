"""Which files of recorded frames are the user's or a library's, rather than of torch or Python."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from torchprof_magic.model.distinct import distinct
from torchprof_magic.model.generated_files import GENERATED

if TYPE_CHECKING:
    from torchprof_magic.model.intervals import BoolArray

# Packages whose frames say how torch works, not what the user wrote.
_MACHINERY = ("torch", "triton", "torchprof_magic", "IPython", "ipykernel", "runpy")
_NOT_USERS = frozenset((*_MACHINERY, *sys.stdlib_module_names))
_INSTALLED = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
_NOBODYS = re.compile(rf"^<(?:frozen|string|built-in)|{GENERATED}")
_OWN_FOLDER = re.compile(r"[/\\](?:torchprof_magic|ipykernel|IPython)[/\\]")
_STANDARD = re.compile(r"^.*[/\\]lib[/\\]python[0-9][.0-9]*[/\\]|^[A-Za-z]:\\.*\\Lib\\")
_TOP = re.compile(r"[^/\\(]+")
MOST_FILES = 10_000


def is_users_file(files: pl.Series) -> BoolArray:
    """Return which files are the user's or a library's, rather than of torch, Python, or built in.

    torch writes paths relative to the folder of installed packages.
    """
    if files.null_count() == len(files):
        return np.zeros(len(files), np.bool_)
    users = [file for file in distinct(files).cast(pl.String).drop_nulls() if _is_users(file)]
    if len(users) == 0:
        return np.zeros(len(files), np.bool_)
    return files.cast(pl.String).is_in(users).fill_null(value=False).to_numpy()


@lru_cache(maxsize=MOST_FILES)
def _is_users(file: str) -> bool:
    """Return whether one file is; the ranks of a job and the cells of a notebook have the same ones."""
    if _NOBODYS.search(file):
        return False
    short = _STANDARD.sub("", _INSTALLED.sub("", file, count=1), count=1)
    top = _TOP.match(short)
    return not (_OWN_FOLDER.search(short) or (top and top[0].removesuffix(".py") in _NOT_USERS))
