"""Recorded ops that are run again, and the plain reasons why others are not."""

from __future__ import annotations

import pytest
import torch

from torchprof_magic.findings.advice.trial_plan import Call, Input, tensors
from torchprof_magic.trials.replay import CannotReplayError, replayed

CPU = torch.device("cpu")
NONE = Input("", ())
WHOLE = Input("long int", (9,))


def scalar(value: str) -> Input:
    return Input("Scalar", (), value)


def listed(value: str) -> Input:
    return Input("ScalarList", (), value)


def result(op: str, *inputs: Input) -> object:
    return replayed(Call(op, inputs, 1.0), CPU).run()


def test_a_keyword_that_is_a_number_is_passed_as_it_was_called() -> None:
    first, other = torch.Generator().manual_seed(0), tensors((3, 4), (3, 4))
    a, b = torch.rand((3, 4), generator=first), torch.rand((3, 4), generator=first)
    found = result("add", *other, scalar("3"))
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, a + 3 * b)


def test_scalars_lists_and_missing_arguments_choose_the_overload() -> None:
    softmax = result("softmax", *tensors((3, 4)), scalar("0"), NONE)
    assert isinstance(softmax, torch.Tensor)
    torch.testing.assert_close(softmax.sum(0), torch.ones(4))
    total = result("sum", *tensors((3, 4)), listed("[1]"), scalar("True"), scalar("7"))
    assert isinstance(total, torch.Tensor)
    assert (total.shape, total.dtype) == ((3, 1), torch.float64)
    clamped = result("clamp", *tensors((3, 4)), NONE, scalar("0.25"))
    assert isinstance(clamped, torch.Tensor)
    assert clamped.max() <= 0.25


def test_a_number_of_python_beside_a_tensor_keeps_the_type_of_the_result() -> None:
    found = result("mul", *tensors((3,), dtype="long int"), Input("double", ()))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32


def test_ops_in_place_begin_each_run_with_the_same_tensor() -> None:
    work = replayed(Call("mul_", (*tensors((3,)), Input("double", ())), 1.0), CPU)
    work.prepare()
    first = work.run()
    assert isinstance(first, torch.Tensor)
    before = first.clone()
    work.prepare()
    assert torch.equal(work.run(), before)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (Call("mul", tensors((3, 2), (3, 2), (3, 2)), 1.0), (3, 2)),  # out=
        (Call("exp", tensors((0,)), 1.0), (0,)),
        (Call("where", (Input("bool", (3,)), *tensors((3,), (3,))), 1.0), (3,)),
        (Call("dropout", (*tensors((3,)), scalar("0.5"), scalar("True")), 1.0), (3,)),
        (Call("mul", tensors((3,), (3,), dtype="c10::complex<float>"), 1.0), (3,)),
        (Call("bernoulli_", (*tensors((3,)), scalar("0.5"), NONE), 1.0), (3,)),  # a generator
        (Call("_to_copy", (*tensors((3,)), scalar("7"), NONE, NONE, NONE, scalar("False"), NONE), 1.0), (3,)),
    ],
    ids=lambda value: value.op if isinstance(value, Call) else "",
)
def test_what_is_known_of_its_inputs_is_enough(call: Call, shape: tuple[int, ...]) -> None:
    found = replayed(call, CPU).run()
    assert isinstance(found, torch.Tensor)
    assert found.shape == shape


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (Call("no_such_op", tensors((3,)), 1.0), "this version of torch does not have it"),
        (Call("exp", tensors((3,), (3,), (3,)), 1.0), "this version of torch takes other arguments"),
        (Call("gelu", (*tensors((3,)), NONE), 1.0), "its argument `approximate` is a text"),
        (Call("div", (*tensors((3,), (3,)), NONE), 1.0), "its argument `rounding_mode` is a text"),
        (Call("cat", (Input("TensorList", None), scalar("0")), 1.0), "a list of tensors"),
        (Call("index", (*tensors((3,)), NONE), 1.0), "its argument `indices` is a list of tensors"),
        (Call("nonzero", tensors((3,)), 1.0), "its result depends on the values"),
        (Call("embedding", (*tensors((3, 4)), WHOLE, scalar("-1"), scalar("False"), scalar("False")), 1.0), "whole n"),
        (Call("gather", (*tensors((3,)), scalar("0"), WHOLE, scalar("False")), 1.0), "whole numbers"),
        (Call("softmax", (*tensors((3,)), scalar(""), NONE), 1.0), "the value of its argument `dim` is not recorded"),
        (Call("softmax", (*tensors((3,)), scalar("9"), NONE), 1.0), "torch does not run it"),
        (Call("mm", tensors((3, 4), (3, 4)), 1.0), "torch does not run it"),
        (Call("exp", tensors((3,), dtype="c10::Float8_e4m3fn"), 1.0), "a tensor of type c10::Float8_e4m3fn is not"),
        (Call("t_", tensors((3, 4)), 1.0), "it changes the shape of its tensor"),
        (Call("exp", (), 1.0), "this version of torch takes other arguments"),
    ],
    ids=lambda value: value.op if isinstance(value, Call) else "",
)  # fmt: skip
def test_what_is_not_known_of_its_inputs_is_said_in_words(call: Call, reason: str) -> None:
    with pytest.raises(CannotReplayError, match=reason.replace("(", r"\(")):
        replayed(call, CPU)
