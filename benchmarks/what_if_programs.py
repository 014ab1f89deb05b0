"""Programs with a change that can be carried out, and the question that predicts what it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MLP = """
import time, torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self, width=256, depth=4):
        super().__init__()
        self.first = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)])
        self.extra = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.last = nn.Linear(width, 10)
    def forward(self, x):
        x = self.first(x)
        x = self.extra(x)
        return self.last(x)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
x, y = torch.randn(256, 256), torch.randint(10, (256,))
"""
STEP = """
    opt.zero_grad()
    loss = loss_fn(net(x), y)
    loss.backward()
    opt.step()
"""
LOADER = """
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 32 * 32
    def __getitem__(self, index):
        time.sleep(0.0005)
        return torch.randn(256), index % 10
loader = DataLoader(Data(), batch_size=32)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, its change as replaced texts, and the question.

    ``ask`` are the keywords of ``report.what_if``; a text in it that begins with ``line:`` stands for the number of the
    line of the cell that has what follows. ``alone`` are two statements, before and after, whose ratio is measured by
    itself and is the factor that ``factor_of`` is faster by. ``per`` is how many steps of before are one of after.
    """

    name: str
    kind: str
    setup: str
    cell: str
    changes: tuple[tuple[str, str], ...]
    ask: dict[str, Any] = field(default_factory=dict)
    factor_of: str = ""
    alone: tuple[str, str] = ("", "")
    threads: tuple[int, int] = (1, 1)
    flags: str = "--modules --active 8 --warmup 2"
    loop: str = "for step in range(14):"
    steps: int = 14


def program(name: str, kind: str, body: str, *changes: tuple[str, str], setup: str = "", **kwargs: Any) -> Program:
    """Return a program whose loop has a body."""
    loop = kwargs.get("loop", "for step in range(14):")
    return Program(name=name, kind=kind, setup=MLP + setup, cell=loop + body, changes=changes, **kwargs)


def sleeping(ms: float) -> str:
    """Return the body of a step that sleeps."""
    return f"\n    time.sleep({ms / 1_000})  # pause" + STEP


def swapped(name: str, before: str, after: str, op: str, shape: str = "256, 2048", size: str = "m") -> Program:
    """Return a program in which one op is replaced by another one, which is faster by a factor measured alone."""
    setup = f"\n{size} = torch.randn({shape})\n"
    body = f"\n    z = {before}" + STEP
    return program(
        name,
        "op replaced",
        body,
        (before, after),
        setup=setup,
        factor_of=op,
        alone=(before, after),
        flags="--active 8 --warmup 2",
    )


def without_op(name: str, line: str, op: str, setup: str) -> Program:
    """Return a program from which a line with one op goes."""
    return program(name, "op removed", f"\n    {line}" + STEP, (line, "pass"), setup=setup, ask={"without": op})


PROGRAMS = (
    *(
        program(
            f"sleeps {ms} ms in each step", "sleep halved", sleeping(ms), (str(ms / 1_000), str(ms / 2_000)),
            ask={"faster": {"line:# pause": 2}},
        )
        for ms in (4, 10, 30)
    ),
    program(
        "sleeps 10 ms in a function", "sleep removed",
        "\n    wait()" + STEP, ("    wait()", "    pass"), setup="\ndef wait():\n    time.sleep(0.01)\n",
        ask={"without": "line:    wait()"},
    ),
    program("the largest module goes", "module removed", STEP, ("x = self.extra(x)", "x = x + 0"),
            ask={"without": "extra"}),
    program("one of four layers goes", "module removed", STEP, ("range(depth)", "range(depth - 1)"),
            ask={"without": "first.3"}),
    program("two of four layers go", "module removed", STEP, ("range(depth)", "range(depth - 2)"),
            ask={"without": ("first.2", "first.3")}),
    program("half of the depth of a deep net goes", "module removed", STEP,
            ("range(depth)", "range(depth - 4)"), setup="\nnet = Net(depth=8)\nopt = torch.optim.SGD(net.parameters())",
            ask={"without": ("first.4", "first.5", "first.6", "first.7")}),
    without_op("a sort goes", "s = torch.sort(r)", "aten::sort", "\nr = torch.randn(200_000)\n"),
    without_op("a cumsum goes", "s = r.cumsum(0)", "aten::cumsum", "\nr = torch.randn(4_000_000)\n"),
    without_op("an SVD goes", "s = torch.linalg.svdvals(r)", "aten::linalg_svdvals", "\nr = torch.randn(100, 100)\n"),
    without_op("a large product goes", "s = r @ r", "aten::matmul", "\nr = torch.randn(512, 512)\n"),
    without_op("normalising goes", "s = torch.softmax(r, 1)", "aten::softmax", "\nr = torch.randn(1000, 1000)\n"),
    without_op("many random numbers go", "s = torch.randn(1_000_000)", "aten::randn", ""),
    swapped("exact GELU becomes its tanh form", "torch.nn.functional.gelu(m)",
            "torch.nn.functional.gelu(m, approximate='tanh')", "aten::gelu", "1024, 1024"),
    swapped("a stable sort becomes top-k", "torch.sort(m, dim=1)", "torch.topk(m, 8, dim=1)", "aten::sort"),
    swapped("a power becomes a product", "m ** 3.0001", "m * m * m", "aten::pow", "1024, 1024"),
    swapped("a double product becomes float", "m.double() @ m.double().T", "m @ m.T", "aten::matmul", "400, 2048"),
    swapped("quantile becomes mean", "m.quantile(0.5)", "m.mean()", "aten::quantile", "64, 2048"),
    swapped("tanh becomes relu", "torch.tanh(m)", "torch.relu(m)", "aten::tanh", "1024, 2048"),
    program("Adam becomes fused", "fused optimizer", STEP,
            setup="\nopt = torch.optim.Adam(net.parameters(), foreach=False)\n",
            factor_of="Optimizer.step#Adam.step", alone=("opt.step()", "fused.step()")),
    program("AdamW of many small parameters becomes fused", "fused optimizer", STEP,
            setup="\nnet = Net(64, 24)\nx = torch.randn(256, 64)\n"
            "opt = torch.optim.AdamW(net.parameters(), foreach=False)\n",
            factor_of="Optimizer.step#AdamW.step", alone=("opt.step()", "fused.step()")),
    program("a batch twice as large", "larger batch", STEP, ("torch.randn(256, 256)", "torch.randn(512, 256)"),
            ("(10, (256,))", "(10, (512,))"), ask={"batch": 2}, flags="--active 8 --warmup 2"),
    program("a batch four times as large", "larger batch", STEP, ("torch.randn(256, 256)", "torch.randn(1024, 256)"),
            ("(10, (256,))", "(10, (1024,))"), ask={"batch": 4}, flags="--active 8 --warmup 2"),
    program("a batch half as large", "larger batch", STEP, ("torch.randn(256, 256)", "torch.randn(128, 256)"),
            ("(10, (256,))", "(10, (128,))"), ask={"batch": 0.5}, flags="--active 8 --warmup 2"),
    program("a loader that waits gets two workers", "loader workers", STEP,
            ("batch_size=32)", "batch_size=32, num_workers=2, persistent_workers=True)"),
            setup=LOADER, ask={"workers": 2}, loop="for x, y in loader:", steps=32, flags="--active 6 --warmup 2"),
    program("a loader that waits long gets four workers", "loader workers", STEP,
            ("batch_size=32)", "batch_size=32, num_workers=4, persistent_workers=True)"),
            setup=LOADER.replace("sleep(0.0005)", "sleep(0.002)"), ask={"workers": 4},
            loop="for x, y in loader:", steps=32, flags="--active 6 --warmup 2"),
    program("a loader has its batches in memory", "loader workers", STEP, ("        time.sleep(0.0005)\n", ""),
            setup=LOADER, ask={"without": "data"}, loop="for x, y in loader:", steps=32,
            flags="--active 6 --warmup 2"),
    program("a Python loop over elements goes", "line removed",
            "\n    total = sum(float(v) for v in y)  # loop" + STEP, ("sum(float(v) for v in y)", "0"),
            ask={"without": "line:# loop"}),
    program("the loss is not printed in each step", "line removed",
            STEP + "    text = [f'{p.norm().item():.3f}' for p in net.parameters()]  # log\n",
            ("[f'{p.norm().item():.3f}' for p in net.parameters()]", "[]"), ask={"without": "line:# log"}),
    program("two threads", "thread count", "\n    s = r @ r" + STEP, setup="\nr = torch.randn(700, 700)\n",
            ask={"threads": 2}, threads=(1, 2)),
    program("a chain of small ops is compiled", "compile", "\n    s = chain(r)" + STEP, ("s = chain(r)", "s = fast(r)"),
            setup="\nr = torch.randn(512, 1024)\ndef chain(v):\n    for _ in range(12):\n"
            "        v = torch.sin(v) * 0.5 + v\n    return v\n",
            factor_of="line:s = chain(r)", alone=("chain(r)", "fast(r)")),
)  # fmt: skip
# What only the changed way has: made before either of both is timed.
MADE = {
    "Adam becomes fused": "fused = torch.optim.Adam(net.parameters(), fused=True)",
    "AdamW of many small parameters becomes fused": "fused = torch.optim.AdamW(net.parameters(), fused=True)",
    "a chain of small ops is compiled": "fast = torch.compile(chain)",
}
# What stands for the old optimizer in the changed way.
RENAMED = {"Adam becomes fused": "opt = fused", "AdamW of many small parameters becomes fused": "opt = fused"}
