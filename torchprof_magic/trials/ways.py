"""The two ways of each kind of trial: what the program does now, and what the advice changes."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.advice.trial_plan import Call, TrialPlan

    Work = Callable[[], object]

_WHOLE = re.compile("[0-9]{1,9}")
_SINGLE: dict[str, Callable[..., Any]] = {
    "softmax": partial(torch.softmax, dim=-1),
    "_softmax": partial(torch.softmax, dim=-1),
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}


def _tensors(call: Call, device: torch.device) -> list[torch.Tensor]:
    """Return tensors of the recorded shapes with random numbers, which come from a generator of their own."""
    numbers = torch.Generator(device=device).manual_seed(0)
    dtype = getattr(torch, call.dtype)
    return [torch.rand(shape, generator=numbers, device=device).to(dtype) for shape in call.shapes]


def _op(call: Call) -> Callable[..., Any]:
    found: Callable[..., Any] = _SINGLE.get(call.op) or getattr(torch, call.op)
    return found


def _optimizer(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    parameters = [torch.nn.Parameter(tensor) for tensor in _tensors(call, device)]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    kind: Callable[..., torch.optim.Optimizer] = getattr(torch.optim, plan.name)
    single = kind(parameters, lr=1e-3, foreach=False)
    return single.step, kind(parameters, lr=1e-3, fused=True).step


def _threads(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    work = partial(_op(call), *_tensors(call, device))
    return _on_threads(work, plan.threads or 1), _on_threads(work, plan.cores or 1)


def _on_threads(work: Work, threads: int) -> Work:
    def run() -> object:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
            work()  # starts the threads
        return work()

    return run


def _autocast(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    del plan
    tensors, op = _tensors(call, device), _op(call)
    weights = [tensor.bfloat16() for tensor in tensors[1:]]

    def in_bfloat16() -> object:
        # Autocast keeps converted weights, and converts the input in every call.
        return op(tensors[0].bfloat16(), *weights)

    return partial(op, *tensors), in_bfloat16


def _channels_last(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    del plan
    image, weight = _tensors(call, device)[:2]
    stride, padding, dilation = (_numbers(call.values, place) for place in (3, 4, 5))
    groups = int(call.values[8]) if len(call.values) > 8 and _WHOLE.fullmatch(call.values[8]) else 1  # noqa: PLR2004 - its place

    def ways(layout: torch.memory_format) -> Work:
        x = image.contiguous(memory_format=layout).requires_grad_()
        w = weight.contiguous(memory_format=layout).requires_grad_()
        return lambda: _with_backward(functional.conv2d(x, w, None, stride, padding, dilation, groups))

    return ways(torch.contiguous_format), ways(torch.channels_last)


def _numbers(values: tuple[str, ...], place: int) -> tuple[int, ...]:
    """Return the numbers of a recorded list such as ``[1, 1]``; 1 where it is not known."""
    text = values[place].strip("[]") if len(values) > place else ""
    parts = [part.strip() for part in text.split(",")]
    default = 0 if place == 4 else 1  # noqa: PLR2004 - the place of the padding
    return tuple(int(part) if _WHOLE.fullmatch(part) else default for part in parts)


def _attention(plan: TrialPlan, call: Call, device: torch.device) -> tuple[Work, Work]:
    del plan
    q, k, v = (_heads(tensor).requires_grad_() for tensor in _tensors(call, device))

    def single() -> None:
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        _with_backward(torch.softmax(scores, -1) @ v)

    return single, lambda: _with_backward(functional.scaled_dot_product_attention(q, k, v))


def _with_backward(result: torch.Tensor) -> None:
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
