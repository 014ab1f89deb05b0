"""What memory is used for, in the numbers and the order of torch's memory timeline."""

from __future__ import annotations

# As ``torch.profiler._memory_profiler`` numbers them, from 0. torch has no category for buffers, which are part of a
# model as its parameters are.
TORCH_ORDER = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd",
    "unknown",
)
UNKNOWN = TORCH_ORDER.index("unknown")
TORCH_NUMBERS = {name: number for number, name in enumerate(TORCH_ORDER)} | {"buffer": TORCH_ORDER.index("parameter")}
# What happens to a piece of memory, as torch numbers it from 1.
TORCH_ACTIONS = ("preexisting", "create", "increment_version", "destroy")
# The time of memory that was there before the recording.
BEFORE = -1
