"""Whatever part of ours fails, the user's code runs as without the magic, and it is said what failed.

Every function that runs around the user's code is made to raise, one after the other. They are not named here, but
found in the modules, so that a new one is tried as well.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import pkgutil
import signal
import sys
import threading
import warnings
from multiprocessing import process as processes
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from amount import sampled
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.profiler import record_function

import torchprof_magic as tp
from torchprof_magic.capture import busy_profiler, switch_off
from torchprof_magic.ipython import extension
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Rooms whose functions run around the user's code. The report is made later, and its failures are a message.
ROOMS = (
    "torchprof_magic.capture",
    "torchprof_magic.ipython",
    "torchprof_magic.system.process",
    "torchprof_magic.run",
)
# What holds the parts together, and what undoes them, cannot fail by itself: the nets, the first lines of what torch,
# Python and IPython call, and the few lines that run where nothing may be lost.
NETS = (
    "capture.doctor.",
    "capture.interrupts.guard.InterruptGuard._is_current",
    "capture.interrupts.guard.InterruptGuard.drop_pending",
    "capture.interrupts.guard.InterruptGuard.raise_pending",
    "capture.interrupts.guard.InterruptGuard.uninstall",
    "capture.interrupts.guard.protected",
    "capture.interrupts.guard.raised_by_handler",
    "capture.interrupts.other_signals.OtherHandlers._handle_due",
    "capture.live_profile.",
    "capture.parts.",
    "capture.problems.",
    "capture.recorder.Recorder.cycles",
    "capture.registry.",
    "capture.session.CaptureSession.__init__",
    "capture.session.CaptureSession._contained",
    "capture.session.CaptureSession._end_run",
    "capture.session.CaptureSession._give_up",
    "capture.session.CaptureSession._is_here",
    "capture.session.CaptureSession._least_recording",
    "capture.session.CaptureSession._let_go",
    "capture.session.CaptureSession._optimizer_step",
    "capture.session.CaptureSession._refuse_other_thread",
    "capture.session.CaptureSession._unmark",
    "capture.session.CaptureSession._unwatch",
    "capture.session.live_session",
    "capture.switch.",
    "capture.torch_api.compat.is_profiler_on",
    "capture.torch_api.compiling._tell_",
    "capture.torch_api.imported._Finder.find_spec",
    "capture.watch.functions.FunctionLines._end",
    "capture.watch.functions.FunctionLines._on_call",
    "capture.watch.functions.FunctionLines._on_line",
    "capture.watch.imports.ImportTimes.find_spec",
    "capture.watch.lines.LineMarks.mark",
    "capture.watch.live_storages.LiveStorages._note_gone",
    "capture.watch.memory_tags.MemoryTags._after_step",
    "capture.watch.memory_tags.MemoryTags._before_step",
    "capture.watch.memory_tags.MemoryTags._guarded",
    "capture.watch.modules.ModuleMarks._after",
    "capture.watch.modules.ModuleMarks._before",
    "capture.watch.modules._remove",
    "capture.watch.waits.WaitWatch._leave",
    "capture.watch.waits.WaitWatch._run",
    "ipython.awaiting.",
    "ipython.cell._body_of",
    "ipython.cell._compiled",
    "ipython.cell._split_last",
    "ipython.cell.await_cell",
    "ipython.cell.compile_plain",
    "ipython.cell.run_cell",
    "ipython.cell.run_plain",
    "ipython.commands.",
    "ipython.extension.",
    "ipython.flags.",
    "ipython.idle.Idle.catch_up",
    "ipython.magics.",
    "system.process.imports.",
    "system.process.garbage.HeldCollections.end",
    "system.process.memory.Growth.__del__",
    "system.process.memory.Growth._close",
    "system.process.spare_descriptors.SpareDescriptors.",
    "run.messages.say",
    "run.conductor.Run._release",
    "run.conductor.Run._finish",
    "run.conductor.Run.finish",
    "run.conductor._later_or_now",
    "run.stepping.stepper.",
    "run.stepping.choosing.Candidate.",
    "run.stepping.choosing.Choice.",
)
# What the code calls itself; each of these hands on to something that is tried.
CALLED_BY_USERS = "capture.session.CaptureSession."
# The check of a file that fails is followed by another export, and activities that were not looked at before are
# looked at when the recording begins, so that nothing is lost.
RECOVERS = ("capture.output.validate.", "capture.torch_api.settled.")
CELL = """
torch.manual_seed(0)
model, x, out = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4), []
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def forward(x):
    y = model(x)
    return y.sum()
for i in range(7):
    with torch.profiler.record_function("mine"):
        loss = forward(x)
    loss.backward(); opt.step(); opt.zero_grad()
    thread = threading.Thread(target=int); thread.start(); thread.join()
    out.append(loss.item())
    print("step", i)
    sys.modules.pop("colorsys", None); import colorsys
    {last}
out
"""
RAISES = "if i == 5: raise KeyError('mine')"
FLAGS = "-q --memory --shapes --modules --lines"
calls: list[str] = []


class Place(NamedTuple):
    """A function of ours by its name, as the test shows it."""

    name: str
    function: FunctionType


def places() -> list[Place]:
    """Return the functions of all rooms that run around the user's code, without the nets."""
    found: dict[int, Place] = {}
    for room in ROOMS:
        package = importlib.import_module(room)
        for info in pkgutil.iter_modules(package.__path__, f"{room}.") if hasattr(package, "__path__") else ():
            for module in modules_in(info.name):
                for name, function in functions_in(module):
                    short = f"{module.__name__}.{name}".removeprefix("torchprof_magic.")
                    is_net = short.startswith(NETS) or is_public(short, CALLED_BY_USERS)
                    if not is_net and not function.__code__.co_freevars:
                        found.setdefault(id(function), Place(short, function))
    return sorted(found.values())


def is_public(name: str, owner: str) -> bool:
    return name.startswith(owner) and not name.removeprefix(owner).startswith("_")


def modules_in(name: str) -> Iterator[ModuleType]:
    module = importlib.import_module(name)
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        yield from modules_in(info.name)


def functions_in(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, inspect.unwrap(value)
        elif inspect.isclass(value):
            for key, member in vars(value).items():
                function = getattr(member, "fget", None) or getattr(member, "func", None) or member
                function = inspect.unwrap(getattr(function, "__func__", function))
                if inspect.isfunction(function) and function.__module__ == module.__name__ and key != "__repr__":
                    yield f"{name}.{key}", function


def failing(*_: object, **__: object) -> Any:
    __import__("test_failing_parts").calls.append("")
    raise ArithmeticError("injected")


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.push({"torch": torch, "nn": nn, "tp": tp, "threading": threading, "sys": sys})
    extension.load(found)
    yield found
    extension.unload(found)
    InteractiveShell.clear_instance()


def state() -> dict[str, object]:
    """Return what a failing part might leave behind in torch, Python and this process."""
    hooks = {name: len(value) for name, value in vars(torch_module).items() if name.startswith("_global_") and value}
    optimizers = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
    return {
        "modules": {name: count for name, count in hooks.items() if "hooks" in name},
        "optimizers": [len(getattr(torch_optimizer, name)) for name in optimizers],
        "ranges": (record_function.__enter__, record_function.__exit__),
        "threads": (threading.Thread.start, processes.BaseProcess.start),
        "profilers": torch.autograd.profiler.profile._prepare_trace,
        "tracing": (sys.gettrace(), sys.getprofile()),
        "interrupts": signal.getsignal(signal.SIGINT),
        "warnings": list(warnings.filters),
        "garbage": gc.isenabled(),
        "torch": (torch.is_grad_enabled(), torch.get_default_dtype(), busy_profiler()),
    }


class Outcome(NamedTuple):
    """What a cell did: its value, its error, its variables, what it printed; and our own lines."""

    value: object
    error: str
    names: tuple[object, object]
    printed: list[str]


def outcome(shell: InteractiveShell, cell: str, capsys: pytest.CaptureFixture[str]) -> tuple[Outcome, str]:
    """Return what a cell did, and what we said meanwhile."""
    result = shell.run_cell(cell)
    error = result.error_before_exec or result.error_in_exec
    told = capsys.readouterr()
    lines = (told.out + told.err).splitlines()
    names = shell.user_ns
    done = Outcome(
        result.result,
        repr(error),
        (names.get("out"), names.get("i")),
        [line for line in lines if line.startswith("step")],
    )
    return done, "\n".join(line for line in lines if line.startswith("torchprof:"))


def as_magic(cell: str) -> str:
    return f"%%torchprof {FLAGS}\n{cell}"


def as_line(cell: str) -> str:
    return f"%torchprof {FLAGS} exec({cell!r}, globals())\nout"


def as_block(cell: str) -> str:
    head, _, loop = cell.partition("for i in")
    inner = loop.rpartition("out\n")[0].replace("range(7)", "p.steps(range(7))").replace("\n", "\n    ")
    return f"{head}with tp.profile(profile_memory=True, lines=True) as p:\n    for i in{inner}\nout"


ALL = places()
WAYS: tuple[Callable[[str], str], ...] = (as_magic, as_line, as_block)
ENDS = ("pass", RAISES)


def cases() -> list[tuple[Place, Callable[[str], str], str]]:
    """Return every place, each in one of the ways and with one of the ends; one in a few of them in a sample."""
    turns = [(place, WAYS[turn % 3], ENDS[turn // 3 % 2]) for turn, place in enumerate(ALL)]
    return sampled(turns, 97)  # no divisor of 6, so that a sample has every way and end


@pytest.mark.parametrize(("place", "way", "last"), cases(), ids=lambda value: getattr(value, "name", None))
def test_code_runs_as_without_the_magic_when_a_part_of_ours_fails(
    place: Place,
    way: Callable[[str], str],
    last: str,
    shell: InteractiveShell,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = CELL.format(last=last)
    monkeypatch.setitem(sys.modules, "test_failing_parts", sys.modules[__name__])
    (plain, _), before, known = outcome(shell, cell, capsys), state(), this_process.last()
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(place.function, "__code__", failing.__code__)
        recorded, said = outcome(shell, way(cell), capsys)
    after, report = state(), this_process.last()
    switch_off()
    assert recorded == plain
    assert after == before
    if calls and not place.name.startswith(RECOVERS):
        told = [] if report is None or report is known else [problem.message for problem in report.problems]
        assert "injected" in said + "".join(told)
