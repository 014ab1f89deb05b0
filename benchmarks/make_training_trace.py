"""Write a Kineto-like trace of a training loop that fills every view of a report: frames, modules, memory, waits."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCKS = 500  # in a step
SLICES_A_BLOCK = 49  # of the timeline: forward, backward, launches, kernels, and the waits between them
SMALL_OPS = 4
FORWARD_US = BACKWARD_US = 120
DATA_US, OPTIMIZER_US, SYNC_US = 2_000, 1_500, 500
STEP_US = DATA_US + BLOCKS * (FORWARD_US + BACKWARD_US) + OPTIMIZER_US + SYNC_US
MAIN, ENGINE, PID = 1, 2, 4242
HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85029158912}],
  "record_shapes": 1, "with_stack": 1, "profile_memory": 1, "displayTimeUnit": "ms",
  "traceEvents": [
"""
TAIL = "\n]}\n"


def write_training_trace(path: Path, slices: int, names: int | None = None) -> int:
    """Write a trace whose timeline has about ``slices`` slices, and return how many events it has.

    ``names`` is the number of distinct ops; without it a tenth of the slices, so that tables and trees are long, too.
    """
    steps = max(2, round(slices / (BLOCKS * SLICES_A_BLOCK)))
    writer = _Writer(names or slices // 10)
    written = 0
    with path.open("w") as file:
        file.write(HEAD)
        for step in range(steps):
            texts = list(writer.step(step))
            file.write((",\n" if step else "") + ",\n".join(texts))
            written += len(texts)
        file.write(TAIL)
    return written


class _Writer:
    """Counts launches, autograd nodes and names over all steps."""

    def __init__(self, names: int) -> None:
        self._names = names
        self._correlation = 0
        self._op = 0
        self._allocated = 1 << 30

    def step(self, number: int) -> Iterator[str]:
        """Yield the events of one step: it loads data, runs all blocks forward and backward, and optimizes."""
        start = number * STEP_US
        yield _span("user_annotation", f"ProfilerStep#{number}", start, STEP_US - 1)
        yield _span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 5, 1_900)
        yield _span("cpu_op", "aten::stack", start + 100, 1_500)
        at = start + DATA_US
        yield _frame("train.py(40): train_step", at - 5, STEP_US - DATA_US - 10)
        first = number * BLOCKS
        for block in range(BLOCKS):
            yield from self._forward(first + block, block, at + block * FORWARD_US)
        at += BLOCKS * FORWARD_US
        yield _frame("torch/_tensor.py(570): backward", at, BLOCKS * BACKWARD_US - 2)
        for block in range(BLOCKS):
            yield from self._backward(first + BLOCKS - 1 - block, at + block * BACKWARD_US)
        at += BLOCKS * BACKWARD_US
        yield _span("user_annotation", "Optimizer.step#AdamW.step", at, OPTIMIZER_US - 10)
        for each in range(10):
            yield from self._op_with_kernel("aten::_foreach_add_", at + 20 + each * 140, 120, {})
        at += OPTIMIZER_US
        yield _span("cuda_runtime", "cudaDeviceSynchronize", at, SYNC_US - 20, correlation=self._next_correlation())

    def _forward(self, node: int, block: int, at: int) -> Iterator[str]:
        module = f"nn.Module: Block_{block}"
        yield _frame(module, at, 118)
        yield _frame(f"model.py({10 + block}): forward", at + 1, 116)
        yield _frame("torch/nn/modules/linear.py(130): forward", at + 2, 58)
        shapes = _shapes(block)
        yield _span("cpu_op", "aten::linear", at + 4, 52, **shapes, **_node(2 * node))
        yield from self._op_with_kernel("aten::addmm", at + 8, 44, shapes)
        yield self._memory(at + 10, 1 << 20)
        for small in range(SMALL_OPS):
            yield _span("cpu_op", self._next_name(), at + 62 + small * 4, 3, **_shapes(block + small))
        name = self._next_name()
        yield _span("cpu_op", name, at + 80, 36, **shapes, **_node(2 * node + 1))
        yield from self._op_with_kernel(f"aten::inner{block % 40}", at + 82, 32, shapes)

    def _backward(self, node: int, at: int) -> Iterator[str]:
        for part, name in enumerate(("AddmmBackward0", "MulBackward0")):
            begin = at + part * 60
            yield _span("cpu_op", f"autograd::engine::evaluate_function: {name}", begin, 56, ENGINE)
            yield _span("cpu_op", name, begin + 2, 52, ENGINE, **_node(2 * node + part, MAIN))
            yield from self._op_with_kernel("aten::mm", begin + 6, 46, {}, ENGINE)
        yield self._memory(at + 100, -(1 << 20), ENGINE)

    def _op_with_kernel(
        self, name: str, at: int, length: int, args: dict[str, object], tid: int = MAIN
    ) -> Iterator[str]:
        """Yield an op, its launch, the kernel that it starts 24 us later, and the arrow between the two."""
        call = self._next_correlation()
        stream = 20 if call % 4 == 0 else 7
        yield _span("cpu_op", name, at, length, tid, **args)
        yield _span("cuda_runtime", "cudaLaunchKernel", at + 4, 6, tid, correlation=call)
        title = f"void at::native::vectorized_elementwise_kernel<4, Functor{call % 60}, std::array<char*, 3ul> >(int)"
        grid = {"grid": [560, 1, 1], "block": [128, 1, 1], "device": 0, "stream": stream, "correlation": call}
        yield _span("kernel", title, at + 24, 30 + call % 14, stream, pid=0, **grid)
        yield _arrow("s", call, at + 4, tid, PID)
        yield _arrow("f", call, at + 24, stream, 0)

    def _memory(self, at: int, delta: int, tid: int = MAIN) -> str:
        self._allocated += delta
        sizes = {"Bytes": delta, "Total Allocated": self._allocated, "Total Reserved": 4 << 30}
        args = {"Device Type": 1, "Device Id": 0, "Addr": 4096, **sizes}
        event = {"ph": "i", "s": "t", "name": "[memory]", "pid": PID, "tid": tid, "ts": at, "args": args}
        return json.dumps(event)

    def _next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def _next_name(self) -> str:
        self._op += 1
        return f"model::op_{self._op % self._names}"


def _node(sequence: int, forward_thread: int = 0) -> dict[str, object]:
    return {"Sequence number": sequence, "Fwd thread id": forward_thread}


def _shapes(number: int) -> dict[str, object]:
    dims = [[number % 8 + 1, 1024], [1024, number % 16 * 64], []]
    return {"Input Dims": dims, "Input type": ["float", "float", ""]}


def _frame(name: str, start_us: int, dur_us: int) -> str:
    return _span("python_function", name, start_us, dur_us)


def _span(cat: str, name: str, start_us: int, dur_us: int, tid: int = MAIN, *, pid: int = PID, **args: object) -> str:
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start_us, "dur": dur_us, "args": args}
    return json.dumps(event)


def _arrow(phase: str, number: int, at_us: int, tid: int, pid: int) -> str:
    event = {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": at_us, "cat": "ac2g", "name": "ac2g"}
    return json.dumps(event | {"bp": "e"} if phase == "f" else event)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--slices", type=int, default=1_000_000)
    parser.add_argument("--names", type=int, help="distinct ops (default: a tenth of the slices)")
    options = parser.parse_args()
    written = write_training_trace(options.path, options.slices, options.names)
    print(f"{written:,} events, {options.path.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
