"""Tensors and models are told by their types, without asking the objects."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torchprof_magic.capture.torch_api.kinds import TENSOR_METHODS, holds_tensor, is_model, is_tensor


class Hostile:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        pytest.fail("asked for the class")

    def __iter__(self) -> object:
        pytest.fail("iterated")


def test_tensors_and_parameters_are_tensors_and_their_classes_are_not() -> None:
    assert is_tensor(torch.ones(2))
    assert is_tensor(nn.Parameter(torch.ones(2)))
    assert not any(map(is_tensor, (torch.Tensor, 3, None, Hostile())))


def test_modules_and_their_classes_are_models() -> None:
    assert is_model(nn.Linear(2, 2))
    assert is_model(nn.Linear)
    assert not any(map(is_model, (torch.ones(2), int, Hostile())))


def test_a_batch_holds_a_tensor_if_one_is_in_its_tuple_list_or_dictionary() -> None:
    for batch in (torch.ones(2), (torch.ones(2), 3), [3, torch.ones(2)], {"x": torch.ones(2)}):
        assert holds_tensor(batch)
    for other in ((), [3], {"x": 3}, "text", Hostile()):
        assert not holds_tensor(other)


def test_methods_of_tensors_are_public_ones() -> None:
    assert {"sum", "matmul", "relu_"} <= TENSOR_METHODS
    assert not any(name.startswith("_") for name in TENSOR_METHODS)
