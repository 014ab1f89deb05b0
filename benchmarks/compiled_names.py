"""How much of what compiled code runs is at the right line and module of the model, and what its names cost.

A model of ten submodules is trained and evaluated with three backends. Each of its modules is called in one known
line, so an op is right if its module and its line belong together, and if the uncompiled model runs this op with these
shapes in this line, or in one that made its node of autograd; of ops that other ops call, the outermost one that the
uncompiled model runs decides. The line of a kernel must be one of those of its ops, and for each op in its name, but
for views, one of its lines must be among those that are told. What the uncompiled model does not run under these names
is judged by module and line alone, and its share is told.

Op time is the self CPU time of ops and generated kernels in compiled regions, and in the backward pass of these.
Compile time is CPU time with that of compilers in other processes, because the machine may be busy.

Usage: python benchmarks/compiled_names.py [--backends eager aot_eager inductor] [--no-cost]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

import torchprof_magic as tp
from torchprof_magic.facts.ops.calls import op_rows
from torchprof_magic.facts.shared import is_named
from torchprof_magic.facts.source.fx_nodes import fused_lines, fx_nodes, is_in_backward
from torchprof_magic.model.intervals import nearest_marked
from torchprof_magic.model.rows import values_at
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


Lines = dict[str, set[int]]
# They compute nothing, so a kernel does not tell their lines.
VIEWS = {"view", "expand", "transpose", "t", "permute", "unsqueeze", "squeeze", "split", "slice", "_unsafe_view"}
# What Inductor calls in place of an op.
IN_PLACE_OF = {"_convolution_pointwise": "convolution", "_linear_pointwise": "addmm"}


class Uncompiled(TorchDispatchMode):
    """Notes in which lines of this file the uncompiled model runs each op, those of its gradients included.

    A gradient belongs to the line whose op made its node: that has the number which was the next one before the op.
    ``lines`` has them by the name of the op, and by its name with the shapes of its first inputs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines: Lines = defaultdict(set)
        self._line_of_node: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note the line of one op, and run it."""
        node = torch._C._current_autograd_node()  # noqa: SLF001 - there is no public name
        if node is None:
            line = _line_here()
            self._line_of_node.setdefault(torch._C._autograd._get_sequence_nr() - 1, line)  # noqa: SLF001 - the same
        else:
            line = self._line_of_node.get(node._sequence_nr(), 0)  # noqa: SLF001 - the same
        if line:
            name = func._schema.name.partition("::")[2]  # noqa: SLF001 - the same
            shapes = [list(each.shape) for each in args if isinstance(each, torch.Tensor)]
            self.lines[name].add(line)
            self.lines[f"{name} {shapes}"].add(line)
        return func(*args, **(kwargs or {}))


def _line_here() -> int:
    """Return the innermost line of the model that runs, 0 for none."""
    frame = sys._getframe()  # noqa: SLF001 - its documented name
    found = 0
    while frame is not None and not found:
        is_forward = frame.f_code.co_filename == __file__ and frame.f_code.co_name == "forward"
        found, frame = frame.f_lineno if is_forward else 0, frame.f_back
    return found


def lines_of_uncompiled(*, is_training: bool) -> Lines:
    """Return in which lines the uncompiled model runs each op."""
    with Uncompiled() as found:
        prepared("none", is_training=is_training)()
    return found.lines


def words_of(kernel: str, known: Lines) -> list[str]:
    """Return the ops that the name of a kernel lists, the longest ones that are known; others are left out."""
    left, words = re.sub(r"^graph_[0-9]+_cpp_fused_|_[0-9]+$", "", kernel), []
    while left:
        match = max((name for name in known if f"{left}_".startswith(f"{name}_")), key=len, default="")
        words += [match] if match else []
        left = left[len(match) :].lstrip("_") if match else left.partition("_")[2]
    return words


def eager_lines(trace: Trace, rows: np.ndarray, known: Lines) -> list[set[int] | None]:
    """Return the lines of the outermost op at or around each of some ops that is known with its shapes, else None.

    Inductor gives an op the tensor to write to as a last input. What it calls in place of an op is known by its name.
    """
    parent = trace.events["parent"].to_numpy()
    names, shapes = (trace.events[each].cast(pl.String).to_list() for each in ("name", "shapes"))
    found: list[set[int] | None] = []
    for row in rows.tolist():
        lines, at = None, row
        while at >= 0 and "::" in names[at]:
            op = names[at].partition("::")[2]
            dims = [each for each in json.loads(shapes[at] or "[]") if each]
            keys = [f"{op} {dims}", f"{op} {dims[:-1]}", IN_PLACE_OF.get(op, "")]
            lines = next((known[key] for key in keys if key in known), lines)
            at = int(parent[at])
        found.append(lines)
    return found


def is_as_uncompiled(
    name: str, line: str | None, told: str | None, expected: set[int] | None, known: Lines
) -> bool | None:
    """Return whether the uncompiled model runs an op in a line, or each op of a kernel in one that is told for it.

    None if it does not run them under these names.
    """
    number = int((line or ":0").rpartition(":")[2])
    if "_cpp_fused_" not in name:
        return None if expected is None else number in expected
    told_lines = {int(each) for each in re.findall(r"^[^:\n]*:([0-9]+)", told or "", re.MULTILINE)}
    words = [word for word in words_of(name, known) if word not in VIEWS]
    if not words:
        return None
    return any(number in known[word] for word in words) and all(known[word] & told_lines for word in words)


def shares(report: tp.Report, known: Lines) -> dict[str, float]:
    """Return the shares of op time that has a line, that is at the right line and module, and that could be checked."""
    trace = report.trace
    ops = op_rows(trace)
    chosen = np.flatnonzero(of_model(trace)[ops.row])
    rows, own_ns = ops.row[chosen], ops.self_cpu_ns[chosen]
    module, line = (group_labels(trace, rows, key, 1).to_list() for key in ("module", "model_line"))
    whole = max(int(own_ns.sum()), 1)
    names = trace.events["name"].cast(pl.String).gather(rows).to_list()
    expected = eager_lines(trace, rows, known)
    told = values_at(fused_lines(trace), fx_nodes(trace)[rows]).to_list()
    has_line = right = unchecked = 0
    wrong = Counter[str]()
    for name, lines, where, *place, ns in zip(names, expected, told, module, line, own_ns.tolist(), strict=True):
        has_line += ns * (place[1] is not None)
        is_same = is_as_uncompiled(name, place[1], where, lines, known)
        unchecked += ns * (is_same is None)
        if is_right(*place) and is_same is not False:
            right += ns
        else:
            wrong[f"{name[:60]} {place}"] += ns
    for text, ns in wrong.most_common(4):
        print(f"    not right: {ns / whole:6.1%} {text}")
    return {
        "with a line": has_line / whole,
        "unchecked": unchecked / whole,
        "right": right / whole,
        "nodes": len(np.unique(fx_nodes(trace))) - 1,
    }


def record(step: Callable[[], object]) -> tp.Report:
    """Return the report of four steps."""
    with tp.profile(wait=1, warmup=1, active=4, with_modules=True, record_shapes=True) as run:
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
        known = lines_of_uncompiled(is_training=is_training)
        for backend in backends:
            torch._dynamo.reset()  # noqa: SLF001 - its documented name
            counters.clear()
            report = record(prepared(backend, is_training=is_training))
            found = shares(report, known)
            same = set(modules_of(report)) == set(plain)
            lacks = sorted(set(plain) - set(modules_of(report)))
            print(
                f"{backend:10} {mode:5} with a line {found['with a line']:6.1%}, right {found['right']:6.1%} "
                f"({found['unchecked']:.1%} by module and line alone), "
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
