"""The checks of ``%torchprof doctor``: what this machine can record, and what prevents it from recording more."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from torchprof_magic.capture.budget import ENDING_FACTORS
from torchprof_magic.capture.torch_api import compat, features
from torchprof_magic.capture.torch_api.cuda_graphs import needs_priming
from torchprof_magic.model.units import format_file_size
from torchprof_magic.system.files.free_space import free_bytes
from torchprof_magic.system.process.memory import FREE_PART
from torchprof_magic.system.process.memory import free_bytes as free_memory_bytes

# A trace of a few steps has tens of MB, one of many steps hundreds. Below this, saving it may fail.
LITTLE_ROOM_BYTES = 1_000_000_000
# The variables by which NVIDIA's tools are loaded into a process. While one is loaded, torch gets no device events.
_INJECTED = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")


class Check(NamedTuple):
    """The result of one check: a sentence, and what to do about it if something is wrong."""

    what: str
    fix: str = ""

    @property
    def is_good(self) -> bool:
        """True when nothing needs to be done."""
        return not self.fix


def examine() -> list[Check]:
    """Run all checks. They change nothing."""
    return [_versions(), *_missing(), _busy(), *_device(), *_graphs(), _names(), _memory(), _room()]


def _versions() -> Check:
    recorded = ", ".join(compat.available_activities())
    return Check(f"torch {features.VERSION} can record these activities: {recorded}.")


def _missing() -> list[Check]:
    """Say what this torch lacks. That prevents only what is named, so nothing needs to be done."""
    return [Check(f"torch has no {', '.join(names)}: {instead}.") for instead, names in features.missing().items()]


def _busy() -> Check:
    busy = compat.busy_profiler()
    if busy is None:
        return Check("No other profiler is running.")
    return Check(
        f"{busy[0].upper()}{busy[1:]}.", "Leave its with-block, or end it and discard its data with: %torchprof off"
    )


def _device() -> list[Check]:
    if not torch.cuda.is_available():
        if getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
            return [Check("torch records only the CPU side of work on MPS.")]
        return [] if torch.version.cuda is None else [Check("torch finds no GPU, so only the CPU is recorded.")]
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    if "cuda" not in compat.available_activities():
        return [Check(f"{names}: kernels cannot be recorded.", "Install a build of torch with CUPTI.")]
    held = [name for name in _INJECTED if os.environ.get(name)]
    if held:
        fix = "Start the kernel without Nsight or another CUDA tool."
        return [Check(f"{names}: another profiling tool is loaded into this process ({', '.join(held)} is set).", fix)]
    return [Check(f"{names}: kernels can be recorded.")]


def _graphs() -> list[Check]:
    """Check what CUDA graphs need with an old CUDA, and whether kernels stay slower after a recording."""
    checks = []
    version = compat.cuda_before_graph_safe()
    if version is not None:
        what = f"CUDA {version}: a CUDA graph that was captured before the first recording can crash during one."
        fix = "Run %torchprof prime before you capture a graph." if needs_priming() else ""
        checks.append(Check(what if fix else f"CUDA {version} is ready for recording CUDA graphs.", fix))
    if compat.is_cupti_kept():
        what = "TEARDOWN_CUPTI=0 is set. Kernels stay about 10 to 20 % slower after a recording."
        checks.append(Check(what, "Unless you record CUDA graphs, restart the kernel without it."))
    return checks


def _names() -> Check:
    if features.HAS_PYTHON_EXPORT:
        return Check("Names in any alphabet are recorded correctly.")
    return Check(
        "This version of torch changes quotes, backslashes and non-ASCII letters in names.",
        "Use ASCII names, or torch 2.13 or newer.",
    )


def _memory() -> Check:
    limit_bytes = free_memory_bytes() // FREE_PART
    ops, memory = (format_file_size(int(limit_bytes / ENDING_FACTORS[kind])) for kind in ("ops", "memory"))
    used = f"A recording may use {ops} ({memory} with --memory)."
    ending = f"Ending it then takes {format_file_size(limit_bytes)}, half of the free memory."
    return Check(f"{used} {ending} --budget sets another limit.")


def _room() -> Check:
    folder = Path(tempfile.gettempdir())
    free = free_bytes(folder)
    if free is None:
        return Check(f"Traces cannot be written to {folder}.", "Set TMPDIR to a folder on this machine.")
    what = f"Traces are written to {folder}, where {format_file_size(free)} are free."
    return Check(what) if free >= LITTLE_ROOM_BYTES else Check(what, "Free space, or set TMPDIR to another folder.")
