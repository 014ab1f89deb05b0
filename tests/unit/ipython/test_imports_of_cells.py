"""The verdict names the line of an import in the loop of a written cell, without any flag."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import torchprof_magic as tp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

IMPORT_NS = 60_000_000
SETUP = """
import torch, importlib
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
layer, batch = torch.nn.Linear(16, 16), torch.randn(8, 16)
def work(step):
    if step == 3:
        import slow_to_load.inner
    layer(batch).sum().backward()
class Data(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 3:
            importlib.import_module("slow_to_load.inner")
        return torch.randn(16)
"""
CELLS = {
    "in the cell": ("for i in range(6):\n    if i == 3: import slow_to_load.inner\n    work(0)", "In [2], line 3"),
    "in a function": ("for i in range(6):\n    work(i)", "In [1], line 7"),
    "while it fetches": (
        "for x in torch.utils.data.DataLoader(Data()):\n    layer(x).sum().backward()",
        "In [1], line 14",
    ),
}


@pytest.fixture(autouse=True)
def slow_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "slow_to_load"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(f"import time\ntime.sleep({IMPORT_NS / 1e9})")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("slow_to_load", "slow_to_load.inner"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("body", "place"), CELLS.values(), ids=CELLS)
def test_an_import_in_the_loop_is_named_with_its_line(shell: InteractiveShell, body: str, place: str) -> None:
    shell.run_cell(SETUP, store_history=True)
    shell.run_cell(f"%%torchprof -q\n{body}", store_history=True).raise_error()
    report = tp.last
    work = f"imports of 2 modules (slow_to_load), most of it import slow_to_load.inner in {place}"
    assert any(f" of it for work that is done once: {work}; " in doubt for doubt in report.verdict.doubts), (
        report.verdict.doubts
    )
    assert work in report.summary()
    assert int(report.steps.filter(report.steps["number"] == 3)["initialisation_ns"][0]) >= IMPORT_NS


def test_an_eager_loop_has_no_compilation(shell: InteractiveShell) -> None:
    shell.run_cell(SETUP, store_history=True)
    body = "optimizer = torch.optim.Adam(layer.parameters())\nfor i in range(4):\n    work(i)\n    optimizer.step()"
    shell.run_cell(f"%%torchprof -q --wait 0 --warmup 0\n{body}", store_history=True).raise_error()
    steps = tp.last.steps
    assert steps["compile_ns"].sum() == 0
    assert steps["initialisation_ns"].sum() >= IMPORT_NS
