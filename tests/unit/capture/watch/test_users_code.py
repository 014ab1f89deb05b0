"""Whether a namespace leads to functions of the user's, which decides whether their lines are timed."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from torchprof_magic.capture.watch.users_code import UsersCode


def of_a_cell() -> Any:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def f():\n    pass\nclass C:\n    pass\n", "<ipython-input-3-abc>", "exec"), names)  # noqa: S102
    return names


def own_module() -> ModuleType:
    return sys.modules[__name__]


class Own:
    pass


class Hostile(type):
    def __getattribute__(cls, name: str) -> object:
        raise AssertionError(f"code of the user's ran for {name}")


class Refusing(metaclass=Hostile):
    pass


@pytest.mark.parametrize(
    "value", [of_a_cell()["f"], of_a_cell()["C"], of_a_cell()["C"](), own_module(), own_module, Own, Own()]
)
def test_functions_classes_modules_and_objects_of_the_users_lead_to_their_code(value: object) -> None:
    assert UsersCode().is_in({"x": 1, "value": value})


def test_values_of_python_and_of_packages_do_not() -> None:
    names = {"torch": torch, "json": json, "dumps": json.dumps, "x": torch.ones(1), "model": torch.nn.Linear(1, 1)}
    assert not UsersCode().is_in({**names, "n": 1, "text": "a", "items": [own_module], "print": print, "none": None})
    assert not UsersCode().is_in({})


def test_no_code_of_the_users_runs() -> None:
    assert UsersCode().is_in({"kind": Refusing})


HASH = "cc23ke2uoows5etrdw4wt7suuisd5vsn7cijokzxooxi7c3tlwmj"


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        (f"/scratch/torchinductor_ann/c2/{HASH}.py", False),
        (f"/home/ann/cache/c2/{HASH}.py", False),  # TORCHINDUCTOR_CACHE_DIR=/home/ann/cache
        (f"C:\\Temp\\torchinductor_ann\\c2\\{HASH}.py", False),
        (f"fx_generated__{HASH}.py", False),
        ("<eval_with_key>.3", False),
        ("/home/ann/torchinductor.py", True),
        ("/home/ann/fx_generated_names.py", True),
        ("/home/ann/c2/config.py", True),
        ("<ipython-input-3-abc>", True),
        ("<string>", False),
    ],
)
def test_code_that_torch_compile_wrote_is_nobodys_own(file: str, *, is_users: bool) -> None:
    assert UsersCode().has_file(file) == is_users
