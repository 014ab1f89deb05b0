"""Differences between torch versions, and the features of this machine."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import re
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import psutil
import torch
from torch import autograd
from torch._C import DisableTorchFunction, _len_torch_dispatch_stack, _len_torch_function_stack
from torch._C._profiler import _ExperimentalConfig  # documented by torch, though its name begins with _
from torch.autograd import profiler as autograd_profiler
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ExecutionTraceObserver, ProfilerAction, ProfilerActivity, profile, supported_activities
from torch.utils._python_dispatch import _disable_current_modes

from torchprof_magic.capture.torch_api import features
from torchprof_magic.capture.torch_api.cycle_profile import CycleProfile
from torchprof_magic.capture.torch_api.patching import HOOKS, stand_in
from torchprof_magic.model.recording import CpuFacts
from torchprof_magic.system.process.cores import cpu_model, usable_cores
from torchprof_magic.system.process.python_warnings import warnings_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import CodeType

    from torch.profiler.profiler import _KinetoProfile  # documented by torch, though its name begins with _
    from torch.utils.hooks import RemovableHandle

    from torchprof_magic.options import ProfileOptions

# Passed to torch only if asked for: not all versions have them, and torch 2.15 deprecates the last one.
RARE_ARGUMENTS = ("acc_events", "custom_trace_id_callback", "post_processing_timeout_s", "with_modules")
# Units of a CPU that make ops in lower precision fast.
CPU_FEATURES = ("amx_bf16", "amx_fp16", "avx512_bf16")
# torch imports these in the first recording. With stacks it then sometimes loses the name of the module's own frame.
for _name in ("torch.profiler._cupti_monitor", "torch.profiler.python_tracer"):
    with suppress(ImportError):  # older ones have none
        importlib.import_module(_name)


def available_activities() -> tuple[str, ...]:
    """Return the activities that this machine can record, as names for ``ProfileOptions.activities``."""
    return tuple(sorted(activity.name.lower() for activity in supported_activities()))  # type: ignore[no-untyped-call]


def recorded_activities(options: ProfileOptions) -> tuple[str, ...]:
    """Return the activities of these options, or all that this machine can record."""
    return options.activities or available_activities()


def device_names(options: ProfileOptions) -> tuple[str, ...]:
    """Return the names of the accelerators that are recorded; empty on a machine without."""
    if "cuda" not in recorded_activities(options) or not torch.cuda.is_available():
        return ()
    return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def memory_in_use() -> int | None:
    """Return the memory of tensors on the current CUDA device, if it is used; else that of this process, in bytes."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return int(torch.cuda.memory_allocated())
    return int(_process(os.getpid()).memory_info().rss)


@cache
def _process(number: int) -> psutil.Process:
    return psutil.Process(number)


def cpu_facts() -> CpuFacts:
    """Return what ops on the CPU can use; features that this version of torch does not tell are left out."""
    cores = usable_cores()
    known = getattr(getattr(torch, "cpu", None), "get_capabilities", None)
    try:
        found = known() if known is not None else {}
    except RuntimeError:  # raised where the build cannot ask the CPU
        found = {}
    fast = tuple(name for name in CPU_FEATURES if found.get(name))
    return CpuFacts(cores=cores, threads=torch.get_num_threads(), features=fast, model=cpu_model())


def make_profiler(options: ProfileOptions, observer: ExecutionTraceObserver | None = None) -> CycleProfile:
    """Return torch's profiler for one cycle; the engine prepares, starts and stops it, together with the observer.

    The scheduling of ``torch.profiler.profile`` keeps only the last cycle, and fails if its handler raises between two
    cycles.
    """
    return CycleProfile(
        has_step_rows=options.has_step_rows,
        activities=[_activity(name, options) for name in recorded_activities(options)],
        record_shapes=options.record_shapes,
        profile_memory=options.profile_memory,
        with_stack=options.with_stack,
        with_flops=options.with_flops,
        experimental_config=_experimental_config(options),
        execution_trace_observer=observer or options.execution_trace_observer,
        **_rare_arguments(options),
    )


def observe_execution(path: str, *, has_resources: bool = False) -> ExecutionTraceObserver:
    """Return an observer that writes torch's execution trace to ``path``, and its resources to a folder beside it."""
    observer = ExecutionTraceObserver().register_callback(path)
    if has_resources and features.is_known(features.EXTRA_RESOURCES):
        observer.set_extra_resource_collection(True)
    return observer


def resources_of(path: Path) -> Path:
    """Return the folder for the resources of an execution trace, named as torch names it."""
    return path.with_name(f"{path.stem}_resources")


def observer_of_environment() -> ExecutionTraceObserver | None:
    """Return the observer that ``ENABLE_PYTORCH_EXECUTION_TRACE`` asks for, as ``torch.profiler.profile`` makes it."""
    build = getattr(ExecutionTraceObserver, "build_execution_trace_obs_from_env", None)
    observer: ExecutionTraceObserver | None = build() if build is not None else None
    return observer


def toggle(profiler: _KinetoProfile, names: Iterable[str], *, is_on: bool) -> None:
    """Stop recording these activities, or continue; the recording itself goes on."""
    members = {key.lower(): member for key, member in ProfilerActivity.__members__.items()}
    profiler.toggle_collection_dynamic(is_on, [members[name] for name in names])


def _activity(name: str, options: ProfileOptions) -> Any:
    """Return torch's activity of that name, limited to some types of events or configured if requested."""
    activity = next(member for key, member in ProfilerActivity.__members__.items() if key.lower() == name)
    types = (options.activity_types or {}).get(name)
    if types is None:
        return activity
    return {activity: list(types) if isinstance(types, tuple) else types}


# Modules are timed without torch, too; and each cycle has a file of its own, so the events of none are lost.
_NO_NEWS = re.compile(r"with_modules is deprecated|(Warning: )?Profiler clears events at the end of each cycle")


def is_news(warning: str) -> bool:
    """Return whether a warning of torch tells the user something about this recording."""
    return not _NO_NEWS.match(warning)


def _experimental_config(options: ProfileOptions) -> Any:
    flags = options.experimental_flags
    return _ExperimentalConfig(**flags) if flags else options.experimental_config


def _rare_arguments(options: ProfileOptions) -> dict[str, Any]:
    """Return the requested arguments that not all versions of torch have."""
    rare = {name: getattr(options, name) for name in RARE_ARGUMENTS if features.is_known(name)}
    return {name: value for name, value in rare.items() if value is not None and value is not False}


def is_set_in(config: Any, name: str) -> bool:
    """Return whether the user's config has this switched on. Its values can be read only by pickling it."""
    wanted: dict[str, Any] = {name: True}
    try:
        states = (made.__getstate__() for made in (_ExperimentalConfig(), _ExperimentalConfig(**wanted), config))
        return any(off != on and given == on for off, on, given in zip(*states, strict=True))
    except (TypeError, AttributeError, ValueError):  # this torch does not have it, or cannot pickle such a config
        return False


def is_device_stopped() -> bool:
    """Return whether device recording stopped early (CUPTI buffers full); always False before torch 2.11."""
    is_stopped = getattr(autograd, "_is_kineto_stopped", None)
    return bool(is_stopped and is_stopped())


def is_profiler_on() -> bool:
    """Return whether any torch profiler runs on this thread."""
    return bool(autograd._profiler_enabled())  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public name


def is_any_profiler_on() -> bool:
    """Return whether a torch profiler runs in this process, including one of all threads."""
    return is_profiler_on() or autograd_profiler._is_profiler_enabled  # noqa: SLF001 - there is no public name


def is_in_backward() -> bool:
    """Return whether this code was called by ``backward()``, for example from a hook of a tensor.

    When ``backward`` returns, it undoes starting or stopping there, and the profiler then stays on forever.
    """
    return bool(torch._C._current_graph_task_id() != -1)  # noqa: SLF001 - there is no public name


def made_nodes() -> int:
    """Return how many nodes of autograd graphs this thread has made: one for every op whose result needs a gradient."""
    return int(torch._C._autograd._get_sequence_nr())  # noqa: SLF001 - no public name


def busy_profiler() -> str | None:
    """Return a clause about the profiler that is already running, if one is."""
    if is_profiler_on():
        return "a torch profiler is already running on this thread"
    if autograd_profiler._is_profiler_enabled:  # noqa: SLF001 - there is no public name
        return "a torch profiler is running on another thread, or was never stopped"
    if _is_warming_up():
        return "a torch.profiler.profile is in its warm-up phase"
    return None


def _is_warming_up() -> bool:
    """Return whether a scheduled profiler is between prepare and start, which no flag shows.

    If another recording runs meanwhile, its start is a SIGSEGV in torch 2.13. torch counts steps from when a scheduled
    profiler is created until its with-block is left, so the search through all objects (50 ms per million) is rare.
    """
    tracker = autograd_profiler.KinetoStepTracker
    if "ProfilerStep" not in getattr(tracker, "_step_dict", {}):
        return False
    ours = __name__.partition(".")[0]  # our subclasses follow no schedule of their own
    kinds = (profile, *(kind for kind in profile.__subclasses__() if kind.__module__.partition(".")[0] != ours))
    scheduled = [item for item in gc.get_referrers(*kinds) if any(type(item) is kind for kind in kinds)]
    if not scheduled:  # the last one was stopped without leaving a with-block, and is gone
        tracker.erase_step_count("ProfilerStep")
    return any(_has_open_warmup(item) for item in scheduled)


def _has_open_warmup(scheduled: profile) -> bool:
    """Return whether a warm-up step is open; not before it begins, after it ends, or if it failed to start."""
    is_open = getattr(scheduled, "step_rec_fn", None) is not None and not _has_ended(scheduled)
    return is_open and scheduled.current_action == ProfilerAction.WARMUP


def _has_ended(scheduled: profile) -> bool:
    """Return whether a profiler has results, which one in its warm-up lacks: in torch 2.6 its last step stays open."""
    inner = getattr(scheduled, "profiler", None)
    accumulates = getattr(scheduled, "acc_events", False)  # then they are of the cycles before
    return getattr(inner, "kineto_results", None) is not None and not accumulates


def switch_off() -> bool:
    """Stop any torch profiler of this thread, discard its data, and return whether there was one."""
    was_on = is_any_profiler_on()
    while is_profiler_on():
        autograd._disable_profiler()  # type: ignore[attr-defined]  # noqa: SLF001
    note_off()
    return was_on


def note_off() -> None:
    """Let torch know that its profiler is off; it takes it to be on for good where ending a recording has failed."""
    autograd_profiler._set_is_profiler_enabled(False)  # noqa: SLF001, FBT003 - there is no public name


def on_optimizer_step(callback: Callable[[object], None]) -> Callable[[], None]:
    """Call ``callback(optimizer)`` after every optimizer step in this process; return a function that removes it."""

    def hook(optimizer: torch.optim.Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        callback(optimizer)

    handle: RemovableHandle = register_optimizer_step_post_hook(hook)
    return handle.remove


def has_optimizer() -> bool:
    """Return whether any optimizer is alive in this process. It looks at all objects, which takes some 50 ms."""
    return any(issubclass(type(each), torch.optim.Optimizer) for each in gc.get_objects())


def on_takeover(callback: Callable[[], None], *, is_ours: Callable[[], bool]) -> Callable[[], None]:
    """Call ``callback`` just before a profiler that is not ours prepares; return a function that undoes this.

    torch lets the new profiler take over the running session silently, and saving the old one then crashes. Every torch
    profiler of every version calls this one method.
    """
    original = autograd_profiler.profile._prepare_trace  # noqa: SLF001

    def prepare(self: autograd_profiler.profile) -> None:
        if not is_ours():
            callback()
        original(self)  # type: ignore[no-untyped-call]

    return stand_in(autograd_profiler.profile, "_prepare_trace", prepare)


def keep_out_of_graphs() -> None:
    """Exclude the functions of this package from torch.compile, once.

    Compiled code is a different object from the one that is protected from interrupts, and a traced step would become
    dozens of compiled pieces. torch's profiler imports the same module when it is first prepared. A hook that is called
    beside a graph would count as a frame that was compiled, and move the numbers of the regions.
    """
    with suppress(Exception), warnings_to():  # this torch may lack the module, or have moved it
        from torch._dynamo import trace_rules  # noqa: PLC0415 - takes seconds, and only a recording needs it

        if not _left_alone:
            trace_rules.add(__package__.partition(".")[0])
            _left_alone.append(True)
            from torch._dynamo.eval_frame import skip_code  # noqa: PLC0415 - the same; some versions have none

            for code in HOOKS:
                skip_code(code)


_left_alone: list[bool] = []


def is_compiled(code: CodeType) -> bool:
    """Return whether torch.compile generated this code, with calls between its graphs."""
    return any(name.startswith(("__compiled_fn", "__resume_at")) for name in code.co_names)


def _memory_module() -> Any:
    """Return torch's memory module of this machine's accelerator, ``None`` if it cannot record a history."""
    for name in ("cuda", "xpu"):
        device: Any = getattr(torch, name, None)
        memory = getattr(device, "memory", None)
        record = getattr(memory, "_record_memory_history", None)
        # Older versions have other arguments.
        if record and hasattr(memory, "_snapshot") and "stacks" in inspect.signature(record).parameters:  # noqa: SIM102
            if device.is_available():
                return memory
    return None


def has_memory_history() -> bool:
    """Return whether this machine and this torch can record the history of a device's allocator."""
    return _memory_module() is not None


def is_memory_history_on() -> bool:
    """Return whether the allocator history is already being recorded."""
    memory = _memory_module()
    is_enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)  # noqa: SLF001 - there is no public name
    if is_enabled is not None and memory is torch.cuda.memory:
        return bool(is_enabled())
    return any(memory_snapshot()["device_traces"])  # ending a history empties it


def start_memory_history(max_entries: int, stacks: str) -> None:
    """Start recording allocations and releases of the device, keeping the last ``max_entries``.

    ``stacks`` are ``python``, ``all`` or ``none``.
    """
    has_stacks = stacks != "none"
    _memory_module()._record_memory_history(  # noqa: SLF001 - documented by torch, though its name begins with _
        enabled="all",
        context="all" if has_stacks else None,
        stacks=stacks if has_stacks else "python",
        max_entries=max_entries,
    )


def stop_memory_history() -> None:
    """Stop recording, and drop the history."""
    _memory_module()._record_memory_history(enabled=None)  # noqa: SLF001


def memory_snapshot() -> dict[str, Any]:
    """Return the state of the device's allocator, and its history if there is one."""
    snapshot: dict[str, Any] = _memory_module()._snapshot()  # noqa: SLF001
    return snapshot


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether the error is that a device ran out of memory."""
    return isinstance(error, torch.cuda.OutOfMemoryError)


_oom_callbacks: list[Callable[[], None]] = []
_oom_observers: list[object] = []


def on_out_of_memory(callback: Callable[[], None]) -> Callable[[], None]:
    """Call ``callback`` when CUDA runs out of memory, before torch raises; return a function that ends this.

    torch keeps an observer for the life of the process, so one is attached once, and calls the current callbacks.
    """
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)  # noqa: SLF001 - there is no public name
    if attach is None:
        return lambda: None
    if not _oom_observers:
        attach(_observe_out_of_memory)
        _oom_observers.append(attach)
    _oom_callbacks.append(callback)
    return lambda: _oom_callbacks.remove(callback)


def _observe_out_of_memory(*_device_and_sizes: int) -> None:
    for callback in tuple(_oom_callbacks):
        callback()


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured on the current stream."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


# Since this version CUPTI supports graphs that were captured before it was loaded, and reloading (pytorch#150957).
GRAPH_SAFE_CUDA = (12, 6)
_GRAPH_SETTINGS = {"DISABLE_CUPTI_LAZY_REINIT": "1", "TEARDOWN_CUPTI": "0"}


def cuda_before_graph_safe() -> str | None:
    """Return this torch's version of CUDA if recording a graph can crash there (pytorch#75504), else ``None``."""
    version = torch.version.cuda
    if version is None or "cuda" not in available_activities():
        return None
    return version if tuple(int(part) for part in version.split(".")[:2]) < GRAPH_SAFE_CUDA else None


def keep_cupti() -> None:
    """Keep CUPTI loaded after a recording, as torch itself does if torch.compile makes CUDA graphs."""
    for name, value in _GRAPH_SETTINGS.items():
        os.environ.setdefault(name, value)


def is_cupti_kept() -> bool:
    """Return whether CUPTI stays loaded after a recording, which makes kernels slower (pytorch#144455)."""
    return os.environ.get("TEARDOWN_CUPTI") == "0"


def touch_device() -> None:
    """Run one small kernel and wait for it."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()


def small_block() -> object:
    """Return a block of host memory, as small as torch allocates them."""
    # Not a tensor: the user's dispatch modes, which see every op, must not see this one.
    return torch.UntypedStorage(4)  # type: ignore[no-untyped-call]


def without_user_modes() -> AbstractContextManager[object]:
    """Return a context in which the user's dispatch and function modes do not see ops, for ops that are ours.

    A mode that refuses unknown ops would otherwise end the recording.
    """
    if not _len_torch_dispatch_stack() and not _len_torch_function_stack():
        return _NO_MODES
    modes = ExitStack()
    modes.enter_context(DisableTorchFunction())
    modes.enter_context(_disable_current_modes())
    return modes


_NO_MODES = nullcontext()
