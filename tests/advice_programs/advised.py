"""Small programs, each with something to change or just without it, for every rule that speaks on a CPU.

A program is a setup cell, which runs without the profiler, and a cell that is profiled. The line to change ends in
``# HERE``. In ``changes`` the advice is carried out: texts of the setup and the cell, and what to write in their place.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchprof_magic.system.process.cores import usable_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and the advice that is right for it.

    Attributes:
        name: What it is, as the title of a test.
        rule: The rule that must speak, or for a near miss must not.
        is_miss: Whether this is a near miss.
        setup: Cell that runs first, without the profiler.
        cell: Cell that is profiled.
        flags: Flags of the magic.
        changes: How to carry out the advice.
        also: Other rules that may speak, because they are right, too.
        threads: Threads that ops use.
    """

    name: str
    rule: str
    setup: str
    cell: str
    is_miss: bool = False
    flags: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()
    threads: int = 1


CORES = usable_cores()
_HEAD = """
import time, torch
from torch import nn
torch.manual_seed(0)
"""
_MODEL = (
    _HEAD
    + """
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
x, y = torch.randn(256, 256), torch.randint(0, 10, (256,))
loss_fn = nn.CrossEntropyLoss()
"""
)
_STEP = """
    loss = loss_fn(model(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
"""
_LOOP = "for i in range(10):"
_DEEP = (
    _HEAD
    + """
model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(24)])
x, y = torch.randn(64, 64), torch.randn(64, 64)
loss_fn = nn.MSELoss()
"""
)
_SLOW_SET = """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 640
    def __getitem__(self, i):
        time.sleep(PAUSE)
        return torch.randn(256), i % 10
loader = torch.utils.data.DataLoader(Slow(), batch_size=32, num_workers=WORKERS)
"""


def _loader(pause: float, workers: int = 0) -> str:
    return _MODEL + _SLOW_SET.replace("PAUSE", str(pause)).replace("WORKERS", str(workers))


_CONV = (
    _HEAD
    + """
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
                      nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
loss_fn = nn.CrossEntropyLoss()
"""
)
_ATTENTION = (
    _HEAD
    + """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
    def forward(self, x):
        q, k, v = (t.view(8, 128, 4, 16).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / 4
        y = torch.softmax(scores, -1) @ v  # HERE
        return self.out(y.transpose(1, 2).reshape(8, 128, 64))
model = Attention()
opt = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
x = torch.randn(8, 128, 64)
"""
)
_ATTENTION_STEP = """
for i in range(10):
    loss = model(x).pow(2).mean()  # HERE
    loss.backward()
    opt.step()
    opt.zero_grad()
"""
_COMPILED = (
    _HEAD
    + """
def f(x):
    return (x.sin() * 2 + x.cos()).relu().sum(-1)
g = torch.compile(f, dynamic=DYNAMIC)
lengths = LENGTHS
xs = [torch.randn(n, 64) for n in lengths]
_ = g(xs[0]); _ = g(xs[1])
"""
)
_BROKEN = (
    _HEAD
    + """
def f(x):
    y = (x @ x).sin()
    BREAK
    return (y + 1).relu() @ x
g = torch.compile(f)
x = torch.randn(256, 256)
_ = g(x)
"""
)
_GROUP = (
    _HEAD
    + """
import tempfile, torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(12)])
opt = torch.optim.SGD(model.parameters(), lr=0.001, fused=True)
x = torch.randn(16, 256)
"""
)
_DDP = _GROUP + "ddp = nn.parallel.DistributedDataParallel(model)\nfrom contextlib import nullcontext\n"

PROGRAMS = (
    # dataloader_workers
    Program(
        name="a DataLoader that loads in the program",
        rule="dataloader_workers",
        setup=_loader(0.0005),
        cell="for x, y in loader:  # HERE" + _STEP,
        changes=(("num_workers=0", f"num_workers={max(CORES, 2)}, persistent_workers=True"),),
    ),
    Program(
        name="a DataLoader of a slow dataset beside a heavy model",
        rule="dataloader_workers",
        setup=_loader(0.0003).replace(
            "256, 256), nn.ReLU(), nn.Linear(256",
            "256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048",
        ),
        cell="for x, y in loader:  # HERE" + _STEP,
        changes=(("num_workers=0", "num_workers=2, persistent_workers=True"),),
    ),
    Program(
        name="a DataLoader whose single worker does not keep up",
        rule="dataloader_workers",
        setup=_loader(0.001, 1),
        cell="for x, y in loader:  # HERE" + _STEP,
        changes=(("num_workers=1", f"num_workers={max(CORES, 2)}, persistent_workers=True"),),
    ),
    Program(
        name="a DataLoader that loads quickly",
        rule="dataloader_workers",
        is_miss=True,
        setup=_MODEL + "loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(640, 256), "
        "torch.zeros(640, dtype=torch.long)), batch_size=32)",
        cell="for x, y in loader:" + _STEP,
    ),
    Program(
        name="workers that have a batch ready",
        rule="dataloader_workers",
        is_miss=True,
        setup=_loader(0.00005, 2),
        cell="for x, y in loader:\n    time.sleep(0.08)" + _STEP,
        also=("sleeping",),
    ),
    # sleeping
    Program(
        name="a loop that sleeps",
        rule="sleeping",
        setup=_MODEL,
        cell=_LOOP + "\n    time.sleep(0.02)  # HERE" + _STEP,
        changes=(("    time.sleep(0.02)  # HERE\n", ""),),
    ),
    Program(
        name="a loop that waits for a thread",
        rule="sleeping",
        is_miss=True,
        setup="import threading" + _MODEL,
        cell=_LOOP + "\n    timer = threading.Timer(0.02, int); timer.start(); timer.join()" + _STEP,
    ),
    # python_loop
    Program(
        name="a loop over the elements of a tensor",
        rule="python_loop",
        setup=_MODEL,
        cell=_LOOP + "\n    total = 0.0\n    for j in range(256):\n        total = total + x[0, j] * 2  # HERE" + _STEP,
        changes=(
            (
                "    total = 0.0\n    for j in range(256):\n        total = total + x[0, j] * 2  # HERE",
                "    total = (x[0] * 2).sum()",
            ),
        ),
    ),
    Program(
        name="item() of every element",
        rule="python_loop",
        setup=_MODEL,
        cell=_LOOP + "\n    values = [x[0, j].item() for j in range(256)]  # HERE" + _STEP,
        changes=(("[x[0, j].item() for j in range(256)]", "x[0].tolist()"),),
    ),
    Program(
        name="rows that are normalised one by one",
        rule="python_loop",
        setup=_MODEL,
        cell=_LOOP
        + "\n    out = torch.empty_like(x)\n    for j in range(len(x)):\n        out[j] = x[j] - x[j].mean()  # HERE"
        + _STEP,
        changes=(
            (
                "    out = torch.empty_like(x)\n    for j in range(len(x)):\n        out[j] = x[j] - x[j].mean()  # HERE",
                "    out = x - x.mean(1, keepdim=True)",
            ),
        ),
    ),
    Program(
        name="a recurrent cell over time",
        rule="python_loop",
        is_miss=True,
        setup=_HEAD + "cell_ = nn.RNNCell(64, 64)\nx = torch.randn(16, 100, 64)",
        cell=_LOOP
        + """
    h = torch.zeros(16, 64)
    for t in range(100):
        h = cell_(x[:, t], h)
    h.sum().backward()
""",
    ),
    Program(
        name="a loop over a few blocks",
        rule="python_loop",
        is_miss=True,
        setup=_MODEL,
        cell=_LOOP + "\n    parts = [x[j * 32:(j + 1) * 32].mean() for j in range(8)]" + _STEP,
    ),
    Program(
        name="a loop over the parameters",
        rule="python_loop",
        is_miss=True,
        setup=_DEEP,
        cell=_LOOP
        + """
    loss_fn(model(x), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None
""",
    ),
    # repeated_copy
    Program(
        name="a table that is converted in every step",
        rule="repeated_copy",
        setup=_MODEL + "table = torch.randn(1500, 1500)",
        cell=_LOOP + "\n    precise = table.double()  # HERE" + _STEP,
        changes=((_LOOP + "\n    precise = table.double()  # HERE", "precise = table.double()\n" + _LOOP),),
    ),
    Program(
        name="a transposed table that is made contiguous in every step",
        rule="repeated_copy",
        setup=_MODEL + "table = torch.randn(1000, 1000).t()",
        cell=_LOOP + "\n    z = table.contiguous().sum()  # HERE" + _STEP,
        changes=((_LOOP, "ready = table.contiguous()\n" + _LOOP), ("table.contiguous().sum()", "ready.sum()")),
    ),
    Program(
        name="a batch that is converted in every step",
        rule="repeated_copy",
        is_miss=True,
        setup=_MODEL + "batches = [torch.randn(1000, 1000) for _ in range(10)]",
        cell="for batch in batches:\n    z = batch.double().sum()" + _STEP,
    ),
    Program(
        name="a weight with a gradient that is converted in every step",
        rule="repeated_copy",
        is_miss=True,
        setup=_HEAD + "w = torch.randn(800, 800, requires_grad=True)\nopt = torch.optim.SGD([w], lr=0.01)",
        cell=_LOOP + "\n    loss = w.double().pow(2).sum()\n    loss.backward()\n    opt.step()\n    opt.zero_grad()",
    ),
    Program(
        name="a buffer that the loop changes and copies",
        rule="repeated_copy",
        is_miss=True,
        setup=_MODEL + "history = torch.zeros(1000, 1000)",
        cell=_LOOP + "\n    history[i] += 1\n    z = history.double()" + _STEP,
    ),
    # rebuilt_constant
    Program(
        name="weights from a list in every step",
        rule="rebuilt_constant",
        setup=_MODEL + "weights = [0.5 + k / 3e4 for k in range(20000)]",
        cell=_LOOP + "\n    w = torch.tensor(weights)  # HERE" + _STEP,
        changes=((_LOOP + "\n    w = torch.tensor(weights)  # HERE", "w = torch.tensor(weights)\n" + _LOOP),),
    ),
    Program(
        name="a causal mask in forward",
        rule="rebuilt_constant",
        setup=_HEAD
        + """
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1000, 64)
        self.register_buffer("mask", torch.tril(torch.ones(1000, 1000)), persistent=False)
    def forward(self, x):
        mask = torch.tril(torch.ones(1000, 1000))  # HERE
        return self.layer(x * mask)
model = Masked()
x = torch.randn(1000, 1000)
""",
        cell=_LOOP + "\n    loss = model(x).sum()  # HERE\n    loss.backward()",
        changes=(("mask = torch.tril(torch.ones(1000, 1000))  # HERE", "mask = self.mask"),),
    ),
    Program(
        name="positions in every step",
        rule="rebuilt_constant",
        setup=_MODEL + "n = 200000",
        cell=_LOOP + "\n    z = torch.arange(n).sqrt().sum()  # HERE" + _STEP,
        changes=(("torch.arange(n).sqrt().sum()", "ready"), (_LOOP, "ready = torch.arange(n).sqrt().sum()\n" + _LOOP)),
    ),
    Program(
        name="a buffer that each step fills anew",
        rule="rebuilt_constant",
        is_miss=True,
        setup=_MODEL,
        cell=_LOOP + "\n    out = torch.zeros(1000, 1000)\n    out[0] = i" + _STEP,
    ),
    Program(
        name="random noise in every step",
        rule="rebuilt_constant",
        is_miss=True,
        setup=_MODEL,
        cell=_LOOP + "\n    noise = torch.randn(1000, 1000)" + _STEP,
    ),
    Program(
        name="a target from the labels of each batch",
        rule="rebuilt_constant",
        is_miss=True,
        setup=_MODEL + "labels = [[k % 10 for k in range(j, j + 20000)] for j in range(10)]",
        cell="for one in labels:\n    t = torch.tensor(one)" + _STEP,
    ),
    # single_tensor_optimizer
    Program(
        name="Adam of many small parameters",
        rule="single_tensor_optimizer",
        setup=_DEEP + "opt = torch.optim.Adam(model.parameters(), lr=1e-4)",
        cell=_LOOP + _STEP.replace("opt.step()", "opt.step()  # HERE"),
        changes=(("lr=1e-4)", "lr=1e-4, fused=True)"),),
    ),
    Program(
        name="SGD with momentum of large parameters",
        rule="single_tensor_optimizer",
        setup=_HEAD
        + """
model = nn.Sequential(nn.Linear(1500, 1500), nn.Linear(1500, 1500))
x, y, loss_fn = torch.randn(4, 1500), torch.randn(4, 1500), nn.MSELoss()
opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
""",
        cell=_LOOP + _STEP.replace("opt.step()", "opt.step()  # HERE"),
        changes=(("momentum=0.9)", "momentum=0.9, fused=True)"),),
    ),
    Program(
        name="SGD with momentum of many small layers",
        rule="single_tensor_optimizer",
        setup=_DEEP.replace("randn(64, 64)", "randn(2, 64)")
        + "opt = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)",
        cell=_LOOP + _STEP.replace("opt.step()", "opt.step()  # HERE"),
        changes=(("momentum=0.9)", "momentum=0.9, fused=True)"),),
    ),
    Program(
        name="AdamW of layers of middle size",
        rule="single_tensor_optimizer",
        setup=_DEEP.replace("64, 64) for", "256, 256) for").replace("randn(64, 64)", "randn(64, 256)")
        + "opt = torch.optim.AdamW(model.parameters(), lr=1e-4)",
        cell=_LOOP + _STEP.replace("opt.step()", "opt.step()  # HERE"),
        changes=(("lr=1e-4)", "lr=1e-4, fused=True)"),),
    ),
    Program(
        name="plain SGD of large layers",
        rule="single_tensor_optimizer",
        is_miss=True,
        setup=_HEAD
        + """
model = nn.Sequential(nn.Linear(1500, 1500), nn.Linear(1500, 1500))
x, y, loss_fn = torch.randn(4, 1500), torch.randn(4, 1500), nn.MSELoss()
opt = torch.optim.SGD(model.parameters(), lr=1e-4)
""",
        cell=_LOOP + _STEP,
    ),
    Program(
        name="a fused optimizer",
        rule="single_tensor_optimizer",
        is_miss=True,
        setup=_DEEP + "opt = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)",
        cell=_LOOP + _STEP,
    ),
    Program(
        name="an optimizer of one parameter",
        rule="single_tensor_optimizer",
        is_miss=True,
        setup=_HEAD
        + "model = nn.Linear(64, 64, bias=False)\nx, y, loss_fn = torch.randn(64, 64), torch.randn(64, 64), nn.MSELoss()\n"
        "opt = torch.optim.Adam(model.parameters(), lr=1e-4)",
        cell=_LOOP + _STEP,
    ),
    # zero_grad_set_to_none
    Program(
        name="gradients of large layers that are filled with zeros",
        rule="zero_grad_set_to_none",
        setup=_HEAD
        + """
model = nn.Sequential(nn.Linear(1500, 1500), nn.Linear(1500, 1500))
x, y, loss_fn = torch.randn(4, 1500), torch.randn(4, 1500), nn.MSELoss()
opt = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
""",
        cell=_LOOP + _STEP.replace("opt.zero_grad()", "opt.zero_grad(set_to_none=False)  # HERE"),
        changes=(("opt.zero_grad(set_to_none=False)", "opt.zero_grad()"),),
    ),
    Program(
        name="gradients of many layers that are filled with zeros",
        rule="zero_grad_set_to_none",
        setup=_DEEP + "opt = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)",
        cell=_LOOP + _STEP.replace("opt.zero_grad()", "opt.zero_grad(set_to_none=False)  # HERE"),
        changes=(("opt.zero_grad(set_to_none=False)", "opt.zero_grad()"),),
    ),
    Program(
        name="zero_grad with its default",
        rule="zero_grad_set_to_none",
        is_miss=True,
        setup=_DEEP + "opt = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)",
        cell=_LOOP + _STEP,
    ),
    # bias_before_batchnorm
    Program(
        name="linear layers with a bias before batch norms",
        rule="bias_before_batchnorm",
        setup=_HEAD
        + """
model = nn.Sequential(nn.Linear(64, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
x, y, loss_fn = torch.randn(2000, 64), torch.randint(0, 10, (2000,)), nn.CrossEntropyLoss()
""",
        cell=_LOOP + _STEP.replace("y)\n", "y)  # HERE\n"),
        flags="--shapes",
        changes=(("nn.Linear(64, 512)", "nn.Linear(64, 512, bias=False)"),),
        also=("autocast",),
    ),
    Program(
        name="convolutions with a bias before batch norms",
        rule="bias_before_batchnorm",
        setup=_CONV.replace(", bias=False", ""),
        cell=_LOOP + _STEP.replace("y)\n", "y)  # HERE\n"),
        flags="--shapes",
        changes=(("padding=1)", "padding=1, bias=False)"),),
        also=("channels_last",),
    ),
    Program(
        name="convolutions without a bias",
        rule="bias_before_batchnorm",
        is_miss=True,
        setup=_CONV,
        cell=_LOOP + _STEP,
        flags="--shapes",
        also=("channels_last",),
    ),
    Program(
        name="an activation between the bias and the batch norm",
        rule="bias_before_batchnorm",
        is_miss=True,
        setup=_CONV.replace(", bias=False", "").replace(
            "nn.BatchNorm2d(32), nn.ReLU()", "nn.ReLU(), nn.BatchNorm2d(32)"
        ),
        cell=_LOOP + _STEP,
        flags="--shapes",
        also=("channels_last",),
    ),
    # autocast
    Program(
        name="large products in float32",
        rule="autocast",
        setup=_HEAD + "a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)",
        cell=_LOOP + "\n    c = a @ b  # HERE",
        flags="--shapes",
        changes=(("c = a @ b  # HERE", "with torch.autocast('cpu', dtype=torch.bfloat16):\n        c = a @ b"),),
    ),
    Program(
        name="a wide network in float32",
        rule="autocast",
        setup=_HEAD
        + "model, x = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)), torch.randn(512, 1024)",
        cell=_LOOP + "\n    with torch.no_grad():\n        z = model(x)  # HERE",
        flags="--shapes",
        changes=(("torch.no_grad():", "torch.no_grad(), torch.autocast('cpu', dtype=torch.bfloat16):"),),
    ),
    Program(
        name="large products in bfloat16",
        rule="autocast",
        is_miss=True,
        setup=_HEAD + "a, b = torch.randn(1024, 1024).bfloat16(), torch.randn(1024, 1024).bfloat16()",
        cell=_LOOP + "\n    c = a @ b",
        flags="--shapes",
    ),
    Program(
        name="many small products in float32",
        rule="autocast",
        is_miss=True,
        setup=_HEAD + "a, b = torch.randn(32, 32), torch.randn(32, 32)",
        cell=_LOOP + "\n    for _ in range(40):\n        c = a @ b",
        flags="--shapes",
    ),
    # channels_last
    Program(
        name="a network of convolutions in plain layout",
        rule="channels_last",
        setup=_CONV,
        cell=_LOOP + _STEP.replace("y)\n", "y)  # HERE\n"),
        changes=(
            (
                "loss_fn =",
                "model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)\nloss_fn =",
            ),
        ),
    ),
    Program(
        name="inference with convolutions in plain layout",
        rule="channels_last",
        setup=_CONV + "model.eval()",
        cell=_LOOP + "\n    with torch.no_grad():\n        z = model(x)  # HERE",
        changes=(
            (
                "loss_fn =",
                "model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)\nloss_fn =",
            ),
        ),
    ),
    Program(
        name="convolutions in channels last",
        rule="channels_last",
        is_miss=True,
        setup=_CONV + "model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)",
        cell=_LOOP + _STEP,
    ),
    # recompiles
    Program(
        name="a compiled function that gets another length each time",
        rule="recompiles",
        setup=_COMPILED.replace("DYNAMIC", "False").replace("LENGTHS", "range(8, 18)"),
        cell="for x in xs:\n    z = g(x)  # HERE",
        changes=(("dynamic=False", "dynamic=True"),),
    ),
    Program(
        name="a compiled function that gets another number each time",
        rule="recompiles",
        setup=_HEAD + "def f(x, options):\n    return (x * options['scale']).relu()\ng = torch.compile(f)\n"
        "x = torch.randn(64, 64)\n_ = g(x, {'scale': 'a' and 1, 'tag': 'a'})\n"
        "modes = [{'scale': 2.0, 'k': name} for name in 'abcdefghij']\n"
        "def f(x, mode):\n    return (x * len(mode)).relu() if mode == 'a' else (x + ord(mode[0])).relu()\n"
        "g = torch.compile(f)\n_ = g(x, 'y'); _ = g(x, 'z')",
        cell="for mode in 'abcdefghij':\n    z = g(x, mode)  # HERE",
        changes=(("for mode in 'abcdefghij'", "for mode in 'zzzzzzzzzz'"),),
    ),
    Program(
        name="a compiled function that gets equal lengths",
        rule="recompiles",
        is_miss=True,
        setup=_COMPILED.replace("DYNAMIC", "False").replace("LENGTHS", "[16] * 10"),
        cell="for x in xs:\n    z = g(x)",
    ),
    Program(
        name="a compiled function with dynamic lengths",
        rule="recompiles",
        is_miss=True,
        setup=_COMPILED.replace("DYNAMIC", "True").replace("LENGTHS", "range(8, 18)"),
        cell="for x in xs:\n    z = g(x)",
    ),
    # Graphs that break.
    Program(
        name="a print in a compiled function",
        rule="graph_breaks",
        setup=_BROKEN.replace("BREAK", "print(end='')  # HERE"),
        cell=_LOOP + "\n    z = g(x)  # HERE",
        changes=(("print(end='')", "pass"),),
    ),
    Program(
        name="an item() in a compiled function",
        rule="graph_breaks",
        setup=_BROKEN.replace("BREAK", "s = y.sum().item()  # HERE"),
        cell=_LOOP + "\n    z = g(x)  # HERE",
        changes=(("s = y.sum().item()", "s = y.sum()"),),
    ),
    Program(
        name="two functions that are compiled apart",
        rule="graph_breaks",
        is_miss=True,
        setup=_BROKEN.replace("BREAK", "pass") + "h = torch.compile(lambda x: x.cos() @ x)\n_ = h(x)",
        cell=_LOOP + "\n    z = h(g(x))",
    ),
    # attention_unfused
    Program(
        name="attention in single ops",
        rule="attention_unfused",
        setup=_ATTENTION,
        cell=_ATTENTION_STEP,
        changes=(
            (
                "scores = q @ k.transpose(-1, -2) / 4\n        y = torch.softmax(scores, -1) @ v",
                "y = nn.functional.scaled_dot_product_attention(q, k, v)",
            ),
        ),
    ),
    Program(
        name="attention with a mask and dropout in single ops",
        rule="attention_unfused",
        setup=_ATTENTION.replace("/ 4\n", "/ 4\n        scores = scores.masked_fill(hidden, float('-inf'))\n").replace(
            "class Attention", "hidden = torch.ones(128, 128).triu(1).bool()\nclass Attention"
        ),
        cell=_ATTENTION_STEP,
        changes=(
            (
                "scores = q @ k.transpose(-1, -2) / 4\n        scores = scores.masked_fill(hidden, float('-inf'))\n        y = torch.softmax(scores, -1) @ v",
                "y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
            ),
        ),
    ),
    Program(
        name="fused attention",
        rule="attention_unfused",
        is_miss=True,
        setup=_ATTENTION.replace(
            "scores = q @ k.transpose(-1, -2) / 4\n        y = torch.softmax(scores, -1) @ v",
            "y = nn.functional.scaled_dot_product_attention(q, k, v)",
        ),
        cell=_ATTENTION_STEP,
    ),
    Program(
        name="a softmax over classes between two layers",
        rule="attention_unfused",
        is_miss=True,
        setup=_HEAD + "a, b, x = torch.randn(256, 256), torch.randn(256, 256), torch.randn(512, 256)",
        cell=_LOOP + "\n    z = torch.softmax(x @ a, -1) @ b",
        flags="--shapes",
        also=("autocast",),
    ),
    # threads
    Program(
        name="more threads than cores",
        rule="oversubscribed_threads",
        setup=_MODEL,
        cell=_LOOP + _STEP,
        threads=8,
        changes=(("import time", "import time"),),
    ),
    Program(
        name="many more threads than cores in elementwise ops",
        rule="oversubscribed_threads",
        setup=_HEAD + "x = torch.randn(1000, 1000)",
        cell=_LOOP + "\n    z = x.sin().cos().exp()",
        threads=16,
        changes=(("import time", "import time"),),
    ),
    Program(
        name="as many threads as cores",
        rule="oversubscribed_threads",
        is_miss=True,
        setup=_HEAD + "x = torch.randn(300, 300)",
        cell=_LOOP + "\n    z = x.sin().cos().exp()",
        threads=CORES,
    ),
    Program(
        name="one thread for large products",
        rule="undersubscribed_threads",
        setup=_HEAD + "a = torch.randn(1000, 1000)",
        cell=_LOOP + "\n    z = a @ a  # HERE",
        changes=(("import time", "import time"),),
    ),
    Program(
        name="one thread for large elementwise ops",
        rule="undersubscribed_threads",
        setup=_HEAD + "a = torch.randn(2000, 2000)",
        cell=_LOOP + "\n    z = a.exp().sin()  # HERE",
        changes=(("import time", "import time"),),
    ),
    Program(
        name="one thread for small ops",
        rule="undersubscribed_threads",
        is_miss=True,
        setup=_HEAD + "a = torch.randn(16, 16)",
        cell=_LOOP + "\n    for _ in range(50):\n        z = (a + 1).sin()",
    ),
    # gradient_sync_each_step
    Program(
        name="accumulation that exchanges gradients in each pass",
        rule="gradient_sync_each_step",
        setup=_DDP,
        cell=_LOOP
        + "\n    for j in range(4):\n        loss = ddp(x).sum()\n        loss.backward()  # HERE\n    opt.step()\n    opt.zero_grad()",
        changes=(
            (
                "        loss = ddp(x).sum()\n        loss.backward()  # HERE",
                "        with ddp.no_sync() if j < 3 else nullcontext():\n            loss = ddp(x).sum()\n            loss.backward()",
            ),
        ),
    ),
    Program(
        name="accumulation over two passes",
        rule="gradient_sync_each_step",
        setup=_DDP,
        cell=_LOOP
        + "\n    for j in range(2):\n        loss = ddp(x).mean()\n        loss.backward()  # HERE\n    opt.step()\n    opt.zero_grad()",
        changes=(
            (
                "        loss = ddp(x).mean()\n        loss.backward()  # HERE",
                "        with ddp.no_sync() if j < 1 else nullcontext():\n            loss = ddp(x).mean()\n            loss.backward()",
            ),
        ),
    ),
    Program(
        name="accumulation with no_sync",
        rule="gradient_sync_each_step",
        is_miss=True,
        setup=_DDP,
        cell=_LOOP
        + "\n    for j in range(2):\n        with ddp.no_sync() if j < 1 else nullcontext():\n            ddp(x).mean().backward()\n    opt.step()\n    opt.zero_grad()",
    ),
    # many_small_collectives
    Program(
        name="an all-reduce for each gradient",
        rule="many_small_collectives",
        setup=_GROUP,
        cell=_LOOP
        + "\n    model(x).mean().backward()\n    for p in model.parameters():\n        dist.all_reduce(p.grad)  # HERE\n    opt.step()\n    opt.zero_grad()",
        changes=(
            (
                "    for p in model.parameters():\n        dist.all_reduce(p.grad)  # HERE",
                "    flat = torch.cat([p.grad.flatten() for p in model.parameters()])\n    dist.all_reduce(flat)",
            ),
        ),
    ),
    Program(
        name="a broadcast of each number",
        rule="many_small_collectives",
        setup=_GROUP + "numbers = [torch.zeros(1) for _ in range(40)]",
        cell=_LOOP + "\n    for one in numbers:\n        dist.broadcast(one, 0)  # HERE\n    z = model(x)",
        flags="--step line:2",
        changes=(
            (
                "    for one in numbers:\n        dist.broadcast(one, 0)  # HERE",
                "    dist.broadcast(torch.cat(numbers), 0)",
            ),
        ),
    ),
    Program(
        name="the buckets of DistributedDataParallel",
        rule="many_small_collectives",
        is_miss=True,
        setup=_DDP,
        cell=_LOOP + "\n    ddp(x).mean().backward()\n    opt.step()\n    opt.zero_grad()",
    ),
    # memory_leak
    Program(
        name="a list of losses with their graphs",
        rule="memory_leak",
        setup=_MODEL.replace("256, 256), torch.randint(0, 10, (256,))", "64, 256), torch.randint(0, 10, (64,))")
        + "losses = []",
        cell=_LOOP
        + "\n    loss = loss_fn(model(x), y)  # HERE\n    losses.append(loss)\n    loss.backward(retain_graph=True)\n    opt.step()\n    opt.zero_grad()",
        flags="--memory",
    ),
    Program(
        name="a cache that is never emptied",
        rule="memory_leak",
        setup=_MODEL + "cache = {}",
        cell=_LOOP + "\n    cache[i] = torch.randn(500, 500)  # HERE" + _STEP,
        flags="--memory",
    ),
    Program(
        name="a buffer of fixed size that is full before the recording",
        rule="memory_leak",
        is_miss=True,
        setup=_MODEL
        + "from collections import deque\nreplay = deque((torch.randn(500, 500) for _ in range(8)), maxlen=8)",
        cell=_LOOP + "\n    replay.append(torch.randn(500, 500))" + _STEP,
        flags="--memory",
    ),
    Program(
        name="a list of numbers",
        rule="memory_leak",
        is_miss=True,
        setup=_MODEL + "losses = []",
        cell=_LOOP + _STEP + "    losses.append(loss.item())",
        flags="--memory",
    ),
    # checkpoint
    Program(
        name="a deep network whose activations are the peak",
        rule="checkpoint",
        setup=_HEAD
        + "blocks = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6)])\n"
        "x = torch.randn(4096, 256)",
        cell="for i in range(6):\n    blocks(x).mean().backward()",
        flags="--memory",
    ),
    Program(
        name="a wide embedding whose weights are the peak",
        rule="checkpoint",
        is_miss=True,
        setup=_HEAD + "model, x = nn.EmbeddingBag(200000, 128), torch.randint(0, 200000, (16, 8))",
        cell="for i in range(6):\n    model(x).mean().backward()\n    model.zero_grad()",
        flags="--memory",
    ),
    # profiling_distorts
    Program(
        name="many tiny ops that are recorded with stacks",
        rule="profiling_distorts",
        setup=_HEAD + "def tiny(a):\n    return a + 1\na = torch.zeros(1)",
        cell="for i in range(10):\n    for _ in range(1500):\n        a = tiny(a)",
        flags="--stack --shapes --memory",
    ),
    Program(
        name="a few large ops",
        rule="profiling_distorts",
        is_miss=True,
        setup=_HEAD + "a = torch.randn(700, 700)",
        cell="for i in range(10):\n    b = a @ a",
        flags="--shapes",
        also=("autocast",),
    ),
)
