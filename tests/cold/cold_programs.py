"""Programs on the CPU that do something only once: cold, and warm in the same process.

Each function prepares a program and returns its step. What it does only once is in the first call of the step.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Step = Callable[[], Any]
PROGRAMS: dict[str, Callable[[], Step]] = {}
# Modules of the standard library that nothing here imports, and that take long enough to be seen.
SLOW_MODULES = (
    "xml.dom.minidom", "sqlite3", "unittest.mock", "email.mime.multipart", "xmlrpc.server", "tkinter.ttk",
    "wsgiref.simple_server", "imaplib", "mailbox", "turtledemo", "pydoc", "lib2to3.refactor",
)  # fmt: skip


def program(prepare: Callable[[], Step]) -> Callable[[], Step]:
    """Add a program to the list."""
    PROGRAMS[prepare.__name__] = prepare
    return prepare


def trained(model: nn.Module, x: torch.Tensor) -> Step:
    """Return a step of forward and backward."""
    return lambda: model(x).sum().backward()


def imported(names: tuple[str, ...]) -> None:
    """Import those of the modules that this Python has."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


@program
def compiled_by_dynamo() -> Step:
    return trained(torch.compile(nn.Linear(64, 64), backend="eager"), torch.randn(32, 64))  # type: ignore[arg-type]


@program
def compiled_by_aot_autograd() -> Step:
    return trained(torch.compile(nn.Linear(64, 64), backend="aot_eager"), torch.randn(32, 64))  # type: ignore[arg-type]


@program
def compiled_function() -> Step:
    compiled = torch.compile(lambda x: (x.relu() * 2).sum(), backend="eager")
    x = torch.randn(64, 64)
    return lambda: compiled(x)


@program
def recompiled_for_another_shape() -> Step:
    compiled = torch.compile(lambda x: (x.relu() * 2).sum(), backend="eager", dynamic=False)
    compiled(torch.randn(8, 8))
    x = torch.randn(64, 64)
    return lambda: compiled(x)


@program
def import_in_the_loop() -> Step:
    model, x = nn.Linear(64, 64), torch.randn(32, 64)

    def step() -> None:
        imported(SLOW_MODULES[:6])
        model(x).sum().backward()

    return step


@program
def import_in_forward() -> Step:
    class Late(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            imported(SLOW_MODULES[6:])
            return x.relu()

    return trained(Late(), torch.randn(32, 64, requires_grad=True))


@program
def import_of_a_part_of_torch() -> Step:
    x = torch.randn(64, 64)

    def step() -> None:
        imported(("torch.distributed.pipelining", "torch.distributed.fsdp", "torch.ao.quantization.quantize_fx"))
        x.relu().sum()

    return step


@program
def lazy_linear_layers() -> Step:
    model = nn.Sequential(nn.LazyLinear(3_000), nn.ReLU(), nn.LazyLinear(1_000))
    return trained(model, torch.randn(4, 1_000))


@program
def layers_built_in_the_first_forward() -> Step:
    class Built(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "net"):
                self.net = nn.Sequential(*(nn.Linear(1_000, 1_000) for _ in range(6)))
            return self.net(x)

    return trained(Built(), torch.randn(4, 1_000))


@program
def table_computed_at_the_first_use() -> Step:
    tables: list[torch.Tensor] = []
    x = torch.randn(2_000, 64)

    def step() -> None:
        if not tables:
            at = torch.arange(2_000.0)[:, None] / 10_000 ** (torch.arange(0, 4_000, 1.0) / 4_000)
            tables.append(torch.stack((at.sin(), at.cos())).sum((0, 2)))
        (x + tables[0][:, None]).sum()

    return step


@program
def first_convolution() -> Step:
    return trained(nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3)), torch.randn(4, 3, 32, 32))


@program
def first_singular_values() -> Step:
    a = torch.randn(60, 60)
    return lambda: torch.linalg.svd(a)


@program
def first_solution_of_equations() -> Step:
    a, b = torch.randn(60, 60), torch.randn(60, 4)
    return lambda: torch.linalg.solve(a, b)


@program
def first_step_of_adam() -> Step:
    model = nn.Sequential(*(nn.Linear(700, 700) for _ in range(10)))
    optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(4, 700)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


@program
def first_lstm() -> Step:
    model, x = nn.LSTM(64, 64), torch.randn(8, 4, 64)
    return lambda: model(x)[0].sum().backward()


@program
def first_attention() -> Step:
    model, x = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), torch.randn(4, 32, 64)
    return trained(model, x)


@program
def scripted_module() -> Step:
    model = torch.jit.script(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)))
    return trained(model, torch.randn(32, 64))


@program
def traced_in_the_first_step() -> Step:
    found: list[Any] = []
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), torch.randn(32, 64)

    def step() -> None:
        if not found:
            found.append(torch.jit.trace(model, x, check_trace=False))  # type: ignore[no-untyped-call]
        found[0](x).sum().backward()

    return step


@program
def weights_loaded_in_the_first_step() -> Step:
    file = io.BytesIO()
    torch.save(nn.Sequential(*(nn.Linear(1_500, 1_500) for _ in range(4))).state_dict(), file)
    model, x = nn.Sequential(*(nn.Linear(1_500, 1_500) for _ in range(4))), torch.randn(2, 1_500)
    loaded: list[Any] = []

    def step() -> None:
        if not loaded:
            file.seek(0)
            loaded.append(model.load_state_dict(torch.load(file)))
        model(x).sum().backward()

    return step


@program
def first_batch_of_worker_processes() -> Step:
    loader = DataLoader(TensorDataset(torch.randn(4_000, 16)), batch_size=8, num_workers=2)
    batches: list[Iterator[Any]] = [iter(())]
    model = nn.Linear(16, 16)

    def step() -> None:
        batch = next(batches[0], None)
        if batch is None:
            batches[0] = iter(loader)
            batch = next(batches[0])
        model(batch[0]).sum().backward()

    return step
