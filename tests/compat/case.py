"""A cell of the compatibility run: its code, and everything that it must do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell. Whatever is not said must not happen: no value, output, error or report, nothing on stderr."""

    name: str
    code: str
    # What Out shows, as text.
    value: str = ""
    # All that the cell prints, as a regular expression that must match the whole.
    prints: str = ""
    # How the name and text of the exception begin that ends the cell.
    error: str = ""
    # What is written to stderr by others, as a regular expression.
    stderr: str = ""
    # Whether a report is shown, as a live view and as a static copy.
    shows_report: bool = False
    # Assertions that run as a cell of their own afterwards. `last` is the report of the cell.
    then: str = ""
    # The codes of the report's problems; those about how much time the profiler took come and go.
    problems: tuple[str, ...] = ()
    # What of torch it needs, of FIRST_TORCH; an older torch must refuse it by the name that follows.
    needs: str = ""
    # The kernel is interrupted when this has been printed.
    interrupt_at: str = ""


# The first release of torch that has it.
FIRST_TORCH: dict[str, tuple[int, int]] = {
    "acc_events": (2, 5),
    "profile_all_threads": (2, 7),
    "capture_overload_names": (2, 7),
    "trace_only": (2, 13),
}
# Problems that are found with one release of torch only, as it writes its traces so.
# torch 2.6 fails now and then to end a recording of stacks with compiled code ("Python replay stack is empty").
ONLY_IN_TORCH: dict[str, tuple[int, int]] = {
    "chrome.moved_step": (2, 5),
    "capture.gave_up": (2, 6),
    "run.auto_no_details": (2, 6),
}
# Problems that are found with all releases before one.
BEFORE_TORCH: dict[str, tuple[int, int]] = {"compiled.torch_has_no_names": (2, 10)}
# What torch's own profiler writes to stderr: lines of Kineto, and a warning.
OF_TORCH = r"(?:.*(?:\.cpp:\d+\] |UserWarning|_warn_once).*\n)*"
# How long the profiler made the steps is a matter of the machine and its load, not of a version.
BY_LOAD = ("run.distorted", "chrome.partial_overlap", "capture.modules_not_watched")

# What is said of cells without a flag for what to record, which have what their loop affords.
BY_CHOICE = (
    "run.two_pass",
    "capture.only_times",
    "capture.no_lines",
    "capture.lines_left_out",
    "capture.details_dropped",
    "capture.details_left_out",
    "capture.details_ended",
    "run.auto_times",
    "run.auto_no_details",
    "run.auto_one_step",
)

PRELUDE = """\
import json, os, pathlib, sys, tempfile
import torch
from torch import nn
def _state():
    import gc, multiprocessing.process, signal, threading, warnings
    from torch.autograd import profiler
    from torch.nn.modules import module
    from torch.optim import optimizer
    functions = (
        profiler.profile._prepare_trace, profiler.record_function.__enter__, profiler.record_function.__exit__,
        threading.Thread.start, multiprocessing.process.BaseProcess.start, nn.Module.__call__, torch.Tensor.backward,
        torch.autograd.backward, warnings.showwarning, sys.excepthook, sys.unraisablehook, threading.excepthook,
    )
    return {
        "profiler": (torch.autograd._profiler_enabled(), profiler._is_profiler_enabled),
        "step counts": dict(profiler.KinetoStepTracker._step_dict),
        "hooks of modules": {
            name: len(value) for name, value in vars(module).items()
            if name.startswith("_global_") and isinstance(value, dict)
        },
        "a hook of modules": getattr(module, "_has_any_global_hook", lambda: None)(),
        "hooks of optimizers": (
            len(optimizer._global_optimizer_pre_hooks), len(optimizer._global_optimizer_post_hooks)
        ),
        "functions": [f"{function.__module__}.{function.__qualname__}" for function in functions],
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "tracing": (sys.gettrace(), sys.getprofile(), threading._trace_hook, threading._profile_hook),
        "SIGINT": repr(signal.getsignal(signal.SIGINT)),
        "torch": (torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype()),
        "python": (gc.isenabled(), sys.getrecursionlimit()),
        "threads": sorted({thread.name for thread in threading.enumerate() if not thread.daemon}),
    }
torch.manual_seed(0)
folder = pathlib.Path(tempfile.mkdtemp())
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
loader = [torch.ones(4, 8)] * 8
def train(batch):
    loss = model(batch).square().mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.item()
train(loader[0])
_before = _state()
"""
LOAD = """\
%load_ext torchprof_magic
import torchprof_magic as tp
"""
# Threads of polars, Matplotlib or the widget stay, as after any use of them; they are daemons or no Python threads.
COMPARED = """\
_after = _state()
print({name: (_before[name], _after[name]) for name in _before if _before[name] != _after[name]} or "as before")
"""
ASKED = """\
last = tp.last
print(*(problem.code for problem in last.problems) if last else ())
"""
