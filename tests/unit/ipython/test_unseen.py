"""What the user's modes, tensor classes and objects are told under the magic is what they are told without it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from amount import sampled
from IPython.core.interactiveshell import InteractiveShell

from torchprof_magic.ipython import extension
from torchprof_magic.runs import this_process

if TYPE_CHECKING:
    from collections.abc import Iterator

SETUP = """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch._subclasses.fake_tensor import FakeTensorMode

class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []
    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(getattr(function, "__qualname__", str(function)))
        return function(*args, **(kwargs or {}))

class Dispatches(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))

class Loud(torch.Tensor):
    seen = []
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        Loud.seen.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})

class Wrapper(torch.Tensor):
    seen = []
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        Wrapper.seen.append(str(function))
        return function(*(one.inner if isinstance(one, Wrapper) else one for one in args), **(kwargs or {}))

class Asked(Exception): pass

class Meta(type):
    __hash__ = None
    def __eq__(cls, other): raise Asked
    def __instancecheck__(cls, value): raise Asked
    def __subclasscheck__(cls, kind): raise Asked

class Proxy(metaclass=Meta):
    def _ask(self, *_): raise Asked
    __class__ = property(_ask)
    __getattr__ = __len__ = __iter__ = __eq__ = __bool__ = __repr__ = __str__ = __getitem__ = __reduce_ex__ = _ask
    __hash__ = None

class OwnList(list):
    def __len__(self): raise Asked
    def __iter__(self): raise Asked
    def __getitem__(self, key): raise Asked

class OwnDict(dict):
    def __len__(self): raise Asked
    def __iter__(self): raise Asked
    def values(self): raise Asked
    def items(self): raise Asked

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
    def named_modules(self, *_, **__): raise Asked
    def named_parameters(self, *_, **__): raise Asked
    def named_buffers(self, *_, **__): raise Asked
    def parameters(self, *_, **__): return self.inner.parameters()
    def forward(self, x, *rest, **more): return self.inner(x)
"""
MODES = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.Adam(model.parameters())
kept = [torch.ones(2000) for _ in range(3)]
loud, wrapper = torch.ones(8, 4).as_subclass(Loud), Wrapper(torch.ones(4))
passing = torch.nn.Identity()
Loud.seen.clear(); Wrapper.seen.clear()
functions, dispatches = Functions(), Dispatches()
with functions, dispatches:
    open_range = torch.profiler.record_function("open")
    for i in range(6):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
        passing(loud); passing(wrapper)
        with torch.profiler.record_function("range"):
            pass
        if i == 3:
            open_range.__enter__()
    open_range.__exit__(None, None, None)
seen = functions.seen, dispatches.seen, list(Loud.seen), list(Wrapper.seen)
"""
FAKE = """
with FakeTensorMode():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for i in range(6):
        optimizer.zero_grad()
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
"""
PROXIES = """
proxy, proxies, things, names = Proxy(), [Proxy()], OwnList([Proxy()]), OwnDict(a=Proxy())
net = Net()
optimizer = torch.optim.SGD(net.inner.parameters(), lr=0.1)
for i in range(6):
    net(torch.ones(2, 4), proxy, proxies, things, more=names).sum().backward()
    optimizer.step()
"""
FLAGS = sampled(["--modules --lines --memory --shapes --flops", "--no-stack", "--memory", "--memory --two-pass"])


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.push({"torch": torch})
    extension.load(found)
    run(found, SETUP)
    yield found
    extension.unload(found)
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str) -> None:
    shell.run_cell(cell).raise_error()


def seen(shell: InteractiveShell) -> Any:
    return shell.user_ns["seen"]


@pytest.mark.parametrize("flags", FLAGS)
def test_modes_and_tensor_classes_see_what_they_see_without_the_magic(shell: InteractiveShell, flags: str) -> None:
    run(shell, MODES)  # the first one prepares optimizers
    run(shell, MODES)
    plain = seen(shell)
    run(shell, f"%%torchprof -q {flags}\n{MODES}")
    assert [len(each) for each in seen(shell)] == [len(each) for each in plain]
    assert seen(shell) == plain


@pytest.mark.parametrize("flags", FLAGS)
def test_fake_tensors_make_no_warning(shell: InteractiveShell, flags: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(shell, f"%%torchprof -q {flags}\n{FAKE}")
    report = this_process.last()
    assert report is not None
    assert not {"capture.torch_warning", "capture.memory_untagged"} & {problem.code for problem in report.problems}


@pytest.mark.parametrize("flags", FLAGS)
def test_objects_of_the_user_are_not_asked_anything(shell: InteractiveShell, flags: str) -> None:
    run(shell, f"%%torchprof -q {flags}\n{PROXIES}")
    report = this_process.last()
    assert report is not None
    assert not {"capture.memory_untagged", "capture.modules_not_watched"} & {p.code for p in report.problems}
    if "--modules" in flags:
        assert "net.inner" in report.modules["path"].to_list() or "inner" in report.modules["path"].to_list()
