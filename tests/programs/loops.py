"""Sixty cells in as many shapes of loops. The loop whose iterations are the steps ends in ``# STEP``.

A cell without this mark has no such loop; its ``how`` says what else ends a step.
"""

from __future__ import annotations

from dataclasses import dataclass

SETUP = """
import itertools, queue, threading, time, functools
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
critic = nn.Linear(64, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
opt_d = torch.optim.SGD(critic.parameters(), lr=0.01)
data = [torch.randn(32, 64) for _ in range(8)]
few = data[:4]
targets = [torch.randint(0, 8, (32,)) for _ in range(8)]
w = torch.randn(64, 64)
log = {"loss": [], "norm": []}
loss_fn = nn.CrossEntropyLoss()
y = targets[0]
def train(b):
    loss = loss_fn(model(b), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss
def infer(b):
    with torch.no_grad():
        return model(b)
def train_epoch(batches):
    for b in batches:
        train(b)
def train_critic(b):
    opt_d.zero_grad()
    critic(b).mean().backward()
    opt_d.step()
class Trainer:
    def __init__(self, model, opt):
        self.model, self.opt, self.history = model, opt, []
    def train_step(self, b):
        self.opt.zero_grad()
        loss = self.model(b).square().mean()
        loss.backward()
        self.opt.step()
        return loss
    def evaluate(self, b):
        with torch.no_grad():
            return self.model(b).mean()
    def fit(self, batches):
        for b in batches:
            self.train_step(b)
trainer = Trainer(model, opt)
def make_step():
    count = 0
    def step(b):
        nonlocal count
        count += 1
        return train(b)
    return step
step = make_step()
def training(batches):
    for b in batches:
        yield train(b)
def slow(batches):
    for b in batches:
        time.sleep(0.001)
        yield b
registry = {"infer": infer, "train": train}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A cell, its name, and what ends its steps; with a loop, the line that ends in ``# STEP``."""

    name: str
    cell: str
    how: str = "loop"


def shape(name: str, cell: str, how: str = "loop") -> Shape:
    """Return a shape; ``cell`` may be indented as one."""
    return Shape(name=name, cell=cell.strip("\n"), how=how)


SHAPES = (
    shape(
        "a training loop",
        """
for b in data:  # STEP
    train(b)
""",
    ),
    shape(
        "a body on the line of its for",
        """
for b in data: train(b)  # STEP
""",
    ),
    shape(
        "a loop over the log after the training call",
        """
for b in data:  # STEP
    train(b)
    for k, v in log.items(): v.append(1)
""",
    ),
    shape(
        "a loop over the log before the training loop",
        """
for k in log: log[k] = []
for b in data:  # STEP
    train(b)
""",
    ),
    shape(
        "an inner loop that prints",
        """
for i in range(8):  # STEP
    train(data[i])
    for k in log: print(k)
""",
    ),
    shape(
        "an inner loop over parameters",
        """
for i in range(8):  # STEP
    train(data[i])
    for p in model.parameters():
        p.data.clamp_(-1, 1)
""",
    ),
    shape(
        "a loop over parameters before the loop",
        """
total = 0
for p in model.parameters():
    total += p.numel()
for b in data:  # STEP
    train(b)
""",
    ),
    shape(
        "gradient norms of named parameters",
        """
for b in data:  # STEP
    loss = loss_fn(model(b), y)
    loss.backward()
    for name, p in model.named_parameters():
        log['norm'].append(p.grad.norm().item())
    opt.step(); opt.zero_grad()
""",
    ),
    shape(
        "epochs of batches",
        """
for epoch in range(3):
    for b in few:  # STEP
        train(b)
""",
    ),
    shape(
        "epochs with training and validation",
        """
for epoch in range(2):
    for b in data:  # STEP
        train(b)
    for b in few:
        infer(b)
""",
    ),
    shape(
        "validation before training",
        """
for epoch in range(2):
    for b in few:
        infer(b)
    for b in data:  # STEP
        train(b)
""",
    ),
    shape(
        "epochs with a scheduler",
        """
sched = torch.optim.lr_scheduler.StepLR(opt, 1)
for epoch in range(2):
    for b in data:  # STEP
        train(b)
    sched.step()
""",
    ),
    shape(
        "epochs of a function",
        """
for epoch in range(6):  # STEP
    train_epoch(few)
""",
    ),
    shape(
        "a method of a trainer",
        """
for b in data:  # STEP
    trainer.train_step(b)
""",
    ),
    shape(
        "fit of a trainer in a loop",
        """
for epoch in range(6):  # STEP
    trainer.fit(few)
""",
    ),
    shape(
        "fit of a trainer",
        """
trainer.fit(data)
""",
        "optimizer",
    ),
    shape(
        "a function with the loop",
        """
train_epoch(data)
""",
        "optimizer",
    ),
    shape(
        "a comprehension that trains",
        """
losses = [train(b) for b in data]
""",
        "optimizer",
    ),
    shape(
        "a generator expression that trains",
        """
total = sum(train(b).item() for b in data)
""",
        "optimizer",
    ),
    shape(
        "a closure",
        """
for b in data:  # STEP
    step(b)
    for k in log: pass
""",
    ),
    shape(
        "a generator of batches",
        """
for b in slow(data):  # STEP
    train(b)
""",
    ),
    shape(
        "a generator that trains",
        """
for loss in training(data):  # STEP
    log['loss'].append(loss.item())
""",
    ),
    shape(
        "a generator object that trains",
        """
running = training(data)
for loss in running:  # STEP
    pass
""",
    ),
    shape(
        "enumerate and zip",
        """
for i, (b, t) in enumerate(zip(data, targets)):  # STEP
    train(b)
""",
    ),
    shape(
        "islice of a cycle",
        """
for b in itertools.islice(itertools.cycle(data), 9):  # STEP
    train(b)
""",
    ),
    shape(
        "a while loop",
        """
i = 0
while i < 8:  # STEP
    train(data[i])
    i += 1
""",
    ),
    shape(
        "while True with break",
        """
it = iter(data)
while True:  # STEP
    b = next(it, None)
    if b is None: break
    train(b)
""",
    ),
    shape(
        "a while loop around a for loop",
        """
n = 0
while n < 3:
    for b in few:  # STEP
        train(b)
    n += 1
""",
    ),
    shape(
        "threads",
        """
threads = [threading.Thread(target=infer, args=(b,)) for b in data]
for t in threads: t.start()
for t in threads: t.join()
""",
        "cell",
    ),
    shape(
        "threads before the loop",
        """
threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(6)]
for t in threads: t.start()
for b in data:  # STEP
    train(b)
for t in threads: t.join()
""",
    ),
    shape(
        "threads that are waited for in the loop",
        """
for b in data:  # STEP
    ts = [threading.Thread(target=infer, args=(b,)) for _ in range(2)]
    for t in ts: t.start()
    for t in ts: t.join()
    train(b)
""",
    ),
    shape(
        "a GAN",
        """
for b in data:  # STEP
    opt_d.zero_grad(); critic(b).mean().backward(); opt_d.step()
    opt.zero_grad(); model(b).mean().backward(); opt.step()
""",
    ),
    shape(
        "a GAN with an inner loop of critics",
        """
for b in data:  # STEP
    for _ in range(3):
        opt_d.zero_grad(); critic(b).mean().backward(); opt_d.step()
    opt.zero_grad(); model(b).mean().backward(); opt.step()
""",
    ),
    shape(
        "a GAN of functions with an inner loop",
        """
for b in data:  # STEP
    for _ in range(3): train_critic(b)
    train(b)
""",
    ),
    shape(
        "accumulation",
        """
for i, b in enumerate(data):  # STEP
    loss_fn(model(b), y).backward()
    if i % 2: opt.step(); opt.zero_grad()
""",
    ),
    shape(
        "accumulation in an inner loop",
        """
for i in range(6):  # STEP
    for b in data[:2]:
        loss_fn(model(b), y).backward()
    opt.step(); opt.zero_grad()
""",
    ),
    shape(
        "rollouts",
        """
for episode in range(6):  # STEP
    state, logs = torch.randn(1, 64), []
    for t in range(5):
        logits = model(state); logs.append(logits.log_softmax(-1).max()); state = torch.randn(1, 64)
    loss = -torch.stack(logs).sum(); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    shape(
        "rollouts and an update in functions",
        """
def update(logs):
    opt.zero_grad(); torch.stack(logs).sum().backward(); opt.step()
for episode in range(6):  # STEP
    logs = []
    for t in range(5):
        logs.append(model(torch.randn(1, 64)).mean())
    update(logs)
""",
    ),
    shape(
        "clipping, logging and training in functions of the cell",
        """
def log_all(d):
    for k, v in d.items(): v.append(0)
def fit(b):
    train(b)
for i in range(8):  # STEP
    fit(data[i])
    for g in opt.param_groups: g['lr'] *= 0.9
    log_all(log)
""",
    ),
    shape(
        "a lambda",
        """
go = lambda b: train(b)
for b in data:  # STEP
    go(b)
    for k in log: pass
""",
    ),
    shape(
        "a partial",
        """
go = functools.partial(train)
for b in data:  # STEP
    go(b)
""",
    ),
    shape(
        "a partial of the notebook",
        """
for b in data:  # STEP
    functools.partial(train, b)()
    for k in log: pass
""",
    ),
    shape(
        "a function from a dictionary",
        """
for b in data:  # STEP
    registry['train'](b)
""",
    ),
    shape(
        "functions that nobody can look up",
        """
for name, f in registry.items(): print(name)
for b in data:  # STEP
    registry['train'](b)
    for k in log: str(k).upper()
""",
    ),
    shape(
        "inference",
        """
for b in data:  # STEP
    infer(b)
""",
    ),
    shape(
        "inference with a loop over results",
        """
for b in data:  # STEP
    out = infer(b)
    for row in out[:3]:
        row.sum()
""",
    ),
    shape(
        "inference without a function",
        """
with torch.no_grad():
    for b in data:  # STEP
        model(b).argmax(1)
""",
    ),
    shape(
        "inference over epochs",
        """
for epoch in range(3):
    for b in few:  # STEP
        infer(b)
""",
    ),
    shape(
        "two loops over data",
        """
for b in data:  # STEP
    infer(b)
for b in few:
    infer(b)
""",
    ),
    shape(
        "files are read first",
        """
paths = ['a', 'b']
for p in paths:
    open('/dev/null').read()
for b in data:  # STEP
    infer(b)
""",
    ),
    shape(
        "elements of each batch",
        """
for b in data:  # STEP
    for row in b:
        z = row * 2
""",
    ),
    shape(
        "a loop of ops",
        """
for i in range(20):  # STEP
    z = torch.relu(data[0] @ w)
""",
    ),
    shape(
        "ops of a tensor that the cell makes",
        """
x = torch.randn(64, 64)
for i in range(20):  # STEP
    x = x @ x
""",
    ),
    shape(
        "counting beside ops",
        """
n = 0
for i in range(100):
    n += 1
for b in data:  # STEP
    z = b @ w
""",
    ),
    shape(
        "everything in one cell",
        """
net = nn.Linear(64, 64).train()
sgd = torch.optim.Adam(net.parameters())
for name, p in net.named_parameters():
    print(name)
for b in data:  # STEP
    sgd.zero_grad()
    net(b).sum().backward()
    sgd.step()
""",
    ),
    shape(
        "a class of the cell",
        """
class T:
    def one(self, b):
        train(b)
t = T()
for b in data:  # STEP
    t.one(b)
    for k in log: pass
""",
    ),
    shape(
        "a decorated function",
        """
@torch.no_grad()
def run(b):
    return model(b)
for b in data:  # STEP
    run(b)
    for k in log: pass
""",
    ),
    shape(
        "try, with and if around the loop",
        """
try:
    if True:
        with torch.enable_grad():
            for b in data:  # STEP
                train(b)
finally:
    pass
""",
    ),
    shape(
        "data made in a loop",
        """
made = []
for _ in range(8):
    made.append(torch.randn(32, 64))
for b in made:  # STEP
    model(b)
""",
    ),
    shape(
        "one op",
        """
z = data[0] @ w
""",
        "cell",
    ),
    shape(
        "one training step",
        """
train(data[0])
""",
        "optimizer",
    ),
)
