"""What the user's code calls its tensors: variables, elements and attributes in the frames that are running."""

from __future__ import annotations

from collections import deque
from itertools import islice
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, cast

import torch

from torchprof_magic.capture.torch_api.storages import is_plain
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


def _under(name: str, value: object, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a value if it is a tensor, and those in it, without code of the user's: subclasses may have their own."""
    if is_plain(type(value)):
        yield name, cast("torch.Tensor", value)
    elif depth < MOST_DEPTH and id(type(value)) not in _WITHOUT_TENSORS and not is_a(value, torch.optim.Optimizer):
        for label, one in _parts(value):
            yield from _under(f"{name}{label}", one, depth + 1)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yield the last elements of a list, tuple, deque or dictionary, or else the attributes of an object."""
    if is_a(value, dict):
        items = list(islice(reversed(dict.items(value)), MOST_ELEMENTS))
        yield from ((f"[{key_text(key)}]", one) for key, one in items)
    elif is_a(value, (list, tuple, deque)):
        first, elements = _last(value)
        yield from ((f"[{place}]", one) for place, one in enumerate(elements, first))
    else:
        attributes = list(islice(attributes_of(value).items(), MOST_ELEMENTS))
        yield from ((f".{name}", one) for name, one in attributes if _is_shown(name))


def _last(value: Any) -> tuple[int, list[object]]:
    """Return the place of the first of the last elements, and these, by the methods of Python's own class.

    No object: in a function for ``sys.settrace``, torch.compile would compile what makes it.
    """
    kind: Any = next(kind for kind in (list, tuple, deque) if is_a(value, kind))
    first = max(kind.__len__(value) - MOST_ELEMENTS, 0)
    return first, list(islice(kind.__iter__(value), first, None))
