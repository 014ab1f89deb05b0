"""Whether this machine can count the ``performance_events`` of a user's config.

torch asks the system for the counters when an op begins, in a callback whose errors it only logs: one for every op,
with a stack of C++, while no op is recorded. So one op is recorded before the user's code.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

import torch
from torch._C._profiler import _ExperimentalConfig  # documented by torch, though its name begins with _
from torch.profiler import ProfilerActivity
from torch.profiler.profiler import _KinetoProfile  # the same

from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.stderr_filter import STDERR_FD
from torchprof_magic.system.process.python_warnings import warnings_to

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILED = re.compile(rb"Exception in RecordFunction callback: ([^\r\n]+)")
_MAX_CHARS = 200


def flaw_of_performance_events(config: Any) -> str:
    """Return why the events of this config cannot be counted, or an empty text; records one op to find out."""
    if config is None or not _has_events(config):
        return ""
    found = _FAILED.search(_stderr_of(lambda: _record_one_op(config)))
    return found[1].decode(errors="replace")[:_MAX_CHARS] if found else ""


def _has_events(config: Any) -> bool:
    """Return whether the config names such events. Its values can be read only by pickling it."""
    wanted: dict[str, Any] = {"performance_events": ["one"]}
    try:
        states = (made.__getstate__() for made in (_ExperimentalConfig(), _ExperimentalConfig(**wanted), config))
        return any(off not in (on, given) for off, on, given in zip(*states, strict=True))
    except (TypeError, AttributeError, ValueError):  # this torch has no such events
        return False


def _record_one_op(config: Any) -> None:
    profiler = _KinetoProfile(activities=[ProfilerActivity.CPU], experimental_config=config)
    profiler.prepare_trace()
    profiler.start_trace()
    try:
        with compat.without_user_modes():
            torch.zeros(1)
    finally:
        profiler.stop_trace()


def _stderr_of(call: Callable[[], None]) -> bytes:
    """Return what is written to file descriptor 2 during the call; nothing if it cannot be redirected."""
    try:
        saved = os.dup(STDERR_FD)
    except OSError:
        return b""
    with tempfile.TemporaryFile() as sink, warnings_to():
        os.dup2(sink.fileno(), STDERR_FD)
        try:
            call()
        finally:
            os.dup2(saved, STDERR_FD)
            os.close(saved)
        sink.seek(0)
        return sink.read()
