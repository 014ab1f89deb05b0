"""What torch says of the code that it compiles, in a few words."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters

from torchprof_magic.model.compile_metrics import why_broken


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def test_an_if_on_a_tensor_is_called_so_also_in_a_function_that_another_one_calls() -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.compile(Outer(), backend="eager")(torch.ones(2))
    told = {why_broken(reason) for reason in counters["graph_break"]}
    if not told:
        pytest.skip("this version of torch does not count graph breaks")
    assert told == {"Data-dependent branching, such as `if` on a tensor"}
