"""Small training and inference programs, each limited by one thing that its author put there.

A program is a setup cell, which runs without the profiler, and a cell that is profiled. The line that is to blame ends
in ``# HERE``, in either of the two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and what a right verdict about it is.

    Attributes:
        name: What it is, as the title of a test.
        setup: Cell that runs first, without the profiler.
        cell: Cell that is profiled.
        kinds: Kinds of verdict that are right.
        module: Path of the module that takes most of the time, if one does.
        not_named: What the verdict must not blame.
        flags: Flags of the magic.
    """

    name: str
    setup: str
    cell: str
    kinds: tuple[str, ...]
    module: str = ""
    not_named: tuple[str, ...] = ()
    flags: str = ""


_MODEL = """
import time, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
loss_fn = nn.CrossEntropyLoss()
"""
_STEP = """
    loss = loss_fn(model(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
"""
_BLAMED_FORWARD = "for i in range(8):" + _STEP.replace("y)\n", "y)  # HERE\n")
_BLAMED_OPTIMIZER = "for i in range(8):" + _STEP.replace("opt.step()", "opt.step()  # HERE")
_BIG = _MODEL.replace("256, 256", "2048, 2048").replace("256, 10", "2048, 10").replace("(64, 256)", "(64, 2048)")

PROGRAMS = (
    Program(
        name="a DataLoader whose dataset sleeps",
        setup=_MODEL
        + """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 512
    def __getitem__(self, i):
        time.sleep(0.0005)
        return torch.randn(256), i % 10
loader = torch.utils.data.DataLoader(Slow(), batch_size=64)
""",
        cell="for x, y in loader:  # HERE" + _STEP,
        kinds=("data",),
    ),
    Program(
        name="a generator that sleeps before each batch",
        setup=_MODEL
        + """
def batches():
    for _ in range(8):
        time.sleep(0.03)
        yield x, y
""",
        cell="for x, y in batches():  # HERE" + _STEP,
        kinds=("data", "waiting"),
    ),
    Program(
        name="a generator that computes each batch with ops",
        setup=_MODEL
        + """
def batches():
    for _ in range(8):
        noise = torch.randn(64, 1500, 256).mean(1)
        yield x + noise, y
""",
        cell="for x, y in batches():  # HERE" + _STEP,
        kinds=("data",),
    ),
    Program(
        name="a loop over the elements of a tensor",
        setup=_MODEL,
        cell="""
for i in range(8):
    total = 0.0
    for j in range(256):
        total += x[0, j] * 2  # HERE
"""
        + _STEP,
        kinds=("python", "dispatch"),
    ),
    Program(
        name="item() of every element",
        setup=_MODEL,
        cell="""
for i in range(8):
    values = [x[0, j].item() for j in range(256)]  # HERE
"""
        + _STEP,
        kinds=("python", "dispatch"),
    ),
    Program(
        name="sleep in the loop",
        setup=_MODEL,
        cell="""
for i in range(8):
    time.sleep(0.03)  # HERE
"""
        + _STEP,
        kinds=("waiting", "python"),
    ),
    Program(
        name="pure Python in the loop",
        setup=_MODEL,
        cell="""
for i in range(8):
    words = sorted(str(n) for n in range(60000))  # HERE
"""
        + _STEP,
        kinds=("python",),
    ),
    Program(
        name="a sleep in a range that is called backward",
        setup=_MODEL,
        cell="""
for i in range(8):
    with torch.profiler.record_function("backward"):
        time.sleep(0.03)  # HERE
"""
        + _STEP,
        kinds=("waiting", "python"),
        not_named=("Backward",),
    ),
    Program(
        name="one slow line in forward",
        setup=_MODEL
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(256, 256), nn.Linear(256, 10)
        self.big = nn.Parameter(torch.randn(1024, 1024))
    def forward(self, x):
        h = self.first(x).relu()
        m = self.big @ self.big @ self.big  # HERE
        return self.last(h) * m.mean()
model = Net()
""",
        cell="for i in range(8):" + _STEP,
        kinds=("compute",),
        flags="--lines",
    ),
    Program(
        name="a matrix product in one module",
        setup=_MODEL.replace("nn.Linear(256, 10)", "nn.Linear(256, 4096), nn.Linear(4096, 10)"),
        cell=_BLAMED_FORWARD,
        kinds=("compute",),
        module="2",
    ),
    Program(
        name="a slow backward of a custom function",
        setup=_MODEL
        + """
w = torch.randn(900, 900)
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g):
        for _ in range(4): w @ w
        return g
""",
        cell="""
for i in range(8):
    h = Slow.apply(model[0](x))  # HERE
    loss = loss_fn(model[2](h.relu()), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
""",
        kinds=("compute",),
    ),
    Program(
        name="a model that compiles again for every length",
        setup=_MODEL
        + """
import torch._dynamo
torch._dynamo.reset()
compiled = torch.compile(model, backend="aot_eager", dynamic=False)
""",
        cell="""
for i in range(6):
    out = compiled(torch.randn(40 + i, 256))  # HERE
    out.sum().backward()
    opt.step()
    opt.zero_grad()
""",
        kinds=("compile", "python"),
    ),
    Program(
        name="a large optimizer",
        setup=_MODEL
        + """
model = nn.Sequential(nn.Embedding(20000, 64), nn.Linear(64, 10))
opt = torch.optim.AdamW(model.parameters(), foreach=False)
x = torch.randint(0, 20000, (64,))
""",
        cell=_BLAMED_OPTIMIZER,
        kinds=("optimizer",),
    ),
    Program(
        name="allocation churn",
        setup=_MODEL,
        cell="""
for i in range(8):
    for _ in range(12):
        big = torch.zeros(4_000_000)  # HERE
"""
        + _STEP,
        kinds=("memory_traffic", "compute"),
    ),
    Program(
        name="copies between layouts",
        setup=_MODEL + "wide = torch.randn(2048, 2048)\n",
        cell="""
for i in range(8):
    for _ in range(4):
        other = wide.t().contiguous()  # HERE
"""
        + _STEP,
        kinds=("memory_traffic",),
    ),
    Program(
        name="one step that sleeps among fast ones",
        setup=_BIG,
        cell="""
for i in range(12):
    if i == 7:
        time.sleep(0.5)
"""
        + _STEP,
        kinds=("compute", "optimizer"),
        not_named=("sleep",),
        flags="--active 8 --repeat 1",
    ),
    Program(
        name="gradient accumulation",
        setup=_BIG,
        cell="""
for i in range(12):
    loss = loss_fn(model(x), y)
    loss.backward()
    if i % 4 == 3:
        opt.step()
        opt.zero_grad()
""",
        kinds=("compute",),
        flags="--step loop --active 8 --repeat 1",
    ),
    Program(
        name="an optimizer of a thousand small parameters",
        setup="""
import torch
parameters = [torch.nn.Parameter(torch.randn(8)) for _ in range(1500)]
for p in parameters: p.grad = torch.randn(8)
opt = torch.optim.Adam(parameters, foreach=False)
x = torch.randn(100, 100)
""",
        cell="for i in range(8):\n    (x @ x).sum()\n    opt.step()  # HERE\n",
        kinds=("optimizer",),
    ),
    Program(
        name="a forward that takes tensors apart and backward that follows",
        setup="""
import torch
class Loopy(torch.nn.Module):
    def forward(self, x):
        return torch.stack([x[i] * 2 + 1 for i in range(x.shape[0])])
model = torch.nn.Sequential(torch.nn.Linear(64, 64), Loopy(), torch.nn.Linear(64, 1))
opt = torch.optim.SGD(model.parameters(), 0.1)
x = torch.randn(400, 64)
""",
        cell="for i in range(8):\n    y = model(x)  # HERE\n    loss = y.pow(2).mean()\n    opt.zero_grad()\n"
        "    loss.backward()\n    opt.step()\n",
        kinds=("dispatch", "python"),
    ),
    Program(
        name="two optimizers of a GAN",
        setup=_BIG
        + """
gen = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048))
disc = nn.Sequential(nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 1))
og, od = torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())
""",
        cell="""
for i in range(8):
    fake = gen(torch.randn(64, 64))
    loss_d = disc(fake.detach()).mean() - disc(x).mean()
    od.zero_grad(); loss_d.backward(); od.step()
    loss_g = -disc(fake).mean()
    og.zero_grad(); loss_g.backward(); og.step()
""",
        kinds=("compute", "optimizer"),
    ),
    Program(
        name="LBFGS with a closure",
        setup=_MODEL + "opt = torch.optim.LBFGS(model.parameters(), max_iter=4)\n",
        cell="""
def closure():
    opt.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss
for i in range(8):
    opt.step(closure)  # HERE
""",
        kinds=("optimizer", "compute", "dispatch", "python"),
    ),
    Program(
        name="activation checkpointing",
        setup=_BIG
        + """
from torch.utils.checkpoint import checkpoint
x.requires_grad_()
""",
        cell="""
for i in range(8):
    h = checkpoint(model[0], x, use_reentrant=False)
    loss = loss_fn(model[2](h.relu()), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
""",
        kinds=("compute",),
    ),
    Program(
        name="inference without gradients",
        setup=_BIG,
        cell="""
with torch.no_grad():
    for i in range(8):
        out = model(x)  # HERE
""",
        kinds=("compute",),
        module="0",
    ),
    Program(
        name="ops on several threads",
        setup=_BIG
        + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
w = torch.randn(700, 700)
def work(): return (w @ w @ w).sum()
""",
        cell="""
for i in range(8):
    futures = [pool.submit(work) for _ in range(4)]
    out = [f.result() for f in futures]  # HERE
""",
        kinds=("compute", "waiting", "python"),
    ),
    Program(
        name="many small layers",
        setup=_MODEL
        + """
model = nn.Sequential(*[m for _ in range(60) for m in (nn.Linear(8, 8), nn.ReLU())], nn.Linear(8, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(4, 8); y = torch.randint(0, 10, (4,))
""",
        cell="for i in range(8):" + _STEP,
        kinds=("dispatch", "python"),
    ),
    Program(
        name="reading a file for every batch",
        setup=_MODEL
        + """
import tempfile, os
path = os.path.join(tempfile.mkdtemp(), "batch.pt")
torch.save(torch.randn(3_000_000), path)
""",
        cell="""
for i in range(8):
    big = torch.load(path)  # HERE
"""
        + _STEP,
        kinds=("python", "data", "waiting", "memory_traffic"),
    ),
    Program(
        name="printing a tensor in every step",
        setup=_MODEL,
        cell="""
import io
for i in range(8):
    text = str(torch.randn(100, 100)) * 1; text = [str(torch.randn(40, 40)) for _ in range(12)]  # HERE
"""
        + _STEP,
        kinds=("python", "dispatch"),
    ),
    Program(
        name="a convolution",
        setup="""
import torch
from torch import nn
torch.manual_seed(0)
convolutions = nn.Conv2d(3, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1)
model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(48 * 1024, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
loss_fn = nn.CrossEntropyLoss()
""",
        cell=_BLAMED_FORWARD,
        kinds=("compute",),
        module="2",
    ),
    Program(
        name="a lock that another thread holds",
        setup=_MODEL
        + """
import threading
lock = threading.Lock()
stop = threading.Event()
def hold():
    while not stop.is_set():
        with lock: time.sleep(0.02)
        time.sleep(0.001)
holder = threading.Thread(target=hold, daemon=True); holder.start()
""",
        cell="""
for i in range(8):
    with lock:  # HERE
        pass
"""
        + _STEP
        + "stop.set()\n",
        kinds=("waiting", "python"),
    ),
    Program(
        name="a while loop with a slow metric",
        setup=_BIG
        + """
def metric(model):
    return sum((p ** 2).sum().item() for p in model.parameters() for _ in range(12))
""",
        cell="""
i = 0
while i < 8:
    score = metric(model)  # HERE
    out = model(x[:2])
    out.sum().backward()
    i += 1
""",
        kinds=("compute", "memory_traffic"),
    ),
    Program(
        name="a function in which everything happens",
        setup=_BIG
        + """
def train():
    for i in range(8):
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        time.sleep(0.08)
        opt.zero_grad()
""",
        cell="train()  # HERE\n",
        kinds=("waiting", "python"),
    ),
    Program(
        name="validation in every step",
        setup=_BIG + "val = torch.randn(1500, 2048)\n",
        cell="""
for i in range(8):
    with torch.no_grad():
        out = model(val)  # HERE
    loss = loss_fn(model(x[:4]), y[:4])
    loss.backward()
    opt.zero_grad()
""",
        kinds=("compute",),
    ),
    Program(
        name="embedding lookups with a sparse loop",
        setup=_MODEL + "table = nn.Embedding(50000, 64)\n",
        cell="""
for i in range(8):
    rows = [table(torch.tensor([k])) for k in range(150)]  # HERE
    out = torch.cat(rows).sum()
    out.backward()
    table.weight.grad = None
""",
        kinds=("dispatch", "python", "compute", "memory_traffic"),
    ),
    Program(
        name="an innocent fast loop",
        setup=_BIG,
        cell="for i in range(10):" + _STEP,
        kinds=("compute", "optimizer"),
        not_named=("sleep", "DataLoader"),
    ),
)
