"""The lines of torch's ``export_stacks``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.facts.ops.torch_calls import torch_calls
from torchprof_magic.facts.ops.torch_stacks import frames_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchprof_magic.model.trace import Trace

# torch's names of the metrics, and the columns that hold them.
TORCH_METRICS = {
    "self_cpu_time_total": "self_cpu_ns",
    "self_cuda_time_total": "self_device_ns",
    "self_xpu_time_total": "self_device_ns",
    "self_privateuse1_time_total": "self_device_ns",
    "self_device_time_total": "self_device_ns",
}
# torch replaces the first four. Any other end of a line would end torch's line within a name.
_REPLACED = str.maketrans(dict.fromkeys(" ;\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "_"))
_NS_PER_US = 1000


def torch_stack_lines(trace: Trace, metric: str) -> Iterator[str]:
    """Yield ``outer;inner µs`` for every event of torch's that took at least 1 µs, in torch's order and whole µs.

    ``metric`` is a key of ``TORCH_METRICS``.
    """
    name = TORCH_METRICS[metric]
    calls = torch_calls(trace).select("stack", name).rows()
    known = [(stack, ns // _NS_PER_US) for stack, ns in calls if stack >= 0 and ns >= _NS_PER_US]
    frames = frames_of(trace, list({stack for stack, _ in known}))
    texts = {stack: ";".join(reversed(found)) for stack, found in _written(frames).items()}
    for stack, us in known:  # one iteration per line
        if texts[stack]:
            yield f"{texts[stack]} {us}"


def _written(frames: dict[int, tuple[str, ...]]) -> dict[int, list[str]]:
    return {stack: [name.translate(_REPLACED) or "_" for name in found] for stack, found in frames.items()}
