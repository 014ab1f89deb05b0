"""A stack of a snapshot stands for a line of the user's, or for what torch was doing."""

from __future__ import annotations

import numpy as np
import pytest
from made_snapshots import Entry, entry, frame, snapshot_of

from torchprof_magic.facts.memory.stack_lines import lines_of

USER, TORCH = frame("/u/train.py", 3, "main"), frame("/lib/python3.11/site-packages/torch/nn/x.py", 9, "forward")
OP, INNER = frame("?", 0, "at::_ops::add_Tensor::call(at::Tensor)"), frame("?", 0, "at::_ops::empty::redispatch(x)")
NODE = frame("?", 0, "torch::autograd::AccumulateGrad::apply(std::vector)")


@pytest.mark.parametrize(
    ("stack", "line", "function"),
    [
        ([TORCH, USER], "/u/train.py:3", "main"),
        ([INNER, OP, TORCH], "/lib/python3.11/site-packages/torch/nn/x.py:9", "forward"),
        ([INNER, OP, NODE], None, "AccumulateGrad"),
        ([INNER, OP], None, "aten::add_Tensor"),
        ([frame("?", 0, "malloc")], None, None),
        ([], None, None),
    ],
)
def test_the_innermost_frame_of_the_user_counts_then_of_a_library_then_node_and_op(
    stack: list[Entry], line: str | None, function: str | None
) -> None:
    trace = snapshot_of(entry("alloc", 0, 5, frames=stack))
    row = trace.history["stack"].fill_null(-1).to_numpy().astype(np.int64)
    assert lines_of(trace, row).row(0) == (line, function)
