"""Write a Kineto-like trace of any size: a training loop with ops, runtime calls, kernels, flows and memory rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPS = ("aten::linear", "aten::addmm", "aten::relu", "aten::layer_norm", "aten::mm", "aten::copy_", "aten::add_")
_STEP_LAYERS = 100
_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85029158912}],
  "record_shapes": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 1751410836000000000,
  "traceEvents": [
"""
_TAIL = '\n  ],\n  "traceName": "trace.json"\n}\n'


def write_trace(path: Path, events: int) -> int:
    """Write about ``events`` events (a few more, to end a step) and return how many they are."""
    written = 0
    with path.open("w") as file:
        file.write(_HEAD)
        for step in range(1 << 60):
            texts = list(_step(step))
            file.write((",\n" if written else "") + ",\n".join(texts))
            written += len(texts)
            if written >= events:
                break
        file.write(_TAIL)
    return written


def _step(step: int) -> Iterator[str]:
    """Yield the events of one training step: an annotation over layers, each with nested ops, launches and kernels."""
    layer_us, start = 400, step * (_STEP_LAYERS + 2) * 400
    yield _event("user_annotation", f"ProfilerStep#{step}", start, (_STEP_LAYERS + 1) * layer_us, 1, "")
    for layer in range(_STEP_LAYERS):
        at = start + 10 + layer * layer_us
        number = step * _STEP_LAYERS + layer
        dims = f"[[{layer % 8 + 1}, 1024], [1024, {layer % 16 * 64}], []]"
        shapes = f', "Input Dims": {dims}, "Input type": ["float", "float", ""]'
        op = f'"External id": {number * 7}, "Record function id": 0, "Ev Idx": {number}, "Sequence number": {number}, '
        yield _event("cpu_op", _OPS[layer % 3], at, 300, 1, op + '"Fwd thread id": 0' + shapes)
        yield _event("cpu_op", _OPS[3 + layer % 4], at + 20, 200, 1, op + '"Fwd thread id": 0' + shapes)
        for inner in range(2):
            call, correlation = at + 40 + inner * 80, number * 2 + inner
            ids = f'"External id": {number * 7}, "correlation": {correlation}'
            yield _event("cpu_op", f"aten::inner{layer % 40}", call - 5, 60, 1, op + '"Fwd thread id": 0' + shapes)
            yield _event("cuda_runtime", "cudaLaunchKernel", call, 6, 1, f'"cbid": 211, {ids}')
            work = f'"device": 0, "stream": 7, {ids}, {_GRID}'
            yield _event("kernel", _kernel_name(layer), call + 30, 70, 7, work, 0)
            yield _arrow("s", correlation, call, 1, 4242)
            yield _arrow("f", correlation, call + 30, 7, 0)


_GRID = (
    '"context": 1, "registers per thread": 32, "shared memory": 0, "blocks per SM": 4.24, "warps per SM": 16.97, '
    '"grid": [560, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 27'
)


def _kernel_name(layer: int) -> str:
    return f"void at::native::vectorized_elementwise_kernel<4, Functor{layer % 60}, std::array<char*, 3ul> >(int)"


def _event(cat: str, name: str, start_us: int, dur_us: int, tid: int, args: str, pid: int = 4242) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
        f'    "ts": {start_us}.{start_us % 1000:03d}, "dur": {dur_us}.000,\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _arrow(phase: str, number: int, at_us: int, tid: int, pid: int) -> str:
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {at_us}.{at_us % 1000:03d},\n'
        f'    "cat": "ac2g", "name": "ac2g"{end}\n  }}'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    written = write_trace(options.path, options.events)
    print(f"{written:,} events, {options.path.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
