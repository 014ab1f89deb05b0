"""What a loop does is read from its text and from the functions that it calls, without running any of it."""

from __future__ import annotations

import ast
import functools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from torchprof_magic.run.stepping.names import Names, walks_over_parts
from torchprof_magic.run.stepping.signs import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

model = nn.Linear(2, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batch: torch.Tensor) -> None:
    model(batch).sum().backward()
    opt.step()


def infer(batch: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(batch)
    return result


@torch.no_grad()
def decorated(batch: torch.Tensor) -> torch.Tensor:
    return infer(batch)


def training(batches: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    for batch in batches:
        train(batch)
        yield batch


def deep(batch: torch.Tensor) -> None:
    shallow(batch)


def shallow(batch: torch.Tensor) -> None:
    for _ in range(2):
        train(batch)


def again(count: int) -> None:
    again(count - 1)


class Trainer:
    def __init__(self) -> None:
        self.parts = {"run": train}

    def one(self, batch: torch.Tensor) -> None:
        self._inner(batch)

    def _inner(self, batch: torch.Tensor) -> None:
        train(batch)

    def __call__(self, batch: torch.Tensor) -> None:
        self.one(batch)


def closure() -> Any:
    def inner(batch: torch.Tensor) -> None:
        function(batch)

    function = train
    return inner


def signs(cell: str, **more: object) -> set[str]:
    """Return the signs of the last loop of a cell."""
    tree = ast.parse(cell)
    loops = [node for node in tree.body if isinstance(node, (ast.For, ast.While))]
    values = {**globals(), "trainer": Trainer(), "step": closure(), "print": print, "functools": functools, **more}
    found = Reader(Names.of_cell(tree, values)).signs_of_loop(loops[-1])
    return {name for name in ("steps", "backward", "model", "torch", "unknown") if getattr(found, name)}


TRAINS = {"steps", "backward", "model", "torch"}


@pytest.mark.parametrize(
    "body",
    [
        "train(b)",
        "deep(b)",
        "trainer.one(b)",
        "trainer(b)",
        "step(b)",
        "functools.partial(train, b)()",
        "[train(x) for x in b]",
        "list(map(train, b))",
        "pool.map(train, b)",
    ],
)
def test_training_is_found_behind_the_functions_that_a_body_calls(body: str) -> None:
    assert signs(f"for b in data:\n  {body}") >= {"steps", "backward"}


def test_a_function_that_the_cell_defines_is_read_there() -> None:
    assert signs("def go(b):\n  train(b)\nfor b in data:\n  go(b)") == TRAINS
    assert signs("go = lambda b: train(b)\nfor b in data:\n  go(b)") == TRAINS
    assert signs("class T:\n  def one(self, b):\n    train(b)\nt = T()\nfor b in data:\n  t.one(b)") == TRAINS


CLASSES = """
class Base:
    def start_one(self, b):
        return self.one(b)
    def one(self, b): ...
class Trains(Base):
    def one(self, b):
        train(b)
class Looks(Base):
    def one(self, b):
        infer(b)
"""


def test_methods_of_the_same_name_are_those_of_the_class_of_the_object() -> None:
    def of(call: str, made: str = "") -> set[str]:
        return signs(f"{CLASSES}{made}\nfor b in data:\n  {call}")

    assert of("t.one(b)", "t = Trains()") == TRAINS
    assert of("l.one(b)", "l = Looks()") == {"model", "torch"}
    assert of("t.start_one(b)", "t = Trains()\nl = Looks()") == TRAINS
    assert of("l.start_one(b)", "t = Trains()\nl = Looks()") == {"model", "torch"}
    assert of("Trains().one(b)") == TRAINS
    assert of("Looks().one(b)") == {"model", "torch"}
    assert of("n.one(b)", "n = Base()") == set()


def test_methods_of_an_object_of_an_unknown_class_are_those_of_all_classes() -> None:
    assert signs(f"{CLASSES}\nfor b in data:\n  them[0].one(b)") == TRAINS
    made = "t = Trains()\nif b: t = Looks()"
    assert signs(f"{CLASSES}{made}\nfor b in data:\n  t.one(b)") == TRAINS


def test_an_object_of_the_cell_that_is_called_does_what_its_call_does() -> None:
    made = "class T:\n  def __call__(self, b):\n    train(b)\nt = T()\n"
    assert signs(f"{made}for b in data:\n  t(b)") == TRAINS


def test_update_and_train_of_an_unknown_object_may_do_anything() -> None:
    for body in ("agents[0].update(b)", "agents[0].train()", "nobody.train(b)", "nobody.update(b, lr=1)"):
        assert signs(f"for b in data:\n  {body}") == {"unknown"}
    for body in ("bar.update(1)", "bar.update()", "net.train(False)", "model.train()", "log.update(a=b)"):
        assert signs(f"net = nn.Linear(2, 2)\nfor b in data:\n  {body}", log={}) == set()


def test_reductions_of_other_libraries_are_no_ops_of_torch() -> None:
    numpy = "import numpy as np\n"
    made = f"{numpy}a = np.zeros(3)\nc = a[1:] + 1\n"
    for body in ("np.sum(x)", "np.add.reduce(x)", "a.mean()", "c.max()", "a.reshape(3, 1).sum()", "y = a @ c"):
        assert signs(f"{made}for b in data:\n  {body}") == set()
    assert signs(f"{made}for row in a:\n  row.sum()") == set()
    assert signs(f"{numpy}for b in data:\n  x.detach().numpy().mean()") == {"torch"}  # detach() is one
    assert signs("arrays = [b.numpy() for b in data]\nfor a in arrays:\n  a.mean()") == set()
    assert signs("for b in data:\n  a.mean()", a=np.zeros(2)) == set()
    assert signs("for b in data:\n  a.mean()", a=torch.zeros(2)) == {"torch"}
    assert signs("for b in data:\n  a.mean()") == {"torch"}


def test_what_the_cell_imports_is_looked_up() -> None:
    assert signs("from torch.nn import functional as F\nfor b in data:\n  F.relu(b)") == {"torch"}
    assert signs("import math\nfor b in data:\n  math.exp(1)") == set()
    assert signs("import not_imported_yet as m\nfor b in data:\n  m.work(b)") == {"unknown"}


def test_an_expression_may_be_nested_more_deeply_than_python_lets_functions_call() -> None:
    sums = " + ".join(["1"] * 2 * sys.getrecursionlimit())
    assert signs(f"total = {sums}\nfor b in data:\n  total = {sums}\n  train(b)") == TRAINS


def test_an_iterator_that_trains_counts_and_one_that_makes_the_data_does_not() -> None:
    assert "steps" in signs("for x in training(data):\n  pass")
    assert "steps" in signs("it = training(data)\nfor x in it:\n  pass")
    assert "steps" in signs("for x in running:\n  pass", running=training([]))
    assert signs("for x in infer(data):\n  pass") == set()


def test_inference_calls_a_model_and_steps_nothing() -> None:
    for body in ("infer(b)", "decorated(b)", "model(b)"):
        assert signs(f"for b in data:\n  {body}") >= {"model", "torch"}
        assert not signs(f"for b in data:\n  {body}") & {"steps", "backward"}


def test_a_model_and_an_optimizer_that_the_cell_makes_are_known_by_what_makes_them() -> None:
    made = "net = nn.Linear(2, 2).to('cpu')\nsgd = torch.optim.SGD(net.parameters())\n"
    assert signs(f"{made}for b in data:\n  net(b)") == {"model", "torch"}
    assert "steps" in signs(f"{made}for b in data:\n  sgd.step()")
    assert signs("class Net(nn.Module):\n  pass\nnet = Net()\nfor b in data:\n  net(b)") == {"model", "torch"}
    assert signs("net = torch.compile(nn.Linear(2, 2))\nfor b in data:\n  net(b)") == {"model", "torch"}


@pytest.mark.parametrize(
    "loop",
    [
        "for t in threads:\n  t.start()",
        "for k in log:\n  print(k)",
        "for k, v in log.items():\n  v.append(1)",
        "for i in range(9):\n  n += 1",
        "for i in range(9):\n  total = total + i * k",
        "for b in data:\n  futures.append(pool.submit(infer, b))",
        "for b in data:\n  torch.save(b, path)",
        "for i in range(9):\n  model.eval()",
        "while not stop.is_set():\n  stop.wait(1)",
        "for p in paths:\n  text = str(p).upper()",
    ],
)
def test_counting_printing_and_starting_threads_shows_no_sign(loop: str) -> None:
    assert signs(loop) == set()


def test_operators_are_ops_where_an_operand_is_a_tensor() -> None:
    assert signs("for i in range(9):\n  y = x * 2", x=torch.ones(2)) == {"torch"}
    assert signs("for i in range(9):\n  y = x * 2", x=3) == set()
    assert signs("x = torch.ones(2)\nfor i in range(9):\n  x = x * 2") == {"torch"}
    assert signs("for i in range(9):\n  y = p @ q") == {"torch"}
    assert signs("for i in range(9):\n  y = x[0] * 2", x=torch.ones(2)) == {"torch"}
    assert signs("for i in range(9):\n  y = xs[0] * 2", xs=[torch.ones(2)]) == {"torch"}
    assert signs("for i in range(9):\n  y = xs[0] * 2", xs=[3]) == set()
    assert signs("for v in values:\n  total += v") == set()
    assert signs("for b in data:\n  for v in b:\n    pass\nfor row in x:\n  y = row * 2", x=torch.ones(2)) == {"torch"}
    assert signs("for b in data:\n  y = b * 2", data=[torch.ones(2)]) == {"torch"}


def test_a_loop_over_the_parts_of_a_model_counts_for_the_one_around_it() -> None:
    assert signs("for b in data:\n  for layer in model:\n    b = layer(b)") == {"unknown"}
    assert signs("for b in data:\n  if b:\n    for p in model.parameters():\n      p.data.mul_(2)") == {"torch"}
    assert signs("for b in data:\n  for row in b:\n    row.sum()") == set()


def test_what_cannot_be_looked_up_is_unknown() -> None:
    assert signs("for b in data:\n  registry['a'](b)") == {"unknown"}
    assert signs("for b in data:\n  nobody(b)") == {"unknown"}


def test_functions_that_call_themselves_or_one_another_end() -> None:
    assert signs("for b in data:\n  again(b)") == set()


def test_nothing_of_the_user_is_run() -> None:
    class Explosive:
        def __getattr__(self, name: str) -> object:
            pytest.fail(f"asked for {name}")

        @property
        def step(self) -> object:
            pytest.fail("ran a property")

        @property
        def __class__(self) -> type:  # type: ignore[override]
            pytest.fail("asked for the class")

    made = "x = thing(1)\ny = thing\n"
    loop = "for b in data:\n  thing.step()\n  thing.other(b)\n  x = thing + b"
    assert signs(made + loop, thing=Explosive()) == {"unknown"}


def walks(cell: str, **values: object) -> bool:
    """Return whether the last loop of a cell goes over the parts of a model."""
    tree = ast.parse(cell)
    loops = [node for node in tree.body if isinstance(node, ast.For)]
    return walks_over_parts(loops[-1], Names.of_cell(tree, {**globals(), **values}))


@pytest.mark.parametrize(
    "source",
    [
        "model",
        "enumerate(model)",
        "net",
        "model.parameters()",
        "enumerate(net.named_modules())",
        "opt.param_groups",
        "a.b.state_dict().items()",
        "list(model.parameters())",
        "weights",
        "weights[1:]",
        "chosen",
        "by_name.items()",
        "earlier",
    ],
)
def test_a_loop_over_parts_of_a_model_is_recognized_under_any_name(source: str) -> None:
    before = (
        "net = nn.Sequential(nn.Linear(2, 2))\n"
        "weights = list(model.parameters())\nchosen = [p for p in weights if p.requires_grad]\n"
        "by_name = dict(model.named_parameters())\n"
    )
    assert walks(f"{before}for p in {source}: pass", earlier=list(model.parameters()))


@pytest.mark.parametrize(
    "source", ["data", "loader", "range(9)", "zip(xs, ys)", "made", "other", "opt", "[model, net]", "model(x)"]
)
def test_a_loop_over_data_is_not_one_over_parts_of_a_model(source: str) -> None:
    before = "made = [torch.randn(2) for _ in range(3)]\nother = torch.optim.SGD(model.parameters())\n"
    assert not walks(f"{before}for p in {source}: pass", data=[torch.ones(2)])
