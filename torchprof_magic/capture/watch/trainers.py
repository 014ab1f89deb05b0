"""Which function of a cell makes its optimizer step: a trainer's loop cannot be seen in the cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchprof_magic.capture.registry import OWN_PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# The libraries whose trainers take a callback, and the function of ``torchprof_magic.callbacks`` that makes it.
CALLBACKS = {"transformers": "hf", "lightning": "lightning", "pytorch_lightning": "lightning"}


class Caller(NamedTuple):
    """The function that a cell has called, such as ``Trainer.train``; ``callback`` would tell its steps, if any."""

    name: str = ""
    callback: str = ""


def caller_in_cell(frame: FrameType | None) -> Caller:
    """Return which function of the cell has led to ``frame``; without a name if the cell has stepped by itself."""
    inside: list[FrameType] = []  # the frames that the cell has called, the outermost last
    frames = [*_outward(frame)]
    for number, (each, outer) in enumerate(zip(frames, frames[1:], strict=False)):
        if _package_of(outer) == OWN_PACKAGE != _package_of(each):
            inside = frames[:number]
    for each in reversed(inside):
        if (callback := CALLBACKS.get(_package_of(each))) is not None:
            return Caller(_name_of(each), callback)
    return Caller(_name_of(inside[-1])) if inside and _package_of(inside[-1]) != "torch" else Caller()


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _package_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] if type(name) is str else ""


def _name_of(frame: FrameType) -> str:
    code = frame.f_code
    return str(getattr(code, "co_qualname", code.co_name))  # the class is known from Python 3.11 on
