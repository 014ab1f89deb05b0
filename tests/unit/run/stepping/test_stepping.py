"""The right loop is chosen, and an instrumented cell behaves exactly as before."""

from __future__ import annotations

import ast
import asyncio
import linecache
import textwrap
import traceback
from typing import TYPE_CHECKING

import pytest
import torch

import torchprof_magic
from torchprof_magic.capture import count_ahead
from torchprof_magic.model.errors import OptionsError
from torchprof_magic.run.stepping.choosing import Choice
from torchprof_magic.run.stepping.instrument import instrument, with_steppers
from torchprof_magic.run.stepping.plan import StepPlan, plan_steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from torchprof_magic.model.meta import Stepping


class FakeSession:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.notes: list[str] = []
        self.endings: list[Callable[[], None]] = []
        self.listeners: list[Callable[[object], None]] = []
        self.may_start_late = True
        self.nodes = 0

    def start(self, length: int | None = None, done: int = 0) -> None:
        if not self.calls:
            self.calls.append(f"start {length}" + (f" after {done}" if done else ""))

    def replan(self, stepping: Stepping) -> None:
        self.calls.clear()
        self.notes.append(f"line {stepping.line}")

    def start_over(self, stepping: Stepping) -> bool:
        self.calls.clear()
        self.notes.append(f"over to line {stepping.line}")
        return True

    def made_nodes(self) -> int:
        return self.nodes

    def on_optimizer(self, callback: Callable[[object], None]) -> None:
        self.listeners.append(callback)

    def at_end(self, callback: Callable[[], None]) -> None:
        self.endings.append(callback)

    def note(self, code: str, **values: object) -> None:
        self.notes.append(" ".join(map(str, (code, *values.values()))))

    def count(self, iterable: object) -> int | None:
        return count_ahead(iterable)

    def step(self, fetched_ns: int | None = None) -> None:
        del fetched_ns
        self.calls.append("step")

    def cut(self) -> None:
        self.calls.append("cut")

    def finish(self, *, is_between: bool = False) -> None:
        self.calls.append("finish" if is_between else "finish inside")


class Optimizer:
    """Looks like one of torch's."""

    def __init__(self) -> None:
        self.param_groups: list[object] = []

    def zero_grad(self) -> None: ...
    def step(self) -> None: ...


class Scheduler:
    def step(self) -> None: ...


def plan(cell: str, wanted: str = "auto", **namespace: object) -> StepPlan:
    source = textwrap.dedent(cell).strip("\n")
    return plan_steps(ast.parse(source), source.splitlines(), namespace, wanted)


def run(cell: str, **namespace: object) -> tuple[dict[str, object], list[str]]:
    """Run an instrumented cell; return its variables and what its session was told."""
    source = textwrap.dedent(cell).strip("\n")
    tree = ast.parse(source)
    session = FakeSession()
    names: dict[str, object] = {**namespace}
    planned = plan_steps(tree, source.splitlines(), names, "loop")
    tree = instrument(tree, planned)
    code = compile(ast.fix_missing_locations(tree), "<cell>", "exec")
    exec(with_steppers(code, Choice(session, planned).stepper_of), names)  # noqa: S102
    for ending in session.endings:
        ending()
    return names, session.calls


def run_async(cell: str) -> tuple[dict[str, object], list[str]]:
    """Do what ``run`` does with a cell that awaits; it can use the asynchronous iterator ``arrive(count)``."""
    source = textwrap.dedent(cell).strip("\n")
    tree = ast.parse(source)
    session = FakeSession()

    async def arrive(count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    names: dict[str, object] = {"arrive": arrive, "asyncio": asyncio}
    planned = plan_steps(tree, source.splitlines(), names, "loop")
    tree = ast.fix_missing_locations(instrument(tree, planned))
    code = compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(with_steppers(code, Choice(session, planned).stepper_of), names))  # noqa: S307
    return names, session.calls


# -- which loop ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("for e in range(3):\n  for b in data:\n    opt.step()\n", 2),
        ("for e in range(3):\n  for b in data:\n    loss.backward()\n  optimizer.step()\n", 1),
        ("for p in params:\n  p.zero()\nfor b in data:\n  loss.backward()\n", 3),
        ("for a in x:\n  f(a)\nfor b in y:\n  for c in b:\n    g(c)\n", 1),
        ("for a in x:\n  for b in a:\n    f(b)\n  for c in a:\n    g(c)\n", 2),
        ("with torch.autocast('cpu'):\n  if True:\n    for b in data:\n      f(b)\n", 3),
        ("try:\n  while True:\n    f()\nexcept StopIteration:\n  pass\n", 2),
        ("match x:\n  case 1:\n    for b in data:\n      f(b)\n", 3),
        ("def train():\n  for b in data:\n    opt.step()\nfor i in range(3):\n  train()\n", 4),
        ("for e in range(3):\n  for b in data:\n    f(b)\n  scheduler.step()\n", 2),
        ("for b in data:\n  with no_sync():\n    if last:\n      self.optimizer_d.step()\n", 1),
        ("for b in data:\n  for k in range(2):\n    f(k)\n  scaler.step(opt)\n", 1),
        ("for e in range(3):\n  async for b in data:\n    opt.step()\n", 2),
        ("async for e in x:\n  for b in e:\n    f(b)\n  optimizer.step()\n", 1),
    ],
)
def test_auto_finds_the_loop_that_trains(cell: str, line: int) -> None:
    found = plan(cell)
    assert (found.how, found.line) == ("loop", line)
    assert found.code == cell.splitlines()[line - 1].strip()


def test_the_receiver_of_a_step_call_is_looked_up_in_the_namespace() -> None:
    cell = "for e in range(3):\n  for b in data:\n    f(b)\n  thing.step()\n"
    assert plan(cell, thing=Optimizer()).line == 1
    assert plan(cell, thing=Scheduler()).line == 2
    assert plan(cell.replace("thing", "opt"), opt=Scheduler()).line == 2


def test_an_optimizer_that_the_cell_creates_is_recognised_by_its_constructor() -> None:
    cell = "x = {}(p)\nfor e in range(3):\n  for b in data:\n    f(b)\n  x.step()\n"
    assert plan(cell.format("torch.optim.Lion")).line == 2
    assert plan(cell.format("torch.optim.lr_scheduler.StepLR")).line == 3


def test_values_of_the_namespace_are_examined_without_running_their_code() -> None:
    class Explosive:
        def __getattr__(self, name: str) -> object:
            pytest.fail(f"ran __getattr__({name})")

        def step(self) -> None:
            something.unknown()  # type: ignore[name-defined]  # noqa: F821

    assert plan("for b in data:\n  thing.step()\n", thing=Explosive()).line == 1


@pytest.mark.parametrize(
    ("cell", "how"),
    [
        ("train(model)", "optimizer"),
        ("x = 1", "cell"),
        ("y = [f(i) for i in range(3)]", "optimizer"),
        ("def f():\n  for i in x:\n    g()\nf()", "optimizer"),
        ("import torchprof_magic as tp\nfor b in data:\n  opt.step()\n  tp.step()", "manual"),
        ("from torchprof_magic import steps as s\nfor b in s(data):\n  pass", "manual"),
    ],
)
def test_a_cell_without_a_loop_has_other_steps(cell: str, how: str) -> None:
    assert plan(cell).how == how


@pytest.mark.parametrize(
    ("cell", "by_model"),
    [
        ("def f(data):\n  for x in data:\n    model(x)\nf(y)", True),
        ("def f(data):\n  for x in data:\n    model(x).sum().backward()\nf(y)", False),
        ("def f(data):\n  for x in data:\n    model(x)\n    optimizer.step()\nf(y)", False),
        ("def f(data):\n  for x in data:\n    unknown.do(model(x))\nf(y)", None),
        ("trainer.fit(model)", None),
    ],
)
def test_calls_of_a_model_may_begin_the_steps_of_code_that_is_not_seen_to_train(
    cell: str, *, by_model: bool | None
) -> None:
    assert plan(cell, model=torch.nn.Linear(2, 2)).by_model is by_model


@pytest.mark.parametrize(("wanted", "by_model"), [("optimizer", False), ("model", True), ("cell", False)])
def test_they_do_if_that_is_asked_for(wanted: str, *, by_model: bool) -> None:
    assert plan("trainer.fit(model)", wanted).by_model is by_model


def test_module_in_the_namespace_makes_the_stepping_manual() -> None:
    assert plan("for b in data:\n  tp.step()", tp=torchprof_magic).how == "manual"
    assert plan("for b in data:\n  tp.step()", tp=Optimizer()).how == "loop"


def test_manual_steps_start_when_the_iterable_is_known() -> None:
    assert plan("for b in tp.steps(data): pass", tp=torchprof_magic).starts_late
    assert not plan("for b in data: tp.step()", tp=torchprof_magic).starts_late


@pytest.mark.parametrize("wanted", ["cell", "optimizer", "manual"])
def test_the_step_flag_takes_precedence_over_the_loop(wanted: str) -> None:
    assert plan("for b in data:\n  opt.step()", wanted).how == wanted


def test_the_step_flag_can_name_a_line() -> None:
    assert plan("for a in x:\n  for b in a:\n    opt.step()\n", "line:1").line == 1


def test_a_line_without_a_loop_names_the_lines_with_one() -> None:
    with pytest.raises(OptionsError, match="loops begin on: 1, 2"):
        plan("for a in x:\n  for b in a:\n    f()\n", "line:3")


def test_requesting_a_loop_in_a_cell_without_one_is_an_error() -> None:
    with pytest.raises(OptionsError, match="the cell contains no loop"):
        plan("f()", "loop")


# -- how it runs --------------------------------------------------------------------------------------------------


def test_for_loop_ends_a_step_after_each_body() -> None:
    names, calls = run("seen = []\nfor i in range(3):\n  seen.append(i)\n")
    assert names["seen"] == [0, 1, 2]
    assert calls == ["start 3", "step", "step", "step", "finish"]


def test_continue_and_else_keep_their_meaning() -> None:
    names, calls = run("n = 0\nfor i in [1, 2, 3]:\n  if i == 2: continue\n  n += i\nelse:\n  n += 100\n")
    assert names["n"] == 104
    assert calls.count("step") == 3


def test_break_leaves_its_step_unfinished_and_skips_else() -> None:
    names, calls = run("for i in range(9):\n  if i == 2: break\nelse:\n  i = -1\nafter = i\n")
    assert names["after"] == 2
    assert calls == ["start 9", "step", "step", "finish inside"]


def test_while_loop_ends_a_step_after_each_body() -> None:
    names, calls = run("n = 0\nwhile n < 3:\n  n += 1\nelse:\n  n = 10\n")
    assert names["n"] == 10
    assert calls == ["start None", "step", "step", "step", "finish"]


def test_while_loop_with_continue_and_break() -> None:
    names, calls = run("n = 0\nwhile True:\n  n += 1\n  if n < 3: continue\n  break\n")
    assert names["n"] == 3
    assert calls == ["start None", "step", "step", "finish inside"]


def test_inner_loop_goes_on_stepping_in_the_next_epoch() -> None:
    _, calls = run("for e in range(2):\n  for b in [1, 2]:\n    pass\nlast = e\n")
    assert calls == ["start 4", "step", "step", "step", "step", "finish"]


def test_a_step_that_ended_with_break_is_cut_when_the_next_epoch_begins() -> None:
    _, calls = run("for e in range(2):\n  for b in [1, 2, 3]:\n    break\n")
    assert calls == ["start 6", "cut", "finish inside"]


def test_recording_starts_at_the_loop_and_ends_after_its_nest() -> None:
    order: list[str] = []

    def note(word: str) -> None:
        order.append(word)

    class Noting(FakeSession):
        def start(self, length: int | None = None, done: int = 0) -> None:
            order.append("start")
            super().start(length, done)

        def finish(self, *, is_between: bool = False) -> None:
            order.append("finish")
            super().finish(is_between=is_between)

    source = "note('before')\nfor b in [1]:\n  note('body')\nnote('after')"
    tree = ast.parse(source)
    planned = plan_steps(tree, source.splitlines(), {})
    code = compile(ast.fix_missing_locations(instrument(tree, planned)), "<cell>", "exec")
    exec(with_steppers(code, Choice(Noting(), planned).stepper_of), {"note": note})  # noqa: S102
    assert order == ["before", "start", "body", "finish", "after"]


def test_an_item_is_not_kept_alive_while_the_next_is_fetched() -> None:
    alive: list[int] = []

    class Item:
        count = 0

        def __init__(self) -> None:
            Item.count += 1

        def __del__(self) -> None:
            Item.count -= 1

    def items() -> Iterator[Item]:
        for _ in range(3):
            alive.append(Item.count)
            yield Item()

    run("for item in source:\n  del item\n", source=items())
    assert alive == [0, 0, 0]


def test_exception_in_the_iterable_passes_unchanged() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise RuntimeError("loader died")

    with pytest.raises(RuntimeError, match="loader died"):
        run("for i in source:\n  pass\n", source=source())


def test_iterating_something_else_raises_what_python_raises() -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        run("for i in 3:\n  pass\n")


@pytest.mark.parametrize("cell", ["for i in [1, 2]:\n  a = 1\n  boom(i)\n", "i = 1\nwhile True:\n  boom(i)\n"])
def test_traceback_lines_do_not_move(cell: str) -> None:
    def boom(_i: int) -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - raised three lines above
        run(cell, boom=boom)
    lines = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == "<cell>"]
    assert lines == [3]


def test_source_of_functions_in_the_cell_can_be_read() -> None:
    source = "for i in [1]:\n  pass\ndef f():\n  return 7\n"
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(keepends=True), "<cell>")
    names, _ = run(source)
    import inspect  # noqa: PLC0415 - after the cache is filled

    assert inspect.getsource(names["f"]) == "def f():\n  return 7\n"  # type: ignore[arg-type]


# -- how it runs where it awaits ----------------------------------------------------------------------------------


def test_async_for_ends_a_step_after_each_body() -> None:
    names, calls = run_async("seen = []\nasync for i in arrive(3):\n  await asyncio.sleep(0)\n  seen.append(i)\n")
    assert names["seen"] == [0, 1, 2]
    assert calls == ["start None", "step", "step", "step", "finish"]


def test_async_for_keeps_continue_and_else() -> None:
    loop = "n = 0\nasync for i in arrive(3):\n  if i == 1: continue\n  n += i\nelse:\n  n += 100\n"
    names, calls = run_async(loop)
    assert names["n"] == 102
    assert calls.count("step") == 3


def test_break_in_async_for_leaves_its_step_unfinished_and_skips_else() -> None:
    names, calls = run_async("async for i in arrive(9):\n  if i == 2: break\nelse:\n  i = -1\nafter = i\n")
    assert names["after"] == 2
    assert calls == ["start None", "step", "step", "finish inside"]


def test_async_for_inside_for_continues_the_count() -> None:
    _, calls = run_async("for e in range(2):\n  async for i in arrive(2):\n    pass\n")
    assert calls == ["start None", "step", "step", "step", "step", "finish"]


def test_async_for_over_anything_else_fails_as_python_does() -> None:
    with pytest.raises(TypeError, match="'async for' requires an object with __aiter__ method, got int"):
        run_async("async for i in 5:\n  pass\n")


def test_async_for_releases_an_item_while_it_waits_for_the_next() -> None:
    cell = """
    import weakref
    class Item: pass
    dead = []
    class Items:
        def __init__(self): self.last, self.count = None, 0
        def __aiter__(self): return self
        async def __anext__(self):
            if self.last is not None: dead.append(self.last() is None)
            self.count += 1
            if self.count > 3: raise StopAsyncIteration
            item = Item()
            self.last = weakref.ref(item)
            return item
    async for item in Items():
        del item
    """
    assert run_async(cell)[0]["dead"] == [True, True, True]
