"""A small GPU trace of a training loop, in which the device waits for a reason that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import allocation, annotation, chrome, kernel, launch, span

if TYPE_CHECKING:
    from pathlib import Path

    from support import Event

STEPS = 4
STEP_US = 10_000
STACK = "train.py(12): forward;train.py(40): main"
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_nn_align8>(Params)"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


def write_gpu_trace(path: Path) -> Path:
    """Write 4 steps of 10 ms; in each the device waits 3 ms for data, then runs 5 ms of gemm and 1 ms of add."""
    path.write_bytes(chrome(*gpu_events(), deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]))
    return path


def gpu_events() -> list[Event]:
    """Return the events of that trace."""
    events: list[Event] = [annotation(f"ProfilerStep#{step}", step * STEP_US, STEP_US) for step in range(STEPS)]
    for step in range(STEPS):
        at = step * STEP_US
        call = 10 * step
        events += [
            annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 100, 2_800),
            span("aten::stack", at + 200, 2_500),
            _op("aten::mm", at + 2_950, 200, call),
            launch(at + 2_990, 10, call),
            kernel(GEMM, at + 3_000, 5_000, call),
            _op("aten::add", at + 3_300, 100, call + 1),
            launch(at + 3_310, 10, call + 1),
            kernel(ADD, at + 8_000, 1_000, call + 1),
            span("cudaDeviceSynchronize", at + 3_500, 5_500, cat="cuda_runtime", correlation=call + 2),
            allocation(at + 2_960, 4_000_000, 5_000_000, device=1),
            allocation(at + 9_500, -4_000_000, 1_000_000, device=1),
        ]
    return events


def _op(name: str, start_us: float, dur_us: float, call: int) -> Event:
    shapes = {"Input Dims": [[128, 64], [64, 256]], "Input type": ["float", "float"], "Call stack": STACK}
    return span(name, start_us, dur_us, **{"External id": call, **shapes})
