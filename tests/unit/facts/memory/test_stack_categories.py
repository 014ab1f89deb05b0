"""The stacks of a snapshot tell what of it is gradients, and what else autograd made."""

from __future__ import annotations

import torchprof_magic as tp
from tests.made_snapshots import entry, frame, snapshot_of

# Innermost first, as torch writes them.
ENGINE = (
    frame("??", 0, "torch::autograd::Node::operator()(std::vector<at::Tensor>&&)"),
    frame("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"),
)
GRADIENT = (
    frame("??", 0, "at::_ops::new_empty_strided::call(at::Tensor const&)"),
    frame("??", 0, "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)"),
    *ENGINE,
)
NODE = (frame("??", 0, "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)"), *ENGINE)
FORWARD = (frame("/u/train.py", 31, "step"),)


def test_what_the_node_of_a_parameter_allocates_is_a_gradient_and_other_nodes_of_autograd_are_told_apart() -> None:
    stacks = {40: GRADIENT, 30: NODE, 20: FORWARD, 10: ()}
    trace = snapshot_of(
        *(entry("alloc", size, size, 4096 * size, frames=list(frames)) for size, frames in stacks.items())
    )
    rows = tp.Report(trace).memory_at().select("size_bytes", "category").rows()
    assert rows == [(40, "gradient"), (30, "autograd"), (20, "unknown"), (10, "unknown")]


def test_blocks_of_a_snapshot_without_stacks_are_of_no_known_category() -> None:
    assert tp.Report(snapshot_of(entry("alloc", 0, 5))).memory_at()["category"].to_list() == ["unknown"]
