"""How much of what compiled code runs is at the right line and module of the model, and what its names cost.

A model of ten submodules is trained and evaluated with three backends. Each of its modules is called in one known line,
so an op is right if its module and its line belong together; of a kernel that fuses several nodes, all must. Op time is
the self CPU time of ops and generated kernels in compiled regions, and in the backward pass of these. Compile time is
CPU time with that of compilers in other processes, because the machine may be busy.

Usage: python benchmarks/compiled_names.py [--backends eager aot_eager inductor] [--no-cost]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters

import torchprof_magic as tp
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import is_named
from torchprof_magic.facts.source.fx_nodes import fx_nodes, is_in_backward
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.tables.ops.groups import group_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.model.trace import Trace

BACKENDS = ("eager", "aot_eager", "inductor")


class Attention(nn.Module):
    """A module with two modules in it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the values with attention to one another."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y)


class Net(nn.Module):
    """A model of ten submodules, each of which is called in one line."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.act = nn.GELU()
        self.pool = nn.AvgPool2d(2)
        self.drop = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(256)
        self.attn = Attention(256)
        self.mlp = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
        self.final = nn.LayerNorm(256)
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ten numbers per image."""
        x = self.conv(x)
        x = self.bn(x)
        x = self.act(x)
        x = self.pool(x)
        x = self.drop(x).flatten(2)
        x = x + self.attn(self.norm(x))
        x = x + self.mlp(x)
        x = self.final(x)
        return self.head(x.mean(1))


_FIRST, _OF_ATTENTION = (each.forward.__code__.co_firstlineno for each in (Net, Attention))
_ORDER = ("conv", "bn", "act", "pool", "drop", "norm", "mlp", "final", "head")
LINES = {name: _FIRST + number for number, name in enumerate(_ORDER, 2)}
LINES |= {f"mlp.{at}": LINES["mlp"] for at in range(3)}
LINES |= {"attn.qkv": _OF_ATTENTION + 2, "attn": _OF_ATTENTION + 3, "attn.out": _OF_ATTENTION + 4}
# What the model itself does stands in lines that also call modules.
OF_MODEL = {LINES["drop"], LINES["norm"], LINES["mlp"], LINES["head"]}


def is_right(module: str | None, line: str | None) -> bool:
    """Return whether a module and a line of the model belong together; chunk is called in the line of qkv."""
    number = int((line or ":0").rpartition(":")[2])
    if module == "attn":
        return number in (LINES["attn.qkv"], LINES["attn"])
    return number == LINES[module] if module in LINES else module == "" and number in OF_MODEL


def of_model(trace: Trace) -> np.ndarray:
    """Return which events are ops or generated kernels of compiled regions, or of the backward pass of these."""
    parent, depth = trace.events["parent"].to_numpy(), trace.events["depth"].to_numpy()
    is_op = is_named(trace, r"^(aten|mkldnn|mkl)::|^graph_[0-9]+_cpp_|^## Call ", "cpu_op")
    inside = nearest_marked(parent, depth, is_named(trace, r"^Torch-Compiled Region: "))[:-1] >= 0
    gradients = nearest_marked(parent, depth, is_named(trace, r"AccumulateGrad|SumBackward"))[:-1] >= 0
    return is_op & (inside | (is_in_backward(trace) & ~gradients))


def shares(report: tp.Report) -> dict[str, float]:
    """Return the shares of op time that has a line, and that is at the right line and module."""
    trace = report.trace
    ops = op_rows(trace)
    chosen = np.flatnonzero(of_model(trace)[ops.row])
    rows, own_ns = ops.row[chosen], ops.self_cpu_ns[chosen]
    module, line = (group_labels(trace, rows, key, 1).to_list() for key in ("module", "model_line"))
    whole = max(int(own_ns.sum()), 1)
    known = sum(ns for each, ns in zip(line, own_ns.tolist(), strict=True) if each is not None)
    right = sum(ns for *place, ns in zip(module, line, own_ns.tolist(), strict=True) if is_right(*place))
    wrong = Counter[str]()
    for name, *place, ns in zip(
        trace.events["name"].gather(rows).to_list(), module, line, own_ns.tolist(), strict=True
    ):
        if not is_right(*place):
            wrong[f"{str(name)[:40]} {place}"] += ns
    for text, ns in wrong.most_common(4):
        print(f"    not right: {ns / whole:6.1%} {text}")
    return {"with a line": known / whole, "right": right / whole, "nodes": len(np.unique(fx_nodes(trace))) - 1}


def record(step: Callable[[], object]) -> tp.Report:
    """Return the report of four steps."""
    with tp.profile(wait=1, warmup=1, active=4, with_modules=True) as run:
        for _ in range(8):
            step()
            run.step()
    assert run.report is not None
    return run.report


def prepared(backend: str, *, is_training: bool) -> Callable[[], object]:
    """Return a step of the model with a backend."""
    torch.manual_seed(0)
    model = Net().train(is_training)
    values = torch.randn(16, 8, 32, 32)
    compiled = model if backend == "none" else torch.compile(model, backend=backend)
    if is_training:
        return lambda: compiled(values).sum().backward()

    def evaluate() -> torch.Tensor:
        with torch.no_grad():
            return compiled(values)

    return evaluate


def modules_of(report: tp.Report) -> dict[str, float]:
    """Return the share of each module in the time of both passes."""
    rows = report.modules.select("path", "total_cpu_ns", "backward_cpu_ns").rows()
    times = {path: forward + backward for path, forward, backward in rows}
    return {path: ns / max(times.get("", 1), 1) for path, ns in times.items() if path}


def cover(backends: list[str]) -> None:
    """Print the shares of op time with each backend, in training and in evaluation."""
    for is_training in (True, False):
        mode = "train" if is_training else "eval"
        plain = modules_of(record(prepared("none", is_training=is_training)))
        for backend in backends:
            torch._dynamo.reset()  # noqa: SLF001 - its documented name
            counters.clear()
            report = record(prepared(backend, is_training=is_training))
            found = shares(report)
            same = set(modules_of(report)) == set(plain)
            lacks = sorted(set(plain) - set(modules_of(report)))
            print(
                f"{backend:10} {mode:5} with a line {found['with a line']:6.1%}, right {found['right']:6.1%}, "
                f"{found['nodes']:.0f} nodes, modules {'as uncompiled' if same else f'lack {lacks}'}, "
                f"graphs {counters['stats']['unique_graphs']}, breaks {sum(counters['graph_break'].values())}"
            )


def cost(backend: str, mode: str) -> None:
    """Print what compiling and stepping cost in this process."""
    torch.set_num_threads(1)
    if mode == "on":
        tp.name_compiled_code()
    step = prepared(backend, is_training=True)
    if backend == "inductor":
        from torch._inductor import config  # noqa: PLC0415 - it takes a second, and only this backend has it

        config.force_disable_caches = True
    before = sum(os.times()[:4])
    step()
    compiled_s = sum(os.times()[:4]) - before
    for _ in range(20):
        step()
    best = []
    for _ in range(15):
        begin = time.process_time()
        for _ in range(10):
            step()
        best.append((time.process_time() - begin) / 10 * 1e6)
    print(f"{compiled_s:.3f} {min(best):.1f}")


def costs(backends: list[str]) -> None:
    """Print what names cost with each backend: the least of several processes."""
    for backend in backends:
        found: dict[str, list[list[float]]] = {"off": [], "on": []}
        for _ in range(2 if backend == "inductor" else 4):
            for mode, rows in found.items():
                run = [sys.executable, __file__, "--cost-of", backend, mode]
                text = subprocess.run(run, capture_output=True, text=True, check=True).stdout
                rows.append([float(each) for each in text.split()[-2:]])
        (off_s, off_us), (on_s, on_us) = (np.min(np.array(rows), axis=0) for rows in found.values())
        print(
            f"{backend:10} compile {off_s:.2f} s without, {on_s:.2f} s with names ({on_s / off_s - 1:+.1%}); "
            f"step {off_us:.0f} µs without, {on_us:.0f} µs with ({on_us / off_us - 1:+.1%})"
        )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS))
    parser.add_argument("--no-cost", action="store_true")
    parser.add_argument("--cost-of", nargs=2)
    options = parser.parse_args()
    if options.cost_of:
        cost(*options.cost_of)
        return
    print(f"torch {torch.__version__}, {os.cpu_count()} cores")
    torch.set_num_threads(1)
    cover(options.backends)
    if not options.no_cost:
        costs(options.backends)


if __name__ == "__main__":
    main()
