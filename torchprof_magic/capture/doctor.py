"""Can this machine be profiled, and what could be in the way?"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from torchprof_magic.capture.torch_api import compat
from torchprof_magic.capture.torch_api.cuda_graphs import needs_priming
from torchprof_magic.units import format_bytes

# A recording of a few steps is tens of MB; with less room than this, saving one is a matter of luck.
LITTLE_ROOM_BYTES = 1_000_000_000
# How NVIDIA's tools come into a process; while one is in it, torch gets no device records.
_INJECTED = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")


class Check(NamedTuple):
    """One thing that was looked at: a sentence, and what to do about it if it is not as it should be."""

    what: str
    fix: str = ""

    @property
    def is_good(self) -> bool:
        """True when nothing needs to be done."""
        return not self.fix


def examine() -> list[Check]:
    """Look at everything that decides what a recording can hold; changes nothing."""
    return [_versions(), _busy(), *_device(), *_graphs(), _names(), _room()]


def _versions() -> Check:
    recorded = ", ".join(compat.available_activities())
    return Check(f"torch {compat.VERSION} can record {recorded}.")


def _busy() -> Check:
    busy = compat.busy_profiler()
    if busy is None:
        return Check("No other profiler is on.")
    return Check(f"{busy[0].upper()}{busy[1:]}.", "Leave its with-block, or end it and lose its data: %torchprof off")


def _device() -> list[Check]:
    if not torch.cuda.is_available():
        if getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
            return [Check("Of work on MPS torch records the host's side alone.")]
        return [] if torch.version.cuda is None else [Check("torch sees no GPU, so only the host is recorded.")]
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    if "cuda" not in compat.available_activities():
        return [Check(f"{names}: kernels cannot be recorded.", "Install a torch that was built with CUPTI.")]
    held = [name for name in _INJECTED if os.environ.get(name)]
    if held:
        fix = "Start the kernel without Nsight or another CUDA tool."
        return [Check(f"{names}: another tool is in this process ({', '.join(held)} is set).", fix)]
    return [Check(f"{names}: kernels can be recorded.")]


def _graphs() -> list[Check]:
    """Look at what CUDA graphs need: on the profiler's side with an old CUDA, and of the time after a recording."""
    checks = []
    version = compat.cuda_before_graph_safe()
    if version is not None:
        what = f"CUDA {version}: a CUDA graph captured before the first recording can crash in one."
        fix = "Run %torchprof prime before a graph is captured." if needs_priming() else ""
        checks.append(Check(what if fix else f"CUDA {version} was made ready for recording CUDA graphs.", fix))
    if os.environ.get("TEARDOWN_CUPTI") == "0":
        what = "TEARDOWN_CUPTI=0 is set: kernels stay some 10 to 20 % slower after a recording."
        checks.append(Check(what, "Unless CUDA graphs are recorded, restart the kernel without it."))
    return checks


def _names() -> Check:
    if compat.HAS_PYTHON_EXPORT:
        return Check("Names in any alphabet arrive as they are.")
    return Check(
        "This torch writes quotes, backslashes and other alphabets wrongly.", "Use plain names, or torch 2.10+."
    )


def _room() -> Check:
    folder = Path(tempfile.gettempdir())
    try:
        free = shutil.disk_usage(folder).free
    except OSError as exc:
        return Check(f"Recordings cannot be written to {folder}: {exc.strerror or exc}.", "Set TMPDIR to a folder.")
    what = f"Recordings go to {folder}, which has {format_bytes(free)} of room."
    return Check(what) if free >= LITTLE_ROOM_BYTES else Check(what, "Make room, or set TMPDIR to another folder.")
