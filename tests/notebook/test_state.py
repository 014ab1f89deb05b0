"""After a cell under the magic, and in it, the process is in the state that the cell alone leaves it in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from amount import sampled
from kernels import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels import Kernel

SETUP = r"""
%load_ext torchprof_magic
import torch, numpy, random

def _state():
    # Imports are here, so that the variables of the kernel are those of the cells.
    import builtins, decimal, faulthandler, gc, hashlib, linecache, locale, logging, multiprocessing, os, signal, socket
    import sys, threading, warnings, matplotlib
    from torch.nn.modules import module as modules
    from torch.optim import optimizer as optimizers
    for thread in threading.enumerate():  # until its process is gone, which gives way to all others here
        if thread.name == "torchprof-early":
            thread.join(timeout=20)
    names = [name for name in get_ipython().user_ns if not name.startswith("_i") and not name[1:].isdigit()]
    range_ = vars(torch.profiler.record_function)
    digest = lambda data: hashlib.sha256(repr(data).encode()).hexdigest()[:12]
    hooks = [name for name in dir(modules) if name.startswith("_global_") and isinstance(getattr(modules, name), dict)]
    found = {
        "random of torch": digest(torch.random.get_rng_state().tolist()),
        "random of numpy": digest(numpy.random.get_state()),
        "random of Python": digest(random.getstate()),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "deterministic": (torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "threads of torch": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "precision": torch.get_float32_matmul_precision(),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "hooks of modules": {name: len(getattr(modules, name)) for name in hooks},
        "hooks of optimizers": [len(getattr(optimizers, f"_global_optimizer_{at}_hooks")) for at in ("pre", "post")],
        "record_function": tuple(range_[name].__module__ for name in ("__enter__", "__exit__")),
        "starts": (threading.Thread.start.__module__, multiprocessing.process.BaseProcess.start.__module__),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "environment": dict(os.environ),
        "umask": (lambda mask: (os.umask(mask), mask)[1])(os.umask(0)),
        "files": sorted(
            path
            for path in map(os.path.realpath, os.scandir("/proc/self/fd"))
            if os.path.isfile(path) and ".sqlite" not in path  # IPython's history comes and goes
        ),
        "signals": {int(number): repr(signal.getsignal(number)) for number in signal.valid_signals()},
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        "streams": (id(sys.stdin), id(sys.stdout), id(sys.stderr)),
        "python's hooks": tuple(map(repr, (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook))),
        "imports": (list(map(repr, sys.meta_path)), list(map(repr, sys.path_hooks))),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.get_freeze_count(), len(gc.callbacks)),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "processes": multiprocessing.active_children(),
        "recursion": (sys.getrecursionlimit(), sys.getswitchinterval()),
        "digits": sys.get_int_max_str_digits(),
        "warnings": (list(map(str, warnings.filters)), id(warnings.showwarning)),
        "locale": (locale.setlocale(locale.LC_ALL), decimal.getcontext().prec),
        "logging": (logging.root.level, len(logging.root.handlers), logging.root.manager.disable),
        "numpy's errors": numpy.geterr(),
        "sockets": socket.getdefaulttimeout(),
        "faults": faulthandler.is_enabled(),
        "builtins": len(vars(builtins)),
        "figures": (matplotlib.get_backend(), digest(sorted(map(str, matplotlib.rcParams.items())))),
        "variables": sorted(names),
        "transformers": len(get_ipython().input_transformers_post),
        "files without a name": [name for name in linecache.cache if "torchprof" in name],
    }
    return {name: repr(value) for name, value in found.items()}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
    def forward(self, x):
        return torch.nn.functional.dropout(self.inner(x), 0.5)
"""
TRAIN = """torch.manual_seed(3); numpy.random.seed(3); random.seed(3)
net = Net()
optimizer = torch.optim.AdamW(net.parameters())
values = []
for i in range(6):
    loss = net(torch.rand(8, 4)).sum() * numpy.random.rand() * random.random()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    values.append((float(loss.detach()) if loss.device.type != "meta" else None, loss.dtype, loss.requires_grad))
"""
FLAGS = (
    "",
    "--memory --shapes --flops --modules",
    "--stack --lines",
    "--two-pass --memory",
    "--wait 0 --warmup 0 --active 1 --repeat 2",
    "--step optimizer",
    "--step cell",
)
# What a cell may be run in, and how it is undone.
STATES = {
    "meta": ("torch.set_default_device('meta')", "torch.set_default_device(None)"),
    "cpu": ("torch.set_default_device('cpu')", "torch.set_default_device(None)"),
    "float64": ("torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"),
    "deterministic": ("torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)"),
    "autocast": ("_c = torch.autocast('cpu'); _c.__enter__()", "_c.__exit__(None, None, None)"),
    "device context": ("_c = torch.device('meta'); _c.__enter__()", "_c.__exit__(None, None, None)"),
    "anomalies": ("torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"),
    "no collector": ("import gc; gc.disable()", "gc.enable()"),
    "errors": ("import warnings; warnings.simplefilter('error')", "warnings.simplefilter('default')"),
    "numpy": ("numpy.seterr(all='raise')", "numpy.seterr(all='warn')"),
    "recursion": ("import sys; sys.setrecursionlimit(400)", "sys.setrecursionlimit(3000)"),
    "folder": ("import os; _d = os.getcwd(); os.chdir('/')", "os.chdir(_d)"),
}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with started(SETUP) as kernel:
        for flags in FLAGS:  # what is imported or prepared in a first run is not looked at
            kernel.run(f"%%torchprof {flags}\n{TRAIN}")
        yield kernel


def state_after(kernel: Kernel, cell: str) -> dict[str, str]:
    """Run a cell, and return the state after it, with the values that it computed."""
    done = kernel.run(cell)
    assert done.reply["status"] == "ok", done.reply
    state = kernel.run("_state() | {'values': repr(values)}")
    assert state.reply["status"] == "ok", state.reply
    found: dict[str, str] = ast.literal_eval(state.values[0])
    return found


@pytest.mark.parametrize("flags", FLAGS)
def test_a_cell_leaves_the_process_as_it_does_without_the_magic(kernel: Kernel, flags: str) -> None:
    plain = state_after(kernel, TRAIN)
    ours = state_after(kernel, f"%%torchprof {flags}\n{TRAIN}")
    assert {name: (plain[name], ours[name]) for name in plain if plain[name] != ours[name]} == {}


@pytest.mark.parametrize("state", sampled(list(STATES), 4))
def test_a_cell_runs_and_is_recorded_in_any_state_of_the_process(kernel: Kernel, state: str) -> None:
    begin, end = STATES[state]
    kernel.run(begin)
    try:
        plain = state_after(kernel, TRAIN)
        ours = state_after(kernel, f"%%torchprof --memory --shapes --modules --lines --stack\n{TRAIN}")
        assert {name: (plain[name], ours[name]) for name in plain if plain[name] != ours[name]} == {}
        told = kernel.run(
            "import torchprof_magic as _tp\n_tp.last.steps['complete'].to_list(), _tp.last.ops.height > 5"
        )
        assert told.values == ["([True, True, True], True)"]
    finally:
        kernel.run(end)


@pytest.mark.parametrize(
    "guard",
    ["torch.no_grad()", "torch.inference_mode()", "torch.autocast('cpu')", "torch.device('meta')", "numpy.errstate()"],
)
def test_a_loop_within_a_context_computes_what_it_does_without_the_magic(kernel: Kernel, guard: str) -> None:
    loop = f"torch.manual_seed(3)\nnet = Net()\nvalues = []\nwith {guard}:\n    for i in range(6):\n"
    body = "        loss = net(torch.rand(8, 4).to(net.inner.weight.device)).sum()\n        values.append(repr(loss))\n"
    cell = loop + body if "meta" not in guard else loop + "        values.append(repr(torch.rand(3).sum()))\n"
    plain = state_after(kernel, cell)
    ours = state_after(kernel, f"%%torchprof --memory --modules --lines\n{cell}")
    assert {name: (plain[name], ours[name]) for name in plain if plain[name] != ours[name]} == {}
