"""Cells that are recorded with memory again and again in one kernel: their figures must be equal in every run.

Each cell calls ``count()`` in every step. It adds up the live storages, found by the garbage collector and in the
graphs of autograd, inside a range of torch with the name ``COUNTED``, so that the curve can be read at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

COUNTED = "count the live tensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell, what runs before it each time, and the flags of the magic.

    Attributes:
        name: What it is, as the title of a test.
        cell: Cell that is recorded.
        before: Cell that runs before each run of it, such as what empties a list.
        flags: Flags of the magic, beside those that record memory.
    """

    name: str
    cell: str
    before: str = "pass"
    flags: str = ""


SETUP = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(256, 512), torch.randn(256, 512)
aside = torch.ones(1_000_000)
kept = []
"""
CELLS = (
    Cell(
        name="plain training",
        cell="""
for step in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    count()
""",
    ),
    Cell(
        name="a list that grows",
        before="kept.clear()",
        cell="""
for step in range(8):
    out = torch.relu(model(x))
    kept.append(out.detach() + 1)
    count()
""",
        flags="--active 4",
    ),
    Cell(
        name="a schedule of two cycles with several steps",
        cell="""
for step in range(10):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    count()
""",
        flags="--wait 1 --warmup 1 --active 2 --repeat 2",
    ),
    Cell(
        name="inference",
        cell="""
with torch.no_grad():
    for step in range(6):
        logits = model(x)
        best = logits.softmax(-1).argmax(-1)
        count()
""",
    ),
    Cell(
        name="a cell that releases older tensors",
        before="older = [torch.ones(500_000) for _ in range(12)]",
        cell="""
for step in range(6):
    older.pop()
    scratch = torch.ones(2_000_000)
    result = scratch * 2
    del scratch
    older.pop()
    count()
""",
        flags="--active 3",
    ),
    Cell(
        name="two passes",
        cell="""
for step in range(12):
    out = model(x)
    out.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    count()
""",
        flags="--two-pass --active 2",
    ),
    Cell(
        name="a block without steps",
        before="found = None",
        cell="""
found = torch.randn(1000, 1000).clamp_min(0).sum()
count()
""",
    ),
    Cell(
        name="tensors alone, with what the last run left",
        cell="""
for step in range(6):
    large = torch.randn(2000, 1000)
    small = large.sum(0)
    count()
""",
    ),
)
