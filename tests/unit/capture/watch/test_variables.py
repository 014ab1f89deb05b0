from __future__ import annotations

import sys
from collections import deque
from typing import Any

import torch

from torchprof_magic.capture.watch import variables
from torchprof_magic.capture.watch.variables import UserFrames, named_tensors, tensors_of_frame


def names(**values: object) -> list[str]:
    return [name for name, _ in named_tensors(values)]


def test_a_tensor_is_called_by_variable_element_key_or_attribute() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.losses = [torch.ones(1)]
            self._hidden = torch.ones(1)
            self.module = torch.nn.Linear(1, 1)

    one = torch.ones(1)
    assert names(x=one, kept=[1, one], pair=(one,), ring=deque([one])) == ["x", "kept[1]", "pair[0]", "ring[0]"]
    assert names(cache={"a": one, 3: one, one: one}) == ["cache[<Tensor>]", "cache[3]", "cache['a']"]
    assert names(self=Trainer()) == ["self.losses[0]"]
    assert names(_one=one, weight=torch.nn.Parameter(one), number=3, text="x", none=None) == ["weight"]


def test_of_a_long_list_the_last_elements_are_named() -> None:
    found = names(kept=[torch.ones(1) for _ in range(variables.MOST_ELEMENTS + 3)])
    assert (found[0], found[-1], len(found)) == ("kept[3]", "kept[102]", variables.MOST_ELEMENTS)


def test_no_code_of_the_users_runs() -> None:
    def fail(*_: object) -> Any:
        raise AssertionError("code of the user ran")

    methods = ("__getattr__", "__len__", "__iter__", "__hash__", "__eq__", "__repr__", "__getitem__", "items", "values")
    meta = type("Meta", (type,), {"__hash__": fail, "__eq__": fail, "__instancecheck__": fail})
    odd = meta("Odd", (), dict.fromkeys(methods, fail))
    kinds = [type(f"Odd{base.__name__}", (base,), dict.fromkeys(methods[1:], fail)) for base in (list, dict)]
    filled: Any = kinds[0]()
    list.append(filled, torch.ones(1))
    key = odd()
    keyed: Any = kinds[1]()
    dict.__setitem__(keyed, "a", torch.ones(1))
    tensor_class = type("Own", (torch.Tensor,), {"shape": property(fail), "__torch_function__": fail})
    own = torch.ones(1).as_subclass(tensor_class)
    assert names(odd=key, filled=filled, keyed=keyed, kind=odd, own=own) == ["filled[0]", "keyed['a']"]


def test_frames_of_libraries_are_left_out_and_variables_of_functions_are_seen() -> None:
    def inner() -> list[str]:
        scores = torch.ones(1)
        frames = list(UserFrames().above(sys._getframe()))
        assert scores.numel() == 1
        assert all("site-packages" not in frame.f_code.co_filename for frame in frames)
        return [name for name, _ in tensors_of_frame(frames[0])]

    assert inner() == ["scores"]
    assert inner() == ["scores"]


def test_a_frame_that_was_looked_at_keeps_no_tensor() -> None:
    def look() -> int:
        large = torch.ones(1)
        found = [tensor for _, tensor in tensors_of_frame(sys._getframe())]
        assert len(found) == 1
        found.clear()
        return sys.getrefcount(large)

    def plain() -> int:
        large = torch.ones(1)
        return sys.getrefcount(large)

    assert look() == plain()
