"""More than a hundred cells in as many shapes of loops. The loop whose iterations are the steps ends in ``# STEP``.

A cell without this mark has no such loop; its ``how`` says what else ends a step.
"""

from __future__ import annotations

from dataclasses import dataclass

SETUP = """
import itertools, queue, threading, time, functools
import numpy as np
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
class Manager:
    def __init__(self, *optimizers):
        self.optimizers = optimizers
        self.apply_all = lambda: [getattr(one, "st" + "ep")() for one in self.optimizers]
        self.reset = lambda: [one.zero_grad() for one in self.optimizers]
manager = Manager(opt)
hidden = {"update": lambda: getattr(opt, "st" + "ep")(), "one": train, "look": infer}
class Learner:
    def update(self, b):
        return train(b)
    def train(self, b):
        return train(b)
    def eval_all(self, batches):
        for b in batches: infer(b)
learners = {"one": Learner()}
array = np.random.rand(64, 64)
weights = list(model.parameters())
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
    with open('/dev/null') as file:
        file.read()
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
    # An optimizer under a name that tells nothing.
    shape(
        "a hidden update after an inner loop of backward",
        """
for i in range(8):  # STEP
    for b in data[:2]:
        loss_fn(model(b), y).backward()
    manager.apply_all(); manager.reset()
""",
    ),
    shape(
        "a hidden update from a dictionary after an inner loop",
        """
for i in range(8):  # STEP
    for b in data[:3]:
        model(b).mean().backward()
    hidden['update']()
    opt.zero_grad()
""",
    ),
    shape(
        "a hidden update in the inner loop",
        """
for epoch in range(3):
    for b in few:  # STEP
        model(b).mean().backward()
        hidden['update']()
    for k in log: log[k].append(0)
""",
    ),
    shape(
        "a hidden update in one of three loops",
        """
for i in range(7):  # STEP
    for b in few: infer(b)
    for b in few: model(b).mean().backward()
    hidden['update']()
""",
    ),
    shape(
        "a hidden update in a while loop",
        """
n = 0
while n < 8:  # STEP
    for b in data[:2]:
        model(b).mean().backward()
    hidden['update']()
    n += 1
""",
    ),
    shape(
        "a hidden update after an inner loop that breaks",
        """
for i in range(8):  # STEP
    for j, b in enumerate(data):
        if j == 2: break
        model(b).mean().backward()
    hidden['update']()
""",
    ),
    shape(
        "a hidden update for each of several optimizers",
        """
for b in data:  # STEP
    model(b).mean().backward(); critic(b).mean().backward()
    for o in [opt, opt_d]: o.step()
    for o in [opt, opt_d]: o.zero_grad()
""",
    ),
    shape(
        "optimizers that are gone over by name",
        """
for b in data:  # STEP
    model(b).mean().backward(); critic(b).mean().backward()
    for optimizer in (opt, opt_d):
        optimizer.step()
        optimizer.zero_grad()
""",
    ),
    shape(
        "epochs of an optimizer each",
        """
for epoch in range(7):  # STEP
    for b in few: (model(b).mean() + critic(b).mean()).backward()
    for o in [opt, opt_d]: hidden['update']()
""",
    ),
    # A loop of ops before the one that trains.
    shape(
        "a warm-up of the model before hidden training",
        """
for b in few:
    infer(b)
for b in data:  # STEP
    registry['train'](b)
""",
    ),
    shape(
        "an evaluation before a training loop",
        """
with torch.no_grad():
    for b in few:
        model(b)
for b in data:  # STEP
    loss = loss_fn(model(b), y); loss.backward(); opt.step(); opt.zero_grad()
""",
    ),
    shape(
        "statistics of the data before training",
        """
mean = 0
for b in data:
    mean = mean + b.mean()
for b in data:  # STEP
    train(b - mean)
""",
    ),
    shape(
        "statistics of the data before hidden training",
        """
mean = 0
for b in data:
    mean = mean + b.mean()
for b in data:  # STEP
    hidden['one'](b)
""",
    ),
    shape(
        "an evaluation by a method before training by one",
        """
for b in few:
    trainer.evaluate(b)
for b in data:  # STEP
    trainer.train_step(b)
""",
    ),
    shape(
        "ops in a while loop before hidden training",
        """
n = 0
while n < 5:
    z = torch.relu(data[n] @ w); n += 1
for b in data:  # STEP
    hidden['one'](b)
""",
    ),
    shape(
        "hidden training before an evaluation",
        """
for b in data:  # STEP
    hidden['one'](b)
for b in few:
    infer(b)
""",
    ),
    shape(
        "inference before a hidden evaluation",
        """
for b in data:  # STEP
    infer(b)
for b in few:
    hidden['look'](b)
""",
    ),
    shape(
        "hidden evaluation and training in each epoch",
        """
for epoch in range(3):
    for b in few:
        hidden['look'](b)
    for b in few:  # STEP
        hidden['one'](b)
""",
    ),
    shape(
        "training in one branch",
        """
if len(data) > 99:
    for b in data: infer(b)
else:
    for b in data:  # STEP
        train(b)
""",
    ),
    shape(
        "inference in the branch that runs",
        """
training_now = False
if training_now:
    for b in data: train(b)
else:
    for b in data:  # STEP
        infer(b)
""",
    ),
    shape(
        "training that is switched off before inference",
        """
if not data:
    for b in data: train(b)
for b in data:  # STEP
    infer(b)
""",
    ),
    # Empty loops.
    shape(
        "an empty training loop before the real one",
        """
for b in []: train(b)
for b in data:  # STEP
    train(b)
""",
    ),
    shape(
        "an empty generator of training",
        """
for b in (b for b in data if b is None):
    train(b)
for b in data:  # STEP
    train(b)
""",
    ),
    shape(
        "a while loop that does not begin",
        """
while data is None:
    train(data[0])
for b in data:  # STEP
    train(b)
""",
    ),
    shape(
        "empty epochs before inference",
        """
for epoch in range(0):
    for b in data: train(b)
for b in data:  # STEP
    infer(b)
""",
    ),
    shape(
        "an empty queue of leftovers",
        """
leftovers = []
for b in leftovers: train(b)
for epoch in range(2):
    for b in data:  # STEP
        train(b)
""",
    ),
    shape(
        "an empty loop of inference",
        """
for b in []: infer(b)
for b in data:  # STEP
    infer(b)
""",
    ),
    # Methods of the same name.
    shape(
        "two classes with train",
        """
class Clock:
    def train(self, b): return len(b)
class Worker:
    def train(self, b): return train(b)
clock, worker = Clock(), Worker()
clock = Clock()
worker = Worker()
for b in few: clock.train(b)
for b in data:  # STEP
    worker.train(b)
""",
    ),
    shape(
        "two classes of which one is used in each loop",
        """
class Looker:
    def run(self, b): return infer(b)
class Maker:
    def run(self, b): return train(b)
looker = Looker()
maker = Maker()
for epoch in range(2):
    for b in few: looker.run(b)
    for b in data:  # STEP
        maker.run(b)
""",
    ),
    shape(
        "a class of the cell that derives from another",
        """
class Base:
    def step(self, b): return self.one(b)
    def one(self, b): return None
class Real(Base):
    def one(self, b): return train(b)
class Other:
    def one(self, b): return b.shape
real = Real()
other = Other()
for b in data: other.one(b)
for b in data:  # STEP
    real.step(b)
""",
    ),
    shape(
        "an object that is made in the call",
        """
class Job:
    def __init__(self, b): self.b = b
    def go(self): return train(self.b)
class Idle:
    def go(self): return None
for b in few: Idle().go()
for b in data:  # STEP
    Job(b).go()
""",
    ),
    # Methods that other things have too.
    shape(
        "update of a learner",
        """
for k in log: log[k] = []
for b in data:  # STEP
    learners['one'].update(b)
""",
    ),
    shape(
        "train of a learner",
        """
for name in learners: print(name)
for b in data:  # STEP
    learners['one'].train(b)
""",
    ),
    shape(
        "update of a dictionary beside training",
        """
for k in few: log.update(loss=[], norm=[])
for b in data:  # STEP
    hidden['one'](b)
    log.update(loss=[])
""",
    ),
    shape(
        "a mode before an evaluation",
        """
for m in [model, critic]: m.train()
for b in data:  # STEP
    infer(b)
""",
    ),
    # NumPy.
    shape(
        "reductions of an array before training",
        """
for row in array: row.mean()
for b in data:  # STEP
    hidden['one'](b)
""",
    ),
    shape(
        "functions of NumPy before inference",
        """
total = 0
for i in range(64):
    total += np.sum(array[i])
for b in data:  # STEP
    infer(b)
""",
    ),
    shape(
        "products of arrays before hidden training",
        """
import numpy
for i in range(5):
    prod = numpy.ones((4, 4)) @ array[:4, :4]
for b in data:  # STEP
    hidden['one'](b)
""",
    ),
    shape(
        "arrays that the cell makes",
        """
scores = np.zeros((5, 8))
for s in scores: s.sum(); s.max()
for b in data:  # STEP
    z = torch.relu(b @ w)
""",
    ),
    shape(
        "losses that are averaged after training",
        """
losses = []
for b in data:  # STEP
    losses.append(train(b).item())
for part in np.split(np.array(losses), 4): part.mean()
""",
    ),
    # Parts of models.
    shape(
        "a list of parameters",
        """
ps = list(model.parameters())
for p in ps: p.data.mul_(1.0)
for b in data:  # STEP
    infer(b)
""",
    ),
    shape(
        "chosen parameters in each step",
        """
params = [p for p in model.parameters() if p.requires_grad]
for b in data:  # STEP
    model(b).mean().backward()
    for p in params: p.grad.mul_(0.5)
    hidden['update']()
""",
    ),
    shape(
        "parameters of an earlier cell",
        """
for p in weights: p.data.clamp_(-9, 9)
for b in data:  # STEP
    hidden['look'](b)
""",
    ),
    shape(
        "named parameters in a dictionary",
        """
named = dict(model.named_parameters())
for name, p in named.items():
    log[name] = p.norm()
for b in data:  # STEP
    infer(b)
""",
    ),
    shape(
        "an optimizer written out",
        """
for b in data:  # STEP
    model(b).mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None
""",
    ),
    # Short iterations and parts of batches.
    shape(
        "rows of batches with two ops",
        """
for b in data:  # STEP
    for row in b:
        z = torch.relu(row * 2)
""",
    ),
    shape(
        "time steps of a recurrence",
        """
cell = nn.GRUCell(64, 64)
for b in data:  # STEP
    h = torch.zeros(1, 64)
    for t in range(len(b)):
        h = torch.tanh(h @ w + b[t])
""",
    ),
    shape(
        "epochs of small products",
        """
for epoch in range(3):
    for b in few:  # STEP
        z = torch.relu(b @ w) @ w
""",
    ),
    shape(
        "pieces of each batch",
        """
for b in data:  # STEP
    out = b @ w
    for piece in out.split(8):
        piece.softmax(1).max()
""",
    ),
    # Deep expressions and other syntax.
    shape(
        "an expression of 600 terms beside the loop",
        "total = "
        + " + ".join(["1"] * 600)
        + """
for b in data:  # STEP
    train(b)
    for k in log: pass
""",
    ),
    shape(
        "an expression of 900 terms in the loop",
        """
for b in data:  # STEP
    total = """
        + " + ".join(["1"] * 900)
        + """
    train(b)
""",
    ),
    shape(
        "a match statement in the loop",
        """
for i in range(8):  # STEP
    match i % 2:
        case 0: train(data[i])
        case _: train(data[i])
""",
    ),
    shape(
        "a loop in a match statement",
        """
match 'train':
    case 'train':
        for b in data:  # STEP
            train(b)
    case 'eval':
        for b in data: infer(b)
""",
    ),
    shape(
        "a loop with else and continue",
        """
for i, b in enumerate(data):  # STEP
    if i == 99: continue
    train(b)
else:
    print('done')
""",
    ),
    shape(
        "training in the finally of a loop",
        """
for b in data:  # STEP
    try:
        pass
    finally:
        train(b)
""",
    ),
    shape(
        "a trainer that fits after a loop of inference",
        """
for b in data:  # STEP
    infer(b)
for k in log: pass
""",
    ),
    shape(
        "functions of a dictionary that each train",
        """
both = {'one': train, 'other': train_critic}
for b in data:  # STEP
    for name in ('one', 'other'): both[name](b)
""",
    ),
    shape(
        "the layers of a model in inference",
        """
for b in data:  # STEP
    h = b
    for layer in model: h = layer(h)
""",
    ),
    shape(
        "a list of the layers of a model",
        """
layers = list(model.children())
for b in data:  # STEP
    h = b
    for layer in layers: h = layer(h)
""",
    ),
    shape(
        "a moving average of parameters under other names",
        """
ps = [p for p in model.parameters()]
ema = [p.detach().clone() for p in ps]
for b in data:  # STEP
    registry['train'](b)
    for e, p in zip(ema, ps): e.lerp_(p.detach(), .1)
""",
    ),
    shape(
        "an agent that acts and updates",
        """
class Agent:
    def act(self, s): return infer(s)
    def update(self, b): return train(b)
agents = {'a': Agent()}
for episode in range(6):  # STEP
    for t in range(4): agents['a'].act(torch.randn(1, 64))
    agents['a'].update(data[episode])
""",
    ),
    shape(
        "a hidden update in the middle of three loops",
        """
for a in range(3):
    for e in range(3):  # STEP
        for b in few:
            model(b).mean().backward()
        hidden['update'](); opt.zero_grad()
""",
    ),
    shape(
        "a first epoch without data",
        """
for part in [[], data]:
    for b in part:  # STEP
        train(b)
""",
    ),
    shape(
        "a loader for each phase",
        """
loaders = {'train': data, 'val': few}
for epoch in range(2):
    for phase in ['train', 'val']:
        for b in loaders[phase]:  # STEP
            if phase == 'train': registry['train'](b)
            else: registry['infer'](b)
""",
    ),
    shape(
        "arrays that were tensors",
        """
arrays = [b.numpy() for b in data]
for a in arrays: a.mean(); a.std()
for b in data:  # STEP
    hidden['look'](b)
""",
    ),
    shape(
        "learning rates that are tried",
        """
for rate in (0.1, 0.01):
    for b in data:  # STEP
        hidden['one'](b * rate)
""",
    ),
    shape(
        "an optimizer under another name after an inner loop",
        """
o = opt
for i in range(8):  # STEP
    for b in data[:2]: model(b).mean().backward()
    o.step(); o.zero_grad()
""",
    ),
    shape(
        "a tensor that is trained for each batch",
        """
for b in few:
    v = torch.zeros(64, requires_grad=True); o = torch.optim.SGD([v], lr=.01)
    for k in range(5):  # STEP
        o.zero_grad(); ((b - v) ** 2).mean().backward(); o.step()
""",
    ),
    shape(
        "an asynchronous loader with hidden training",
        """
async def loader():
    for b in few: yield b
for epoch in range(3):
    async for b in loader():  # STEP
        hidden['one'](b)
""",
    ),
)
