"""Errors of what a loop iterates over look under the magic as they do without it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest
import torch
from amount import sampled
from IPython.core.interactiveshell import InteractiveShell

import torchprof_magic as tp
from torchprof_magic.ipython import extension

if TYPE_CHECKING:
    from collections.abc import Iterator

SETUP = """
import sys, traceback, weakref

class Boom(Exception): pass

def generate(at=3):
    for i in range(5):
        if i == at:
            raise Boom("generator")
        yield i

async def agenerate(at=3):
    for i in range(5):
        if i == at:
            raise Boom("async generator")
        yield i

class Next:
    def __init__(self, error=None): self.error, self.left = error or Boom("next"), 3
    def __iter__(self): return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.left

class BadIter:
    def __iter__(self): raise Boom("iter")

class NotAnIterator:
    def __iter__(self): return 5

class OnTheObject:
    def __init__(self): self.__next__ = lambda: 1/0
    def __iter__(self): return self
    def __next__(self): raise StopIteration(7)

class Ready:
    def __await__(self):
        return 3
        yield

class AsyncNext:
    def __init__(self): self.left = 3
    def __aiter__(self): return self
    def __anext__(self):
        self.left -= 1
        if self.left < 0:
            raise Boom("anext")
        return Ready()

class AsyncDef(AsyncNext):
    async def __anext__(self):
        self.left -= 1
        if self.left < 0:
            raise StopAsyncIteration("end")
        if self.left == 0:
            raise Boom("async def")
        return self.left

class AsyncBadIter:
    def __aiter__(self): raise Boom("aiter")

class AsyncNotAnIterator:
    def __aiter__(self): return 5

class AsyncNotAwaitable(AsyncNext):
    def __anext__(self): return 5

class Closing:
    def __init__(self): self.said = []
    def items(self):
        try:
            yield from range(5)
        finally:
            self.said.append("closed")

class Caller:
    def __iter__(self): return self
    def __next__(self):
        if len(seen) > 2: raise StopIteration
        seen.append(sys._getframe(1).f_code.co_name)
        return 1
"""
BODY = "    torch.ones(3).sum()\n"
FOR = [
    *("generate()", "generate(0)", "Next()", "Next(StopIteration(3))", "Next(KeyError('k'))", "Next(SystemError())"),
    *("BadIter()", "NotAnIterator()", "5", "None", "OnTheObject()", "iter(generate())", "enumerate(generate())"),
    *("zip(range(4), generate())", "(x for x in generate())", "map(lambda x: 1 // (2 - x), range(4))"),
]
ASYNC_FOR = [
    *("agenerate()", "agenerate(0)", "AsyncNext()", "AsyncDef()", "AsyncBadIter()", "AsyncNotAnIterator()"),
    *("AsyncNotAwaitable()", "5", "range(3)", "(x async for x in agenerate())"),
]


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.push({"torch": torch, "tp": tp})
    extension.load(found)
    found.run_cell("%config TorchProfMagics.preset = 'quick'").raise_error()
    found.run_cell(SETUP)
    yield found
    extension.unload(found)
    InteractiveShell.clear_instance()


def frames(shell: InteractiveShell, cell: str, *, magic: str = "") -> object:
    """Run a cell, and return its error with the frames from the cell's own on."""
    result = shell.run_cell(f"{magic}{cell}", store_history=True)
    error = result.error_in_exec or result.error_before_exec
    if error is None:
        return str(shell.user_ns.get("said") or ""), shell.user_ns.get("result")
    found = traceback.extract_tb(error.__traceback__)
    own = next(number for number, frame in enumerate(found) if frame.line and frame.line in cell)
    shown = [(frame.name, frame.line) for frame in found[own:]]
    return type(error), str(error), repr(error.__cause__), repr(error.__context__), shown


@pytest.mark.parametrize(
    ("iterable", "magic"),
    [
        *((each, "%%torchprof -q\n") for each in sampled(FOR, 2)),
        *((each, "%%torchprof -q --preset auto\n") for each in sampled(FOR, 5)),
        *((each, "%%torchprof -q --stack --memory --lines --modules\n") for each in sampled(FOR, 7)),
    ],
)
def test_an_error_of_an_iterator_ends_at_the_same_frames(shell: InteractiveShell, iterable: str, magic: str) -> None:
    cell = f"for x in {iterable}:\n{BODY}"
    assert frames(shell, cell, magic=magic) == frames(shell, cell)


@pytest.mark.parametrize("iterable", sampled(ASYNC_FOR, 2))
def test_an_error_of_an_async_iterator_ends_at_the_same_frames(shell: InteractiveShell, iterable: str) -> None:
    cell = f"async for x in {iterable}:\n{BODY}"
    assert frames(shell, cell, magic="%%torchprof -q\n") == frames(shell, cell)


@pytest.mark.parametrize("loop", [*(f"for x in {one}" for one in FOR), *(f"async for x in {one}" for one in ASYNC_FOR)])
def test_an_error_that_the_cell_catches_has_the_same_text(shell: InteractiveShell, loop: str) -> None:
    cell = f"said = ''\ntry:\n    {loop}:\n    {BODY}except BaseException: said = traceback.format_exc()"
    plain, ours = (frames(shell, cell, magic=magic) for magic in ("", "%%torchprof -q\n"))
    texts = []
    for said, _ in (plain, ours):  # type: ignore[attr-defined]
        lines = said.splitlines()
        # The cell has another name and one more line under the magic.
        texts.append([line.partition(", in ")[2] if line.startswith("  File") else line for line in lines])
    assert texts[0] == texts[1]
    assert "torchprof" not in ours[0]  # type: ignore[index]


def test_pdb_and_frames_see_the_cell_as_the_caller_of_the_iterator(shell: InteractiveShell) -> None:
    shell.run_cell(f"seen = []\nfor x in Caller():\n{BODY}")
    plain = shell.user_ns["seen"]
    shell.run_cell(f"%%torchprof -q\nseen = []\nfor x in Caller():\n{BODY}")
    assert shell.user_ns["seen"] == plain == ["<module>"] * 3


@pytest.mark.parametrize(
    "cell",
    [
        "result = 'no else'\nfor x in range(4):\n    pass\nelse:\n    result = x",
        "result = 'no else'\nfor x in range(4):\n    if x == 2: break\nelse:\n    result = 'else'",
        "c = Closing(); said = c.said\nfor x in c.items():\n    if x == 2: break\nresult = list(said)",
        """c = Closing(); said = c.said
try:
    for x in c.items():
        1 // (2 - x)
except ZeroDivisionError as e:
    result = list(said), x, len(traceback.extract_tb(e.__traceback__))""",
        "it = iter(range(9))\nfor x in it:\n    if x == 3: break\nresult = list(it)",
        "g = generate()\nfor x in g:\n    if x == 1: break\nresult = g.gi_frame is not None, next(g)",
        "result = []\nfor x in OnTheObject():\n    result.append(x)",
        "result = []\ng = generate(9)\nfor x in g:\n    if x == 2: g.close()\n    result.append(x)",
        """items = [torch.ones(9) for _ in range(6)]
refs = [weakref.ref(i) for i in items]; result = []
def pop():
    while items:
        result.append(sum(r() is not None for r in refs))
        yield items.pop()
for x in pop():
    del x""",
    ],
)
@pytest.mark.parametrize("kind", ["for", "async for"])
def test_a_loop_ends_and_lets_go_as_without_the_magic(shell: InteractiveShell, cell: str, kind: str) -> None:
    if kind == "async for":
        if "def pop" in cell or "iter(" in cell or "g = " in cell or "OnTheObject" in cell:
            pytest.skip("about ordinary iterators")
        shell.run_cell("async def each(items):\n    for item in items: yield item")
        cell = cell.replace("for x in range(4)", "async for x in each(range(4))").replace(
            "c.items()", "each(c.items())"
        )
        cell = cell.replace("for x in each", "async for x in each").replace("async async", "async")
    shell.run_cell("said = result = None")
    plain = frames(shell, cell)
    shell.run_cell("said = result = None")
    assert frames(shell, cell, magic="%%torchprof -q\n") == plain
