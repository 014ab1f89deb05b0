"""What some versions of torch lack: one table, in which each feature is asked of the installed torch itself.

To add a feature, add one entry to ``FEATURES``. An option that needs a feature which is not there is refused before
anything runs; where nobody asked for it, the recording does what ``instead`` says.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch._C._profiler import _ExperimentalConfig  # documented by torch, though its name begins with _
from torch.nn.modules import module as torch_module
from torch.profiler import ExecutionTraceObserver, profile
from torch.profiler.profiler import _KinetoProfile  # the same

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.options import ProfileOptions

VERSION = str(torch.__version__)
# Writes valid JSON whatever the names are, about 8 times slower than the C++ export.
HAS_PYTHON_EXPORT = importlib.util.find_spec("torch.profiler._chrome_trace_export") is not None


# Names that torch has no word for.
STACKS: Final = "with_stack on Python 3.13"
KEYWORDS_OF_CALLS: Final = "with_kwargs for hooks of all modules"
EXTRA_RESOURCES: Final = "set_extra_resource_collection"
RECOMPILE_REASON: Final = "CompilationMetrics.recompile_reason"
BACKWARD_METRICS: Final = "CompilationMetrics.is_forward"
NODE_MARKS: Final = "enrich_profiler_metadata"
KERNEL_NODES: Final = "provenance_tracking_level"
STACKS_SINCE: Final = (2, 7, 1)
# From the first of these versions to before the second; with 2.4.1, 2.7.1, 2.8, 2.9.1, 2.13 and 2.15 it does not.
HOOK_GUARDS: Final = (2, 5), (2, 7)
REFUSED: Final = "an option that needs it is refused before anything runs"


class Feature(NamedTuple):
    """One feature, by torch's name for it.

    ``is_known`` asks the installed torch. ``is_asked`` is whether options ask for it, None if none can. ``instead`` is
    a clause that says what happens without it.
    """

    name: str
    is_known: Callable[[], bool]
    is_asked: Callable[[ProfileOptions], object] | None = None
    instead: str = REFUSED


def takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function of torch has a parameter of this name."""
    return name in inspect.signature(function).parameters


def takes_setting(name: str) -> bool:
    """Return whether torch's ``_ExperimentalConfig``, whose signature cannot be read, has this switch."""
    wanted: dict[str, Any] = {name: True}
    try:
        _ExperimentalConfig(**wanted)
    except TypeError:
        return False
    return True


def _argument(name: str) -> Feature:
    """Return an argument of torch's profiler that is an option of the same name; None and False do not ask for it."""

    def is_asked(options: ProfileOptions) -> bool:
        value = getattr(options, name)
        return value is not None and value is not False

    return Feature(name, lambda: takes(_KinetoProfile, name), is_asked)


def _setting(name: str) -> Feature:
    return Feature(name, lambda: takes_setting(name), lambda options: name in options.experimental_flags)


def _takes_types() -> bool:
    return "dict" in str(inspect.signature(_KinetoProfile).parameters["activities"].annotation)


def _survives_stacks() -> bool:
    """Return whether Python calls can be recorded: before 2.7.1, it is a SIGSEGV on Python 3.13."""
    return sys.version_info < (3, 13) or _release() >= STACKS_SINCE


def _measures(name: str) -> bool:
    """Return whether torch keeps this of a compilation. Its source is asked: importing the compiler takes seconds."""
    try:
        return re.search(rf"^    {name}: ", _compiler_source(), re.MULTILINE) is not None
    except OSError:
        return False


def _has_setting(file: str, name: str) -> bool:
    """Return whether a file of torch has a setting. Its source is asked: importing some of them takes seconds."""
    try:
        source = (Path(torch.__file__).parent / file).read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(rf"^ *{name}\b", source, re.MULTILINE) is not None


@lru_cache(maxsize=1)
def _compiler_source() -> str:
    return (Path(torch.__file__).parent / "_dynamo" / "utils.py").read_text(encoding="utf-8")


def guards_module_hooks() -> bool:
    """Return whether torch.compile guards code that it made without hooks of all modules against any that come."""
    return HOOK_GUARDS[0] <= _release() < HOOK_GUARDS[1]


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", VERSION)[:3])


FEATURES: Final = (
    Feature(STACKS, _survives_stacks, lambda options: options.with_stack),
    _argument("acc_events"),
    _argument("custom_trace_id_callback"),
    _argument("post_processing_timeout_s"),
    _setting("profile_all_threads"),
    _setting("enable_cuda_sync_events"),
    _setting("capture_overload_names"),
    _setting("trace_only"),
    Feature("types of activities", _takes_types, lambda options: options.activity_types),
    Feature(
        "ProfilerActivityConfig",
        lambda: hasattr(torch.profiler, "ProfilerActivityConfig"),
        lambda options: any(not isinstance(types, tuple) for types in (options.activity_types or {}).values()),
    ),
    Feature(
        EXTRA_RESOURCES,
        lambda: hasattr(ExecutionTraceObserver, "set_extra_resource_collection"),
        instead="torch always writes the resources of an execution trace",
    ),
    Feature(
        "build_execution_trace_obs_from_env",
        lambda: hasattr(ExecutionTraceObserver, "build_execution_trace_obs_from_env"),
        instead="the variable ENABLE_PYTORCH_EXECUTION_TRACE has no effect",
    ),
    Feature("use_cuda", lambda: takes(profile, "use_cuda"), instead="profile() does not take it either"),
    Feature(
        "with_modules",
        lambda: takes(_KinetoProfile, "with_modules"),
        instead="modules are timed, and those of TorchScript are not in the trace",
    ),
    Feature(
        "toggle_collection_dynamic",
        lambda: hasattr(_KinetoProfile, "toggle_collection_dynamic"),
        instead="paused() has no effect",
    ),
    Feature(
        KEYWORDS_OF_CALLS,
        lambda: takes(torch_module.register_module_forward_hook, "with_kwargs"),
        instead="keyword arguments are read from the call itself",
    ),
    Feature(
        RECOMPILE_REASON,
        lambda: _measures("recompile_reason"),
        instead="report.compilations takes the reason from the guards that failed, and has no row for what is given up",
    ),
    Feature(
        BACKWARD_METRICS,
        lambda: _measures("is_forward"),
        instead="report.compilations has no rows of backward passes",
    ),
    Feature(
        NODE_MARKS,
        lambda: _has_setting("fx/experimental/_config.py", NODE_MARKS),
        instead="ops in compiled code have no FX nodes, and stand at the line and the module that was compiled",
    ),
    Feature(
        KERNEL_NODES,
        lambda: _has_setting("_inductor/config.py", KERNEL_NODES),
        instead="kernels of Inductor have no FX nodes",
    ),
    Feature(
        "use_python_export",
        lambda: HAS_PYTHON_EXPORT,
        instead="quotes, backslashes and letters outside ASCII in names are changed",
    ),
)
_BY_NAME: Final = {feature.name: feature for feature in FEATURES}


def is_known(name: str) -> bool:
    """Return whether the installed torch has the feature of this name. Raises ``KeyError`` for one not in the table."""
    return _BY_NAME[name].is_known()


def lack_of(name: str) -> Feature | None:
    """Return the feature of this name if the installed torch lacks it. Raises ``KeyError`` as ``is_known`` does."""
    feature = _BY_NAME[name]
    return None if feature.is_known() else feature


def lacking(options: ProfileOptions) -> list[str]:
    """Return the requested features that this version of torch lacks, by torch's names."""
    asked = (feature for feature in FEATURES if feature.is_asked is not None and feature.is_asked(options))
    return [feature.name for feature in asked if not feature.is_known()]


def missing() -> dict[str, list[str]]:
    """Return what the installed torch lacks: the names of features, by what happens without them."""
    found: dict[str, list[str]] = {}
    for feature in FEATURES:
        if not feature.is_known():
            found.setdefault(feature.instead, []).append(feature.name)
    return found
