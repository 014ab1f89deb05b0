"""What the user's code calls its tensors: variables, elements and attributes in the frames that are running."""

from __future__ import annotations

from collections import deque
from itertools import islice
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, Final

import torch

from torchprof_magic.capture.watch.holders import key_text, locals_of
from torchprof_magic.capture.watch.users_code import UsersCode
from torchprof_magic.system.process.lookups import attributes_of, is_a

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# So many variables of a frame, elements of a list and attributes of an object are looked at; of a list the last ones.
MOST_VARIABLES = 5_000
MOST_ELEMENTS = 100
MOST_FRAMES = 50
# From a variable to a tensor: trainer.losses[3] are two.
MOST_DEPTH = 2
# The types of tensors without code of another class.
_TENSOR: Final = torch.Tensor
_PARAMETER: Final = torch.nn.Parameter
# Types by id: a metaclass may have its own ``__hash__`` and ``__eq__``.
_WITHOUT_TENSORS = frozenset(
    map(
        id,
        (int, float, complex, bool, str, bytes, NoneType, type, range, ModuleType, FunctionType, BuiltinFunctionType),
    )
)


class UserFrames:
    """Finds the frames of the user's code: not those of Python, of installed packages, or of this one."""

    def __init__(self) -> None:
        self._users = UsersCode()
        # By file: code of a cell leads to the session of its cell, and Python cannot see that it does.
        self._known: dict[str, bool] = {}

    def above(self, frame: FrameType | None) -> Iterator[FrameType]:
        """Yield a frame and its callers, as far as they are the user's, the innermost first."""
        found = 0
        while frame is not None and found < MOST_FRAMES:
            if self._is_users(frame.f_code):
                found += 1
                yield frame
            frame = frame.f_back

    def _is_users(self, code: CodeType) -> bool:
        name = code.co_filename
        if name not in self._known:
            self._known[name] = self._users.has_file(name)
        return self._known[name]


def tensors_of_frame(frame: FrameType, *, is_traced: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in the variables of a frame, each as code that means it there, such as ``cache['x']``.

    ``is_traced`` is to be set in a function for ``sys.settrace``: Python 3.12 and older then write the variables back.
    """
    return named_tensors(frame.f_locals if is_traced else locals_of(frame))


def named_tensors(variables: Mapping[str, object]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in variables, with names; those whose names begin with an underscore are left out."""
    for name, value in list(islice(variables.items(), MOST_VARIABLES)):
        if _is_shown(name, (".", "_")):
            yield from _under(name, value, 0)


def _is_shown(name: object, hidden: tuple[str, ...] = ("_",)) -> bool:
    return type(name) is str and not name.startswith(hidden)


def _under(name: str, value: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a value if it is a tensor, and those in it, without code of the user's: subclasses may have their own.

    While stacks are recorded, each call is an event. So what is most common is asked without one.
    """
    kind = type(value)
    if kind is _TENSOR or kind is _PARAMETER:
        yield name, value
    elif depth < MOST_DEPTH and id(kind) not in _WITHOUT_TENSORS and not is_a(value, torch.optim.Optimizer):
        is_last = depth + 1 == MOST_DEPTH
        for label, one in _parts(value, kind):
            inner: Any = type(one)
            if inner is _TENSOR or inner is _PARAMETER:
                yield f"{name}{label}", one
            elif not is_last and inner is not int and inner is not float and inner is not str:
                yield from _under(f"{name}{label}", one, depth + 1)


def _parts(value: Any, kind: type) -> list[tuple[str, Any]]:
    """Return the last elements of a list, tuple, deque or dictionary, or else the attributes of an object."""
    if kind is list or kind is tuple:
        first = 0 if len(value) <= MOST_ELEMENTS else len(value) - MOST_ELEMENTS
        return [(f"[{place}]", one) for place, one in enumerate(value[first:], first)]
    if is_a(value, dict):
        items = list(islice(reversed(dict.items(value)), MOST_ELEMENTS))
        return [(f"[{key_text(key)}]", one) for key, one in items]
    if is_a(value, (list, tuple, deque)):
        first, elements = _last(value)
        return [(f"[{place}]", one) for place, one in enumerate(elements, first)]
    attributes = list(islice(attributes_of(value).items(), MOST_ELEMENTS))
    return [(f".{name}", one) for name, one in attributes if _is_shown(name)]


def _last(value: Any) -> tuple[int, list[object]]:
    """Return the place of the first of the last elements, and these, by the methods of Python's own class.

    No object: in a function for ``sys.settrace``, torch.compile would compile what makes it.
    """
    kind: Any = next(kind for kind in (list, tuple, deque) if is_a(value, kind))
    first = max(kind.__len__(value) - MOST_ELEMENTS, 0)
    return first, list(islice(kind.__iter__(value), first, None))
