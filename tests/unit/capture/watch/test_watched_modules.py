from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from torchprof_magic.capture.parts import Parts
from torchprof_magic.capture.watch.modules import CALL_NS, MOST_OF_STEP, ModuleMarks, shapes_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Inner(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Inner(), Inner()])
        self.head = nn.Linear(2, 3)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture
def marks() -> Iterator[ModuleMarks]:
    marks = ModuleMarks(asked=True, parts=Parts())
    end = marks.watch()
    marks.switch(is_on=True)
    yield marks
    end()


def calls(marks: ModuleMarks) -> list[tuple[str, str]]:
    """What began and ended, in order, by class."""
    numbers = marks.take().tolist()[2::3]
    names = [site.class_name for site in marks.sites]
    return [("begin", names[n]) if n >= 0 else ("end", names[-n - 1]) for n in numbers]


def test_calls_are_noted_from_begin_to_end_with_what_is_inside(marks: ModuleMarks) -> None:
    Net()(torch.ones(1, 2))
    assert calls(marks) == [
        ("begin", "Net"),
        ("begin", "Inner"), ("end", "Inner"),
        ("begin", "Inner"), ("end", "Inner"),
        ("begin", "Linear"), ("end", "Linear"),
        ("end", "Net"),
    ]  # fmt: skip


def test_modules_have_their_path_parent_and_size(marks: ModuleMarks) -> None:
    net = Net()
    marks.namespace = {"model": net, "other": 3}
    net(torch.ones(1, 2))
    marks.take()
    assert [(site.path, site.class_name, site.parent, site.parameters, site.size_bytes) for site in marks.sites] == [
        ("model", "Net", -1, 9, 36),
        ("layers.0", "Inner", 0, 0, 0),
        ("layers.1", "Inner", 0, 0, 0),
        ("head", "Linear", 0, 9, 36),
    ]


def test_a_part_that_is_called_by_itself_is_named_after_the_model_that_holds_it(marks: ModuleMarks) -> None:
    net = Net()
    marks.namespace = {"model": net}
    net.head(torch.ones(1, 2))
    marks.take()
    assert [(site.path, site.parent) for site in marks.sites] == [("model.head", -1)]


def test_a_forward_that_raises_ends_there(marks: ModuleMarks) -> None:
    net = Net()
    with pytest.raises(RuntimeError):
        net(torch.ones(1, 5))
    assert calls(marks)[-2:] == [("end", "Linear"), ("end", "Net")]


def test_each_thread_has_calls_of_its_own(marks: ModuleMarks) -> None:
    net = Net()
    thread = threading.Thread(target=lambda: net(torch.ones(1, 2)))
    thread.start()
    thread.join()
    net(torch.ones(1, 2))
    threads = marks.take().tolist()[1::3]
    assert len(set(threads)) == 2
    assert threads[:8] == threads[:1] * 8


def test_no_module_is_kept_alive(marks: ModuleMarks) -> None:
    net = Net()
    net(torch.ones(1, 2))
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None
    assert [site.class_name for site in (marks.take(), marks)[1].sites] == ["Net", "Inner", "Inner", "Linear"]


def test_a_step_with_many_calls_for_its_length_ends_the_watch_unless_it_was_asked_for() -> None:
    for asked, is_too_dear in ((None, True), (True, False)):
        marks = ModuleMarks(asked, parts=Parts())
        end = marks.watch()
        marks.switch(is_on=True)
        Net()(torch.ones(1, 2))
        marks.end_step(int(4 * CALL_NS / MOST_OF_STEP) - 1, is_recorded=False)
        assert marks.is_too_dear == is_too_dear
        end()


def test_cycles_after_the_first_watch_modules_as_that_one_did() -> None:
    marks = ModuleMarks(asked=None, parts=Parts())
    end = marks.watch()
    marks.switch(is_on=True)
    for dur_ns, is_recorded in ((10**9, False), (10**9, True), (1, False)):
        Net()(torch.ones(1, 2))
        marks.end_step(dur_ns, is_recorded)
    assert (marks.is_on, marks.is_too_dear) == (True, False)
    end()


class Two(nn.Module):
    def forward(self, x: Any, *, mask: Any) -> Any:
        return {"sum": x + mask, "rest": [x, (mask,)], "n": 3}


class Odd(torch.Tensor):
    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape")


def test_the_shapes_of_the_first_call_are_kept_with_those_of_keyword_arguments(marks: ModuleMarks) -> None:
    model = Two()
    model(torch.ones(4, 2), mask=torch.ones(2))
    model(torch.ones(9, 2), mask=torch.ones(2))
    marks.take()
    (site,) = marks.sites
    assert (site.inputs, site.outputs) == ("[4, 2], [2]", "[4, 2] ×2, [2]")


def test_a_forward_that_raises_has_inputs_only_and_torch_does_not_warn(marks: ModuleMarks) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError):
            Inner()({"x": torch.ones(3)})
    marks.take()
    (site,) = marks.sites
    assert (site.inputs, site.outputs) == ("[3]", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (torch.tensor(1.0), "[]"),
        ([torch.ones(1)] * 9, "[1] ×9"),
        ([torch.ones(size) for size in range(9)], "[0], [1], [2], [3], …"),
        ([3] * 10**6, ""),
        (torch.ones(2).as_subclass(Odd), ""),
    ],
)
def test_shapes_of_a_value(value: object, text: str) -> None:
    assert shapes_of(value) == text


def test_only_the_calls_of_a_step_that_is_not_recorded_are_dropped(marks: ModuleMarks) -> None:
    model = Net()
    model(torch.ones(1, 2))
    marks.end_step(10**6, is_recorded=True)
    before = len(marks._kept)
    model(torch.ones(1, 2))
    marks.end_step(10**6, is_recorded=False)
    assert len(marks._kept) == before == 8 * 3  # four modules, in threes, begin and end


def test_nothing_is_registered_when_modules_are_not_wanted() -> None:
    marks = ModuleMarks(asked=False, parts=Parts())
    end = marks.watch()
    marks.switch(is_on=True)
    Net()(torch.ones(1, 2))
    assert len(marks.take()) == 0
    end()


def test_nothing_is_left_in_torch_when_the_watch_ends() -> None:
    ModuleMarks(asked=True, parts=Parts()).watch()()
    assert not getattr(torch.nn.modules.module, "_has_any_global_hook", lambda: False)()


def graphs_of(*, is_watched: bool) -> tuple[int, int, list[str]]:
    """How many graphs and recompilations a model has that is compiled, called and called again, and the warnings."""
    torch._dynamo.reset()
    compiled: list[int] = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(len(graph.graph.nodes))
        return graph.forward

    marks = ModuleMarks(asked=True, parts=Parts())
    end = marks.watch() if is_watched else None
    marks.switch(is_on=is_watched)
    model: Any = torch.compile(Net(), backend=backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            model(torch.ones(1, 2))
    if end is not None:
        end()
    explained = sum("global hooks" in str(warning.message) for warning in caught)
    return len(compiled), explained, []


def test_a_model_is_compiled_as_often_as_without_and_torch_does_not_warn() -> None:
    assert graphs_of(is_watched=True) == graphs_of(is_watched=False) == (1, 0, [])
