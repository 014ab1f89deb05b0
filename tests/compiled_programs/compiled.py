"""Written programs of which is known why torch.compile compiles them again, or breaks their graphs, and in which line.

A line that breaks a graph ends in the comment `breaks`, one that makes the guard that fails in `guards`.
"""

from __future__ import annotations

import inspect
import io
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[int], object]

STEPS = 4
scale = 0
# Its write() is none of Python's functions, which would be compiled, too.
quiet = io.StringIO()


class Again(NamedTuple):
    """A compilation of a function that had been compiled before: the cause, and parts of the guard and its value."""

    cause: str
    guard: str
    value: str = ""


class Program(NamedTuple):
    """A program: ``make`` returns what each step calls. ``code`` is the function or class whose lines are marked.

    ``again`` are the compilations of it after the first, in order; ``breaks`` is a part of torch's reason for each
    compilation whose graph breaks. ``failed`` is a part of the reason why it is given up.
    """

    name: str
    code: Any
    make: Callable[[], Step]
    again: tuple[Again, ...] = ()
    breaks: tuple[str, ...] = ()
    failed: str = ""
    steps: int = STEPS

    def line_of(self, mark: str) -> int | None:
        """Return the number of the line with a mark, None if there is none."""
        lines, first = inspect.getsourcelines(self.code)
        return next((first + at for at, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")), None)


def _compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="eager", **options)


def sized(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def typed(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def differentiable(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * scale  # guards


def numbered(x: torch.Tensor, number: int) -> torch.Tensor:
    y = x + 1
    return y * number  # guards


def listed(x: torch.Tensor, items: list[int]) -> torch.Tensor:
    y = x * 2
    return y + len(items)  # guards


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print(end="", file=quiet)  # breaks
    return y * 2


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x * 3
    if y.sum() > 0:  # breaks
        return y + 1
    return y - 1


def reading(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    total = y.sum().item()  # breaks
    return y * total


def compiling(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    compile("1", "name", "eval")  # breaks
    return y * 2


class Numbered(torch.nn.Module):
    """A module whose instances differ in a number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.number  # guards


def limited(x: torch.Tensor, name: str) -> torch.Tensor:
    return x + len(name) if name != "none" else x  # guards


def _sized() -> Step:
    run = _compiled(sized, dynamic=False)
    return lambda at: run(torch.ones(3 + at))


def _typed() -> Step:
    run = _compiled(typed)
    return lambda at: run(torch.ones(3, dtype=torch.float64 if at > 1 else torch.float32))


def _differentiable() -> Step:
    run = _compiled(differentiable)
    return lambda at: run(torch.ones(3, requires_grad=at > 1))


def _scaled() -> Step:
    run = _compiled(scaled, dynamic=False)

    def step(at: int) -> None:
        global scale  # noqa: PLW0603 - a global that changes is what is tried
        scale = 10 + at
        run(torch.ones(3))

    return step


def _numbered() -> Step:
    run = _compiled(numbered, dynamic=False)
    return lambda at: run(torch.ones(3), 3 + at)


def _listed() -> Step:
    run = _compiled(listed)
    return lambda at: run(torch.ones(3), [7] * (2 + at))


def _of(function: Any) -> Callable[[], Step]:
    def make() -> Step:
        run = _compiled(function)
        return lambda _: run(torch.ones(3))

    return make


def _instances() -> Step:
    runs = [_compiled(Numbered(number), dynamic=False) for number in range(3, 3 + STEPS)]
    return lambda at: runs[at](torch.ones(2, 4))


def _limited() -> Step:
    run = _compiled(limited, dynamic=False)
    return lambda at: run(torch.ones(3), "x" * (at + 1))


SIZES = tuple(Again("size", "'x' size mismatch at index 0", f"expected {at}, actual {at + 1}") for at in (3, 4, 5))
PROGRAMS = (
    Program("another size each time", sized, _sized, SIZES),
    Program("another type", typed, _typed, (Again("dtype", "dtype mismatch", "expected Float, actual Double"),)),
    Program(
        "a tensor that requires a gradient",
        differentiable,
        _differentiable,
        (Again("requires_grad", "requires_grad mismatch", "expected requires_grad=0"),),
    ),
    Program(
        "a global that changes", scaled, _scaled, tuple(Again("global", f"G['scale'] == {at}") for at in (10, 11, 12))
    ),
    Program(
        "another number each time", numbered, _numbered, tuple(Again("value", f"number == {n}") for n in (3, 4, 5))
    ),
    Program(
        "a longer list each time", listed, _listed, tuple(Again("length", f"len(items) == {n}") for n in (2, 3, 4))
    ),
    Program("a print", printing, _of(printing), breaks=("print",)),
    Program("an if on a tensor", branching, _of(branching), breaks=("Data-dependent branching",)),
    Program("an item()", reading, _of(reading), breaks=("item",)),
    Program("a builtin that torch does not know", compiling, _of(compiling), breaks=("compile",)),
    Program(
        "other instances of a module",
        Numbered,
        _instances,
        tuple(Again("attribute", f"self.number == {n}") for n in (3, 4, 5)),
    ),
    Program(
        "more than the limit allows",
        limited,
        _limited,
        tuple(Again("value", f"name == '{'x' * n}'") for n in range(1, 9)),
        failed="limit",
        steps=12,
    ),
)
