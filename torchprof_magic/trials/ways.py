"""The two ways of each kind of trial: what the program does now, and what the advice changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from torchprof_magic.trials.replay import DTYPES, CannotReplayError, Work, checked, random_tensor, replayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.advice.trial_plan import Call, Input, TrialPlan

# Which inputs of a product autocast converts in every call; it keeps the others, converted weights.
_CONVERTED = {"mm": (0,), "addmm": (1,), "bmm": (0, 1), "baddbmm": (1, 2)}
_HALF = "c10::BFloat16"


def _tensors(inputs: tuple[Input, ...], device: torch.device) -> list[torch.Tensor]:
    """Return tensors of the recorded shapes with random numbers, which come from a generator of their own."""
    numbers = torch.Generator(device=device).manual_seed(0)
    known = [(each.shape, DTYPES.get(each.dtype)) for each in inputs]
    found = [random_tensor(shape, dtype, numbers, device) for shape, dtype in known if shape is not None and dtype]
    if len(found) < len(inputs) or not all(tensor.is_floating_point() for tensor in found):
        raise CannotReplayError("its tensors are not of floating-point numbers")
    return found


def _optimizer(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    kind: Callable[..., torch.optim.Optimizer] = getattr(torch.optim, plan.name)

    def way(**how: bool) -> Work:
        parameters = [torch.nn.Parameter(tensor) for tensor in _tensors(call.inputs, device)]
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 1e-3)
        return checked(Work(kind(parameters, lr=1e-6, **dict(plan.settings), **how).step))

    return way(foreach=False), way(fused=True)


def _threads(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    work = replayed(call, device)
    return _on_threads(work, plan.threads or 1), _on_threads(work, plan.cores or 1)


def _on_threads(work: Work, threads: int) -> Work:
    def prepare() -> None:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
            work.prepare()
            work.run()  # starts the threads
        work.prepare()

    return Work(work.run, prepare)


def _autocast(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    del plan
    half = replayed(call._replace(inputs=tuple(_in_half(each) for each in call.inputs)), device)
    moving = _tensors(tuple(call.inputs[place] for place in _CONVERTED[call.op]), device)

    def in_bfloat16() -> object:
        for tensor in moving:
            tensor.bfloat16()
        return half.run()

    return replayed(call, device), Work(in_bfloat16)


def _in_half(given: Input) -> Input:
    return given._replace(dtype=_HALF) if given.dtype == "float" and given.shape else given


def _channels_last(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    image, weight = _tensors(call.inputs[:2], device)
    values = [each.value for each in call.inputs]
    stride, padding, dilation = (_numbers(values, place) for place in (3, 4, 5))
    groups = int(values[8]) if len(values) > 8 and values[8].isdecimal() else 1  # noqa: PLR2004 - its place

    def way(layout: torch.memory_format) -> Work:
        x = image.contiguous(memory_format=layout).requires_grad_(plan.has_backward)
        w = weight.contiguous(memory_format=layout).requires_grad_(plan.has_backward)
        return checked(Work(lambda: _with_backward(functional.conv2d(x, w, None, stride, padding, dilation, groups))))

    return way(torch.contiguous_format), way(torch.channels_last)


def _numbers(values: list[str], place: int) -> tuple[int, ...]:
    """Return the numbers of a recorded list such as ``[1, 1]``; torch's defaults where it is not known."""
    text = values[place].strip("[]") if len(values) > place else ""
    parts = [part.strip() for part in text.split(",")]
    default = 0 if place == 4 else 1  # noqa: PLR2004 - the place of the padding
    return tuple(int(part) if part.isdecimal() else default for part in parts)


def _attention(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    q, k, v = (_heads(tensor).requires_grad_(plan.has_backward) for tensor in _tensors(call.inputs, device))

    def single() -> None:
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        _with_backward(torch.softmax(scores, -1) @ v)

    def fused() -> None:
        _with_backward(functional.scaled_dot_product_attention(q, k, v))

    return checked(Work(single)), checked(Work(fused))


def _with_backward(result: torch.Tensor) -> None:
    if result.requires_grad:
        result.backward(torch.ones_like(result))  # type: ignore[no-untyped-call]


def _heads(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with a dimension for the batch and one for heads, which the fused op wants."""
    return tensor if tensor.dim() == 4 else tensor.flatten(0, -3).unsqueeze(0)  # noqa: PLR2004 - batch, heads, length, width


WAYS: dict[str, Callable[[TrialPlan, Call, torch.device], tuple[Work, Work]]] = {
    "optimizer": _optimizer,
    "threads": _threads,
    "autocast": _autocast,
    "channels_last": _channels_last,
    "attention": _attention,
}


def ways_of(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    """Return both ways of one call. Raises ``CannotReplayError`` if it cannot be run again."""
    try:
        return WAYS[plan.kind](plan, call, device)
    except CannotReplayError:
        raise
    except Exception as exc:
        raise CannotReplayError("torch does not run it on contiguous tensors of the recorded shapes and types") from exc
