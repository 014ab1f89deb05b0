"""What ``%%torchprof`` alone records of ten programs, and what it costs.

    python benchmarks/plain_cells.py [PROGRAM ...]
    python benchmarks/plain_cells.py --pairs 30 [PROGRAM ...]

Every program runs in a process of its own: once to warm up, then ``--rounds`` times bare and recorded in turn. Printed
are the steps that were recorded, which of memory, shapes, stacks, lines and modules the report has, how much longer the
cell took until its last line (the median, beside what the report says), and how long the end took from there until the
report was ready. Programs of libraries that are not installed are skipped, which is said.

With ``--pairs``, cells without a flag and with ``--preset quick`` run in turn so many times instead, each the first in
every second pair. Printed is the median of the ratios of their typical steps, 1 if the times of both are equal, with a
95 % confidence interval. On a busy machine the steps of a program that takes a millisecond need some 100 pairs: of 30,
the median for two equal recordings of the custom trainer was anything from 0.85 to 1.11.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import time
from statistics import median
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import torchprof_magic as tp

COMMON = """
import torch, time
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
"""
# Name: what is needed, the cell before, and the cell that is recorded.
PROGRAMS: dict[str, tuple[str, str, str]] = {
    "cnn": (
        "torch",
        """
net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(),
                    nn.Linear(32 * 28 * 28, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
batches = [(torch.randn(16, 3, 32, 32), torch.randint(10, (16,))) for _ in range(30)]
""",
        """
for x, y in batches:
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
    "transformer": (
        "torch",
        """
layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
net = nn.Sequential(nn.Embedding(1000, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 1000))
optimizer = torch.optim.AdamW(net.parameters())
tokens = torch.randint(1000, (20, 8, 32))
""",
        """
for batch in tokens:
    logits = net(batch[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
    "gan": (
        "torch",
        """
maker = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
judge = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
of_maker, of_judge = (torch.optim.Adam(each.parameters()) for each in (maker, judge))
real = torch.randn(64, 64)
""",
        """
for step in range(40):
    fake = maker(torch.randn(64, 16))
    of_judge.zero_grad()
    loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
    loss.backward()
    of_judge.step()
    of_maker.zero_grad()
    F.softplus(-judge(fake)).mean().backward()
    of_maker.step()
""",
    ),
    "rl": (
        "torch",
        """
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters())
def act(state):
    choice = torch.distributions.Categorical(logits=policy(state))
    action = choice.sample()
    return action, choice.log_prob(action)
def episode():
    state, logs, rewards = torch.zeros(4), [], []
    for _ in range(20):
        action, log = act(state)
        state = state + 0.1 * torch.randn(4) + 0.05 * action
        logs.append(log)
        rewards.append(1.0 - state.abs().sum().item())
    return logs, rewards
""",
        """
for number in range(25):
    logs, rewards = episode()
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(logs) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "inference": (
        "torch",
        """
net = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(6))).eval()
requests = [torch.randn(8, 256) for _ in range(50)]
""",
        """
answers = []
with torch.inference_mode():
    for request in requests:
        answers.append(net(request).argmax(1))
""",
    ),
    "custom trainer": (
        "torch",
        """
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.history = model, optimizer, []
    def training_step(self, batch):
        x, y = batch
        return F.mse_loss(self.model(x), y)
    def fit(self, loader):
        for batch in loader:
            loss = self.training_step(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.history.append(loss.item())
net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
trainer = Trainer(net, torch.optim.Adam(net.parameters()))
data = torch.utils.data.TensorDataset(torch.randn(960, 32), torch.randn(960, 1))
loader = torch.utils.data.DataLoader(data, batch_size=32)
""",
        "trainer.fit(loader)",
    ),
    "transformers": (
        "transformers",
        """
import os, tempfile
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers, torchprof_magic as tp
class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)
    def forward(self, x, labels):
        logits = self.layer(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}
data = [{"x": torch.randn(16), "labels": torch.tensor(n % 4)} for n in range(160)]
arguments = transformers.TrainingArguments(
    tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=1, report_to=[], disable_tqdm=True,
    save_strategy="no", logging_strategy="no", use_cpu=True)
""",
        """
transformers.Trainer(Tiny(), arguments, train_dataset=data, callbacks=[tp.callbacks.hf()]).train()
""",
    ),
    "lightning": (
        "lightning",
        """
import logging, tempfile, warnings
warnings.filterwarnings("ignore")
import lightning, torchprof_magic as tp
for name in ("lightning", "lightning.pytorch"): logging.getLogger(name).setLevel(logging.ERROR)
class Tiny(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)
    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(160, 16)), batch_size=8)
""",
        """
lightning.Trainer(
    max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    accelerator="cpu", callbacks=[tp.callbacks.lightning()], default_root_dir=tempfile.mkdtemp(),
).fit(Tiny(), loader)
""",
    ),
    "torch.compile": (
        "torch",
        """
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
compiled = torch.compile(net, backend="aot_eager")
x = torch.randn(32, 64)
""",
        """
for _ in range(20):
    compiled(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
    "two epochs": (
        "torch",
        """
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(256, 32), torch.randint(4, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
""",
        """
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    ),
}
# The last line of the cell says when it has ended, and is not part of the program.
LAST_LINE = "\nended = time.perf_counter()"


def run(shell: InteractiveShell, cell: str) -> tuple[float, float]:
    """Run a cell, and return the seconds until its last line, and from there to its end."""
    began = time.perf_counter()
    with capture_output():
        shell.run_cell(cell + LAST_LINE).raise_error()
    return shell.user_ns["ended"] - began, time.perf_counter() - shell.user_ns["ended"]


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Run one program, and return what is printed of it."""
    _, setup, body = PROGRAMS[name]
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "torchprof_magic")
    with capture_output():
        shell.run_cell(COMMON + setup).raise_error()
    run(shell, body)
    bare, recorded, ends = [], [], []
    for _ in range(rounds):
        bare.append(run(shell, body)[0])
        loop_s, end_s = run(shell, f"%%torchprof\n{body}")
        recorded.append(loop_s)
        ends.append(end_s)
    report = tp.last
    assert report is not None
    meta, passes = report.trace.meta, report.trace.meta.two_pass
    there = {
        "memory": meta.has_memory,
        "shapes": meta.has_shapes,
        "stacks": meta.has_stacks,
        "lines": report.lines.height > 0,
        "modules": report.modules.height > 1,
    }
    codes = [found.code for found in report.problems if found.code.startswith(("capture.", "run.auto"))]
    return {
        "recorded": report.summary().partition(" — ")[2].partition("\n")[0],
        "has": ", ".join(name for name, is_there in there.items() if is_there),
        "lacks": ", ".join([name for name, is_there in there.items() if not is_there] + codes),
        "bare_s": median(bare),
        "longer_s": median(recorded) - median(bare),
        "told_s": None if passes is None or passes.cost_ns is None else passes.cost_ns / 1e9,
        "end_s": median(ends),
    }


def ratio_to_quick(name: str, pairs: int) -> tuple[float, float, float]:
    """Return the median ratio of the typical step without a flag to that with ``--preset quick``, and its bounds."""
    _, setup, body = PROGRAMS[name]
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "torchprof_magic")
    with capture_output():
        shell.run_cell(COMMON + setup).raise_error()

    def step_ns(flags: str) -> float:
        run(shell, f"%%torchprof -q {flags}\n{body}")
        assert tp.last is not None
        return tp.last.step_ns

    step_ns("")
    ratios = []
    for number in range(pairs):
        if number % 2:
            quick = step_ns("--preset quick")
            ratios.append(step_ns("") / quick)
        else:
            plain = step_ns("")
            ratios.append(plain / step_ns("--preset quick"))
    ratios.sort()
    # So many of the ratios lie below the median of all possible ones, but in one of 40 cases on either side.
    below = max(int(pairs / 2 - 0.98 * math.sqrt(pairs)), 0)
    return median(ratios), ratios[below], ratios[-1 - below]


def main() -> None:
    """Print a row for each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        name = args.programs[0]
        print(json.dumps(ratio_to_quick(name, args.pairs) if args.pairs else measure(name, args.rounds)))
        return
    for name in args.programs:
        needed = PROGRAMS[name][0]
        if importlib.util.find_spec(needed) is None:
            print(f"{name}: skipped, {needed} is not installed")
            continue
        numbers = ["--rounds", str(args.rounds), "--pairs", str(args.pairs)]
        command = [sys.executable, __file__, name, "--one", *numbers]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: failed\n{done.stderr[-2000:]}")
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        if args.pairs:
            ratio, low, high = row
            said = f"median of {args.pairs} pairs, 95 % from {low:.3f} to {high:.3f}"
            print(f"{name}: {ratio:.3f} times the step of --preset quick, {said}")
            continue
        told = "not told" if row["told_s"] is None else f"told {row['told_s']:.2f} s"
        print(f"{name}: {row['recorded']}")
        print(f"    has {row['has']}; lacks {row['lacks'] or 'nothing'}")
        print(f"    bare loop {row['bare_s']:.2f} s, {row['longer_s']:.2f} s longer ({told}), end {row['end_s']:.2f} s")


if __name__ == "__main__":
    main()
