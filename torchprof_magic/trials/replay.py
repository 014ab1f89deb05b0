"""Runs a recorded op again: with its scalars and keywords as they were called, on tensors of random numbers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchprof_magic.findings.advice.trial_plan import Call, Input

# By the names that torch records.
DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::Half": torch.float16,
    "c10::BFloat16": torch.bfloat16,
    "c10::complex<float>": torch.complex64,
    "c10::complex<double>": torch.complex128,
    "long int": torch.int64,
    "long": torch.int64,
    "int": torch.int32,
    "short": torch.int16,
    "signed char": torch.int8,
    "unsigned char": torch.uint8,
    "bool": torch.bool,
}
# A tensor of these without dimensions stands for a number of Python, whose value torch does not record.
_NUMBERS: dict[str, float] = {"double": 2.0, "long int": 2, "bool": True}
_NUMBER_TYPES = ("number", "int", "float", "bool", "complex", "SymInt")
_LIST_TYPES = ("List[int]", "List[float]", "List[bool]", "List[SymInt]")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|-?inf|nan")
_UNKNOWN = object()


class CannotReplayError(ValueError):
    """An op that cannot be run again, with the reason in a few words."""


def _do_nothing() -> None:
    """Do nothing before a run."""


class Work(NamedTuple):
    """What is measured, and what is done before each run of it without being measured."""

    run: Callable[[], object]
    prepare: Callable[[], None] = _do_nothing


def replayed(call: Call, device: torch.device) -> Work:
    """Return the work of one recorded call; what it changes in place is restored before each run.

    Raises ``CannotReplayError`` if its inputs were not recorded completely, if its work depends on values that were
    not, or if torch does not run it on contiguous tensors of these shapes.
    """
    packet = getattr(torch.ops.aten, call.op, None)
    if packet is None:
        raise CannotReplayError("this version of torch does not have it")
    reason = "this version of torch takes other arguments"
    for name in packet.overloads():
        overload = getattr(packet, name)
        if _fits(overload, call):
            try:
                return _work(overload, call, device)
            except CannotReplayError as exc:
                reason = str(exc)
    raise CannotReplayError(reason)


def _fits(overload: Any, call: Call) -> bool:
    arguments = overload._schema.arguments  # noqa: SLF001 - torch offers nothing else
    return len(arguments) == len(call.inputs) and all(
        _takes(str(argument.type), given) for argument, given in zip(arguments, call.inputs, strict=True)
    )


def _takes(wanted: str, given: Input) -> bool:
    """Return whether an argument of a type may have been called with a recorded input."""
    inner = wanted.removeprefix("Optional[").removesuffix("]") if wanted.startswith("Optional[") else wanted
    if given.dtype == "":
        return inner != wanted or inner in ("str", "Device", "Generator") or "Tensor]" in inner
    if given.dtype == "Scalar":
        return inner in _NUMBER_TYPES
    if given.dtype == "ScalarList":
        return inner in _LIST_TYPES
    return "Tensor]" in inner if given.dtype == "TensorList" else inner == "Tensor"


def _work(overload: Any, call: Call, device: torch.device) -> Work:
    if reason := _value_dependent(overload, call):
        raise CannotReplayError(reason)
    numbers = torch.Generator(device=device).manual_seed(0)
    positional: list[object] = []
    named: dict[str, object] = {}
    changed: list[tuple[torch.Tensor, torch.Tensor]] = []
    for argument, given in zip(overload._schema.arguments, call.inputs, strict=True):  # noqa: SLF001 - the same
        value = _value(argument, given, numbers, device, is_only=len(call.shapes) == 0)
        if isinstance(value, torch.Tensor) and argument.alias_info is not None and argument.alias_info.is_write:
            changed.append((value, value.clone()))
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)

    def run() -> object:
        return overload(*positional, **named)

    def restore() -> None:
        for tensor, before in changed:
            tensor.copy_(before)

    return checked(Work(run, restore if changed else _do_nothing))


def checked(work: Work) -> Work:
    """Return the work after it ran once. Raises ``CannotReplayError`` if torch refuses it."""
    try:
        work.prepare()
        work.run()
    except Exception as exc:
        raise CannotReplayError("torch does not run it on contiguous tensors of the recorded shapes and types") from exc
    return work


def _value_dependent(overload: Any, call: Call) -> str:
    """Return why the work of an op depends on what was not recorded; empty if it does not."""
    tags = set(overload.tags)
    if torch.Tag.inplace_view in tags:
        return "it changes the shape of its tensor"
    if tags & {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}:
        return "its result depends on the values of its tensors"
    is_whole = any(given.shape and not _is_floating(given.dtype) for given in call.inputs)
    if is_whole and torch.Tag.pointwise not in tags:
        return "its work may depend on whole numbers in its tensors, whose values are not recorded"
    return ""


def _is_floating(name: str) -> bool:
    dtype = DTYPES.get(name)
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)


def _value(argument: Any, given: Input, numbers: torch.Generator, device: torch.device, *, is_only: bool) -> object:
    wanted = str(argument.type)
    if given.dtype in ("Scalar", "ScalarList"):
        value = _parsed(given.value)
        if value is _UNKNOWN:
            raise CannotReplayError(f"the value of its argument `{argument.name}` is not recorded")
        return value
    if given.dtype:
        return _tensor(given, numbers, device, is_only=is_only)
    if "str" in wanted:
        raise CannotReplayError(f"its argument `{argument.name}` is a text, which torch does not record")
    if "Tensor]" in wanted and "List[" in wanted:
        raise CannotReplayError(f"its argument `{argument.name}` is a list of tensors, which torch does not record")
    return device if "Device" in wanted else None


def _tensor(given: Input, numbers: torch.Generator, device: torch.device, *, is_only: bool) -> object:
    """Return a tensor of random numbers, or a number if it stood for one."""
    dtype = DTYPES.get(given.dtype)
    if given.dtype == "TensorList":
        raise CannotReplayError("it takes a list of tensors, whose types torch does not record")
    if dtype is None or given.shape is None:
        raise CannotReplayError(f"a tensor of type {given.dtype} is not made")
    if not given.shape and not is_only and given.dtype in _NUMBERS:
        return _NUMBERS[given.dtype]
    return random_tensor(given.shape, dtype, numbers, device)


def random_tensor(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: torch.Generator, device: torch.device
) -> torch.Tensor:
    """Return a contiguous tensor of random numbers between 0 and 1; of whole numbers, zeros and ones."""
    found = torch.rand(shape, generator=numbers, device=device)
    return (found if dtype.is_floating_point or dtype.is_complex else found.round()).to(dtype)


def _parsed(text: str) -> object:
    """Return the number, truth value or list that a recorded text stands for; ``_UNKNOWN`` for others."""
    if text.startswith("[") and text.endswith("]"):
        parts = [_parsed(part.strip()) for part in text[1:-1].split(",") if part.strip()]
        return _UNKNOWN if _UNKNOWN in parts else parts
    if text in ("True", "False"):
        return text == "True"
    if _WHOLE.fullmatch(text):
        return int(text)
    with suppress(ValueError):
        return float(text) if _DECIMAL.fullmatch(text) else complex(text.replace("(", "").replace(")", ""))
    return _UNKNOWN
